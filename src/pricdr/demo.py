"""The demo as a program: two companies on a synthetic pair, each in a folder of its own, one release folder each way.

Every step is a function of one party's folder, so that tests can take the other folder away.
"""

import json
import shlex
import shutil
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

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
from pricdr.evaluation.verdict import Difference, compare, standard_error
from pricdr.files import new_folder
from pricdr.models.catalogue import Settings, configure
from pricdr.models.fitted import FittedModel
from pricdr.models.folder import write_model
from pricdr.pages import Bullets, Column, Content, Note, Page, Section, Table, render, sections_of, table
from pricdr.pages.charts import Dot, dot_plot
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.ledger import Ledger
from pricdr.progress import Progress, silent
from pricdr.release import Release, verify
from pricdr.release.inspection import Inspection, attack_section
from pricdr.release.readme import statement
from pricdr.signing import create_keys, read_private_key
from pricdr.strategies import Guided, Spectral, Strategy
from pricdr.training.run_log import RunLog

Bar: TypeAlias = Callable[[], AbstractContextManager[Progress]]

EPSILON: Final = 4.0
DELTA: Final = 1e-6
COLD: Final = 0.3
"""The share of users whose history is hidden: some 1,200 newcomers to measure by."""
SETTINGS: Final[Settings] = {
    **{"hidden": 128, "width": 32, "dropout": 0.3, "entry_dropout": 0.7},
    **{"batch": 128, "learning_rate": 0.003, "epochs": 45, "patience": 12},
}
"""Networks small enough for a laptop to train in seconds, the same for all; the defaults are made for real data."""
GUIDE: Final = "music.release"
RELEASE_FOLDER: Final = "movies.release"
PAGE: Final = "report.html"
EVALUATION: Final = "evaluation.json"
POPULARITY, ALONE, RELEASE, PLAINTEXT = "popularity", "target only", "with release", "plaintext source"
_METHODS: Final = {POPULARITY: "popularity", ALONE: "hetero", RELEASE: "hetero", PLAINTEXT: "hetero"}
_FOLDERS: Final = {name: name.replace(" ", "-") for name in _METHODS}
STRATA: Final = {"cold": "no history", "warm": "own history"}
_PAIRS: Final = ((RELEASE, POPULARITY), (RELEASE, ALONE), (PLAINTEXT, RELEASE))


def play(
    out: Path,
    say: Callable[..., None],
    bar: Bar,
    *,
    data: SyntheticConfig = STRONGLY_SHARED,
    settings: Settings = SETTINGS,
) -> None:
    """Play both parties and write everything into ``out``, whole or not at all; ``say`` shows lines of text."""
    # Networks this small gain nothing from a second thread, and lose much where other work keeps the cores busy.
    import torch

    torch.set_num_threads(1)
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
        say(f"   {publish_as_target(target, split)!r}")
        hand_over(target / GUIDE, target / "key.pub", to=source)
        say(f"4. The source verifies the guide and publishes its own ratings along it, at epsilon {EPSILON:g} too.")
        say(f"   {publish_as_source(source)!r}")
        hand_over(source / RELEASE_FOLDER, source / "key.pub", to=target)
        received = verify(target / RELEASE_FOLDER, public_key=target / "source.pub")
        say(f"   verified: {received!r}")
        say("5. The target trains with the release and without; and, for comparison only, with the source's ratings.")
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (target / "settings.toml").write_text(text, encoding="utf-8")
        plaintext = read_ratings(source / "ratings.parquet").positives()
        known: dict[str, dict[str, Any]] = {name: {} for name in (POPULARITY, ALONE)}
        known |= {RELEASE: {"release": received}, PLAINTEXT: {"plaintext_source": plaintext}}
        models = {}
        for name, given in known.items():
            party = folder / "comparison" if name == PLAINTEXT else target  # NOT PRIVATE: no real target could
            started = time.perf_counter()
            with bar() as progress:
                models[name] = train(party, name, split, settings, progress=progress, **given)
            say(f"   {name:<18}{time.perf_counter() - started:5.1f} s")
        measured = evaluate(models, split, ranking="sampled")
        # As pricdr evaluate --json writes it: for the model's card and its page.
        figures = evaluate({_FOLDERS[name]: models[name] for name in (ALONE, RELEASE)}, split).to_dict()
        (target / EVALUATION).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        say("6. What each recommends:", "", *outcome_lines(measured))
        page = outcome_page(measured, Inspection(received, key_given=True))
        (folder / PAGE).write_text(page, encoding="utf-8")
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


def publish_as_target(folder: Path, split: Split) -> Release:
    """Publish what the target trains on, as a guide: what is held out must not come back with the source's release."""
    return _publish(folder, split.train, Spectral(), GUIDE)


def publish_as_source(folder: Path) -> Release:
    """Publish the source's ratings along the target's guide. All it sees is the source's folder, the guide in it."""
    guide = verify(folder / GUIDE, public_key=folder / "target.pub")
    return _publish(folder, read_ratings(folder / "ratings.parquet"), Guided(guide=guide), RELEASE_FOLDER)


