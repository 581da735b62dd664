"""Both stages in order: the target's network, then the source's against it, then how far the source is trusted."""

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.models.chosen import UNTRUSTED, Chosen
from pricdr.models.fitted import FittedModel
from pricdr.models.fitting import require_trainable
from pricdr.models.inputs import Inputs
from pricdr.models.pricdr._networks import TargetNetwork
from pricdr.models.pricdr._source_stage import SourceStage, SourceStageConfig
from pricdr.models.pricdr._target_stage import TargetStage
from pricdr.models.pricdr._trust import choose_trust, is_refused
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import RunLog

TARGET_NETWORK, SOURCE_NETWORK = "target", "source"
"""What logs and progress bars call the two networks, and what their epochs are chosen under."""


def train_both(
    method: str,
    kind: type[TargetNetwork],
    target: Ratings,
    inputs: Inputs,
    config: SourceStageConfig,
    options: TrainingOptions,
    *,
    validation: HeldOut | None,
    chosen: Chosen,
    log: RunLog,
    require_evidence: bool,
) -> tuple[FittedModel, Chosen]:
    """Train the target stage, then the source stage, unless the source is refused: then the target stage is the model.

    ``require_evidence`` says whether the source has to pass the evidence test.
    """
    if not (inputs.present & (np.diff(inputs.ratings.indptr) > 0)).any():
        raise InputError("no user has both target ratings and a row of the source: there is nothing to learn it from")
    assert inputs.source is not None
    # Now, and not when the target stage has been trained: the encoder's wide layer, and the decoder's.
    require_trainable(2 * inputs.source.shape[1] * config.hidden)
    refused = is_refused(inputs, validation, chosen, require_evidence=require_evidence)
    target_stage = TargetStage(kind, target, config, options)
    target_epoch = target_stage.train(validation, chosen.epochs.get(TARGET_NETWORK), log.of_network(TARGET_NETWORK))
    if refused:
        epochs = {TARGET_NETWORK: target_epoch} if validation is not None else chosen.epochs
        settled = Chosen(epochs=epochs, trust=UNTRUSTED, not_chosen=chosen.not_chosen)
        return target_stage.fitted_model(method, inputs.users), settled
    source_stage = SourceStage(target_stage, inputs, config)
    source_epoch = source_stage.train(validation, chosen.epochs.get(SOURCE_NETWORK), log.of_network(SOURCE_NETWORK))
    trust = choose_trust(source_stage, validation, chosen)
    if validation is not None:
        epochs = {TARGET_NETWORK: target_epoch, SOURCE_NETWORK: source_epoch}
        settled = Chosen(epochs=epochs, trust=trust)
    else:
        settled = Chosen(epochs=chosen.epochs, trust=trust, not_chosen=chosen.not_chosen)
    return source_stage.fitted_model(method, trust), settled
