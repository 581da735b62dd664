"""What a method is: a frozen configuration that can be fitted. Three kinds, by the data they may see.

``fit`` is the call to use: it refuses what must not be used, chooses by items set aside where no validation is given,
and returns a model that records what was chosen and what it was trained on. A method implements ``_train``, which does
none of that. It reads no files, parses no arguments and owns no epoch loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import ClassVar, Final, TypeAlias

import numpy as np

from pricdr import __version__
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings, RatingsLike
from pricdr.data.splits import BoolArray, HeldOut, set_aside
from pricdr.errors import InputError, ParameterError
from pricdr.models.fitted import NOTHING_CHOSEN, Chosen, FittedModel, Origin
from pricdr.models.training_data import ReleaseRows
from pricdr.progress import Progress
from pricdr.release import Release
from pricdr.training.loop import TrainingOptions
from pricdr.training.run_log import NO_LOG, RunLog

SearchSpace: TypeAlias = Mapping[str, tuple[object, ...]]
"""The values of each setting that a search tries."""
Trained: TypeAlias = tuple[FittedModel, Chosen]
TrainOnce: TypeAlias = Callable[..., Trained]
"""Trains once on some ratings, given ``validation``, ``chosen`` and ``log``."""

SOFTWARE: Final = f"pricdr {__version__}"
CHOOSING: Final = "choosing"
"""The phase of a training by which something is chosen, before everything is trained on."""
_COLD_SHARE: Final = 0.1
"""Share of users who lose their history while it is chosen how far a source is trusted for cold users."""


class DataAccess(Enum):
    """What a method is given beside the target's ratings."""

    TARGET = "target ratings alone"
    RELEASE = "a release"
    PLAINTEXT = "the source's ratings"

    @property
    def privacy_note(self) -> str:
        """Say whether a model made from it keeps the source's secrets: one without the source has none to keep."""
        return {DataAccess.TARGET: "yes", DataAccess.RELEASE: "as the release", DataAccess.PLAINTEXT: "NOT PRIVATE"}[
            self
        ]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A configuration that can be fitted. Inherit from one of the three kinds below, not from this."""

    name: ClassVar[str]
    """What the command line and specs call it."""
    summary: ClassVar[str]
    """What it is, in a few words."""
    space: ClassVar[SearchSpace] = {}
    """What a search tries; empty where there is nothing to tune."""
    narrow_space: ClassVar[SearchSpace | None] = None
    """What a search tries with a narrow release, where that differs."""

    revision: ClassVar[int] = 1
    """Raised when the same settings begin to give other models: results of before no longer count."""

    options: TrainingOptions | None = None
    """How it is trained; None for a method in closed form."""

    @property
    def starts_others(self) -> tuple[str, ...]:
        """Its networks that other trainings on the same data can start from, by the names they have in the log."""
        return ()

    @classmethod
    def data_access(cls) -> tuple[DataAccess, ...]:
        """Return what the method may see; more than one where it takes either."""
        kinds = (
            (TargetMethod, DataAccess.TARGET),
            (ReleaseMethod, DataAccess.RELEASE),
            (PlaintextMethod, DataAccess.PLAINTEXT),
        )
        return tuple(access for kind, access in kinds if issubclass(cls, kind))

    def settings(self) -> dict[str, dict[str, object]]:
        """Return every setting, grouped as the method's fields group them."""
        groups = ((part.name, getattr(self, part.name)) for part in fields(self))
        return {name: asdict(group) for name, group in groups if group is not None}

    def _choice(
        self,
        train: TrainOnce,
        target: Ratings,
        validation: HeldOut | None,
        chosen: Chosen | None,
        log: RunLog,
        *,
        chooses: bool = True,
        known: BoolArray | None = None,
    ) -> Chosen:
        """Return what a training follows: what was chosen before, or what one on all but the items set aside chooses.

        Where the ratings are too few to set any aside, every epoch is trained, and the result says why. ``known`` are
        the users with data of the source: those who can stand in for cold users.
        """
        if validation is not None and chosen is not None:
            raise ParameterError("give validation to choose by, or what was chosen before, not both")
        sizes = f"{len(target.users):,} users x {len(target.items):,} items"
        if validation is None and chosen is None and chooses:
            log.working(f"{CHOOSING} {self.name}", sizes)
            seed = 0 if self.options is None else self.options.seed
            cold = 0.0 if known is None else _COLD_SHARE
            try:
                kept, held_out = set_aside(target, seed=seed, cold=cold, among=known)
            except InputError as error:
                chosen = Chosen(not_chosen=str(error))
            else:
                _, chosen = train(kept, validation=held_out, chosen=NOTHING_CHOSEN, log=log.in_phase(CHOOSING))
        log.working(f"fitting {self.name}", sizes)
        return chosen or NOTHING_CHOSEN


