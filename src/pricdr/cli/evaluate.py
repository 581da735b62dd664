"""``pricdr evaluate``: how good are these models, on a split nobody trained on?"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.cli.options import PublicKeyOption
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.data.splits import Split
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
    public_key: PublicKeyOption = None,
) -> None:
    """Rank every user's held-out item and report HR, NDCG and MRR at 5 and 10, by kind of user.

    Warm users have ratings to train on, few are those of them with 1 to 3, cold users have none.

    With several models, each is compared with the first, user by user: mean difference, 95 % interval, p-value.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr.data.split_files import load_split

    if len(paths) < 2:
        raise ParameterError("give at least one model folder, and the split folder last")
    *folders, where = paths
    split = load_split(where)
    kinds = ["sampled", "full"] if ranking is RankingName.BOTH else [ranking.value]
    results = {str(folder): _measure(folder, split, kinds, public_key) for folder in folders}
    content: dict[str, Any] = {}
    for kind in kinds:
        say(f"{kind} ranking" + (" (99 stored negatives)" if kind == "sampled" else " (all unrated items)"))
        for name, found in results.items():
            content.setdefault(name, {})[kind] = _say_table(name, found[kind], split)
        _say_comparisons({name: found[kind] for name, found in results.items()}, split)
    if json_file is not None:
        from pricdr.files import replace_file

        single = content[str(folders[0])] if len(folders) == 1 else content
        replace_file(json_file, (json.dumps(single, indent=2) + "\n").encode())
    if per_user is not None:
        _write_per_user(per_user, results, kinds, split)


def _measure(folder: Path, split: "Split", kinds: list[str], public_key: Path | None) -> "dict[str, Metrics]":
    """Every metric of every evaluated user, under each ranking."""
    from pricdr.evaluation.metrics import per_user
    from pricdr.evaluation.ranking import ranks, sampled_ranks
    from pricdr.models.fitted import FittedModel

    model = FittedModel.load(folder, public_key=public_key)
    trained_on = None if model.origin is None else model.origin.trained_on
    if trained_on is None:
        raise InputError(f"{folder} was exported: it no longer records which split it was trained on")
    if trained_on != split.train.fingerprint():
        raise InputError(f"{folder} was not trained on this split: what is held out here may be what it learnt from")
    if model.users[: len(split.train.users)] != split.train.users or model.items != split.train.items:
        raise InputError(f"{folder} has other users or items than the split")
    if kinds == ["sampled"]:
        return {"sampled": per_user(sampled_ranks(model.score_candidates, split.test))}
    with progress_bar() as progress:
        sampled, full = ranks(model.score, split.test, split.train.matrix, progress=progress)
    return {"sampled": per_user(sampled), "full": per_user(full)}


def _say_table(name: str, found: "Metrics", split: "Split") -> dict[str, dict[str, float]]:
    from pricdr.evaluation.compare import standard_error
    from pricdr.evaluation.metrics import NAMES

    say(f"  {name}")
    say(f"    {'':<6}{'users':>8}" + "".join(f"{metric:>18}" for metric in NAMES))
    figures = {}
    for stratum, keep in split.strata().items():
        figures[stratum] = {metric: float(found[metric][keep].mean()) if keep.any() else 0.0 for metric in NAMES}
        figures[stratum]["users"] = int(keep.sum())
        cells = [
            f"{found[m][keep].mean():.4f} ± {standard_error(found[m][keep]):.4f}" if keep.any() else "–" for m in NAMES
        ]
        say(f"    {stratum:<6}{keep.sum():>8,}" + "".join(f"{cell:>18}" for cell in cells))
    return figures


def _say_comparisons(found: "dict[str, Metrics]", split: "Split") -> None:
    from pricdr.evaluation.compare import compare

    (first, base), *others = found.items()
    for name, values in others:
        for stratum, keep in split.strata().items():
            if keep.any():
                d = compare(values["NDCG@10"][keep], base["NDCG@10"][keep])
                interval = f"[{d.low:+.4f}, {d.high:+.4f}]"
                say(f"  {name} − {first}, {stratum}: NDCG@10 {d.mean:+.4f} {interval}, p = {d.p_value:.4f}")


def _write_per_user(path: Path, results: "dict[str, dict[str, Metrics]]", kinds: list[str], split: "Split") -> None:
    import io

    import polars as pl

    from pricdr.files import write_new

    users = pl.Series([split.train.users[at] for at in split.test.users], dtype=pl.String)
    cold = pl.Series(split.cold[split.test.users])
    frames = [
        pl.DataFrame({"user": users, "cold": cold, **found[kind]}).with_columns(
            pl.lit(name).alias("model"), pl.lit(kind).alias("ranking")
        )
        for name, found in results.items()
        for kind in kinds
    ]
    buffer = io.BytesIO()
    pl.concat(frames).write_parquet(buffer)
    write_new(path, buffer.getvalue())
