"""Ratings over time, as an adversary may hope to find them handled; each wrong way beside ours.

*Merged first*: repeats are merged over all days, and other days are left out afterwards. A row of next year then
deletes an entry of this year's release, whose ledger never paid for it. *The last period counts*: repeats are merged
across periods. A user whose items all occur in the last period again hides all earlier ones with it.
"""

from pathlib import Path
from typing import Final

import numpy as np

from pricdr import Bounds, Guarantee, Ratings, Unit, read_ratings
from pricdr.arrays import Float64Array
from pricdr.data.csr import csr_of_cells
from pricdr.data.periods import PeriodRatings, Window
from pricdr.data.reading.read import read_ratings_file
from pricdr.privacy.accounting import LATTICE_FACTOR
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import CalibratedStep, Declared, calibrate, total_mu
from pricdr.randomness import Secret, Simulation
from tests.attacks.evidence import Tally, decide
from tests.attacks.integer_reference import OneRound, Transcript, trace_steps
from tests.attacks.learnt import with_noise
from tests.attacks.rows import likelihood_ratio

YEAR: Final = Window.parse("2026-01-01", "2027-01-01")
_END: Final = 1_798_761_600.0  # 2027-01-01 in UTC, in seconds since 1970


def merged_first(file: Path) -> Ratings:
    """FLAWED: the latest row of each pair, of whatever day; and then the pairs whose row is of the year."""
    reading = read_ratings_file(file, with_times=True)
    assert reading.times is not None
    return reading.ratings.only(reading.times < _END)


def of_the_year(file: Path) -> Ratings:
    """Ours: the rows of the year, as if there were no others."""
    return read_ratings(file, window=YEAR)


FOLLOWERS: Final = 40
PERIODS: Final = 12
CLIP: Final = 1.0


def adding_periods(ratings: Float64Array) -> Entries:
    """Ours: what publish adds up, of ratings (users x periods x items)."""
    users, periods, items = ratings.shape
    cells = ratings.reshape(users * periods, items)
    given = PeriodRatings(
        matrix=csr_of_cells(*cells.nonzero(), cells[cells.nonzero()], cells.shape),
        owners=np.arange(len(cells)) // periods,
        users=tuple(f"u{at}" for at in range(users)),
        items=tuple(f"i{at}" for at in range(items)),
        window=Window(YEAR.begin, YEAR.until, 31),
        has_values=False,
    )
    return Entries.of(given, Bounds(clip=CLIP), summed=True)


def last_period_counts(ratings: Float64Array) -> Entries:
    """FLAWED: of each pair the last period in which it occurs, and then as ours."""
    later = np.cumsum(ratings[:, ::-1], axis=1)[:, ::-1] > ratings
    return adding_periods(np.where(later, 0.0, ratings))


def every_item_again() -> tuple[Float64Array, Float64Array]:
    """Return ratings without and with the last period of one user: every item that it rated in one before."""
    items = PERIODS - 1
    before = np.zeros((FOLLOWERS + 1, PERIODS, items))
    before[:FOLLOWERS, np.arange(items), np.arange(items)] = 1  # one direction for all items
    before[-1, np.arange(items), np.arange(items)] = 1
    after = before.copy()
    after[-1, -1] = 1
    return before, after


def one_period() -> tuple[Float64Array, Float64Array]:
    """Return ratings without and with one period of a user, who has others."""
    before, after = every_item_again()
    after[-1, -1, 1:] = 0
    return before, after


def calibrated(epsilon: float = 4.0) -> tuple[CalibratedStep, ...]:
    """Return the step of a round as publish would settle it for this unit."""
    window = Window(YEAR.begin, YEAR.until, 31)
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=Unit.USER_PERIOD, window=window)
    bounds = Bounds(clip=CLIP)
    declared = Declared(bounds=bounds, unit=guarantee.unit, users=FOLLOWERS + 1, periods=PERIODS)
    return calibrate(_round().steps(declared), guarantee, bounds)


def claimed() -> float:
    """Return the μ that bounds every attack."""
    return total_mu(calibrated()) * LATTICE_FACTOR


def sums(entries: Entries, steps: tuple[CalibratedStep, ...], *, noisy: Secret | None = None) -> Float64Array:
    """Return the rows in grid steps, from the real integer code."""
    seen: Transcript
    with trace_steps() as seen:
        _round().publish(entries, Run(steps, noisy or Simulation(0), noisy=noisy is not None))
    return np.rint(seen["rows"] / steps[0].grid.step)


def distance(worlds: tuple[Entries, Entries], *, epsilon: float = 4.0) -> float:
    """Return how far apart two inputs are, over what the steps claim, rounding included."""
    (step,) = calibrated(epsilon)
    one, two = (sums(world, (step,)) for world in worlds)
    return float(np.linalg.norm(two - one)) * step.grid.step / step.grid.sigma / step.mu


def whole_matrix(
    worlds: tuple[Entries, Entries], *, trials: int, rng: np.random.Generator, noise_scale: float = 1.0
) -> Tally:
    """Guess by likelihood ratio over all rows which input was published; a ``noise_scale`` below 1 cheats."""
    steps = tuple(with_noise(one, noise_scale) for one in calibrated())
    absent, present = (sums(world, steps).ravel()[None] for world in worlds)
    truth = rng.random(trials) < 0.5
    published = []
    for world in truth:
        with Secret() as secret:
            published.append(sums(worlds[int(world)], steps, noisy=secret).ravel())
    return Tally.of(truth, decide(likelihood_ratio(np.array(published), absent, present), rng))


def _round() -> OneRound:
    guide = np.zeros((FOLLOWERS + 1, 1))
    guide[:, 0] = 1.0
    return OneRound(dim=1, first=guide, centring=0.0, item_prior=0.0)
