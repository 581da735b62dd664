"""The demo as a program: two companies on a synthetic pair, each in a folder of its own, one release folder each way.

Every step is a function of one party's folder, so that tests can take the other folder away. What happens is shown on
a :class:`Screen` that the caller brings.
"""

import json
import shlex
import shutil
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import torch

from pricdr._publish import publish
from pricdr._transfer import transfer
from pricdr.arrays import Float64Array
from pricdr.data.ids import read_ids
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.reading.read import read_ratings
from pricdr.data.splits import Split, hold_out, save_split
from pricdr.data.synthetic import STRONGLY_SHARED, SyntheticConfig, synthetic_pair
from pricdr.data.tables import write_ratings
from pricdr.errors import PublishWarning
from pricdr.evaluation.comparison import Comparison, evaluate
from pricdr.evaluation.verdict import compare, standard_error
from pricdr.extras import TRAIN
from pricdr.files import new_folder
from pricdr.models.base import Method
from pricdr.models.catalogue import configure
from pricdr.models.fitted import FittedModel
from pricdr.models.folder import write_model
from pricdr.pages import (
    Block,
    Bullets,
    Column,
    Commands,
    Content,
    Details,
    Note,
    Page,
    Row,
    Section,
    Table,
    render,
    sections_of,
    table,
)
from pricdr.pages.charts import Dot, dot_plot
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.ledger import Ledger
from pricdr.progress import Progress, silent
from pricdr.release import Release, verify
from pricdr.release.inspection import Inspection
from pricdr.release.page import inspection_sections
from pricdr.release.readme import statement
from pricdr.signing import create_keys, read_private_key
from pricdr.strategies import Guided, Spectral, Strategy
from pricdr.training.run_log import RunLog

TRAIN.require()  # before anything is played: the target trains

Settings: TypeAlias = Mapping[str, int | float]

EPSILON: Final = 4.0
DELTA: Final = 1e-6
COLD: Final = 0.3
"""The share of users whose history is hidden: some 1,200 newcomers to measure by."""
SETTINGS: Final[Settings] = {
    "hidden": 128,
    "width": 32,
    "dropout": 0.3,
    "entry_dropout": 0.7,
    "batch": 128,
    "learning_rate": 0.003,
    "epochs": 45,
    "patience": 12,
}
"""Networks small enough for a laptop to train in seconds, the same for all; the defaults are made for real data."""
GUIDE: Final = "music.release"
RELEASE_FOLDER: Final = "movies.release"
PAGE: Final = "report.html"
EVALUATION: Final = "evaluation.json"
POPULARITY, ALONE, RELEASE, PLAINTEXT = "popularity", "target only", "with release", "plaintext source"
"""The models, by what they learn from."""
STRATA: Final = {"cold": "no history", "warm": "own history"}
_PAIRS: Final = ((RELEASE, POPULARITY), (RELEASE, ALONE), (PLAINTEXT, RELEASE))


@dataclass(frozen=True)
class Screen:
    """Where the demo shows what happens; by default nowhere."""

    say: Callable[..., None] = lambda *lines: None
    """Shows lines of text, one for each argument."""
    progress: Callable[[], AbstractContextManager[Progress]] = lambda: nullcontext(silent)
    """Opens a progress bar for one piece of work."""


SILENT: Final = Screen()


