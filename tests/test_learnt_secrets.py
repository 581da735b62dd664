"""What learnt strategies compute on the way is a secret: overwritten, shown nowhere, and no trace of it leaves."""

import json
import logging
import traceback

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, Ratings, Unit, publish
from pricdr.data.features import ItemFeatures
from pricdr.privacy import mechanism, sums
from pricdr.privacy.mechanism import Entries, Secrets
from pricdr.strategies import JLT, SJLT, Continued, Features, Guided, Spectral

USERS = tuple(f"u{at}" for at in range(30))
OTHERS = tuple(f"x{at}" for at in range(12))
ITEMS = tuple(f"i{at}" for at in range(20))
PROMISE = Guarantee(epsilon=4, delta=1e-6)
TO_USER = Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER)


def _ratings(changed=None):
    """Ratings of most users and of some others; ``changed``, (user, item, value or None), makes a neighbour."""
    rng = np.random.default_rng(0)
    cells = {
        (u, i): float(rng.integers(1, 6)) for u in (*USERS[:-3], *OTHERS) for i in ITEMS[:-2] if rng.random() < 0.3
    }
    if changed is not None:
        user, item, value = changed
        cells.pop((user, item), None)
        if value is not None:
            cells[user, item] = value
    users, items = zip(*cells, strict=True)
    return Ratings.from_triples(users, items, list(cells.values()))


GUIDE = publish(_ratings(), PROMISE, strategy=Spectral(dim=6), users=USERS)
TABLE = ItemFeatures(ITEMS, np.random.default_rng(1).standard_normal((20, 5)))
WAYS = {
    "spectral": (Spectral(dim=4), None),
    "spectral, catalogue": (Spectral(dim=4), ITEMS),
    "guided": (Guided(guide=GUIDE, dim=4), None),
    "guided, catalogue": (Guided(guide=GUIDE, dim=4), ITEMS),
    "guided, one round": (Guided(guide=GUIDE, dim=4, refine=False), None),
    "continued": (None, None),  # the release before it has the same unit and bounds
    "jlt": (JLT(dim=4), None),
    "sjlt": (SJLT(dim=4), ITEMS),
    "features": (Features(features=TABLE, dim=4), ITEMS),
}
UNITS = {
    "rating": (PROMISE, Bounds()),
    "values": (PROMISE, Bounds(rating_bound=5)),
    "user": (TO_USER, Bounds(clip=3.0)),
}
LEARNING = sorted(set(WAYS) - {"features", "jlt", "sjlt"})


def _publish(way, unit, ratings, **more):
    strategy, items = WAYS[way]
    guarantee, bounds = UNITS[unit]
    strategy = strategy or Continued(before=[BEGUN[unit]])
    return publish(ratings, guarantee, strategy=strategy, users=USERS, items=items, bounds=bounds, **more)


BEGUN = {unit: _publish("spectral", unit, _ratings()) for unit in UNITS}


class Kept(list):
    """Every array that is kept for erasing, and a copy of what it held."""

    def __init__(self):
        super().__init__()
        original = Secrets.keep

        def keep(secrets, array):
            self.append((array, np.array(array, copy=True)))
            return original(secrets, array)

        self.keep = keep


@pytest.fixture
def kept(monkeypatch):
    recorder = Kept()
    monkeypatch.setattr(mechanism.Secrets, "keep", recorder.keep)
    return recorder


def test_item_rows_and_sums_are_among_what_is_overwritten(kept):
    _publish("guided", "rating", _ratings())
    shapes = [copy.shape for _, copy in kept]
    n_items = len(_ratings().items)
    for width, rounds in ((8, 2), (4, 1)):
        assert shapes.count((n_items, width + 2)) == rounds  # sums, and squares in two parts
        assert shapes.count((n_items, width)) == 2 * rounds  # directions, directions in whole numbers
    assert shapes.count((n_items,)) == 2 * 3  # squares, and what is under the root
    assert shapes.count((1, len(USERS))) == 3  # how much everybody rated, for centring


def _failing_at(monkeypatch, name):
    """Let the step of this name fail after its sums were made; steps are counted where no name is given."""
    ran, original = [], sums.noisy_sums

    def failing(*args, **rest):
        result = original(*args, **rest)
        ran.append(args[3])
        if ran[-1] == name:
            raise RuntimeError("disk full")
        return result

    monkeypatch.setattr("pricdr.privacy.strategies.rounds.noisy_sums", failing)
    return ran


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("way", LEARNING)
def test_what_was_learnt_is_overwritten_at_the_end_and_whichever_step_fails(way, unit, kept, monkeypatch):
    steps = _failing_at(monkeypatch, None)
    _publish(way, unit, _ratings())
    assert steps[-1] == "rows"
    assert len(kept) >= 5
    assert any(copy.any() for _, copy in kept)
    assert not any(array.any() for array, _ in kept)
    for name in tuple(steps) if unit == "rating" else ():
        kept.clear()
        monkeypatch.undo()
        monkeypatch.setattr(mechanism.Secrets, "keep", kept.keep)
        ran = _failing_at(monkeypatch, name)
        with pytest.raises(RuntimeError, match="disk full"):
            _publish(way, "rating", _ratings())
        assert ran[-1] == name
        assert kept
        assert not any(array.any() for array, _ in kept)


