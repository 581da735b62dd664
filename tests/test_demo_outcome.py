"""What the demo says follows from what it measured."""

import numpy as np
import pytest

from pricdr.demo import ALONE, PLAINTEXT, POPULARITY, RELEASE, gains, outcome_lines, outcome_tables
from pricdr.evaluation.comparison import Comparison

USERS = 80
COLD = np.arange(USERS) < 40


def measured(over_popularity: float, over_alone: float, warm: float = 0.0) -> Comparison:
    """What the release gains over its rivals, with a little noise; warm users gain ``warm`` more over both."""
    rng = np.random.default_rng(0)
    release = np.where(COLD, 0.5, 0.5 + warm)
    levels = {POPULARITY: 0.5 - over_popularity, ALONE: 0.5 - over_alone, RELEASE: release, PLAINTEXT: release + 0.1}
    noise = rng.normal(0, 0.02, USERS)
    values = {
        name: {"sampled": {"NDCG@10": level + (1 + (name == RELEASE)) * noise, "HR@10": level + noise}}
        for name, level in levels.items()
    }
    strata = {"all": COLD | True, "warm": ~COLD, "few": COLD & False, "cold": COLD}
    return Comparison(tuple(f"u{at}" for at in range(USERS)), strata, values)


@pytest.mark.parametrize(
    ("over_popularity", "over_alone", "helps"),
    [
        (0.1, 0.1, True),
        (0.0, 0.0, False),
        (0.1, 0.0, False),
        (0.0, 0.1, False),
        (-0.1, 0.1, False),
        (-0.1, -0.1, False),
    ],
)
def test_a_gain_is_claimed_only_where_both_intervals_lie_above_zero(over_popularity, over_alone, helps):
    comparison = measured(over_popularity, over_alone)
    assert gains(comparison) == {"cold": helps, "warm": helps}
    said = " ".join(outcome_lines(comparison))
    for kind in ("Cold", "Warm"):
        assert f"{kind} users: {'the release helps' if helps else 'no gain shown'}." in said


def test_strata_are_told_apart():
    assert gains(measured(0.0, 0.0, warm=0.2)) == {"cold": False, "warm": True}


def test_the_tables_hold_means_and_paired_differences_of_each_stratum():
    comparison = measured(0.1, 0.1)
    ndcg, differences = outcome_tables(comparison)
    values = comparison.values[RELEASE]["sampled"]["NDCG@10"][COLD]
    error = values.std(ddof=1) / np.sqrt(40)
    row = next(row for row in ndcg.rows if row[0] == ndcg.strong)
    assert row[:2] == [RELEASE, f"{values.mean():.4f} ± {error:.4f}"]
    gain = (values - comparison.values[POPULARITY]["sampled"]["NDCG@10"][COLD]).mean()
    assert differences.rows[0][0] == f"{RELEASE} − {POPULARITY}"
    assert differences.rows[0][1].startswith(f"{gain:+.3f} [+")