def play(
    out: Path, screen: Screen = SILENT, *, data: SyntheticConfig = STRONGLY_SHARED, settings: Settings = SETTINGS
) -> None:
    """Play both parties and write everything into the new folder ``out``.

    Args:
        out: the folder to create; it is there whole or not at all.
        screen: where to show what happens.
        data: the size and the tastes of the synthetic pair.
        settings: of the networks.
    """
    say = screen.say
    with new_folder(out) as folder:
        say("1. Two companies share users and nothing else (synthetic data, with strongly shared taste).")
        pair = synthetic_pair(data)
        source, target = set_up(folder, pair)
        for party, ratings in ((source, pair.source), (target, pair.target)):
            counts = f"{len(ratings.users):,} users, {len(ratings.items):,} items, {len(ratings):,} ratings"
            say(f"   {party.name}: {counts}")
        say("2. The target holds items out to measure by, and hides the whole history of some users: newcomers.")
        split = split_as_target(target)
        newcomers = int(split.cold.sum())
        say(f"   {len(split.test) - newcomers:,} warm users (own history) and {newcomers:,} cold users (none)")
        say(f"3. It publishes what is left at epsilon {EPSILON:g}, as a guide, and hands it over with its public key.")
        say(f"   {publish_as_target(target, split, screen)!r}")
        hand_over(target / GUIDE, target / "key.pub", to=source)
        say(f"4. The source verifies the guide and publishes its own ratings along it, at epsilon {EPSILON:g} too.")
        say(f"   {publish_as_source(source, screen)!r}")
        hand_over(source / RELEASE_FOLDER, source / "key.pub", to=target)
        received = verify_as_target(target)
        say(*_promise_lines(received), "   verified")
        say("5. The target trains with the release and without.")
        with one_thread():
            models = train_as_target(target, split, received, settings, screen)
            say("6. For comparison only, the same model on both companies' ratings. NOT PRIVATE: no real target could.")
            models |= train_in_plaintext(folder, split, settings, screen)
        measured = evaluate(models, split, ranking="sampled")
        write_evaluation(target / EVALUATION, models, split)
        say("7. What each recommends:", "", *_outcome_lines(measured))
        write_page(folder / PAGE, measured, received)
    received_at = shlex.quote(str(out / "target" / RELEASE_FOLDER))
    say("", f"The same as a page: {out / PAGE}")
    say(f"Everything is in {out}; read more with: pricdr inspect {received_at}")


def set_up(folder: Path, pair: DomainPair) -> tuple[Path, Path]:
    """Create a folder for each party, source first, with its own ratings and the user list they agreed on."""
    source, target = folder / "source", folder / "target"
    for party, ratings in ((source, pair.source), (target, pair.target)):
        party.mkdir()
        write_ratings(party / "ratings.parquet", ratings)
        (party / "users.txt").write_text("".join(f"{user}\n" for user in pair.users), encoding="utf-8")
    return source, target


def split_as_target(folder: Path) -> Split:
    """Split the target's own ratings, so that it has something to measure by, and save the split in its folder."""
    split = hold_out(read_ratings(folder / "ratings.parquet").positives().rated(), seed=0, cold=COLD)
    (folder / "split").mkdir()
    save_split(split, folder / "split")
    return split


def publish_as_target(folder: Path, split: Split, screen: Screen = SILENT) -> Release:
    """Publish what the target trains on, as a guide for the source.

    Not all its ratings: what is held out would come back to it through the source's release, and the measurement would
    be flattered.
    """
    return _publish(folder, split.train, Spectral(), GUIDE, screen)


def publish_as_source(folder: Path, screen: Screen = SILENT) -> Release:
    """Publish the source's ratings along the target's guide. All it sees is the source's folder, the guide in it."""
    guide = verify(folder / GUIDE, public_key=folder / "target.pub")
    return _publish(folder, read_ratings(folder / "ratings.parquet"), Guided(guide=guide), RELEASE_FOLDER, screen)


def _publish(folder: Path, ratings: Ratings, strategy: Strategy, name: str, screen: Screen) -> Release:
    """Publish with new keys and a new ledger, and save the release in the party's folder under ``name``."""
    private, _ = create_keys(folder / "key")
    budget = Guarantee(epsilon=2 * EPSILON, delta=DELTA)
    ledger = Ledger.create(folder / "ledger.jsonl", budget, read_private_key(private))
    with screen.progress() as progress, warnings.catch_warnings():
        # That the target publishes a part of a split is for the demo's sake, and its story says so.
        warnings.simplefilter("ignore", PublishWarning)
        release = publish(
            ratings,
            Guarantee(epsilon=EPSILON, delta=DELTA),
            strategy=strategy,
            users=read_ids(folder / "users.txt"),
            ledger=ledger,
            progress=progress,
        )
    release.save(folder / name, signing_key=private)
    return release


def hand_over(release: Path, public_key: Path, *, to: Path) -> None:
    """Copy all that ever passes between the parties: a release folder, and the key to check it with."""
    shutil.copytree(release, to / release.name)
    shutil.copy(public_key, to / f"{release.parent.name}.pub")


def verify_as_target(folder: Path) -> Release:
    """Return the source's release, once everything that can be checked has been."""
    return verify(folder / RELEASE_FOLDER, public_key=folder / "source.pub")


