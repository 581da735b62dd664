"""The options of ``pricdr publish`` and their help, and the bounds that several of them declare together."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pricdr.cli.json_log import OPTION
from pricdr.cli.strategy_options import LearnFromName
from pricdr.errors import ParameterError
from pricdr.privacy.strategies import BY_NAME

if TYPE_CHECKING:
    from pricdr.privacy.accounting import Unit
    from pricdr.privacy.steps import Bounds


class CalibrationName(StrEnum):
    """How sigma follows from epsilon and delta."""

    EXACT = "exact"
    PAPER = "paper"


StrategyOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=BY_NAME.complete,
        help="spectral learns taste directions from the ratings, inside the promise; guided learns them along a "
        "release of the other party; features takes public item features; jlt and sjlt are the paper's. Others by "
        'name ("pricdr list" names them) or as module:Class.',
    ),
]
DimOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Numbers per user.  [default: 8, or 4 below epsilon 4; jlt, sjlt: 200]")
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
    bool, typer.Option("--fill-guide", help="guided: listed users who are not in the guide get a row of zeros in it.")
]
AllowNotPrivateGuideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--allow-not-private-guide", help="guided: accept a guide that is NOT PRIVATE; it is disclosed."),
]
ItemFeaturesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="features: a public table of items (csv, tsv, parquet) with a column item, and numeric columns or one "
        "named tags (war|history)."
    ),
]
LearnFromOption: TypeAlias = Annotated[
    LearnFromName | None,
    typer.Option(
        help="spectral: learn directions from listed users alone, or first from all others, who are equally "
        "protected and get no rows.  [default: listed]"
    ),
]
BucketsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(help="learn-from all without --items: hash items into this many buckets.  [default: 65536]"),
]
DensityOption: TypeAlias = Annotated[float | None, typer.Option(help="sjlt: share of non-zeros in P.  [default: 0.5]")]
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
    Path | None,
    typer.Option(help="The agreed user list, one id per line; each gets a row. A record of align beside it is used."),
]
ItemsOption: TypeAlias = Annotated[Path | None, typer.Option(help="The public item universe, one id per line.")]
CalibrationOption: TypeAlias = Annotated[
    CalibrationName, typer.Option(help="paper: Algorithm 1's noise, for reproduction only.")
]
LedgerOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="Count this release against a budget (pricdr ledger init).")
]
SignOption: TypeAlias = Annotated[Path | None, typer.Option(help="Sign with this private key (pricdr keygen).")]
IssuerOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Who publishes, for the certificate; only a signature vouches for it.")
]
DryRunOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show noise, cost, room left, memory, time and the certificate's words; spend, draw and write nothing.",
    ),
]
LogOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Append what happens to this file, as JSON lines: no ratings, no counts of them, no secrets."),
]
LogJsonOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        OPTION,
        help="For unattended runs: standard error has one JSON line per event, under the same rule as --log, and no "
        "text for people.",
    ),
]
InsecureSeedOption: TypeAlias = Annotated[int | None, typer.Option(help="TESTS ONLY: repeatable noise, not private.")]
InsecureNoNoiseOption: TypeAlias = Annotated[
    bool, typer.Option("--insecure-no-noise", help="EXPERIMENTS ONLY: no noise, not private.")
]


def parse_bounds(
    unit: "Unit",
    values: bool,
    threshold: float | None,
    rating_bound: float | None,
    rating_step: float | None,
    clip: float | None,
) -> "Bounds":
    """Return the declared bounds of the ratings; :class:`ParameterError` where the options contradict each other."""
    from pricdr.privacy.steps import Bounds

    if not values:
        if rating_bound is not None or rating_step is not None:
            raise ParameterError("--rating-bound and --rating-step need --values")
        bounds = Bounds(clip=clip)
    elif threshold is not None:
        raise ParameterError("--threshold and --values exclude each other: rows count as 1, or as their value")
    elif rating_bound is None or rating_step is None:
        raise ParameterError("--values needs --rating-bound and --rating-step: nothing is guessed from the data")
    else:
        bounds = Bounds(rating_bound=rating_bound, rating_step=rating_step, clip=clip)
    bounds.sensitivity(unit)  # refuses a clip that is missing or has no use, before any file is read
    return bounds
