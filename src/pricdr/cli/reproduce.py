"""``pricdr reproduce``: tables and figures, from data to results."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import progress_bar, say
from pricdr.cli.options import DeviceName, DeviceOption


def reproduce(
    specs: Annotated[list[Path], typer.Argument(help="Spec files, such as specs/douban_book_music.toml.")],
    data: Annotated[Path, typer.Option(help="The folder of data sets.", envvar="PRICDR_DATA")],
    out: Annotated[Path, typer.Option(help="Where results are kept and added to.")] = Path("results"),
    prepared: Annotated[
        Path | None, typer.Option(help="A folder to keep prepared arrays in, or to take them from.")
    ] = None,
    device: DeviceOption = DeviceName.AUTO,
    jobs: Annotated[int, typer.Option(help="Runs at the same time.")] = 1,
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

    Results are JSON lines in --out, one per run; a run that is there already is not made again, so an interrupted
    command goes on where it stopped. Tables are written beside them as Markdown.

    A spec may come from anywhere, so it imports nothing by itself: a method or strategy in it is ours, or one of an
    installed package, or one that is named here.
    """
    from pricdr.experiments.runner import run
    from pricdr.experiments.spec import read_spec
    from pricdr.experiments.tables import markdown_report
    from pricdr.experiments.workers import RunContext
    from pricdr.files import replace_file

    context = RunContext(
        data, prepared, device.value, jobs, methods=tuple(method or ()), strategies=tuple(strategy or ())
    )
    context.import_outside()
    read = [read_spec(path, path.parent / "tuned") for path in specs]
    for spec in read:
        say(f"{spec.title}: {len(spec.arms)} arms, {len(spec.seeds)} seeds")
        with progress_bar(spec.name) as progress:
            results = run(spec, out / f"{spec.name}.jsonl", context, progress=progress)
        text = markdown_report(spec, results)
        replace_file(out / f"{spec.name}.md", text.encode())
        say(*text.split("\n"))
