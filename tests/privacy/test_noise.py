import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from pricdr.privacy.accounting import GRID_STEPS, SAMPLER_DISTANCE
from pricdr.privacy.noise import PROBABILITY_BITS, TAIL, DiscreteGaussian, alias_table, probabilities
from pricdr.randomness import Simulation

ONE = 1 << PROBABILITY_BITS


def test_probabilities_add_up_to_exactly_one():
    values = probabilities()
    assert 2 * sum(values) - values[0] == ONE
    assert len(values) == TAIL + 1
    assert list(values) == sorted(values, reverse=True)
    assert values[-1] > 0


def test_probabilities_are_those_of_the_discrete_gaussian_in_high_precision():
    """An independent computation, by direct exponentials in 260 digits, of the distance to the exact law."""
    # e^(−z²/2s²) at every 97th value and at both ends, against a normaliser from Poisson summation:
    # Σ e^(−z²/2s²) = s√(2π) (1 + 2e^(−2π²s²) + …), the correction being below 10^-8,000,000
    with mp.workdps(260):
        normaliser = GRID_STEPS * mp.sqrt(2 * mp.pi)
        for z in [*range(0, TAIL, 97), TAIL]:
            exact = mp.exp(-(mp.mpf(z) ** 2) / (2 * GRID_STEPS**2)) / normaliser
            # rounding down to 2^-768, the missing tail shared out by the normaliser, and what rounding leaves to z = 0
            assert abs(mp.mpf(probabilities()[z]) / ONE - exact) < mp.mpf(2) ** -690, z


def test_the_stated_distance_covers_tail_and_rounding():
    # P(|Z| > τs) <= 2e^(−τ²/2)·(1 + 1/s): Gaussian tail of the lattice law; rounding costs at most 2^-768 a value
    tail = Fraction(2) * Fraction(math.exp(-(31**2) / 4)) ** 2 * Fraction(1001, 1000)
    rounding = Fraction(2 * TAIL + 1, ONE)
    assert tail + rounding < Fraction(2) ** -690
    assert Fraction(SAMPLER_DISTANCE) == 2 * Fraction(2) ** -690  # two draws make one number


def test_the_alias_table_represents_the_probabilities_exactly():
    thresholds, _, aliases = alias_table()
    depth = 1 << (PROBABILITY_BITS - 16)
    mass: dict[int, int] = {}
    for column, (threshold, alias) in enumerate(zip(thresholds, aliases.tolist(), strict=True)):
        assert 0 <= threshold <= depth
        mass[column - 2**15] = mass.get(column - 2**15, 0) + threshold
        mass[alias] = mass.get(alias, 0) + depth - threshold
    assert {v: m for v, m in mass.items() if m} == {v: probabilities()[abs(v)] for v in range(-TAIL, TAIL + 1)}


@dataclass
class Chosen:
    """Randomness whose streams are given as functions of (start, count)."""

    streams: dict

    def stream(self, name):
        return SimpleNamespace(read=self.streams[name])


DRAWS = 1 << 14
TIE_BYTES = 92
"""768 bits a draw: 16 choose a column, 16 are compared at once, and 736 only where those tie."""


@pytest.mark.parametrize("by", [-1, 0, 1], ids=["above or below", "all ties", "below or above"])
def test_where_every_draw_is_a_tie_all_768_bits_decide(by):
    """A uniform fraction of 752 bits against the column's threshold, from nothing but the bits of the two streams."""
    (thresholds, leading, aliases), rng = alias_table(), np.random.default_rng(0)
    assert max(thresholds) == 1 << 752
    columns = rng.integers(24_000, 41_000, DRAWS, dtype=np.uint16)  # about the centre, where thresholds are long
    fractions = leading[columns] + np.int16(by).view(np.uint16)
    draws = np.concatenate([columns, fractions]).view(np.uint8)
    ties = rng.integers(0, 256, DRAWS * TIE_BYTES, dtype=np.uint8)
    for at in range(0, DRAWS, 5):  # the last bit of a threshold, and a bit beside it
        exact = (thresholds[columns[at]] & ((1 << 736) - 1)) - at % 3 + 1
        ties[at * TIE_BYTES : (at + 1) * TIE_BYTES] = np.frombuffer(max(0, exact).to_bytes(93, "big")[1:], np.uint8)
    chosen = Chosen(
        {"n draws": lambda at, count: draws[at : at + count], "n ties": lambda at, count: ties[at : at + count]}
    )
    found = DiscreteGaussian(chosen, "n").draw(0, DRAWS)

    expected = []
    for at, (column, fraction) in enumerate(zip(columns.tolist(), fractions.tolist(), strict=True)):
        rest = int.from_bytes(ties[at * TIE_BYTES : (at + 1) * TIE_BYTES].tobytes(), "big")
        own = fraction << 736 | rest
        expected.append(column - (1 << 15) if own < thresholds[column] else int(aliases[column]))
    assert found.tolist() == expected
    assert by or 0.1 < (found == columns.astype(int) - (1 << 15)).mean() < 0.9  # both outcomes were put to the test


