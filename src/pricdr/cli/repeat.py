"""``pricdr evaluate --repeat``: retrain measured models over new splits and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pricdr.cli.console import progress_bar
from pricdr.cli.ratings import ReadingOptions
from pricdr.errors import LARGEST_SEED, InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import Split
    from pricdr.evaluation.comparison import Ranking, RepeatedComparison
    from pricdr.models.base import Method
    from pricdr.release import Release

ONE_RUN: Final = "one run can mislead, another split or seed may turn a verdict round: --repeat 5 trains over five more"
RepeatOption: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Also train the models anew over so many other splits and seeds, and compare over all.", min=2),
]
TargetOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="With --repeat: the ratings the split was made of. Needed where the split has cold users."),
]
ReleasesOption: TypeAlias = Annotated[
    list[Path] | None, typer.Option(help="With --repeat: a release that models were trained with; may be given again.")
]


@dataclass(frozen=True)
class RepeatOptions:
    """What the command line says about repeating."""

    times: int | None
    target: Path | None
    reading: ReadingOptions
    threshold: float | None
    releases: Sequence[Path]
    allow_not_private: bool

    def planned(self, folders: Sequence[Path], split: "Split", public_key: Path | None) -> "Repetition | None":
        """Return what is to be repeated, with all that it needs; None without ``--repeat``, which the others are for.

        Args:
            folders: models that were trained on the split.
            split: what they were measured on; new splits are drawn from the ratings it was made of.
            public_key: the key that must have signed the releases.
        """
        from pricdr.data.splits import drawn_at_random

        if self.times is None:
            self._require_none()
            return None
        if len(folders) < 2:
            raise ParameterError("--repeat compares models: give two or more")
        rule = drawn_at_random(split.protocol)
        if rule is None:
            raise InputError(f"--repeat draws other test items at random; this split tests by {split.protocol}")
        methods, releases = _trained_with(folders, self.releases, public_key)
        # Other seeds than the split's own, whose verdict is known already.
        first = 1 + (split.seed or 0)
        return Repetition(
            times=self.times,
            methods=methods,
            releases=releases,
            target=self._whole(split),
            cold=float(split.cold.sum()) / len(split.test.evaluated),
            test_items=rule[0],
            ratio=rule[1],
            seed=first if first + self.times <= LARGEST_SEED else 0,
            allow_not_private=self.allow_not_private,
        )

    def _whole(self, split: "Split") -> "Ratings":
        from pricdr._repeat import whole_of

        if self.target is None:
            try:
                return whole_of(split)
            except InputError as error:
                raise InputError(f"{error} (--target)") from error
        ratings = self.reading.read(self.target, self.threshold).ratings
        try:
            return whole_of(split, ratings)
        except InputError as error:
            raise InputError(f"{self.target}: {error} (or with another --threshold)") from error

    def _require_none(self) -> None:
        given = {
            "--target": self.target,
            **dict.fromkeys(self.reading.given(), True),
            "--threshold": self.threshold,
            "--release": self.releases or None,
            "--allow-not-private": self.allow_not_private or None,
        }
        for option, value in given.items():
            if value is not None:
                raise ParameterError(f"{option} is for --repeat: without it models are measured as they are")


@dataclass(frozen=True)
class Repetition:
    """Methods to train over several splits of the same ratings."""

    times: int
    methods: "Mapping[str, Method]"
    releases: "Mapping[str, Release]"
    target: "Ratings"
    cold: float
    test_items: int
    ratio: float | None
    seed: int
    allow_not_private: bool

    def run(self, rankings: "Sequence[Ranking]", cutoffs: Sequence[int]) -> "RepeatedComparison":
        """Train and compare, with a progress bar."""
        from pricdr._repeat import repeat

        with progress_bar() as progress:
            return repeat(
                self.methods,
                self.target,
                releases=self.releases,
                times=self.times,
                cold=self.cold,
                test_items=self.test_items,
                ratio=self.ratio,
                seed=self.seed,
                ranking="both" if len(rankings) > 1 else rankings[0],
                cutoffs=cutoffs,
                allow_not_private=self.allow_not_private,
                progress=progress,
            )


def _trained_with(
    folders: Sequence[Path], releases: Sequence[Path], public_key: Path | None
) -> "tuple[dict[str, Method], dict[str, Release]]":
    """Return the method of each model and the release it was trained with, by the name of its folder."""
    from pricdr.models.catalogue import method_of
    from pricdr.models.fitted import FittedModel
    from pricdr.release import Release

    loaded = [Release.load(folder, public_key=public_key) for folder in releases]
    by_hash = {release.sha256(): release for release in loaded}
    methods: dict[str, Method] = {}
    used: dict[str, Release] = {}
    for folder in folders:
        model = FittedModel.load(folder, public_key=public_key)
        assert model.origin is not None  # a folder always says
        if model.origin.plaintext_source:
            raise InputError(f"{folder} was trained on the source's ratings: --repeat is for releases")
        try:
            methods[str(folder)] = method_of(model)
        except ParameterError as error:
            raise InputError(f"{folder}: {error}") from error
        if model.origin.release is not None:
            if model.origin.release not in by_hash:
                raise ParameterError(f"{folder} was trained with a release that is not given: name it by --release")
            used[str(folder)] = by_hash[model.origin.release]
    return methods, used
