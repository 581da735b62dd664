"""What a method is: a frozen configuration that can be fitted. Three kinds, by the data they may see.

``fit`` is the call to use: it refuses what must not be used, chooses by items set aside where no validation is given,
and returns a model that records what was chosen and what it was trained on. A method implements ``_train``, which does
none of that. It reads no files, parses no arguments and owns no epoch loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from pricdr import __version__
from pricdr.data.ratings import Ratings, RatingsLike
from pricdr.data.splits import HeldOut, set_aside
from pricdr.errors import (
    InputError,
    ParameterError,
    require_count,
    require_not_negative,
    require_positive,
    require_share,
)
from pricdr.models.fitted import MAX_RELEASES, NOTHING_CHOSEN, Chosen, FittedModel, Origin, ReleaseOrigin
from pricdr.models.training_data import TrainingData
from pricdr.progress import Progress
from pricdr.training.loop import TrainingOptions
from pricdr.training.run_log import NO_LOG, RunLog

if TYPE_CHECKING:  # a target without a release needs nothing of what checks one
    from pricdr.release import Release
    from pricdr.release.series import Series

SearchSpace: TypeAlias = Mapping[str, tuple[object, ...]]  # the values of each setting that a search tries
Trained: TypeAlias = tuple[FittedModel, Chosen]

MAX_SOURCES: Final = 16
CHOOSING: Final = "choosing"  # the phase of a training by which something is chosen, before everything is trained on
_COLD_SHARE: Final = 0.1  # of users, who lose their history while the trust in a source for cold users is chosen


class DataAccess(Enum):
    """What a method is given beside the target's ratings."""

    TARGET = "target ratings alone"
    RELEASE = "a release"
    PLAINTEXT = "the source's ratings"

    @property
    def privacy_note(self) -> str:
        """Say whether a model made from it keeps the source's secrets: one without the source has none to keep."""
        return {"TARGET": "yes", "RELEASE": "as the release", "PLAINTEXT": "NOT PRIVATE"}[self.name]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a method: counts are whole numbers of at least 1, shares lie in [0, 1), the rest is zero or more."""

    shares: ClassVar[tuple[str, ...]] = ("dropout", "entry_dropout")
    positive: ClassVar[tuple[str, ...]] = ()
    """Numbers that must not be zero."""
    least: ClassVar[Mapping[str, int]] = {}
    """Counts that must be larger than 1."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            given = {setting.name: getattr(self, setting.name)}
            if setting.name in self.shares:
                require_share(**given)
            elif setting.name in self.positive:
                require_positive(**given)
            elif isinstance(setting.default, float):
                require_not_negative(**given)
            elif not isinstance(setting.default, bool | str):
                require_count(**given)
        for name, least in self.least.items():
            if getattr(self, name) < least:
                raise ParameterError(f"{name} must be {least} or more, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A configuration that can be fitted. Inherit from one of the three kinds below, not from this."""

    name: ClassVar[str]
    """What the command line and specs call it."""
    summary: ClassVar[str]
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
        kinds = zip((TargetMethod, ReleaseMethod, PlaintextMethod), DataAccess, strict=True)
        return tuple(access for kind, access in kinds if issubclass(cls, kind))

    def settings(self) -> dict[str, dict[str, object]]:
        """Return every setting, grouped as the method's fields group them."""
        groups = ((part.name, getattr(self, part.name)) for part in fields(self))
        return {name: asdict(group) for name, group in groups if group is not None}

    def fit(
        self,
        target: RatingsLike,
        release: "Release | Sequence[Release] | None" = None,
        *,
        plaintext_source: RatingsLike | None = None,
        validation: HeldOut | None = None,
        chosen: Chosen | None = None,
        allow_not_private: bool = False,
        log: RunLog = NO_LOG,
        progress: Progress | bool = False,
    ) -> FittedModel:
        """Fit to the target's ratings and what else the method sees; users of either party are served.

        A training chooses by ``validation``, or follows what was ``chosen``. With neither, one on all but some items
        that are set aside chooses, and then everything is trained on; where the ratings are too few for that, every
        epoch is trained, and the result says why.

        Args:
            target: what to train on: ratings, or a data frame of them.
            release: a release of the source's ratings, as :meth:`Release.load` returns it; or one of each of several
                sources. Each must pass the evidence test, and validation chooses which of them are used.
            plaintext_source: NOT PRIVATE: the source's ratings as they are. For experiments, by someone who holds both
                files; the source's other users are served as cold users.
            validation: items to choose the epochs by, and how far the source is trusted; none of them in ``target``.
            chosen: what an earlier training chose; it is followed, and nothing is set aside.
            allow_not_private: use a release that is marked NOT PRIVATE. For experiments: it should never have arrived.
            log: where the training reports to.
            progress: True shows how far it has come; a function is called with it.
        """
        if validation is not None and chosen is not None:
            raise ParameterError("give validation to choose by, or what was chosen before, not both")
        data, origin = self._lined_up(target, release, plaintext_source, allow_not_private=allow_not_private)
        sizes = f"{len(data.target.users):,} users x {len(data.items):,} items"
        with log.reporting_to(progress) as run_log:
            if validation is None and chosen is None and (self.options is not None or isinstance(self, ReleaseMethod)):
                run_log.progress(f"{CHOOSING} {self.name}", 0, 0, sizes)
                seed = 0 if self.options is None else self.options.seed
                # Only users with data of the source can stand in for cold users.
                known = None if data.source is None else data.present[: len(data.target.users)]
                cold = 0.0 if known is None else _COLD_SHARE
                try:
                    kept, held_out = set_aside(data.target, seed=seed, cold=cold, among=known)
                except InputError as error:
                    chosen = Chosen(not_chosen=str(error))
                else:
                    most, choosing = replace(data, target=kept), replace(run_log, phase=CHOOSING)
                    _, chosen = self._train(most, validation=held_out, chosen=NOTHING_CHOSEN, log=choosing)
            run_log.progress(f"fitting {self.name}", 0, 0, sizes)
            model, settled = self._train(data, validation=validation, chosen=chosen or NOTHING_CHOSEN, log=run_log)
        about = Origin(self.settings(), software=f"pricdr {__version__}", **origin)
        return replace(model, chosen=settled, origin=about)

    def _lined_up(
        self,
        target: RatingsLike,
        release: "Release | Sequence[Release] | None",
        plaintext_source: RatingsLike | None,
        *,
        allow_not_private: bool,
    ) -> tuple[TrainingData, dict[str, Any]]:
        """Return what is trained on, and what a model records of it: fields of ``Origin``."""
        releases = () if release is None else tuple(release) if isinstance(release, Sequence) else (release,)
        if releases and plaintext_source is not None:
            raise ParameterError("give a release or a plaintext source, not both")
        given = DataAccess.RELEASE if releases else DataAccess.TARGET
        given = given if plaintext_source is None else DataAccess.PLAINTEXT
        if given not in self.data_access():
            accepted = " or ".join(access.value for access in self.data_access())
            raise ParameterError(f"method {self.name} takes {accepted}, not {given.value}")
        own = Ratings.of(target)
        trained_on = {"trained_on": own.fingerprint()}
        if plaintext_source is not None:
            return TrainingData.plaintext(own, Ratings.of(plaintext_source)), {**trained_on, "plaintext_source": True}
        sources = _sources(releases)
        data, known = TrainingData.of(own, *sources), set(own.users)
        origins = [
            ReleaseOrigin.of(
                one, (len(known.intersection(one.users)), len(known)), number, allow_not_private=allow_not_private
            )
            for number, source in enumerate(sources)
            for one in source.members
        ]
        return data, {**trained_on, "releases": tuple(origins)}

    @abstractmethod
    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        """Train once: choose by ``validation`` and return the choice, or follow ``chosen``, or else the defaults."""


class TargetMethod(Method):
    """A method that sees the target's ratings and nothing else."""


class ReleaseMethod(Method):
    """A method that sees the target's ratings and a release, which costs the source no privacy beyond the release."""


class PlaintextMethod(Method):
    """NOT PRIVATE: a method that sees the source's ratings as they are. For comparison only."""


def _sources(releases: "Sequence[Release]") -> "list[Series]":
    """Return the releases by series, each a source; refuse those that no model can be trained with together."""
    if not releases:
        return []
    from pricdr.release.series import by_series

    units = sorted({str(release.certificate.unit) for release in releases})
    if len(units) > 1:
        raise ParameterError(f"releases protect different units ({', '.join(units)}): train with those of one unit")
    if len(releases) > MAX_RELEASES:  # before a training that could not be saved
        raise ParameterError(f"a model is trained with at most {MAX_RELEASES} releases, got {len(releases):,}")
    sources = by_series(releases)
    if len(sources) > MAX_SOURCES:
        raise ParameterError(f"a model is trained with releases of at most {MAX_SOURCES} sources, got {len(sources):,}")
    return sources
