"""STAGE TWO · the target party: ratings + Release → a fitted model.

Whatever is done to a release here costs no privacy: it is post-processing.
"""

from typing import Any

from pricdr.data.domains import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, ParameterError
from pricdr.models.base import UNRECORDED, PlaintextMethod, ReleaseMethod, TargetMethod
from pricdr.models.factors import Factors
from pricdr.release import Release
from pricdr.training.loop import Recording


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

    A release that is marked not private is refused unless ``allow_not_private``: it should never have arrived.
    """
    told: dict[str, Any] = {"validation": validation, "recording": recording}
    if isinstance(method, TargetMethod):
        if release is not None:
            raise ParameterError(f"{type(method).__name__} sees the target alone: it takes no release")
        return method.fit(target, **told)
    if release is None:
        raise ParameterError(f"{type(method).__name__} needs a release")
    if not release.certificate.private and not allow_not_private:
        raise InputError(
            "the release is marked NOT PRIVATE and must not be used (--allow-not-private is for experiments)"
        )
    return method.fit(target, release, **told)


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
    pair = DomainPair(source.select(users=everyone), target.select(users=everyone))
    return method.fit_plaintext(pair, validation=validation, recording=recording)
