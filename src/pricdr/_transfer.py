"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from typing import Any

from pricdr.data.ratings import RatingsLike
from pricdr.data.splits import HeldOut
from pricdr.errors import ParameterError
from pricdr.models.base import DataAccess, Method, PlaintextMethod, ReleaseMethod, TargetMethod
from pricdr.models.catalogue import METHODS, configure
from pricdr.models.fitted import Chosen, FittedModel
from pricdr.progress import Progress
from pricdr.release import Release
from pricdr.training.run_log import NO_LOG, RunLog


def transfer(
    target: RatingsLike,
    release: Release | None = None,
    *,
    method: Method | str,
    plaintext_source: RatingsLike | None = None,
    validation: HeldOut | None = None,
    chosen: Chosen | None = None,
    allow_not_private: bool = False,
    log: RunLog = NO_LOG,
    progress: Progress | bool = False,
) -> FittedModel:
    """Fit any method to the target's ratings and to whatever else it may see.

    The one place that distinguishes the three kinds of methods: the command line and the experiments come through
    here. Each method then fits itself, see :meth:`TargetMethod.fit`, :meth:`ReleaseMethod.fit` and
    :meth:`PlaintextMethod.fit_plaintext`.

    Args:
        target: the target's ratings, or a data frame of them.
        release: a release of the source's ratings, for a method that takes one.
        method: what to fit, or its name, for one with its defaults (``pricdr list`` names them).
        plaintext_source: NOT PRIVATE: the source's ratings, for a method that reads them. For comparison only.
        validation: items to choose by; without it some of the ratings are set aside to choose by.
        chosen: what an earlier training chose; it is followed, and nothing is set aside.
        allow_not_private: use a release that is marked NOT PRIVATE. For experiments.
        log: where the training reports to.
        progress: True shows how far it has come; a function is called with it.
    """
    if isinstance(method, str):
        method = configure(METHODS.resolve_reference(method), {})
    if release is not None and plaintext_source is not None:
        raise ParameterError("give a release or a plaintext source, not both")
    given = DataAccess.TARGET if release is None else DataAccess.RELEASE
    given = given if plaintext_source is None else DataAccess.PLAINTEXT
    if given not in method.data_access():
        accepted = " or ".join(access.value for access in method.data_access())
        raise ParameterError(f"method {method.name} takes {accepted}, not {given.value}")
    how: Any = {"validation": validation, "chosen": chosen, "log": log, "progress": progress}
    if isinstance(method, PlaintextMethod) and plaintext_source is not None:
        return method.fit_plaintext(target, plaintext_source, **how)
    if isinstance(method, ReleaseMethod) and release is not None:
        return method.fit(target, release, allow_not_private=allow_not_private, **how)
    assert isinstance(method, TargetMethod)
    return method.fit(target, **how)
