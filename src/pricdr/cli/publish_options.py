"""The options of ``pricdr publish``, and what those come down to that several options make together."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.options import StrategyName, UnitName
from pricdr.errors import InputError, ParameterError, VerificationError

if TYPE_CHECKING:
    from pricdr.privacy.bounds import Bounds
    from pricdr.privacy.strategies import Strategy
    from pricdr.release import Release


class LearnFromName(StrEnum):
    """Whose ratings the item model is learnt from."""

    LISTED = "listed"
    ALL = "all"


class CalibrationName(StrEnum):
    """How sigma follows from epsilon and delta."""

    EXACT = "exact"
    PAPER = "paper"


StrategyOption: TypeAlias = Annotated[
    StrategyName,
    typer.Option(
        help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
        "release of the other party; features takes public item features; jlt and sjlt are the paper's."
    ),
]
DimOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Numbers per user, or auto (jlt, sjlt: for 1 % of the budget; others: by epsilon, free).  "
        "[default: 8, or 4 below epsilon 4; jlt, sjlt: 200]"
    ),
]
GuideOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="guided: a release folder of the other party, over the same users.")
]
RefineOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--refine/--no-refine",
        help="guided: three rounds, each one's rows a guide to the next, or one round.  [default: refine]",
    ),
]
FillGuideOption: TypeAlias = Annotated[
    bool, typer.Option("--fill-guide", help="guided: listed users whom the guide lacks get a row of zeros in it.")
]
AllowNotPrivateGuideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--allow-not-private-guide", help="guided: take a guide that is NOT PRIVATE; it is disclosed."),
]
ItemFeaturesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="features: a public table of items (csv, tsv, parquet) with a column item, and numeric columns or one "
        "called tags (war|history)."
    ),
]
LearnFromOption: TypeAlias = Annotated[
    LearnFromName | None,
    typer.Option(
        help="spectral: learn directions from listed users alone, or first from all others; these are protected "
        "alike, and get no rows.  [default: listed]"
    ),
]
BucketsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(help="learn-from all without --items: hash items into so many buckets.  [default: 65536]"),
]
DensityOption: TypeAlias = Annotated[float | None, typer.Option(help="sjlt: share of non-zeros in P.  [default: 0.5]")]
UnitOption: TypeAlias = Annotated[UnitName, typer.Option(help="Protect one rating, or all ratings of one user.")]
ClipOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="unit user: the largest sum of a user's ratings (spectral, guided), or norm of a projected profile "
        "(features, jlt, sjlt)."
    ),
]
ThresholdOption: TypeAlias = Annotated[float | None, typer.Option(help="Count only rows rated at least this.")]
ValuesOption: TypeAlias = Annotated[
    bool, typer.Option("--values", help="Publish rating values instead of counting rows as 1.")
]
RatingBoundOption: TypeAlias = Annotated[
    float | None, typer.Option(help="values: the largest value a rating can take.")
]
RatingStepOption: TypeAlias = Annotated[float | None, typer.Option(help="values: ratings are multiples of this.")]
UsersOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="The agreed user list, one id a line; each gets a row.")
]
ItemsOption: TypeAlias = Annotated[Path | None, typer.Option(help="The public item universe, one id a line.")]
CalibrationOption: TypeAlias = Annotated[
    CalibrationName, typer.Option(help="paper: Algorithm 1's noise, for reproduction only.")
]
LedgerOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="Count this release against a budget (pricdr ledger init).")
]
SignOption: TypeAlias = Annotated[Path | None, typer.Option(help="Sign with this private key (pricdr keygen).")]
InsecureSeedOption: TypeAlias = Annotated[int | None, typer.Option(help="TESTS ONLY: repeatable noise, not private.")]
InsecureNoNoiseOption: TypeAlias = Annotated[
    bool, typer.Option("--insecure-no-noise", help="EXPERIMENTS ONLY: no noise, not private.")
]


@dataclass(frozen=True)
class Learning:
    """The options of strategies that learn, or that are told something about items."""

    guide: Path | None
    public_key: Path | None
    """Whose signature the guide must have, where one was pinned."""
    refine: bool | None
    fill_guide: bool
    allow_not_private_guide: bool
    item_features: Path | None
    learn_from: LearnFromName | None
    buckets: int | None
    items: Path | None

    def added_to(self, strategy: "Strategy") -> "Strategy":
        """The strategy with its guide, its features, its learners; options of another strategy are refused."""
        from pricdr.data.feature_files import read_features
        from pricdr.privacy.strategies import Features, Guided, LearnFrom, Spectral

        self._refuse_strangers(strategy)
        if isinstance(strategy, Guided):
            if self.guide is None:
                raise ParameterError("--strategy guided needs --guide: a release folder of the other party")
            rounds = strategy.refine if self.refine is None else self.refine
            verified = _verified(self.guide, self.public_key)
            return replace(strategy, guide=verified, refine=rounds, allow_missing=self.fill_guide)
        if isinstance(strategy, Features):
            if self.item_features is None:
                raise ParameterError("--strategy features needs --item-features: a public table of items")
            return replace(strategy, features=read_features(self.item_features))
        if isinstance(strategy, Spectral):
            learners = LearnFrom(self.learn_from.value) if self.learn_from else strategy.learn_from
            if self.buckets is None:
                return replace(strategy, learn_from=learners)
            if learners is not LearnFrom.ALL or self.items is not None:
                raise ParameterError("--buckets belongs to --learn-from all without --items: nothing else is hashed")
            return replace(strategy, learn_from=learners, buckets=self.buckets)
        return strategy

    def _refuse_strangers(self, strategy: "Strategy") -> None:
        owners = {
            "--guide": ("guided", self.guide is not None),
            "--no-refine" if self.refine is False else "--refine": ("guided", self.refine is not None),
            "--fill-guide": ("guided", self.fill_guide),
            "--allow-not-private-guide": ("guided", self.allow_not_private_guide),
            "--item-features": ("features", self.item_features is not None),
            "--learn-from": ("spectral", self.learn_from is not None),
            "--buckets": ("spectral", self.buckets is not None),
        }
        for option, (owner, given) in owners.items():
            if given and strategy.name != owner:
                raise ParameterError(f"{option} belongs to --strategy {owner}, not to {strategy.name}")


def _verified(guide: Path, public_key: Path | None) -> "Release":
    """The guide, with its name in front of what is wrong with it: publish is told of more than one folder."""
    from pricdr.release import verify

    try:
        return verify(guide, public_key=public_key)
    except VerificationError as error:
        raise VerificationError(f"--guide {guide}: {error}") from error
    except InputError as error:
        raise InputError(f"--guide {error}") from error


def parse_bounds(
    values: bool,
    threshold: float | None,
    rating_bound: float | None,
    rating_step: float | None,
    clip: float | None,
) -> "Bounds":
    """What is declared about the ratings; :class:`ParameterError` where options do not fit."""
    from pricdr.privacy.bounds import Bounds

    if not values:
        if rating_bound is not None or rating_step is not None:
            raise ParameterError("--rating-bound and --rating-step belong to --values")
        return Bounds(clip=clip)
    if threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    if rating_bound is None or rating_step is None:
        raise ParameterError("--values needs --rating-bound and --rating-step: nothing is guessed from the data")
    return Bounds(rating_bound=rating_bound, rating_step=rating_step, clip=clip)
