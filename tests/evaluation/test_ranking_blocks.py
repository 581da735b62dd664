"""Ranks do not depend on how users are cut into blocks, and scores are read, never written."""

from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from pricdr.data.splits import HeldOut
from pricdr.evaluation import ranking
from pricdr.evaluation.metrics import rank_of
from pricdr.evaluation.ranking import ranks, sampled_ranks


def one_by_one(scores, held_out, train):
    """The full rank of each held-out item, counted over the items that compete."""
    rated = train.toarray() != 0
    found = []
    for user, item in zip(held_out.users, held_out.items, strict=True):
        relevant = set(held_out.items[held_out.users == user])
        others = [scores[user, i] for i in range(scores.shape[1]) if not rated[user, i] and i not in relevant]
        found.append(sum((s > scores[user, item]) + 0.5 * (s == scores[user, item]) for s in others))
    return found


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(3, 30), st.integers(1, 100), st.booleans())
def test_no_block_size_changes_a_rank(seed, users, items, cells, single):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (users, items)).astype(np.float32 if single else np.float64)
    scores.flags.writeable = False
    # Ratings of −1 too, and pairs that are both rated and held out: they do not compete, once.
    train = sp.csr_array(rng.choice([0.0, 0.0, 1.0, -1.0], (users, items)))
    each = rng.integers(1, 3)
    rows = np.repeat(np.arange(users), each)
    held = np.concatenate([rng.permutation(items)[:each] for _ in range(users)])
    held_out = HeldOut(rows, held, rng.integers(0, items, (len(rows), 4)))
    reported = []
    with patch.object(ranking, "_CELLS_PER_BLOCK", cells), patch.object(ranking, "_USERS_PER_BLOCK", 3):
        sampled, full = ranks(lambda at: scores[at], held_out, train)
        alone = sampled_ranks(
            lambda at, candidates: np.take_along_axis(scores[at], candidates, axis=1),
            held_out,
            progress=lambda what, done, total, note="": reported.append((what, done, total)),
        )
    assert full.tolist() == one_by_one(scores, held_out, train)
    mine, near = scores[held_out.users, held_out.items], scores[held_out.users[:, None], held_out.negatives]
    assert sampled.tolist() == alone.tolist() == rank_of(mine, near).tolist()
    assert reported[-1] == ("ranking", len(rows), len(rows))
