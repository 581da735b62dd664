"""What a publish leaves behind, prints or lets slip: no keys, no seeds, no ratings."""

import gzip
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import pricdr.randomness
from pricdr import Bounds, Guarantee, Ledger, Ratings, publish, verify
from pricdr.cli import run
from pricdr.errors import PriCDRError
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.strategies import base, rounds
from pricdr.strategies import JLT, SJLT, Guided, Spectral

RARE_ITEM = "the-one-book-nobody-may-know-of"
RARE_USER = "unlisted-user-7731"
SEED = 918273645
OPTIONS = (("--strategy", "spectral"), ("--strategy", "jlt"))
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture
def made(monkeypatch):
    """Every key made while a test runs, and what it was before being erased."""
    made = []
    original = pricdr.randomness._Key.__init__

    def recording(self, content):
        made.append((self, bytes(content)))
        original(self, content)

    monkeypatch.setattr(pricdr.randomness._Key, "__init__", recording)
    return made


@pytest.fixture
def files(tmp_path):
    rows = [f"u{u},i{i},{(u + i) % 5 + 1}" for u in range(50) for i in range(u % 7 + 1)]
    rows += [f"u3,{RARE_ITEM},4", f"{RARE_USER},i2,5"]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    (tmp_path / "users.txt").write_text("".join(f"u{u}\n" for u in range(60)))
    (tmp_path / "items.txt").write_text("".join(f"i{i}\n" for i in range(10)) + RARE_ITEM + "\n")
    return tmp_path


def _publish(folder, *extra):
    arguments = ["publish", folder / "ratings.csv", "--users", folder / "users.txt", "--items", folder / "items.txt"]
    arguments += ["--epsilon", "4", "--delta", "1e-6", "--dim", "16", "--out", folder / "out"]
    return run([str(a) for a in [*arguments, *extra]])


def _everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_publishing_leaves_no_key_no_rated_item_and_no_other_file(files, made, capfd, monkeypatch, options):
    (files / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files / "tmp"))
    run(["ledger", "init", str(files / "ledger"), "--epsilon", "9", "--delta", "1e-6", "--unit", "rating"])
    run(["keygen", "--out", str(files / "key")])
    before = {path.name for path in files.iterdir()}
    assert _publish(files, "--ledger", files / "ledger", "--sign", files / "key", *options) == 0
    assert {path.name for path in files.iterdir()} == before | {"out"}
    assert not list((files / "tmp").iterdir())
    for name in ("ledger", "key"):
        assert (files / name).stat().st_mode & 0o777 == 0o600, name
    captured = capfd.readouterr()
    left = _everything(files / "out") + (files / "ledger").read_bytes() + (captured.out + captured.err).encode()
    assert made, "the test must see the keys it looks for"
    keys = [content for _, content in made]
    for secret in (*keys, *(key.hex().encode() for key in keys), (files / "key").read_bytes().splitlines()[1]):
        assert secret not in left
    assert RARE_ITEM.encode() not in left
    assert RARE_USER.encode() not in left
    assert not any(any(key._bytes) for key, _ in made), "erased when publish returns"


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_a_seed_is_in_no_file_of_a_seeded_release(files, capfd, options):
    assert _publish(files, "--insecure-seed", SEED, *options) == 0
    captured = capfd.readouterr()
    left = _everything(files / "out") + (captured.out + captured.err).encode()
    assert str(SEED).encode() not in left


@pytest.mark.parametrize(
    ("strategy", "inside"),
    [
        (JLT(dim=16), "pricdr.privacy.strategies.base.release_rows"),
        (Spectral(), "pricdr.privacy.strategies.rounds.noisy_sums"),
    ],
    ids=["jlt", "spectral"],
)
def test_an_exception_inside_the_mechanism_shows_no_secret(made, monkeypatch, strategy, inside):
    def broken(*_args, **_kwargs):
        raise PriCDRError("the disk is on fire")

    monkeypatch.setattr(inside, broken)
    ratings = Ratings.from_triples(["a"], ["x"])
    with pytest.raises(PriCDRError) as caught:
        publish(ratings, Guarantee(epsilon=1, delta=1e-6), strategy=strategy)
    assert any("publish" in frame.f_code.co_filename for frame in _frames(caught.tb))
    shown = repr(caught.value) + "".join(repr(v) for frame in _frames(caught.tb) for v in frame.f_locals.values())
    assert made
    for _, key in made:
        assert key.hex() not in shown
        assert repr(key)[2:-1] not in shown