class TargetMethod(Method):
    """A method that sees the target's ratings and nothing else."""

    def fit(
        self,
        target: RatingsLike,
        *,
        validation: HeldOut | None = None,
        chosen: Chosen | None = None,
        log: RunLog = NO_LOG,
        progress: Progress | bool = False,
    ) -> FittedModel:
        """Fit to the target's ratings.

        Args:
            target: what to train on: ratings, or a data frame of them.
            validation: items to choose the epoch by, none of them in ``target``. Without it, some of the ratings are
                set aside to choose by, and then everything is trained on.
            chosen: what an earlier training chose; it is followed, and nothing is set aside.
            log: where the training reports to.
            progress: True shows how far it has come; a function is called with it.
        """
        target = Ratings.of(target)
        with log.reporting_to(progress) as run_log:
            start = self._choice(self._train, target, validation, chosen, run_log, chooses=self.options is not None)
            model, settled = self._train(target, validation=validation, chosen=start, log=run_log)
        return replace(model, chosen=settled, origin=Origin(self.settings(), target.fingerprint(), software=SOFTWARE))

    @abstractmethod
    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        """Train once: choose by ``validation`` and return the choice, or else follow ``chosen``, or the defaults."""


class ReleaseMethod(Method):
    """A method that sees the target's ratings and a release, which costs the source no privacy beyond the release."""

    def fit(
        self,
        target: RatingsLike,
        release: Release,
        *,
        validation: HeldOut | None = None,
        chosen: Chosen | None = None,
        allow_not_private: bool = False,
        log: RunLog = NO_LOG,
        progress: Progress | bool = False,
    ) -> FittedModel:
        """Fit to the target's ratings and a release; users of either are served.

        Args:
            target: what to train on: ratings, or a data frame of them.
            release: a release of the source's ratings, as :meth:`Release.load` returns it.
            validation: items to choose the epochs by, and how far the release is trusted; none of them in ``target``.
                Without it, some of the ratings are set aside to choose by, and then everything is trained on.
            chosen: what an earlier training chose; it is followed, and nothing is set aside.
            allow_not_private: use a release that is marked NOT PRIVATE. For experiments: it should never have arrived.
            log: where the training reports to.
            progress: True shows how far it has come; a function is called with it.
        """
        if not release.certificate.private and not allow_not_private:
            raise InputError(
                "the release is marked NOT PRIVATE and must not be used "
                "(allow_not_private, or --allow-not-private, is for experiments)"
            )
        target = Ratings.of(target)
        # Only these can show what a release row is worth: whoever it does not list has none.
        listed = set(release.users)
        known = np.array([user in listed for user in target.users], dtype=bool)

        def train(ratings: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
            return self._train(ratings, release, validation=validation, chosen=chosen, log=log)

        with log.reporting_to(progress) as run_log:
            start = self._choice(train, target, validation, chosen, run_log, known=known)
            model, settled = self._train(target, release, validation=validation, chosen=start, log=run_log)
        origin = Origin(
            self.settings(),
            target.fingerprint(),
            release=release.sha256(),
            # Only a signature that was checked says anything about who made the release.
            release_signed_by=release.certificate.signed_by if release.verified else None,
            release_covers=(int(known.sum()), len(known)),
            certificate=release.certificate,
            release_verified=release.verified,
            software=SOFTWARE,
        )
        return replace(model, chosen=settled, origin=origin)

    @abstractmethod
    def _train(
        self, target: Ratings, release: ReleaseRows, *, validation: HeldOut | None, chosen: Chosen, log: RunLog
    ) -> Trained:
        """Train once, see :class:`TargetMethod`."""


class PlaintextMethod(Method):
    """NOT PRIVATE: a method that sees the source's ratings as they are. For comparison only."""

    def fit_plaintext(
        self,
        target: RatingsLike,
        source: RatingsLike,
        *,
        validation: HeldOut | None = None,
        chosen: Chosen | None = None,
        log: RunLog = NO_LOG,
        progress: Progress | bool = False,
    ) -> FittedModel:
        """NOT PRIVATE: fit to both parties' ratings. For experiments, by someone who holds both files.

        Users of either side are served: the target's first, then the source's others. For the other arguments, see
        :meth:`TargetMethod.fit`.

        Args:
            target: what to train on.
            source: the source's ratings.
            validation: items of the target to choose by.
            chosen: what an earlier training chose.
            log: where the training reports to.
            progress: True shows how far it has come.
        """
        target, source = Ratings.of(target), Ratings.of(source)
        own = set(target.users)
        if not own & set(source.users):
            raise InputError(
                f"none of the source's {len(source.users):,} users is among the target's {len(target.users):,}: "
                "are these the same people?"
            )
        # Users of the source alone are served too, as cold users: their source rows are all there is of them.
        everyone = target.users + tuple(user for user in source.users if user not in own)
        known_source, ratings = source.select(users=everyone), target.select(users=everyone)

        def train(ratings: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
            pair = DomainPair(known_source, ratings)
            return self._train_plaintext(pair, validation=validation, chosen=chosen, log=log)

        known = np.diff(known_source.matrix.indptr) > 0
        with log.reporting_to(progress) as run_log:
            chooses = self.options is not None
            start = self._choice(train, ratings, validation, chosen, run_log, chooses=chooses, known=known)
            model, settled = train(ratings, validation=validation, chosen=start, log=run_log)
        origin = Origin(self.settings(), target.fingerprint(), plaintext_source=True, software=SOFTWARE)
        return replace(model, chosen=settled, origin=origin)

    @abstractmethod
    def _train_plaintext(self, pair: DomainPair, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        """Train once, see :class:`TargetMethod`."""


def ratings_to_choose_by(target: Ratings) -> int:
    """Return how many ratings ``fit`` sets aside to choose by: one of every user with two or more."""
    return int((np.diff(target.matrix.indptr) > 1).sum())
