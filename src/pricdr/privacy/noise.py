"""Exact integer noise: discrete Gaussians, drawn from a table over a secret stream.

Floating-point Gaussians leak through their low bits, so privacy noise is an integer Z with P(Z = z) proportional to
exp(−z²/2s²), s = 2^10 grid steps, or more where a finer grid is needed. The table's probabilities are whole multiples
of 2^-768 in 2^16 alias columns. A draw takes 32 bits (16 choose the column, 16 are compared with its threshold), and
only a tie, one draw in 65,536, looks at the other 736 bits of the threshold: 768-bit precision for 4 bytes a draw.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Int16Array, Int32Array
from pricdr.privacy.accounting import GRID_STEPS, MAX_REFINEMENT
from pricdr.randomness import Randomness, Seal, Stream

PROBABILITY_BITS: Final = 768
TAIL: Final = 31 * GRID_STEPS  # largest absolute value drawn; the exact law puts less than 2^-691 beyond it
_COLUMN_BITS: Final = 16
_COLUMNS: Final = 1 << _COLUMN_BITS
_CENTRE: Final = _COLUMNS // 2
_DEPTH: Final = PROBABILITY_BITS - _COLUMN_BITS
_REST: Final = _DEPTH - 16
_FIXED_POINT: Final = 832  # bits after the point in the computation of the probabilities; see :func:`probabilities`

_DRAW_BYTES: Final = 4
_GROUP: Final = 1 << 14  # draws that share one contiguous stretch of the stream: columns first, then fractions


@cache
def probabilities() -> tuple[int, ...]:
    """Return P(Z = z) for z = 0 … TAIL in multiples of 2^-768; they add up, both signs counted, to exactly 2^768.

    Weights follow w(z+1) = w(z) q^(2z+1), q = exp(−1/2s²), in fixed point. Every product rounds down by at most 2^-832,
    so the error of 2·TAIL of them stays below 2^-810. What rounding down leaves over goes to z = 0.
    """
    one = 1 << _FIXED_POINT
    ratio = _exp_minus_inverse(2 * GRID_STEPS * GRID_STEPS)
    step = ratio * ratio >> _FIXED_POINT
    weights = [one]
    for _ in range(TAIL):
        weights.append(weights[-1] * ratio >> _FIXED_POINT)
        ratio = ratio * step >> _FIXED_POINT
    total = 2 * sum(weights) - one
    exact = [(weight << PROBABILITY_BITS) // total for weight in weights]
    exact[0] += (1 << PROBABILITY_BITS) - (2 * sum(exact) - exact[0])
    return tuple(exact)


@cache
def alias_table() -> tuple[tuple[int, ...], npt.NDArray[np.uint16], Int16Array]:
    """Return the table of :func:`probabilities`, built in whole numbers: it represents them exactly.

    Column c means the value c − 2^15 below its threshold and its alias from there on (Walker's method). A threshold is
    out of 2^752; a full column is its own alias. Returns thresholds, the first 16 bits of each, and aliases.
    """
    full = 1 << _DEPTH
    mass = [0] * _COLUMNS
    for value, probability in enumerate(probabilities()):
        mass[_CENTRE + value] = mass[_CENTRE - value] = probability
    alias = list(range(_COLUMNS))
    poor = [column for column in range(_COLUMNS) if mass[column] < full]
    rich = [column for column in range(_COLUMNS) if mass[column] > full]
    while poor:  # a donor always remains: the masses add up to exactly one full column each
        column, donor = poor.pop(), rich[-1]
        alias[column] = donor
        mass[donor] -= full - mass[column]
        if mass[donor] <= full:
            rich.pop()
            if mass[donor] < full:
                poor.append(donor)
    leading = [min(threshold >> _REST, 0xFFFF) for threshold in mass]
    values = (np.array(alias, dtype=np.int32) - _CENTRE).astype(np.int16)
    return tuple(mass), np.array(leading, dtype=np.uint16), values


class DiscreteGaussian:
    """Independent draws at positions 0, 1, 2, …; the value at a position depends on the stream and on it alone.

    With a ``refinement`` r above 1 a draw is r·Z₁ + Z₂ of two table draws: a discrete Gaussian whose parameter is
    √(1 + r²) times larger (``docs/mathematics.md``, section 3), for a grid that much finer at the same σ.
    """

    def __init__(self, randomness: Randomness, name: str, *, refinement: int = 1) -> None:
        if not 1 <= refinement <= MAX_REFINEMENT:
            raise ValueError(f"refinement must lie in 1 … {MAX_REFINEMENT}, got {refinement}")
        self._name, self._refinement = name, refinement
        self._coarse = _TableDraws(randomness, name)
        self._fine = _TableDraws(randomness, f"{name} refined") if refinement > 1 else None

    def draw(self, start: int, count: int) -> Int32Array:
        """Return the draws ``start`` to ``start + count``, in grid steps."""
        values = self._coarse.draw(start, count).astype(np.int32)
        if self._fine is not None:
            values *= self._refinement
            values += self._fine.draw(start, count)
        return values

    @property
    def largest(self) -> int:
        """No draw exceeds this in absolute value."""
        return TAIL * (1 if self._fine is None else self._refinement + 1)

    def sealed(self, seal: Seal) -> tuple[str, int, dict[str, bytes]]:
        """Return what makes the same draws in another process: name, refinement, the sealed keys of the streams."""
        used = [one for one in (self._coarse, self._fine) if one is not None]
        keys = {name: stream.sealed(seal, name) for draws in used for name, stream in draws.streams.items()}
        return self._name, self._refinement, keys


@dataclass(frozen=True, repr=False)
class OpenedStreams:
    """The streams that were sealed, and no others, for a process that has the seal's key."""

    keys: dict[str, bytes]
    seal: Seal

    def stream(self, name: str) -> Stream:
        """Return the stream that was sealed under this name."""
        return self.seal.stream(self.keys[name], name)


class _TableDraws:
    """Draws of parameter 2^10 at positions of a stream of their own."""

    def __init__(self, randomness: Randomness, name: str) -> None:
        self._draws, self._ties = randomness.stream(f"{name} draws"), randomness.stream(f"{name} ties")
        self.streams = {f"{name} draws": self._draws, f"{name} ties": self._ties}
        self._table = alias_table()

    def draw(self, start: int, count: int) -> Int16Array:
        """Return the draws ``start`` to ``start + count``, in grid steps."""
        first, last = start // _GROUP, -(-(start + count) // _GROUP)
        values = np.empty((last - first, _GROUP), dtype=np.int16)
        for row, group in enumerate(range(first, last)):
            self._draw_group(group, values[row])
        return values.reshape(-1)[start - first * _GROUP :][:count]

    def _draw_group(self, group: int, out: Int16Array) -> None:
        thresholds, leading_bits, alias = self._table
        start = group * _GROUP
        words = self._draws.read(start * _DRAW_BYTES, _GROUP * _DRAW_BYTES).view(np.uint16)
        column, fraction = words[:_GROUP], words[_GROUP:]
        leading = leading_bits.take(column)
        own = (column - np.uint16(_CENTRE)).view(np.int16)
        np.copyto(out, alias.take(column))
        np.copyto(out, own, where=fraction < leading)
        # One draw in 65,536 needs its other 736 bits. How many do depends on the random bits alone, not on ratings.
        for tie in np.flatnonzero(fraction == leading):
            threshold = thresholds[column[tie]] & ((1 << _REST) - 1)
            rest = self._ties.read((start + int(tie)) * _REST // 8, _REST // 8)
            if int.from_bytes(rest.tobytes(), "big") < threshold:
                out[tie] = own[tie]


def _exp_minus_inverse(denominator: int) -> int:
    """Return exp(−1/denominator) in fixed point, rounded down; the alternating series needs some twenty terms."""
    guard = 32
    total = term = 1 << (_FIXED_POINT + guard)
    divisor = 0
    while term:
        divisor += 1
        term = abs(term) // (denominator * divisor)
        total += -term if divisor % 2 else term
    return (total >> guard) - 1