def _frames(traceback):
    """The frames of the library: the test's own hold the keys it looks for."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename != __file__:
            yield traceback.tb_frame
        traceback = traceback.tb_next


USERS, ITEMS = [f"u{i}" for i in range(40)], [f"i{i}" for i in range(30)]


def _five_each(seed, value):
    """Five ratings for every user, of one value: only which items they are differs."""
    rng = np.random.default_rng(seed)
    cells = [(u, i) for u in USERS for i in rng.choice(ITEMS, 5, replace=False)]
    return Ratings.from_triples(*zip(*cells, strict=True), [value] * len(cells))


def _stored(matrix):
    """How many entries are multiplied: of a scipy matrix, of one that works are run on, or of one transposed."""
    while not hasattr(matrix, "nnz"):
        matrix = matrix.of if hasattr(matrix, "of") else matrix.matrix
    return matrix.nnz


def _counted(work, products):
    """The same work, with its multiply-adds and its shape noted."""

    def counting(matrix, vectors, *rest, **options):
        products.append((_stored(matrix) * vectors.shape[1], vectors.shape))
        return work(matrix, vectors, *rest, **options)

    return counting


def _guided():
    return Guided(guide=publish(_five_each(3, 1.0), PROMISE, strategy=JLT(dim=8), users=USERS))


@pytest.mark.parametrize(
    ("strategy", "listed", "sums"),
    [
        (JLT(dim=16), USERS, [40 * 16]),
        (SJLT(dim=16), USERS, [40 * 16]),
        (Spectral(), USERS, [17, 40 * 16, 17, 40 * 16, 9, 40 * 8, 9, 40 * 8]),
        (_guided, USERS, [9, 40 * 8, 9, 40 * 8, 9, 40 * 8]),
    ],
    ids=["jlt", "sjlt", "spectral", "guided"],
)
def test_the_amount_of_work_depends_on_how_many_ratings_not_on_which(monkeypatch, strategy, listed, sums):
    """What time is made of: multiply-adds of every sum and noise of every step; for other items, and other values."""
    strategy = strategy() if callable(strategy) else strategy
    counts = set()
    for seed, value in ((0, 1.0), (1, 5.0), (2, 3.0)):
        drawn, products = [], []
        draw = DiscreteGaussian.draw
        monkeypatch.setattr(DiscreteGaussian, "draw", lambda s, a, n, d=drawn, f=draw: (d.append(n), f(s, a, n))[1])
        for module in (base, rounds):
            for name in vars(module).keys() & {"release_rows", "directions", "noisy_sums"}:
                monkeypatch.setattr(module, name, _counted(getattr(module, name), products))
        publish(_five_each(seed, value), PROMISE, strategy=strategy, users=listed, items=ITEMS)
        counts.add((tuple(drawn), tuple(products)))
        monkeypatch.undo()
    ((drawn, products),) = counts
    assert list(drawn) == sums
    assert len(products) >= len(sums), "every step adds up vectors, and most learn directions before"
    assert strategy.learns or products == ((40 * 5 * 16, (30, 16)),)


def test_a_gzip_bomb_is_refused_in_bounded_memory(tmp_path):
    """A quarter of a gigabyte of one repeated line in a quarter of a megabyte, read by a process of its own."""
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wb", compresslevel=9) as file:
        file.write(b"user,item\n")
        for _ in range(256):
            file.write(b"u,i\n" * (1 << 18))
    code = (
        "import re, sys; from pricdr.cli import run; code = run(sys.argv[1:]);"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1];"
        "sys.stderr.write(f'peak {peak}'); sys.exit(code)"
    )
    arguments = ["publish", str(bomb), "--epsilon", "1", "--delta", "1e-6", "--out", str(tmp_path / "x")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bomb" in done.stderr
    assert int(done.stderr.split("peak ")[1]) / 1024 < 500


# How long it took tells how much there was: no file says it; and time does not go by values.

WEAK = Guarantee(epsilon=1, delta=1e-6)
PACKAGE = Path(pricdr.__file__).parent
COMPUTING = tuple(str(PACKAGE / part) for part in ("data", "privacy"))


def test_the_times_of_a_release_folder_are_those_of_its_day(tmp_path, monkeypatch):
    """Whatever the clock said while it was written: archives keep the times of files and folders."""
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("user,item\nalice,dune\nbob,emma\n")
    assert run(["keygen", "--out", "key"]) == 0
    options = ["--epsilon", "4", "--delta", "1e-6", "--sign", "key", "--out", "release"]
    assert run(["publish", "r.csv", *options]) == 0
    release = verify("release")
    midnight = datetime.fromisoformat(f"{release.certificate.issued}T00:00:00+00:00").timestamp()
    release.save("saved")
    for folder in (Path("release"), Path("saved")):
        files = sorted(folder.iterdir())
        assert len(files) >= 3
        assert {path.stat().st_mtime for path in (folder, *files)} == {midnight}


def test_a_certificate_does_not_tell_when_reading_had_ended(tmp_path, monkeypatch):
    """The ledger records a release when everything has been read: at three in the morning, or at nine at night."""

    class Clock(datetime):
        moment = datetime(2026, 3, 1, 3, 14, 15, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            return cls.moment

    monkeypatch.setattr("pricdr.privacy.ledger.datetime", Clock)
    ratings, stated = Ratings.from_triples(["a", "b"], ["x", "y"]), []
    for at in range(2):
        ledger = Ledger.create(tmp_path / f"budget {at}", Guarantee(epsilon=8, delta=1e-6))
        stated.append(publish(ratings, WEAK, users=["a", "b"], ledger=ledger).certificate.ledger)
        Clock.moment += timedelta(hours=18)
    assert [account.recorded for account in stated] == ["2026-03-01"] * 2
    unique = {"nonce", "opening", "head"}
    assert stated[0].model_dump(exclude=unique) == stated[1].model_dump(exclude=unique)


def _lines_run(publishing):
    """How often each line of the package that computes is run: what time is made of, without a clock."""
    counts = Counter()

    def tracing(frame, event, _):
        if not frame.f_code.co_filename.startswith(COMPUTING):
            return None
        if event == "line":
            counts[frame.f_code.co_filename, frame.f_lineno] += 1
        return tracing

    before = sys.gettrace()
    threading.settrace(tracing)
    sys.settrace(tracing)
    try:
        publishing()
    finally:
        sys.settrace(before)
        threading.settrace(before)
    return counts


@pytest.mark.parametrize("strategy", [JLT(dim=16), Spectral()], ids=lambda one: one.name)
def test_no_line_is_run_because_of_the_values_of_ratings(strategy):
    """All of them 1, or anything: the same lines, as often."""
    rng = np.random.default_rng(5)
    users, items = [f"u{at}" for at in range(30)], [f"i{at}" for at in range(20)]
    cells = [(user, item) for user in users for item in rng.choice(items, 5, replace=False)]
    bounds = Bounds(rating_bound=5, rating_step=1)

    def lines(values):
        ratings = Ratings.from_triples(*zip(*cells, strict=True), values)
        return _lines_run(
            lambda: publish(ratings, WEAK, strategy=strategy, users=users, items=items, bounds=bounds, insecure_seed=7)
        )

    ones = lines([1.0] * len(cells))
    assert sum(ones.values()) > 300, "the test must see what it counts"
    for values in ([5.0] * len(cells), rng.integers(1, 6, len(cells)).astype(float).tolist()):
        assert lines(values) == ones
