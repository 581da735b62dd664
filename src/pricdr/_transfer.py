"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from pricdr.data.domains import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import BoolArray, HeldOut, set_aside
from pricdr.errors import InputError, ParameterError
from pricdr.models.base import UNRECORDED, PlaintextMethod, ReleaseMethod, TargetMethod
from pricdr.models.fitted import Factors
from pricdr.release import Release
from pricdr.training.loop import Choices, Recording

_COLD: Final = 0.1
"""Share of users who are made cold to choose how far a source is trusted for those."""


def transfer(
    target: Ratings,
    release: Release | None = None,
    *,
    method: TargetMethod | ReleaseMethod,
    validation: HeldOut | None = None,
    recording: Recording = UNRECORDED,
    allow_not_private: bool = False,
) -> Factors:
    """Train on the target's ratings and a release; a method of the target alone takes none.

    Without ``validation`` some of the ratings are set aside to choose the epochs and how far the release is trusted;
    then everything is trained on, see :func:`_fit`.

    A release that is marked not private is refused unless ``allow_not_private``: it should never have arrived.
    """
    if isinstance(method, TargetMethod):
        if release is not None:
            raise ParameterError(f"{type(method).__name__} sees the target alone: it takes no release")
        return _fit(method, method.fit, target, None, validation, recording)
    if release is None:
        raise ParameterError(f"{type(method).__name__} needs a release")
    if not release.certificate.private and not allow_not_private:
        raise InputError(
            "the release is marked NOT PRIVATE and must not be used (--allow-not-private is for experiments)"
        )
    listed = set(release.users)
    known = np.array([user in listed for user in target.users], dtype=bool)
    return _fit(
        method, lambda ratings, **told: method.fit(ratings, release, **told), target, known, validation, recording
    )


def transfer_plaintext(
    target: Ratings,
    source: Ratings,
    *,
    method: PlaintextMethod,
    validation: HeldOut | None = None,
    recording: Recording = UNRECORDED,
) -> Factors:
    """NOT PRIVATE: train on the source's ratings themselves. For experiments, by someone who holds both files.

    Users of either side are served: the target's first, then the source's others.
    """
    known = set(target.users)
    if not known & set(source.users):
        raise InputError(
            f"none of the source's {len(source.users):,} users is among the target's {len(target.users):,}: "
            "are these the same people?"
        )
    everyone = target.users + tuple(user for user in source.users if user not in known)
    other = source.select(users=everyone)
    return _fit(
        method,
        lambda ratings, **told: method.fit_plaintext(DomainPair(other, ratings), **told),
        target.select(users=everyone),
        np.diff(other.matrix.indptr) > 0,
        validation,
        recording,
    )


def _fit(
    method: object,
    fit: Callable[..., Factors],
    target: Ratings,
    known: BoolArray | None,
    validation: HeldOut | None,
    recording: Recording,
) -> Factors:
    """Fit by ``validation``. Without one, choose by items set aside, and then fit to everything by what was chosen.

    Where the ratings are too few to set any aside, every epoch is trained, and the recording's choices say so.
    ``known`` to the source are those users who can stand for newcomers.
    """
    if validation is None and hasattr(method, "options"):
        choices = recording.choices or Choices()
        recording = replace(recording, choices=choices)
        try:
            seed, cold = method.options.seed, 0.0 if known is None else _COLD
            kept, chosen_by = set_aside(target, seed=seed, cold=cold, among=known)
        except InputError as error:
            choices.not_made = str(error)
        else:
            fit(kept, validation=chosen_by, recording=recording.of_stage("choosing"))
    return fit(target, validation=validation, recording=recording)
