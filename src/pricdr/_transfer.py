"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from collections.abc import Sequence

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
    release: Release | Sequence[Release] | None = None,
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

    ``method`` may be its name, for one with its defaults (``pricdr list`` names them). For the other arguments, and for
    what is chosen and how, see :meth:`pricdr.models.Method.fit`.
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
