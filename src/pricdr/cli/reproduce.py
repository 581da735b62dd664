"""``pricdr reproduce``: tables and figures, from data to results."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import DeviceName, DeviceOption
from pricdr.errors import ParameterError

DataOption = Annotated[Path, typer.Option(help="The folder of data sets.", envvar="PRICDR_DATA")]
PreparedOption = Annotated[Path | None, typer.Option(help="A folder to keep prepared arrays in, or to take them from.")]
JobsOption = Annotated[int, typer.Option(help="Runs at the same time.")]


def reproduce(
    data: DataOption,
    specs: Annotated[list[Path] | None, typer.Argument(help="Spec files, such as specs/quick.toml.")] = None,
    out: Annotated[Path, typer.Option(help="Where results are kept and added to.")] = Path("results"),
    prepared: PreparedOption = None,
    device: DeviceOption = DeviceName.AUTO,
    jobs: JobsOption = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM", help="Run this arm, or the arms of this curve, and no others; may be repeated."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N", help="Run these seeds instead of those of the spec.")
    ] = None,
    table3: Annotated[
        bool,
        typer.Option("--table3", help="Count the paper's Table 3 from the raw files in --data, into table3.json."),
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="module:Class", help="Import a method that specs may name; may be repeated."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="module:Class", help="Import a strategy that specs may name; may be repeated."),
    ] = None,
) -> None:
    """Run what specs ask for, every arm with every seed, and print the tables.

    Results are JSON lines in --out, one per run; a run that is there already, with the same settings and the same
    defaults, is not made again, so an interrupted command goes on where it stopped. Tables are written beside them as
    Markdown; "pricdr report" makes one page of everything.

    A run that fails is named at the end, and the others go on; the command then exits with 1. A table whose data is
    not there keeps its rows and says so.

    A spec may come from anywhere, so it imports nothing by itself: a method or strategy in it is ours, or one of an
    installed package, or one that is named here.
    """
    from pricdr.experiments.outline import NOT_PRESENT
    from pricdr.experiments.runner import adopt, known_results, missing_runs, run
    from pricdr.experiments.spec import read_specs, require_arms, require_names
    from pricdr.experiments.tables import markdown_report
    from pricdr.experiments.tasks import RunContext, is_present, missing_files
    from pricdr.files import replace_file

    if not specs and not table3:
        raise ParameterError("nothing to reproduce: name a spec, or say --table3")
    if table3:
        _count_table3(data, out)
    if not specs:
        return
    context = RunContext(
        data, prepared, device.value, jobs, methods=tuple(method or ()), strategies=tuple(strategy or ())
    )
    context.import_outside()
    arms, numbers = tuple(only or ()), _numbers(seeds)
    tables = [spec for path in specs for spec in read_specs(path, path.parent / "tuned")]
    require_names(tables)
    require_arms(tables, arms)
    there = [spec for spec in tables if is_present(spec.data, data, prepared)]
    for spec in there:
        adopt(spec.only(arms, numbers), out)
    waiting = [len(missing_runs(spec.only(arms, numbers), out / f"{spec.name}.jsonl")) for spec in there]
    runs = "1 run" if sum(waiting) == 1 else f"{sum(waiting):,} runs"
    say(f"{len(tables)} table{'s' if len(tables) > 1 else ''}, {runs} to do")
    failures = []
    with progress_bar("runs") as progress:
        for spec in tables:
            before = sum(waiting[: there.index(spec)]) if spec in there else 0

            def overall(
                what: str, done: float, total: int, note: str = "", before: int = before, name: str = spec.name
            ) -> None:
                progress(what, before + done, sum(waiting), f"{name}: {note}")

            failures += run(spec, out, context, only=arms, seeds=numbers, progress=overall)
    for spec in tables:
        text = markdown_report(spec, known_results(spec, out / f"{spec.name}.jsonl"))
        replace_file(out / f"{spec.name}.md", text.encode())
        if spec in there:
            say(*text.split("\n"))
        else:
            say(f"{spec.title}: {NOT_PRESENT} ({'; '.join(missing_files(spec.data, data, prepared))})")
    for failure in failures:
        warn(f"failed: {failure.spec}, {failure.arm}, seed {failure.seed}: {failure.reason}")
    if failures:
        raise typer.Exit(1)


def _count_table3(data: Path, out: Path) -> None:
    from pricdr.experiments import table3

    with progress_bar("Table 3") as progress:
        counted = table3.measure(data, progress=progress)
    table3.write(out / "table3.json", counted)
    say(*table3.markdown(counted).split("\n"))


def _numbers(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() and len(part) < 10 for part in parts):
        raise ParameterError(f"--seeds takes whole numbers from 0 on, such as 1,2,3, got {text!r:.80}")
    return tuple(dict.fromkeys(int(part) for part in parts))