def _promise_lines(received: Release) -> Iterator[str]:
    """Yield what the certificate promises, in lines for the screen."""
    for section in statement(received.certificate)[:2]:
        for line in section.lines:
            yield from textwrap.wrap(line, 110, initial_indent="   ", subsequent_indent="     ")


def train_as_target(
    folder: Path, split: Split, received: Release, settings: Settings, screen: Screen = SILENT
) -> dict[str, FittedModel]:
    """Train three models in the target's folder: one sees the release, none the source's ratings."""
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (folder / "settings.toml").write_text(text, encoding="utf-8")
    models = {}
    for name, kind, release in (
        (POPULARITY, "popularity", None),
        (ALONE, "dmf", None),
        (RELEASE, "hetero", received),
    ):
        home = _model_folder(folder, name)
        with _run_log(name, home, screen) as log:
            method = configured(kind, settings)
            models[name] = transfer(split.train, release, method=method, validation=split.validation, log=log)
        write_model(home, models[name])
    return models


def train_in_plaintext(
    folder: Path, split: Split, settings: Settings, screen: Screen = SILENT
) -> dict[str, FittedModel]:
    """Train on both parties' ratings. NOT PRIVATE: it shows what there would be to gain without privacy."""
    source = read_ratings(folder / "source" / "ratings.parquet").positives()
    home = _model_folder(folder / "comparison", PLAINTEXT)
    with _run_log(PLAINTEXT, home, screen) as log:
        method = configured("hetero", settings)
        model = transfer(split.train, method=method, plaintext_source=source, validation=split.validation, log=log)
    write_model(home, model)
    return {PLAINTEXT: model}


def configured(name: str, settings: Settings) -> Method:
    """Return a method as the demo trains it: on the processor, with these settings where it has any."""
    return configure(name, {} if name == "popularity" else {**settings, "device": "cpu"})


