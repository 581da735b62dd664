"""A row that decides how others are read: the guarantee holds for the matrix, and not for the file.

Every user has rated one item twice; the latest value is 1, the largest is 5. A reader that takes the names of the
fields, and whether there is a time, from the first object lets that row choose which of them counts, for everybody.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pricdr import Bounds, Ratings, read_ratings
from pricdr.data.csr import CSR
from pricdr.randomness import Secret
from pricdr.strategies import JLT
from tests.attacks.evidence import Tally, duel, guess_bound
from tests.attacks.rows import likelihood_ratio
from tests.attacks.target import Opened, Setting

SETTING = Setting(strategy=JLT(dim=16), bounds=Bounds(rating_bound=5), epsilon=1.0)
USERS, ITEMS = tuple(f"u{n}" for n in range(300)), tuple(f"i{n}" for n in range(20))
FIRST = {"user": "u0", "item": "i1", "rating": 3}
REST = [
    {"user": user, "item": ITEMS[n % 20], "rating": value, "timestamp": time}
    for n, user in enumerate(USERS)
    for value, time in ((5, 1), (1, 2))
]
NEIGHBOURS = {
    "the row is removed": (REST, [FIRST, *REST]),
    "its time is removed": ([{**FIRST, "timestamp": 9}, *REST], [FIRST, *REST]),
}
TRIALS = 400
"""With 300 entries changed every guess is right, and 40 right guesses refute."""
Read = Callable[[Path], Ratings]


def first_object_decides(file: Path) -> Ratings:
    """The flawed reader: which fields there are, and so whether the latest or the largest value counts."""
    objects = [json.loads(line) for line in file.read_text().splitlines()]
    timed = "timestamp" in objects[0]
    counted: dict[tuple[str, str], tuple[float, float]] = {}
    for one in objects:
        pair, rank = (one["user"], one["item"]), (one.get("timestamp", -np.inf) if timed else 0.0, one["rating"])
        counted[pair] = max(rank, counted.get(pair, rank))
    users, items = zip(*counted, strict=True)
    return Ratings.from_triples(users, items, [value for _, value in counted.values()])


def attack(read: Read, folder: Path, case: str, rng: np.random.Generator) -> tuple[Tally, int]:
    """Guess which file was published, by likelihood ratio over the whole matrix; also return the changed entries."""
    worlds: list[CSR] = []  # what both files are read as, in rating steps, over the declared users and items
    for objects in NEIGHBOURS[case]:
        file = folder / "r.jsonl"
        file.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
        worlds.append(SETTING.bounds.steps(read(file).select(USERS, ITEMS).matrix).astype(np.int32))
    with Secret() as secret:
        opened = Opened.draw(SETTING, ITEMS, secret)
    absent, present = map(opened.signal, worlds)

    def publish(world: int) -> np.ndarray:
        with Secret() as noise:
            return opened.release(worlds[world], noise)

    def score(published: np.ndarray) -> float:
        return float(likelihood_ratio(published, absent, present).sum())

    return duel(publish, score, trials=TRIALS, rng=rng), int(((worlds[0] - worlds[1]) != 0).sum())


@pytest.mark.statistical
@pytest.mark.parametrize("case", NEIGHBOURS)
def test_a_first_object_that_decides_breaks_the_guarantee_and_ours_keeps_it(case, tmp_path, rng):
    tally, changed = attack(first_object_decides, tmp_path, case, rng)
    assert changed >= len(USERS)
    assert tally.refutes(SETTING.mu), tally
    tally, changed = attack(read_ratings, tmp_path, case, rng)
    assert changed <= 1
    assert not tally.refutes(SETTING.mu), tally
    assert guess_bound(SETTING.mu) == pytest.approx(0.547, abs=0.002)


def test_the_flawed_reader_is_right_about_files_whose_objects_are_alike(tmp_path):
    """It is broken by one row alone: where all objects have the same fields, both readers agree."""
    file = tmp_path / "r.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in REST))
    assert first_object_decides(file).to_frame().rows() == read_ratings(file).to_frame().rows()
