"""``pricdr demo``: both parties on a built-in synthetic pair, each in a folder of its own."""

import shlex
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pricdr.cli.console import progress_bar, say

if TYPE_CHECKING:
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import Split
    from pricdr.data.synthetic import SyntheticConfig
    from pricdr.demo.outcome import Outcome
    from pricdr.models.base import Method
    from pricdr.models.fitted import FittedModel
    from pricdr.privacy.strategies import Strategy
    from pricdr.progress import Progress
    from pricdr.release import Release
    from pricdr.training.run_log import RunLog

EPSILON = 4.0
DELTA = 1e-6
COLD = 0.3
"""The share of users whose history is hidden: some 1,200 newcomers to measure by."""
SETTINGS: Mapping[str, int | float] = {
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
GUIDE = "music.release"
RELEASE_FOLDER = "movies.release"
PROMISE = ("What is promised", "What it means for a whole user", "What is not protected")


def demo(
    out: Annotated[Path, typer.Option(help="The folder to create, one folder inside for each party.")] = Path(
        "pricdr-demo"
    ),
) -> None:
    """Show the whole path on synthetic data: two companies, one release folder each way.

    The target publishes its ratings first, as a guide to what it can use. The source publishes its own along that
    guide. Each has a budget and signs its release; each verifies what it receives. The target trains with the source's
    release and without, and measures what it gained. Ends with a table and a page, report.html.
    """
    play(out)


def play(out: Path, data: "SyntheticConfig | None" = None, settings: Mapping[str, int | float] = SETTINGS) -> None:
    """The demo at any size."""
    from pricdr.data.synthetic import STRONGLY_SHARED
    from pricdr.files import new_folder

    with new_folder(out) as folder:
        say("1. Two companies share users and nothing else (synthetic data, with strongly shared taste).")
        source, target = set_up(folder, data or STRONGLY_SHARED)
        say("2. The target holds items out to measure by, and hides the whole history of some users: newcomers.")
        split = split_as_target(target)
        say(f"3. It publishes what is left at epsilon {EPSILON:g}, as a guide, and hands it over with its public key.")
        publish_as_target(target, split)
        hand_over(target / GUIDE, target / "key.pub", to=source)
        say(f"4. The source verifies the guide and publishes its own ratings along it, at epsilon {EPSILON:g} too.")
        publish_as_source(source)
        hand_over(source / RELEASE_FOLDER, source / "key.pub", to=target)
        received = verify_as_target(target)
        say("5. The target trains with the release and without.")
        with _one_thread():
            models = train_as_target(target, split, received, settings)
            say("6. For comparison only, the same model on both companies' ratings. NOT PRIVATE: no real target could.")
            models |= train_in_plaintext(folder, split, settings)
        outcome = measure(models, split)
        say("7. What each recommends:")
        show(outcome, received, folder)
    received_at = shlex.quote(str(out / "target" / "movies.release"))
    say("", f"The same as a page: {out / 'report.html'}")
    say(f"Everything is in {out}; read more with: pricdr inspect {received_at}")


def set_up(folder: Path, data: "SyntheticConfig") -> tuple[Path, Path]:
    """A folder for each party, with its own ratings and the user list they agreed on."""
    from pricdr.data.reading.readers import write_ratings
    from pricdr.data.synthetic import synthetic_pair

    pair = synthetic_pair(data)
    parties = (folder / "source", folder / "target")
    for party, ratings in zip(parties, (pair.source, pair.target), strict=True):
        party.mkdir()
        write_ratings(party / "ratings.parquet", ratings)
        (party / "users.txt").write_text("".join(f"{user}\n" for user in pair.users), encoding="utf-8")
        say(f"   {party.name}: {len(ratings.users):,} users, {len(ratings.items):,} items, {len(ratings):,} ratings")
    return parties


def publish_as_target(folder: Path, split: "Split") -> None:
    """The target's own stage one: a release of what it trains on, so that nothing held out comes back to it."""
    from pricdr.privacy.strategies import Spectral

    _publish(folder, split.train, Spectral(), GUIDE)


def publish_as_source(folder: Path) -> None:
    """Stage one: all it sees is the source's folder, the target's guide in it."""
    from pricdr.data.reading.readers import read_ratings
    from pricdr.privacy.strategies import Guided
    from pricdr.release import verify

    guide = verify(folder / GUIDE, public_key=folder / "target.pub")
    _publish(folder, read_ratings(folder / "ratings.parquet"), Guided(guide=guide), RELEASE_FOLDER)


def _publish(folder: Path, ratings: "Ratings", strategy: "Strategy", name: str) -> None:
    from pricdr._publish import publish
    from pricdr.data.reading.readers import read_ids
    from pricdr.privacy.guarantee import Guarantee
    from pricdr.privacy.ledger import Ledger
    from pricdr.release.signing import create_keys

    private, _ = create_keys(folder / "key")
    ledger = Ledger.create(folder / "ledger.jsonl", Guarantee(epsilon=2 * EPSILON, delta=DELTA))
    with progress_bar() as progress:
        release = publish(
            ratings,
            Guarantee(epsilon=EPSILON, delta=DELTA),
            strategy=strategy,
            users=read_ids(folder / "users.txt"),
            ledger=ledger,
            progress=progress,
        )
    release.save(folder / name, signing_key=private)
    say(f"   {release!r}")


def hand_over(release: Path, public_key: Path, *, to: Path) -> None:
    """All that ever passes between the parties: one folder each way, and the keys to check them with."""
    import shutil

    shutil.copytree(release, to / release.name)
    shutil.copy(public_key, to / f"{release.parent.name}.pub")


def verify_as_target(folder: Path) -> "Release":
    """The release, once everything that can be checked has been; its promise on the screen."""
    from pricdr.release import verify
    from pricdr.release.statement import statement

    received = verify(folder / RELEASE_FOLDER, public_key=folder / "source.pub")
    for section in statement(received.certificate)[:2]:
        for line in section.lines:
            say(*textwrap.wrap(line, 110, initial_indent="   ", subsequent_indent="     "))
    say("   verified")
    return received


def split_as_target(folder: Path) -> "Split":
    """Something to measure by, from the target's own ratings."""
    from pricdr.data.reading.readers import read_ratings
    from pricdr.data.split_files import save_split
    from pricdr.data.splits import leave_one_out

    split = leave_one_out(read_ratings(folder / "ratings.parquet").positives().rated(), seed=0, cold=COLD)
    (folder / "split").mkdir()
    save_split(split, folder / "split")
    newcomers = int(split.cold.sum())
    say(f"   {len(split.test) - newcomers:,} warm users (own history) and {newcomers:,} cold users (none)")
    return split


def train_as_target(
    folder: Path, split: "Split", received: "Release", settings: Mapping[str, int | float]
) -> "dict[str, FittedModel]":
    """Stage two: three models, of which one sees the release and none the source's ratings."""
    from pricdr._transfer import transfer
    from pricdr.demo.outcome import ALONE, POPULARITY, RELEASE
    from pricdr.models.folder import write_model

    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (folder / "settings.toml").write_text(text, encoding="utf-8")
    models = {}
    for name, kind, release in (
        (POPULARITY, "popularity", None),
        (ALONE, "dmf", None),
        (RELEASE, "hetero", received),
    ):
        home = _home(folder, name)
        with _run_log(name, home) as log:
            method = _configured(kind, settings)
            models[name] = transfer(split.train, release, method=method, validation=split.validation, log=log)
        write_model(home, models[name])
    return models


def train_in_plaintext(folder: Path, split: "Split", settings: Mapping[str, int | float]) -> "dict[str, FittedModel]":
    """NOT PRIVATE: what there would be to gain if the target could read the source's ratings."""
    from pricdr._transfer import transfer
    from pricdr.data.reading.readers import read_ratings
    from pricdr.demo.outcome import PLAINTEXT
    from pricdr.models.folder import write_model

    source = read_ratings(folder / "source" / "ratings.parquet").positives()
    home = _home(folder / "comparison", PLAINTEXT)
    with _run_log(PLAINTEXT, home) as log:
        method = _configured("hetero", settings)
        model = transfer(split.train, method=method, plaintext_source=source, validation=split.validation, log=log)
    write_model(home, model)
    return {PLAINTEXT: model}


def measure(models: "Mapping[str, FittedModel]", split: "Split") -> "Outcome":
    """Rank every evaluated user's held-out item with every model."""
    from pricdr.demo.outcome import Outcome
    from pricdr.evaluation.metrics import per_user
    from pricdr.evaluation.ranking import ranks

    found = {name: per_user(ranks(model.score, split.test, split.train.matrix)[0]) for name, model in models.items()}
    return Outcome.of(found, split)


def show(outcome: "Outcome", received: "Release", folder: Path) -> None:
    """The figures and what they mean, on the screen and as a page."""
    from pricdr.demo.outcome import NOT_FOR_REAL, SYNTHETIC, conclusion, lines, report
    from pricdr.release.statement import statement

    say("")
    for line in lines(outcome):
        say(line)
    for text in (NOT_FOR_REAL, " ".join(conclusion(outcome)), SYNTHETIC):
        say("", *_wrapped(text))
    promise = [(part.title, part.lines) for part in statement(received.certificate) if part.title in PROMISE]
    (folder / "report.html").write_text(report(outcome, EPSILON, promise, _how()), encoding="utf-8")


def _wrapped(text: str) -> list[str]:
    """A paragraph for the screen, in which "95 %" stays on one line."""
    return [line.replace("\xa0", " ") for line in textwrap.wrap(text.replace(" %", "\xa0%"), 90)]


def _how() -> list[str]:
    from pricdr.demo.outcome import ALONE, PLAINTEXT, POPULARITY, RELEASE

    target, comparison = Path("target"), Path("comparison")
    models = [*(_home(target, name) for name in (POPULARITY, ALONE, RELEASE)), _home(comparison, PLAINTEXT)]
    return [
        "pricdr verify target/movies.release --public-key target/source.pub",
        "pricdr inspect target/movies.release",
        f"pricdr evaluate {' '.join(model.as_posix() for model in models)} target/split",
        "pricdr train target/split --release target/movies.release --config target/settings.toml --out again",
        "pricdr demo --out another",
    ]


def _home(folder: Path, name: str) -> Path:
    return folder / name.replace(" ", "-")


def _configured(name: str, settings: Mapping[str, int | float]) -> "Method":
    from pricdr.models.catalogue import configure

    return configure(name, {} if name == "popularity" else {**settings, "device": "cpu"})


@contextmanager
def _run_log(name: str, folder: Path) -> Iterator["RunLog"]:
    """A model's folder with its log; a bar with its name while it trains, and a line when it is done."""
    from pricdr.training.run_log import RunLog

    folder.mkdir(parents=True)
    log = folder / "log.jsonl"
    log.touch()
    started = time.perf_counter()
    with progress_bar() as bar:
        yield RunLog(file=log, progress=_named(bar, name))
    say(f"   {name:<18}{time.perf_counter() - started:5.1f} s")


def _named(bar: "Progress", name: str) -> "Progress":
    def report(what: str, done: int, total: int, note: str = "") -> None:
        bar(name, done, total, note)

    return report


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks this small gain nothing from a second thread, and lose much where other work keeps the cores busy."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
