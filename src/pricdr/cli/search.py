"""``pricdr search``: settings of methods, chosen on validation items."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say, warn
from pricdr.cli.options import DeviceName, DeviceOption
from pricdr.cli.reproduce import DataOption, JobsOption, PreparedOption
from pricdr.errors import ParameterError

if TYPE_CHECKING:
    from pricdr.experiments.arms import DataSpec


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
    before for other methods stay. Arms with "tuned = true" use them. Data that names other data in its own "tuned"
    borrows what was chosen there, and is not searched.
    """
    from pricdr.experiments.arms import ReleaseSpec
    from pricdr.experiments.outline import NOT_PRESENT
    from pricdr.experiments.search import RELEASE, search, update_tuned
    from pricdr.experiments.spec import read_search
    from pricdr.experiments.tasks import RunContext, missing_files
    from pricdr.models.catalogue import METHODS
    from pricdr.privacy.strategies import BY_NAME

    given = tuple(methods or METHODS.own)
    strategies = () if strategy is None else (strategy,)
    context = RunContext(data, prepared, device.value, jobs, methods=given, strategies=strategies)
    context.import_outside()
    names = [METHODS.spelled(text) for text in given]
    release = RELEASE if strategy is None else ReleaseSpec(strategy=BY_NAME.spelled(strategy), epsilon=4.0)
    read = [(path, one) for path in specs for one in read_search(path)]
    searched: dict[str, DataSpec] = {}
    for path, one in read:
        if one.tuned is not None:
            say(f"{one.name or one.folder}: not searched, since it uses the settings chosen for {one.tuned}")
            continue
        if missing := missing_files(one, data, prepared):
            say(f"{one.name or one.folder}: {NOT_PRESENT} ({'; '.join(missing)})")
            continue
        if searched.setdefault(one.search_name, one).content() != one.content():
            which = f"{one.name or path} and {searched[one.search_name].name or 'data before it'}"
            raise ParameterError(f"{which} are different data in one folder, {one.folder}: search one of them")
        name = one.search_name if strategy is None else f"{one.search_name}_{release.strategy}"
        with progress_bar(f"search on {name}") as progress:
            best = search(
                one, names, trials, out / "search" / f"{name}.jsonl", context, release=release, progress=progress
            )
        chosen = (path.parent / "tuned" if tuned is None else tuned) / f"{name}.toml"
        update_tuned(chosen, best, f"chosen on the validation items of {name}; the trials are in search/{name}.jsonl")
        say(f"{name}: {len(best)} method{'' if len(best) == 1 else 's'}, chosen settings in {chosen}")
        for method in names:
            if method not in best:
                warn(f"{name}: every trial of {method} failed, so nothing was chosen for it")
