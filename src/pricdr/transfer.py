"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from pathlib import Path

from pricdr.blocks import Progress, silent
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.models.factors import Factors
from pricdr.models.hetero import HeteroCDR
from pricdr.release import Release


def transfer(
    target: Ratings,
    release: Release | None = None,
    *,
    method: HeteroCDR,
    validation: HeldOut | None = None,
    checkpoint: Path | None = None,
    log: Path | None = None,
    allow_not_private: bool = False,
    progress: Progress = silent,
) -> Factors:
    """Train on the target's ratings and a release; without one, on the ratings alone.

    A release that is marked not private is refused unless ``allow_not_private``: it should never have arrived.
    """
    if release is not None and not release.certificate.private and not allow_not_private:
        raise InputError(
            "the release is marked NOT PRIVATE and must not be used (--allow-not-private is for experiments)"
        )
    return method.fit(
        target,
        release,
        validation=validation,
        checkpoint=checkpoint,
        log=log,
        progress=progress,
    )
