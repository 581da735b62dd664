"""``pricdr evaluate``: how good are these models, on a split nobody trained on?"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say, warn, working
from pricdr.cli.json_output import JsonOption
from pricdr.cli.options import PublicKeyOption, whole_numbers
from pricdr.cli.ratings import (
    ColumnsOption,
    DelimiterOption,
    EncodingOption,
    FormatOption,
    MostBadRowsOption,
    ReadingOptions,
    SkipBadRowsOption,
)
from pricdr.cli.repeat import ONE_RUN, ReleasesOption, RepeatOption, RepeatOptions, TargetOption
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.splits import Split
    from pricdr.evaluation.comparison import Comparison, Measured, Ranking, RepeatedComparison


class RankingName(StrEnum):
    """Among which candidates the held-out item is ranked."""

    BOTH = "both"
    SAMPLED = "sampled"
    FULL = "full"


def evaluate(
    paths: Annotated[list[Path], typer.Argument(metavar="MODEL... SPLIT", help="Model folders, and the split last.")],
    ranking: Annotated[RankingName, typer.Option(help="99 stored negatives, all items, or both.")] = RankingName.BOTH,
    cutoffs: Annotated[str, typer.Option("-k", metavar="K,...", help="How many places count.")] = "5,10",
    json_output: JsonOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", "--html", help="Also write all of it as one web page.")
    ] = None,
    per_user: Annotated[
        Path | None, typer.Option(help="Also write every user's values to this .csv or .parquet.")
    ] = None,
    repeat: RepeatOption = None,
    target: TargetOption = None,
    threshold: Annotated[float | None, typer.Option(help="Of --target: count only rows rated at least this.")] = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    format: FormatOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    most_bad_rows: MostBadRowsOption = None,
    release: ReleasesOption = None,
    allow_not_private: Annotated[
        bool, typer.Option("--allow-not-private", help="EXPERIMENTS ONLY: repeat with a release that is not private.")
    ] = False,
    public_key: PublicKeyOption = None,
) -> None:
    """Rank every user's held-out items and report HR, NDCG, MRR, Recall and MAP at each k, by kind of user.

    Warm users have ratings to train on, few are those of them with 1 to 3, cold users have none. Where one item is held
    out per user, Recall is HR and MAP is MRR, and the tables leave them out.

    With several models, each is compared with the first, user by user: mean difference, 95 % interval, p-value.
    For warm, few and cold users a sentence then says that the release (or the model) helps, hurts, or that it cannot
    be told.

    One run can mislead. --repeat N trains the models anew on N other splits of the same ratings, with their settings
    and other seeds, and gives the verdict over all N. It takes as long as N trainings of each model.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.data.splits import load_split
    from pricdr.evaluation.comparison import chosen_rankings, compared
    from pricdr.evaluation.metrics import require_cutoffs
    from pricdr.files import require_absent

    if len(paths) < 2:
        raise ParameterError("give at least one model folder, and the split folder last")
    *folders, where = paths
    _require_distinct(folders)
    for path in (report, per_user):  # before any work: a ranking may take long
        if path is not None:
            require_absent(path)
    places = require_cutoffs(whole_numbers("-k", cutoffs, "5,10,20"))
    reading = ReadingOptions(columns, delimiter, encoding, format, skip_bad_rows, most_bad_rows)
    options = RepeatOptions(repeat, target, reading, threshold, release or (), allow_not_private)
    split = load_split(where)
    repetition = options.planned(folders, split, public_key)
    rankings = chosen_rankings(ranking.value)
    # One model at a time: several large ones may not fit into memory together.
    measured = {str(folder): _measure(folder, split, rankings, places, public_key) for folder in folders}
    comparison = compared(measured, split, cutoffs=places)
    say(*comparison.lines())
    figures = comparison.to_dict()
    repeated = None if repetition is None else repetition.run(rankings, places)
    if repeated is not None:
        say(*repeated.lines())
        figures["repeat"] = repeated.to_dict()
    elif comparison.verdicts:
        warn(ONE_RUN)
    if json_output is not None:
        json_output.write(figures)
    if report is not None:
        _write_page(report, comparison, where, repeated)
    if per_user is not None:
        _write_values(per_user, comparison)


def _require_distinct(folders: Sequence[Path]) -> None:
    """Refuse a folder that is named twice: a model compared with itself would pass for two models that agree."""
    named: dict[Path, Path] = {}
    for folder in folders:
        first = named.setdefault(folder.resolve(), folder)
        if first is not folder:
            again = "is named twice" if folder == first else f"is the same model folder as {first}"
            raise ParameterError(f"{folder} {again}: name each model once")


def _measure(
    folder: Path, split: "Split", rankings: "Sequence[Ranking]", cutoffs: Sequence[int], public_key: Path | None
) -> "Measured":
    """Measure the model in ``folder``, which must have been trained on this very split."""
    from pricdr.evaluation.comparison import measure
    from pricdr.models.fitted import FittedModel

    with working(f"reading {folder}"):
        model = FittedModel.load(folder, public_key=public_key)
    trained_on = None if model.origin is None else model.origin.trained_on
    if trained_on is None:
        raise InputError(f"{folder} was exported: it no longer records which split it was trained on")
    if trained_on != split.train.fingerprint():
        raise InputError(f"{folder} was not trained on this split: what is held out here may be what it learnt from")
    with progress_bar() as progress:
        return measure(str(folder), model, split, rankings, progress, cutoffs=cutoffs)


def _write_page(
    path: Path, comparison: "Comparison", split: Path, repeated: "RepeatedComparison | None" = None
) -> None:
    from pricdr.cli.evaluate_page import evaluation_page
    from pricdr.files import write_new

    write_new(path, evaluation_page(comparison, str(split), repeated).encode())


def _write_values(path: Path, comparison: "Comparison") -> None:
    from pricdr.data.tables import write_table

    write_table(path, comparison.columns_per_user())
