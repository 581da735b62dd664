"""How long reading and computing took tells how much there was, so no file says it; and time does not go by values."""

import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import pricdr
from pricdr import Bounds, Guarantee, Ledger, Ratings, publish, verify
from pricdr.cli import run
from pricdr.strategies import JLT, Spectral

PROMISE = Guarantee(epsilon=1, delta=1e-6)
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
        stated.append(publish(ratings, PROMISE, users=["a", "b"], ledger=ledger).certificate.ledger)
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
            lambda: publish(
                ratings, PROMISE, strategy=strategy, users=users, items=items, bounds=bounds, insecure_seed=7
            )
        )

    ones = lines([1.0] * len(cells))
    assert sum(ones.values()) > 300, "the test must see what it counts"
    for values in ([5.0] * len(cells), rng.integers(1, 6, len(cells)).astype(float).tolist()):
        assert lines(values) == ones
