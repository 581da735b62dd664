"""``pricdr evaluate``: how good are these models, on a split nobody trained on?"""

import io
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.cli.json_output import JsonOption
from pricdr.cli.options import PublicKeyOption
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
    json_output: JsonOption = None,
    per_user: Annotated[Path | None, typer.Option(help="Also write every user's values here, as Parquet.")] = None,
    public_key: PublicKeyOption = None,
) -> None:
    """Rank every user's held-out item and report HR, NDCG and MRR at 5 and 10, by kind of user.

    Warm users have ratings to train on, few are those of them with 1 to 3, cold users have none.

    With several models, each is compared with the first, user by user: mean difference, 95 % interval, p-value.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.data.split_files import load_split
    from pricdr.evaluation.comparison import chosen_rankings, compared

    if len(paths) < 2:
        raise ParameterError("give at least one model folder, and the split folder last")
    *folders, where = paths
    split = load_split(where)
    rankings = chosen_rankings(ranking.value)
    # One model at a time: several large ones may not fit into memory together.
    comparison = compared({str(folder): _measure(folder, split, rankings, public_key) for folder in folders}, split)
    say(*comparison.lines())
    if json_output is not None:
        json_output.write(comparison.to_dict())
    if per_user is not None:
        from pricdr.files import write_new

        content = io.BytesIO()
        comparison.per_user().write_parquet(content)
        write_new(per_user, content.getvalue())


def _measure(
    folder: Path, split: "Split", rankings: "Sequence[Ranking]", public_key: Path | None
) -> "dict[Ranking, Metrics]":
    """Return the metrics of the model in ``folder``, which must have been trained on this very split."""
    from pricdr.evaluation.comparison import measure
    from pricdr.models.fitted import FittedModel

    model = FittedModel.load(folder, public_key=public_key)
    trained_on = None if model.origin is None else model.origin.trained_on
    if trained_on is None:
        raise InputError(f"{folder} was exported: it no longer records which split it was trained on")
    if trained_on != split.train.fingerprint():
        raise InputError(f"{folder} was not trained on this split: what is held out here may be what it learnt from")
    with progress_bar() as progress:
        return measure(str(folder), model, split, rankings, progress)
