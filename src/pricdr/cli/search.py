"""``pricdr search``: settings of methods, chosen on validation items."""

from pathlib import Path
from typing import Annotated

import typer

from pricdr.cli.console import heed_interrupts, progress_bar, say
from pricdr.cli.options import DeviceName, DeviceOption
from pricdr.cli.reproduce import DataOption, JobsOption, PreparedOption


def search(
    specs: Annotated[list[Path], typer.Argument(help="Spec files: a search runs on each of their data.")],
    data: DataOption,
    trials: Annotated[int, typer.Option(help="Settings to try of each method, its defaults among them.")] = 12,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method to search, or module:Class; may be repeated. Without it, all."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="Search with a release of this strategy at ε = 4, instead of jlt at ε = 8."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of results: every trial is kept in its search/.")] = Path(
        "results"
    ),
    tuned: Annotated[
        Path | None, typer.Option(help="Where the chosen settings go, as TOML; without it, tuned/ beside each spec.")
    ] = None,
    prepared: PreparedOption = None,
    device: DeviceOption = DeviceName.AUTO,
    jobs: JobsOption = 1,
) -> None:
    """Try settings of methods on the data of specs and keep the best ones, chosen on validation items alone.

    Every method has the same number of trials, drawn at random from the space it declares. Each trial is a line of
    --out/search, and none is run twice, so an interrupted search goes on where it stopped. Settings that were chosen
    before for other methods stay. Arms with "tuned = true" use them.
    """
    from pricdr.experiments.arms import ReleaseSpec
    from pricdr.experiments.outline import NOT_PRESENT
    from pricdr.experiments.search import RELEASE, search, update_tuned
    from pricdr.experiments.spec import read_search
    from pricdr.experiments.tasks import missing_files
    from pricdr.experiments.workers import RunContext
    from pricdr.models.catalogue import METHODS
    from pricdr.privacy.registry import BY_NAME

    given = tuple(methods or METHODS.own)
    strategies = () if strategy is None else (strategy,)
    context = RunContext(data, prepared, device.value, jobs, methods=given, strategies=strategies)
    context.import_outside()
    names = [METHODS.spelled(text) for text in given]
    release = RELEASE if strategy is None else ReleaseSpec(strategy=BY_NAME.spelled(strategy), epsilon=4.0)
    read = [(path, one) for path in specs for one in read_search(path)]
    heed_interrupts()
    for path, one in read:
        if missing := missing_files(one, data, prepared):
            say(f"{one.name or one.folder}: {NOT_PRESENT} ({'; '.join(missing)})")
            continue
        name = one.search_name if strategy is None else f"{one.search_name}_{release.strategy}"
        with progress_bar(f"search on {name}") as progress:
            best = search(
                one, names, trials, out / "search" / f"{name}.jsonl", context, release=release, progress=progress
            )
        chosen = (path.parent / "tuned" if tuned is None else tuned) / f"{name}.toml"
        update_tuned(chosen, best, f"best of {trials} trials each on the validation items of {name}")
        say(f"{name}: {len(best)} method{'s' if len(best) > 1 else ''}, chosen settings in {chosen}")
