"""``pricdr evaluate``: how good are these models, on a split nobody trained on?"""

import io
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import ColumnsOption, PublicKeyOption
from pricdr.cli.repeat import ReleasesOption, RepeatOption, RepeatOptions, TargetOption
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.splits import Split
    from pricdr.evaluation.comparison import Ranking
    from pricdr.evaluation.metrics import Metrics


class RankingName(StrEnum):
    """Among which candidates the held-out item is ranked."""

    BOTH = "both"
    SAMPLED = "sampled"
    FULL = "full"


def evaluate(
    paths: Annotated[list[Path], typer.Argument(metavar="MODEL... SPLIT", help="Model folders, and the split last.")],
    ranking: Annotated[RankingName, typer.Option(help="99 stored negatives, all items, or both.")] = RankingName.BOTH,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
    per_user: Annotated[Path | None, typer.Option(help="Also write every user's values here, as Parquet.")] = None,
    repeat: RepeatOption = None,
    target: TargetOption = None,
    threshold: Annotated[float | None, typer.Option(help="Of --target: count only rows rated at least this.")] = None,
    columns: ColumnsOption = None,
    release: ReleasesOption = None,
    allow_not_private: Annotated[
        bool, typer.Option("--allow-not-private", help="EXPERIMENTS ONLY: repeat with a release that is not private.")
    ] = False,
    public_key: PublicKeyOption = None,
) -> None:
    """Rank every user's held-out item and report HR, NDCG and MRR at 5 and 10, by kind of user.

    Warm users have ratings to train on, few are those of them with 1 to 3, cold users have none.

    With several models, each is compared with the first, user by user: mean difference, 95 % interval, p-value.
    For warm, few and cold users a sentence then says that the release (or the model) helps, hurts, or that it cannot
    be told.

    One run can mislead. --repeat N trains the models anew on N other splits of the same ratings, with their settings
    and other seeds, and gives the verdict over all N. It takes as long as N trainings of each model.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.data.split_files import load_split
    from pricdr.evaluation.comparison import chosen_rankings, compared

    if len(paths) < 2:
        raise ParameterError("give at least one model folder, and the split folder last")
    *folders, where = paths
    options = RepeatOptions(repeat, target, columns, threshold, release or (), allow_not_private)
    split = load_split(where)
    repetition = options.planned(folders, split, public_key)
    rankings = chosen_rankings(ranking.value)
    # One model at a time: several large ones may not fit into memory together.
    measured = {str(folder): _measure(folder, split, rankings, public_key) for folder in folders}
    uses_release = {name: used for name, (_, used) in measured.items()}
    comparison = compared({name: metrics for name, (metrics, _) in measured.items()}, split, uses_release)
    say(*comparison.lines())
    figures = comparison.to_dict()
    if comparison.verdicts:
        figures["verdicts"] = [one.to_dict() for one in comparison.verdicts]
    if repetition is not None:
        repeated = repetition.run(rankings)
        say(*repeated.lines())
        figures["repeat"] = repeated.to_dict()
    elif comparison.verdicts:
        warn("one run can mislead, another split or seed may turn a verdict round: --repeat 5 trains over five more")
    if json_file is not None:
        from pricdr.files import replace_file

        replace_file(json_file, (json.dumps(figures, indent=2) + "\n").encode())
    if per_user is not None:
        from pricdr.files import write_new

        content = io.BytesIO()
        comparison.per_user().write_parquet(content)
        write_new(per_user, content.getvalue())


def _measure(
    folder: Path, split: "Split", rankings: "Sequence[Ranking]", public_key: Path | None
) -> "tuple[dict[Ranking, Metrics], bool | None]":
    """Return the metrics of the model in ``folder``, and whether it was trained with a release.

    It must have been trained on this very split.
    """
    from pricdr.evaluation.comparison import measure
    from pricdr.evaluation.verdict import trained_with_release
    from pricdr.models.fitted import FittedModel

    model = FittedModel.load(folder, public_key=public_key)
    trained_on = None if model.origin is None else model.origin.trained_on
    if trained_on is None:
        raise InputError(f"{folder} was exported: it no longer records which split it was trained on")
    if trained_on != split.train.fingerprint():
        raise InputError(f"{folder} was not trained on this split: what is held out here may be what it learnt from")
    with progress_bar() as progress:
        return measure(str(folder), model, split, rankings, progress), trained_with_release(model)