def test_what_was_learnt_is_overwritten_on_an_interrupt(kept, monkeypatch):
    def interrupted(*args, **rest):
        raise KeyboardInterrupt

    monkeypatch.setattr("pricdr.privacy.strategies.rounds.noisy_sums", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _publish("guided, one round", "values", _ratings())
    assert kept
    assert not any(array.any() for array, _ in kept)


def _numbers(kept) -> set[str]:
    """Learnt numbers as they would be printed, rounded in several ways."""
    texts = set()
    for _, copy in kept:
        for value in np.unique(copy)[:200].tolist():
            if isinstance(value, float) and 1e-6 < abs(value) < 1:
                texts |= {repr(value), f"{value:.6f}", f"{value:.8f}"}
    # Six digits that count: shorter ones are met by chance among the figures of a certificate.
    return {text for text in texts if len(text.lstrip("-0.")) > 5}


@pytest.mark.parametrize("way", ["spectral", "guided"])
def test_nothing_learnt_is_logged_or_shown_or_in_a_traceback(way, kept, caplog, capsys, tmp_path, monkeypatch):
    caplog.set_level(logging.DEBUG)
    release = _publish(way, "rating", _ratings())
    folder = release.save(tmp_path / "release")
    said = capsys.readouterr()
    texts = [caplog.text, said.out, said.err, repr(release)]
    texts += [(folder / name).read_text() for name in ("certificate.json", "README.md")]
    _failing_at(monkeypatch, "rows")
    try:
        _publish(way, "rating", _ratings())
    except RuntimeError:
        texts.append(traceback.format_exc())
    assert "disk full" in texts[-1]
    numbers = _numbers(kept)
    assert len(numbers) > 50
    assert not [number for number in numbers for text in texts if number in text]


def test_secrets_and_entries_show_nothing():
    with Secrets() as secrets:
        held = secrets.keep(np.array([0.123456, 7.0]))
        assert repr(secrets) == str(secrets) == "Secrets(<hidden>)"
    assert not held.any()
    entries = Entries.of(_ratings(), Bounds(rating_bound=5), summed=True)
    assert repr(entries) == f"Entries({len(_ratings().users)} listed users x {len(_ratings().items)} items)"


def _left(folder):
    """Everything that leaves but the matrix and its hash."""
    files = {path.name: path for path in folder.iterdir()}
    certificate = json.loads(files["certificate.json"].read_text())
    assert len(certificate["files"].pop("release.safetensors")) == 64
    del certificate["digest"]  # it covers the matrix's hash
    sizes = {name: path.stat().st_size for name, path in files.items()}
    return repr((sorted(files), json.dumps(certificate), files["README.md"].read_bytes(), sizes))


@pytest.mark.parametrize("way", WAYS)
def test_neighbours_leave_identical_folders_but_for_the_matrix(tmp_path, way):
    """Byte for byte, and in size: a rating less, the first of its item or user, other people's, none, and all."""
    first = next(iter(_ratings().items))
    units = {
        "base": _ratings(),
        "another value": _ratings(("u1", first, 2.0)),
        "first of its item": _ratings(("u1", ITEMS[-1], 1.0)),
        "everything": Ratings.from_triples([u for u in USERS for _ in ITEMS], ITEMS * len(USERS), [5.0] * 600),
    }
    for_rating = {
        "removed": _ratings(("u0", first, None)),
        "added to an unrated user": _ratings((USERS[-1], "i3", 5.0)),
        "outside the catalogue": _ratings(("u1", "unheard of", 1.0)),
        "outside the list": _ratings((OTHERS[0], ITEMS[-1], 4.0)),
        "somebody new outside the list": _ratings(("stranger", "i2", 4.0)),
        "none at all": Ratings.from_triples([], [], []),
        "none that counts": Ratings.from_triples(["stranger"], ["unheard of"], [3.0]),
    }
    for unit in UNITS:
        left = {}
        for name, ratings in (units | (for_rating if unit == "rating" else {})).items():
            left[name] = _left(_publish(way, unit, ratings).save(tmp_path / f"{unit} {name}"))
        assert [name for name in left if left[name] != left["base"]] == [], unit