@given(st.integers(0, 200_000), st.integers(1, 70_000))
def test_a_draw_depends_on_its_position_alone(start, count):
    sampler = DiscreteGaussian(Simulation(3), "n")
    assert np.array_equal(sampler.draw(start, count), _long_stretch()[start : start + count])


@cache
def _long_stretch():
    return DiscreteGaussian(Simulation(3), "n").draw(0, 270_000)


def test_ties_occur_and_read_disjoint_bits():
    """One draw in 65,536 is a tie; each reads its own 92 bytes of the second stream."""
    streams = {name: Simulation(3).stream(name) for name in ("n draws", "n ties")}
    seen: list[tuple[int, int]] = []

    def ties(start, count):
        seen.append((start, count))
        return streams["n ties"].read(start, count)

    recorded = DiscreteGaussian(Chosen({"n draws": streams["n draws"].read, "n ties": ties}), "n").draw(0, 1 << 21)
    assert np.array_equal(recorded, DiscreteGaussian(Simulation(3), "n").draw(0, 1 << 21))
    assert 5 < len(seen) < 80  # 32 expected
    assert len(set(seen)) == len(seen)
    assert all(start % 92 == 0 and count == 92 for start, count in seen)


def test_differently_named_noise_is_unrelated():
    left, right = (DiscreteGaussian(Simulation(3), name).draw(0, 100_000) for name in ("noise", "dimension"))
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.02


def test_refined_noise_is_r_times_one_draw_plus_another():
    coarse, fine = (DiscreteGaussian(Simulation(3), name).draw(100, 5000) for name in ("n", "n refined"))
    for refinement in (2, 7, 256):
        refined = DiscreteGaussian(Simulation(3), "n", refinement=refinement)
        draws = refined.draw(100, 5000)
        assert np.array_equal(draws, refinement * coarse + fine)
        assert np.abs(draws).max() <= refined.largest
    with pytest.raises(ValueError, match="refinement"):  # beyond the proof
        DiscreteGaussian(Simulation(3), "n", refinement=257)


@pytest.mark.parametrize("refinement", [1, 2, 16, 256])
def test_refined_noise_has_the_law_of_a_wider_discrete_gaussian(refinement):
    """P(r·Z₁ + Z₂ = z) summed up in doubles against the density of parameter s√(1 + r²), at many z."""
    if refinement == 1:
        wide, s = {z: probabilities()[abs(z)] / ONE for z in range(-9000, 9001, 371)}, GRID_STEPS
    else:
        s = GRID_STEPS * math.hypot(1, refinement)
        x = np.arange(-12 * GRID_STEPS, 12 * GRID_STEPS + 1)
        weight = np.array([float(Fraction(p, ONE)) for p in probabilities()[: 12 * GRID_STEPS + 1]])
        wide = {}
        for z in np.linspace(-4 * s, 4 * s, 97).astype(int):
            rest = np.abs(z - refinement * x)
            inside = rest <= 12 * GRID_STEPS
            wide[int(z)] = float((weight[np.abs(x[inside])] * weight[rest[inside]]).sum())
    for z, probability in wide.items():
        assert probability == pytest.approx(math.exp(-(z * z) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)), rel=1e-9)