def write_evaluation(file: Path, models: Mapping[str, FittedModel], split: Split) -> None:
    """Write what the model gains by the release, as ``pricdr evaluate --json`` does: for its card and its page."""
    compared = {_model_folder(Path(), name).name: models[name] for name in (ALONE, RELEASE)}
    figures = evaluate(compared, split).to_dict()
    file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def serving_inputs(out: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the model, the one without the release, and the evaluation in a demo's folder."""
    target = out / "target"
    return _model_folder(target, RELEASE), _model_folder(target, ALONE), target / EVALUATION


def _outcome_lines(measured: Comparison) -> Iterator[str]:
    """Yield the page's tables and sentences for a screen of ninety columns."""
    lead, figures, _ = _words(measured, {"tables": outcome_tables(measured), "commands": []})
    for block in (*figures.blocks, *lead.blocks[1:]):
        if isinstance(block, Table):
            rows = [[column.name for column in block.columns]] + [
                [str(cell) for cell in row.cells] for row in block.rows
            ]
            yield from ("", f"{block.caption}:", "")
            yield from ("{:<34}{:<26}{:<26}".format(*row).rstrip() for row in rows)
        else:
            yield from ("", *textwrap.wrap(block.text if isinstance(block, Note) else str(block), 90))


def _words(measured: Comparison, blocks: Mapping[str, Content]) -> list[Section]:
    """Return the sections that say in words what was measured: what comes first, the figures, how to repeat it."""
    return sections_of("demo.txt.j2", blocks, epsilon=EPSILON, gains=gains(measured))


def gains(measured: Comparison) -> dict[str, bool]:
    """Return for cold and for warm users whether the release helps: over the target alone and over popularity.

    Both: a release that beats the target's own model, but not a list of what is popular, is worth nothing.
    """
    return {
        stratum: all(
            compare(_values(measured, RELEASE, stratum), _values(measured, rival, stratum)).low > 0
            for rival in (POPULARITY, ALONE)
        )
        for stratum in STRATA
    }


def write_page(file: Path, measured: Comparison, received: Release) -> None:
    """Write the page that the demo ends with: the outcome, the release's promise, and how to repeat it all."""
    file.write_text(outcome_page(measured, Inspection.of(received, key_given=True)), encoding="utf-8")


def outcome_page(measured: Comparison, inspection: Inspection) -> str:
    """Return the outcome as a page: figures and a plot, the release drawn, its promise, and how to repeat it all."""
    ndcg, differences, hits = outcome_tables(measured)
    plot = dot_plot(
        "ndcg",
        "NDCG@10 by kind of user",
        [
            Dot(model, _group(measured, stratum), mean, mean - half, mean + half)
            for stratum in STRATA
            for model in measured.models
            for mean, half in [_mean(_values(measured, model, stratum))]
        ],
        label="NDCG@10",
        strong=RELEASE,
    )
    plots: list[Block | str] = [] if plot is None else [plot]
    folded = Details("Differences, and the same by HR@10", [differences, hits])
    models = [_model_folder(Path("target"), name) for name in (POPULARITY, ALONE, RELEASE)]
    evaluated = " ".join(path.as_posix() for path in (*models, _model_folder(Path("comparison"), PLAINTEXT)))
    commands: Content = [Commands([f"pricdr {line}".replace("MODELS", evaluated) for line in _COMMANDS])]
    lead, figures, repeat = _words(measured, {"tables": [*plots, ndcg, folded], "commands": commands})
    promise = [
        Section(part.title, [Bullets(part.lines)])
        for part in statement(inspection.certificate)
        if part.title in ("What is promised", "What it means for a whole user", "What is not protected")
    ]
    sections = [figures, *inspection_sections(inspection), *promise, repeat]
    return render(Page(lead.heading, sections, lead.blocks))


_COMMANDS: Final = (
    "verify target/movies.release --public-key target/source.pub",
    "inspect target/movies.release",
    "evaluate MODELS target/split",
    "train target/split --release target/movies.release --config target/settings.toml --out again",
    "demo --out another",
)
"""To be typed in the demo's folder."""


def outcome_tables(measured: Comparison) -> list[Table]:
    """Return NDCG@10 of every model, the differences that matter, and HR@10; three columns each, which fit a phone."""
    return [_figures(measured, "NDCG@10"), _differences(measured), _figures(measured, "HR@10")]


def _figures(measured: Comparison, metric: str) -> Table:
    columns = [Column("method", numeric=False)]
    columns += [Column(f"{stratum} users", _group(measured, stratum)) for stratum in STRATA]
    rows = []
    for model in measured.models:
        found = [_mean(_values(measured, model, stratum, metric)) for stratum in STRATA]
        rows.append(Row([model, *(f"{mean:.3f} ± {half:.3f}" for mean, half in found)], strong=model == RELEASE))
    caption = f"{metric}, mean ± half of its 95 % interval"
    return Table(f"{metric.partition('@')[0].lower()}-table", caption, columns, rows)


def _differences(measured: Comparison) -> Table:
    rows = []
    for left, right in _PAIRS:
        found = [compare(_values(measured, left, stratum), _values(measured, right, stratum)) for stratum in STRATA]
        rows.append([f"{left} − {right}", *(f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" for d in found)])
    header = ["difference", *(f"{stratum} users" for stratum in STRATA)]
    return table("differences-table", "Differences in NDCG@10, user by user, with 95 % intervals", header, rows)


def _group(measured: Comparison, stratum: str) -> str:
    return f"{int(measured.strata[stratum].sum()):,} {stratum} users ({STRATA[stratum]})"


def _values(measured: Comparison, model: str, stratum: str, metric: str = "NDCG@10") -> Float64Array:
    return measured.values[model]["sampled"][metric][measured.strata[stratum]]


def _mean(values: Float64Array) -> tuple[float, float]:
    """Return a mean and half of its 95 % interval."""
    return float(values.mean()), 1.96 * standard_error(values)


def _model_folder(folder: Path, name: str) -> Path:
    return folder / name.replace(" ", "-")


@contextmanager
def _run_log(name: str, folder: Path, screen: Screen) -> Iterator[RunLog]:
    """Create a model's folder with its log; show a bar while it trains, and a line when it is done."""
    folder.mkdir(parents=True)
    log = folder / "log.jsonl"
    log.touch()
    started = time.perf_counter()
    with screen.progress() as bar:

        def show_under_its_name(what: str, done: float, total: int, note: str = "") -> None:
            bar(name, done, total, note)

        yield RunLog(file=log, progress=show_under_its_name)
    screen.say(f"   {name:<18}{time.perf_counter() - started:5.1f} s")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread.

    Networks this small gain nothing from a second one, and lose much where other work keeps the cores busy.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
