"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from pricdr.data.ratings import RatingsLike
from pricdr.data.splits import HeldOut
from pricdr.models.base import Method
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
    return method.fit(
        target,
        release,
        plaintext_source=plaintext_source,
        validation=validation,
        chosen=chosen,
        allow_not_private=allow_not_private,
        log=log,
        progress=progress,
    )
