import numpy as np
from benchmarks.fold_in import SEEDS, of_users, read_folded_in
from docs._generate.results import ROOT

from pricdr.data.splits import HeldOut


def test_what_is_held_out_follows_its_users():
    held_out = HeldOut(np.array([0, 2, 2, 3]), np.array([5, 6, 7, 8]), np.arange(8).reshape(4, 2))
    moved = of_users(held_out, ("a", "b", "c", "d"), ("d", "x", "c"))
    assert list(moved.users) == [2, 2, 0]
    assert list(moved.items) == [6, 7, 8]
    assert moved.negatives.tolist() == [[2, 3], [4, 5], [6, 7]]


def test_folding_in_was_measured_with_every_seed():
    assert [one.seed for one in read_folded_in(ROOT / "results" / "fold_in.jsonl")] == [*SEEDS]
