"""``pricdr evaluate``: how good are these models, on a split nobody trained on?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from typer import Argument, Option

import pricdr
from pricdr.cli import ratings as reading
from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import (
    JsonOption,
    NotPrivateOption,
    PublicKeyOption,
    read_releases,
    refuse_given,
    whole_numbers,
    write_json,
)
from pricdr.errors import MAX_SEED, InputError, ParameterError
from pricdr.progress import Progress

if TYPE_CHECKING:
    from pricdr.evaluation.comparison import Ranking, RepeatedComparison
    from pricdr.pages import Block, Figure

_ONE_RUN: Final = (
    "one run can mislead, another split or seed may turn a verdict round: --repeat 5 trains over five more"
)
RankingName: TypeAlias = Literal["both", "sampled", "full"]
_MAX_NAME_LENGTH: Final = 28  # beside a plot; a name's end tells two paths apart better than its beginning


def evaluate(
    paths: Annotated[list[Path], Argument(metavar="MODEL... SPLIT", help="Model folders, and the split last.")],
    ranking: Annotated[RankingName, Option(help="99 stored negatives, all items, or both.")] = "both",
    cutoffs: Annotated[str, Option("-k", metavar="K,...", help="How many places count.")] = "5,10",
    json_output: JsonOption = None,
    report: Annotated[Path | None, Option("--report", "--html", help="Also write all of it as one web page.")] = None,
    per_user: Annotated[Path | None, Option(help="Also write every user's values to this .csv or .parquet.")] = None,
    repeat: Annotated[int | None, Option(help="Train anew on so many splits and seeds, and compare.", min=2)] = None,
    target: Annotated[Path | None, Option(help="--repeat: the split's ratings, needed if it has cold users.")] = None,
    threshold: Annotated[float | None, Option(help="Of --target: count only rows rated at least this.")] = None,
    columns: reading.ColumnsOption = None,
    config: reading.ConfigOption = None,
    release: Annotated[list[Path] | None, Option(help="--repeat: a release that models were trained with.")] = None,
    allow_not_private: NotPrivateOption = False,
    public_key: PublicKeyOption = None,
) -> None:
    """Rank every user's held-out items and report HR, NDCG, MRR, Recall and MAP at each k, by kind of user.

    Warm users have ratings to train on, few are those of them with 1 to 3, cold users have none. Where one item is held
    out per user, Recall is HR and MAP is MRR, and the tables leave them out.

    With several models, each is compared with the first, user by user: mean difference, 95 % interval, p-value, and for
    warm, few and cold users a sentence: the release (or the model) helps, hurts, or it cannot be told.

    One run can mislead. --repeat N trains the models anew on N other splits of the same ratings, with their settings
    and other seeds, and gives the verdict over all N.

    --public-key refuses a model unless its folder records that this key signed the release it was trained on.
    """
    from pricdr._repeat import whole_of
    from pricdr.data.splits import load_split
    from pricdr.data.tables import write_table
    from pricdr.evaluation.comparison import evaluate as measure
    from pricdr.evaluation.metrics import require_cutoffs
    from pricdr.files import require_absent, write_new

    if len(paths) < 2:
        raise ParameterError("give at least one model folder, and the split folder last")
    *folders, where = paths
    for at, folder in enumerate(folders):  # a model compared with itself would pass for two models that agree
        if folder.resolve() in {other.resolve() for other in folders[:at]}:
            raise ParameterError(f"{folder} is named before: name each model once")
    for path in filter(None, (report, per_user)):  # before any work: a ranking may take long
        require_absent(path)
    places = require_cutoffs(whole_numbers("-k", cutoffs, "5,10,20"))
    how = replace(config or reading.ReadingSettings(), columns=columns)
    split = load_split(where)
    if repeat is None:
        others = {"--target": target, "--threshold": threshold, "--release": release or None, **how.given()}
        others["--allow-not-private"] = allow_not_private
        refuse_given(others, "this is for --repeat, without it models are measured as they are")
    else:
        whole = whole_of(split, None if target is None else how.read(target, threshold).ratings)
        again = _repetition(folders, split, repeat, release or (), public_key)
        again |= {"ranking": ranking, "cutoffs": places, "allow_not_private": allow_not_private}
    with progress_bar() as progress:
        models = _loaded(folders, split, public_key, progress)
        comparison = measure(models, split, ranking=ranking, cutoffs=places, progress=progress)
    say(*comparison.lines())
    figures, repeated = comparison.to_dict(), None
    if repeat is not None:
        with progress_bar() as progress:
            repeated = pricdr.repeat(target=whole, **again, progress=progress)
        say(*repeated.lines())
        figures["repeat"] = repeated.to_dict()
    elif comparison.verdicts:
        warn(_ONE_RUN)
    write_json(json_output, figures)
    if report is not None:
        write_new(report, evaluation_page(comparison, str(where), repeated).encode())
    if per_user is not None:
        write_table(per_user, comparison.columns_per_user())


def _loaded(
    folders: Sequence[Path], split: "pricdr.Split", public_key: Path | None, progress: Progress
) -> Iterator[tuple[str, "pricdr.FittedModel"]]:
    """Yield each model of the split by its folder, and hold one at a time."""
    for name in map(str, folders):
        progress(f"reading {name}", 0, 0)
        model = pricdr.FittedModel.load(name, public_key=public_key)
        if model.origin and model.origin.trained_on not in (None, split.train.fingerprint()):
            raise InputError(f"{name} was not trained on this split: what is held out here may be what it learnt from")
        yield name, model
        del model


def _repetition(
    folders: Sequence[Path], split: "pricdr.Split", times: int, given: Sequence[Path], public_key: Path | None
) -> dict[str, Any]:
    """Return what to train anew on other splits, and how those are drawn, once nothing is missing for it."""
    from pricdr.data.splits import drawn_at_random
    from pricdr.models.catalogue import method_of

    if len(folders) < 2:
        raise ParameterError("--repeat compares models: give two or more")
    rule = drawn_at_random(split.protocol)
    if rule is None:
        raise InputError(f"--repeat draws other test items at random; this split tests by {split.protocol}")
    by_hash = {one.sha256(): one for one in (read_releases(given, public_key) if given else ())}
    methods, releases = {}, {}
    for folder in folders:
        model = pricdr.FittedModel.load(folder, public_key=public_key)
        assert model.origin is not None  # a folder always says
        if model.origin.plaintext_source:
            raise InputError(f"{folder} was trained on the source's ratings: --repeat is for releases")
        methods[str(folder)] = method_of(model)
        hashes = [release.sha256 for release in model.origin.releases]
        if not by_hash.keys() >= set(hashes):
            raise ParameterError(f"{folder} was trained with a release that is not given: name it by --release")
        if hashes:
            releases[str(folder)] = [by_hash[sha256] for sha256 in hashes]
    first = 1 + (split.seed or 0)  # not the split's own, whose verdict is known already
    return {
        "methods": methods,
        "releases": releases,
        "times": times,
        "cold": float(split.cold.sum()) / len(split.test.evaluated),
        "test_items": rule[0],
        "ratio": rule[1],
        "seed": first if first + times <= MAX_SEED else 0,
    }


def evaluation_page(comparison: "pricdr.Comparison", split: str, repeated: "RepeatedComparison | None" = None) -> str:
    """Return one page: what was measured on which split, verdicts, plots of the differences, and every table."""
    from pricdr.evaluation.comparison import ONE_ITEM
    from pricdr.pages import Page, render, sections_of

    blocks: dict[str, list[Block | str]] = {"splits": [*([] if repeated is None else repeated.tables())]}
    for ranking in comparison.rankings:
        plot = _plot(comparison, ranking)
        blocks[ranking] = [*([] if plot is None else [plot]), *comparison.tables(ranking)]
    words = {"split": split, "repeated": repeated, "one_run": _ONE_RUN, "one_item": ONE_ITEM}
    lead, *sections = sections_of("evaluation.txt.j2", blocks, comparison=comparison, **words)
    return render(Page(lead.heading, sections, lead.blocks))


def _plot(comparison: "pricdr.Comparison", ranking: "Ranking") -> "Figure | None":
    """Draw the differences to the first model, one group per kind of user; None where there is nothing to draw."""
    from pricdr.pages.charts import Dot, dot_plot

    def short(name: str) -> str:
        return name if len(name) <= _MAX_NAME_LENGTH else f"…{name[1 - _MAX_NAME_LENGTH :]}"

    dots = [
        Dot(short(one.model), one.stratum, one.difference.mean, one.difference.low, one.difference.high)
        for stratum in comparison.strata
        for one in comparison.differences
        if (one.ranking, one.stratum) == (ranking, stratum)
    ]
    label = f"{comparison.compared_by}, difference to {short(comparison.models[0])}"
    caption = f"Differences in {comparison.compared_by}, {ranking} ranking"
    return dot_plot(f"{ranking}-plot", caption, dots, label=label, digits=4, note="Bars: 95 % intervals.")