def _publish(folder: Path, ratings: Ratings, strategy: Strategy, name: str) -> Release:
    """Publish with new keys and a new ledger, and save the release in the party's folder under ``name``."""
    private, _ = create_keys(folder / "key")
    budget, promise = Guarantee(epsilon=2 * EPSILON, delta=DELTA), Guarantee(epsilon=EPSILON, delta=DELTA)
    ledger = Ledger.create(folder / "ledger.jsonl", budget, read_private_key(private))
    with warnings.catch_warnings():
        # That the target publishes a part of a split is for the demo's sake, and its story says so.
        warnings.simplefilter("ignore", PublishWarning)
        release = publish(ratings, promise, strategy=strategy, users=read_ids(folder / "users.txt"), ledger=ledger)
    release.save(folder / name, signing_key=private)
    return release


def hand_over(release: Path, public_key: Path, *, to: Path) -> None:
    """Copy all that ever passes between the parties: a release folder, and the key to check it with."""
    shutil.copytree(release, to / release.name)
    shutil.copy(public_key, to / f"{release.parent.name}.pub")


def train(
    party: Path,
    name: str,
    split: Split,
    settings: Settings,
    release: Release | None = None,
    plaintext_source: Ratings | None = None,
    progress: Progress = silent,
) -> FittedModel:
    """Train one of the models in a party's folder, with its log."""
    method = configure(_METHODS[name], {} if name == POPULARITY else {**settings, "device": "cpu"})
    with new_folder(party / _FOLDERS[name], private=True) as home:
        (home / "log.jsonl").touch()
        log = RunLog(file=home / "log.jsonl", progress=progress)
        model = transfer(
            split.train, release, method=method, plaintext_source=plaintext_source, validation=split.validation, log=log
        )
        write_model(home, model)
    return model


def serving_inputs(out: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the model, the one without the release, and the evaluation in a demo's folder."""
    target = out / "target"
    return target / _FOLDERS[RELEASE], target / _FOLDERS[ALONE], target / EVALUATION


def outcome_lines(measured: Comparison) -> Iterator[str]:
    """Yield the page's tables and sentences for a screen of ninety columns."""
    lead, figures, _ = _words(measured, outcome_tables(measured))
    for block in (*figures.blocks, *lead.blocks[1:]):
        if isinstance(block, Table):
            rows = [[column.name for column in block.columns], *(map(str, row) for row in block.rows)]
            yield from ("", f"{block.caption}:", "")
            yield from ("{:<34}{:<26}{:<26}".format(*row).rstrip() for row in rows)
        else:
            yield from ("", *textwrap.wrap(block.text if isinstance(block, Note) else str(block), 90))


def gains(measured: Comparison) -> dict[str, bool]:
    """Return for cold and for warm users whether the release beats both the target's own model and popularity."""
    rivals = [_differences(measured, RELEASE, rival) for rival in (POPULARITY, ALONE)]
    return {stratum: all(found[stratum].low > 0 for found in rivals) for stratum in STRATA}


def _words(measured: Comparison, tables: Content) -> list[Section]:
    """Return the sections that say in words what was measured: what comes first, the figures, how to repeat it."""
    return sections_of("demo.txt.j2", {"tables": tables}, epsilon=EPSILON, gains=gains(measured))


def outcome_page(measured: Comparison, inspection: Inspection) -> str:
    """Return the outcome as a page: figures and a plot, the release drawn, its promise, and how to repeat it all."""
    dots = []
    for stratum, model in product(STRATA, measured.models):
        values = _values(measured, model, stratum)
        mean, half = float(values.mean()), 1.96 * standard_error(values)
        dots.append(Dot(model, _group(measured, stratum), mean, mean - half, mean + half))
    plot = dot_plot("ndcg", "NDCG@10 by kind of user", dots, label="NDCG@10", strong=RELEASE)
    lead, figures, repeat = _words(measured, [*([] if plot is None else [plot]), *outcome_tables(measured)])
    promise = [
        Section(part.title, [Bullets(part.lines)])
        for part in statement(inspection.certificate)
        if part.title in ("What is promised", "What it means for a whole user", "What is not protected")
    ]
    sections = [figures, attack_section(inspection.certificate), *promise, repeat]
    return render(Page(lead.heading, sections, lead.blocks))


def outcome_tables(measured: Comparison) -> list[Table]:
    """Return NDCG@10 of every model, and the differences that matter; three columns each, which fit a phone."""
    rows = []
    for model in measured.models:
        cells = (measured.cell(model, "sampled", stratum, "NDCG@10") for stratum in STRATA)
        rows.append([model, *cells])
    columns = [Column(f"{stratum} users", _group(measured, stratum)) for stratum in STRATA]
    columns = [Column("method", numeric=False), *columns]
    figures = Table("ndcg-table", "NDCG@10, mean ± standard error", columns, rows, strong=RELEASE)
    pairs = []
    for left, right in _PAIRS:
        found = _differences(measured, left, right).values()
        pairs.append([f"{left} − {right}", *(f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" for d in found)])
    caption = "Differences in NDCG@10, user by user, with 95 % intervals"
    header = ["difference", *(column.name for column in columns[1:])]
    return [figures, table("differences-table", caption, header, pairs)]


def _group(measured: Comparison, stratum: str) -> str:
    return f"{int(measured.strata[stratum].sum()):,} {stratum} users ({STRATA[stratum]})"


def _differences(measured: Comparison, left: str, right: str) -> dict[str, Difference]:
    return {kind: compare(_values(measured, left, kind), _values(measured, right, kind)) for kind in STRATA}


def _values(measured: Comparison, model: str, stratum: str) -> Float64Array:
    return measured.values[model]["sampled"]["NDCG@10"][measured.strata[stratum]]
