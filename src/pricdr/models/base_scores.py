"""Another model of the target's ratings beside a release: its scores are added, for users with a history.

Two models of vectors side by side are again one model of vectors. Validation chooses how much the base's scores weigh;
users without a history are unknown to it, and keep the scores they have.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError
from pricdr.models.base import DataAccess, Method
from pricdr.models.catalogue import METHODS, configure
from pricdr.models.fitted import FittedModel
from pricdr.models.gates import best_above, ndcg_of

if TYPE_CHECKING:
    from pricdr.training.loop import TrainingOptions

WEIGHT: Final = "base weight"  # what it is called among the settings that were chosen
_LEVELS: Final = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)  # weights of a base, where both models' scores are equally spread


def base_method(name: str, options: "TrainingOptions") -> Method:
    """Return the method of this name, which sees the target alone, to train by the seed and the device of another."""
    method = configure(METHODS.resolve_reference(name), {})
    if method.data_access() != (DataAccess.TARGET,):
        raise ParameterError(f"base must be a method of the target's ratings alone, and {name} is not (pricdr list)")
    if method.options is None:
        return method
    own, epochs = method.options, min(options.epochs, method.options.epochs)
    return replace(method, options=replace(own, epochs=epochs, seed=options.seed, device=options.device))


def require_vectors(base: FittedModel) -> None:
    """Refuse a base whose scores are no products of vectors."""
    dense = isinstance(base.user_vectors, np.ndarray) and isinstance(base.item_vectors, np.ndarray)
    if not dense or base.interaction is not None or not base.user_vectors.shape[1]:
        rule = "with a vector for each user and item, to put beside others"
        raise ParameterError(f"base must be a method {rule}: {base.method} has none")


def best_weight(model: FittedModel, base: FittedModel, validation: HeldOut) -> float:
    """Return the weight of the base's scores with the best NDCG@10 for users with a history; 0 without a clear gain."""
    of_warm = validation.only(np.diff(model.seen.indptr)[validation.users] > 0)
    candidates = np.column_stack([of_warm.items, of_warm.negatives])
    spreads = [float(one.score_candidates(of_warm.users, candidates).std()) for one in (model, base)]
    if not min(spreads, default=0.0) > 0:
        return 0.0
    weights = [level * spreads[0] / spreads[1] for level in _LEVELS]
    ndcg = {weight: ndcg_of(with_base(model, base, weight), of_warm) for weight in weights}
    return best_above(ndcg, ndcg_of(model, of_warm)) or 0.0


def with_base(model: FittedModel, base: FittedModel, weight: float) -> FittedModel:
    """Return the model whose scores for users with a history are its own plus ``weight`` times the base's."""
    if not weight:
        return model
    share = (weight * (np.diff(model.seen.indptr) > 0)).astype(np.float32)[:, None]
    return replace(
        model,
        user_vectors=np.hstack([model.user_vectors, share * base.user_vectors, share]),
        item_vectors=np.hstack([model.item_vectors, base.item_vectors, base.item_bias[:, None]]),
    )
