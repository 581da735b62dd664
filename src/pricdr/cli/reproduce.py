"""``pricdr reproduce``: tables and figures, from data to results; with ``--search``, settings by validation."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import DeviceName, refuse_given, whole_numbers
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pricdr.experiments.tasks import RunContext


def reproduce(
    data: Annotated[Path, Option(help="The folder of data sets.", envvar="PRICDR_DATA")],
    specs: Annotated[list[Path] | None, Argument(help="Spec files, such as specs/quick.toml.")] = None,
    out: Annotated[Path, Option(help="Where results are kept and added to.")] = Path("results"),
    prepared: Annotated[Path | None, Option(help="A folder to keep prepared arrays in, or to take them from.")] = None,
    device: Annotated[DeviceName, Option(help="auto uses a GPU if there is one.")] = "auto",
    jobs: Annotated[int, Option(help="Runs at the same time.")] = 1,
    only: Annotated[list[str] | None, Option(metavar="ARM", help="Run only this arm or curve; repeatable.")] = None,
    seeds: Annotated[str | None, Option(metavar="N,N", help="Run these seeds instead of those of the spec.")] = None,
    table3: Annotated[bool, Option("--table3", help="Count the paper's Table 3 from --data into table3.json.")] = False,
    search: Annotated[bool, Option("--search", help="Instead: search settings on their data, by validation.")] = False,
    trials: Annotated[int | None, Option(help="--search: settings per method, defaults first.  [default: 12]")] = None,
    method: Annotated[
        list[str] | None,
        Option(metavar="NAME|module:Class", help="A method for specs to name, or for --search to search; repeatable."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        Option(metavar="NAME|module:Class", help="A strategy for specs to name, or for --search; repeatable."),
    ] = None,
) -> None:
    """Run what specs ask for, every arm with every seed, and print the tables.

    Results are JSON lines in --out, one per run; a run that is there already, with the same settings and defaults, is
    not made again. Tables are written beside them as Markdown; "pricdr report" makes one page of everything.

    A run that fails is named at the end, and the others go on; the exit code is then 1. A table whose data is not there
    keeps its rows and says so; where that holds for all, it is 2.

    --search tries settings of methods (all of ours unless named), the same number of each, drawn at random from the
    space it declares, with a release of jlt at ε = 8, or of --strategy at ε = 4. The best on validation items go
    to tuned/ beside each spec, for arms with "tuned = true"; those of other methods stay. Each trial is a line of
    --out/search, and none is made twice. Data that names other data in its "tuned" borrows what was chosen there.

    A spec imports nothing by itself: its methods and strategies are ours, an installed package's, or named here.
    """
    from pricdr.experiments.tasks import RunContext
    from pricdr.models.catalogue import METHODS

    if not specs and (search or not table3):
        raise ParameterError("nothing to reproduce: name a spec, or say --table3")
    if search:
        refuse_given({"--only": only, "--seeds": seeds, "--table3": table3}, "--search runs no arms")
    else:
        refuse_given({"--trials": trials}, "this is for --search")
    counted = table3 and _count_table3(data, out)
    if table3 and not specs:
        _require_some([counted], data)
    methods = tuple(method or (METHODS.own if search else ()))
    context = RunContext(data, prepared, device, jobs, methods=methods, strategies=tuple(strategy or ()))
    context.import_outside()
    if search:
        _search(specs or (), context, out, 12 if trials is None else trials)
    elif specs:
        numbers = () if seeds is None else tuple(dict.fromkeys(whole_numbers("--seeds", seeds, "1,2,3")))
        _run(specs, context, out, tuple(only or ()), numbers)


def _run(paths: Sequence[Path], context: "RunContext", out: Path, only: Sequence[str], seeds: Sequence[int]) -> None:
    from pricdr.experiments.measured import markdown_report
    from pricdr.experiments.results import NOT_PRESENT, read
    from pricdr.experiments.runner import missing_runs, run
    from pricdr.experiments.spec import Spec, read_specs, require_runnable
    from pricdr.experiments.tasks import missing_files
    from pricdr.files import replace_file

    tables = [spec for path in paths for spec in read_specs(path, path.parent / "tuned")]
    require_runnable(tables, only)
    absent = {spec.name: missing_files(spec.data, context.data, context.prepared) for spec in tables}
    waiting = {spec.name: 0 if absent[spec.name] else len(missing_runs(spec, out, only, seeds)) for spec in tables}
    runs = sum(waiting.values())
    say(f"{len(tables)} table{'s' if len(tables) > 1 else ''}, {'1 run' if runs == 1 else f'{runs:,} runs'} to do")
    failures, before = [], 0
    with progress_bar("runs") as progress:
        for spec in tables:

            def of_all(what: str, done: float, total: int, note: str = "", spec: Spec = spec, at: int = before) -> None:
                progress(what, at + done, runs, f"{spec.name}: {note}")

            failures += run(spec, out, context, only=only, seeds=seeds, progress=of_all)
            before += waiting[spec.name]
    for spec in tables:
        text = markdown_report(spec, read(out / f"{spec.name}.jsonl"))
        replace_file(out / f"{spec.name}.md", text.encode())
        if absent[spec.name]:
            say(f"{spec.title}: {NOT_PRESENT} ({'; '.join(absent[spec.name])})")
        else:
            say(*text.split("\n"))
    for failure in failures:
        warn(f"failed: {failure}")
    if failures:
        raise typer.Exit(1)
    _require_some((not files for files in absent.values()), context.data)


def _search(paths: Sequence[Path], context: "RunContext", out: Path, trials: int) -> None:
    from pricdr.experiments.arms import ReleaseSpec
    from pricdr.experiments.results import NOT_PRESENT
    from pricdr.experiments.search import RELEASE, search, searchable, update_tuned
    from pricdr.experiments.spec import read_search
    from pricdr.models.catalogue import METHODS
    from pricdr.privacy.strategies import BY_NAME

    names, release, suffix = [METHODS.resolve_stored(text) for text in context.methods], RELEASE, ""
    if context.strategies:
        if len(context.strategies) > 1:
            raise ParameterError("--search searches with a release of one --strategy")
        release = ReleaseSpec(strategy=BY_NAME.resolve_stored(context.strategies[0]), epsilon=4.0)
        suffix = f"_{release.strategy}"
    read = [(path.parent / "tuned", data) for path in paths for data in read_search(path)]
    reasons = searchable([data for _, data in read], context)
    for (tuned, data), reason in zip(read, reasons, strict=True):
        if reason:
            say(f"{data.name or data.folder}: {reason}")
            continue
        name = f"{data.search_name}{suffix}"
        with progress_bar(f"search on {name}") as progress:
            log = out / "search" / f"{name}.jsonl"
            best = search(data, names, trials, log, context, release=release, progress=progress)
        chosen = tuned / f"{name}.toml"
        update_tuned(chosen, best, f"chosen on the validation items of {name}; the trials are in search/{name}.jsonl")
        say(f"{name}: {len(best)} method{'' if len(best) == 1 else 's'}, chosen settings in {chosen}")
        for failed in [method for method in names if method not in best]:
            warn(f"{name}: every trial of {failed} failed, so nothing was chosen for it")
    _require_some((not reason.startswith(NOT_PRESENT) for reason in reasons), context.data)


def _count_table3(data: Path, out: Path) -> bool:
    """Count, write and show Table 3; return whether there was anything to count."""
    from pricdr.experiments.paper import measure_table3, table3_markdown, write_table3

    with progress_bar("Table 3") as progress:
        counted = measure_table3(data, progress=progress)
    write_table3(out / "table3.json", counted)
    say(*table3_markdown(counted).split("\n"))
    return any(row.measured is not None for row in counted.rows)


def _require_some(present: Iterable[bool], data: Path) -> None:
    if not any(present):
        rule = "docs/data.md says where each data set is from"
        raise InputError(f"nothing could run: {data} has none of the data; {rule}")
