"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np

from pricdr.privacy.noise import DiscreteGaussian, alias_table

DRAWS = 1 << 14
TIE_BYTES = 92
"""768 bits a draw: 16 choose a column, 16 are compared at once, and 736 only where those tie."""


class _Chosen:
    """Random bits of our choosing: both streams of a sampler, told apart by their names."""

    def __init__(self, draws: np.ndarray, ties: np.ndarray) -> None:
        self._bits = {"n draws": draws, "n ties": ties}

    def stream(self, name: str) -> "_Chosen._Stream":
        return self._Stream(self._bits[name])

    class _Stream:
        def __init__(self, bits: np.ndarray) -> None:
            self._bits = bits

        def read(self, start: int, count: int) -> np.ndarray:
            return self._bits[start : start + count]


def test_where_every_draw_is_a_tie_all_768_bits_decide():
    """A uniform fraction of 752 bits against the column's threshold, from nothing but the bits of the two streams."""
    table, rng = alias_table(), np.random.default_rng(0)
    assert max(table.thresholds) == 1 << 752
    columns = rng.integers(24_000, 41_000, DRAWS, dtype=np.uint16)  # about the centre, where thresholds are long
    draws = np.concatenate([columns, table.leading[columns]]).view(np.uint8)
    ties = rng.integers(0, 256, DRAWS * TIE_BYTES, dtype=np.uint8)
    found = DiscreteGaussian(_Chosen(draws, ties), "n").draw(0, DRAWS)

    expected = []
    for at, column in enumerate(columns.tolist()):
        rest = int.from_bytes(ties[at * TIE_BYTES : (at + 1) * TIE_BYTES].tobytes(), "big")
        fraction = int(table.leading[column]) << 736 | rest
        expected.append(column - (1 << 15) if fraction < table.thresholds[column] else int(table.alias[column]))
    assert found.tolist() == expected
    own = (found == columns.astype(int) - (1 << 15)).mean()
    assert 0.1 < own < 0.9  # both outcomes were put to the test
