"""What a release will take, in time and memory, and what each of several releases to come may cost."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from pricdr.errors import BudgetError, ParameterError, require_count
from pricdr.parallel import cores
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, composed_epsilon, mu_of
from pricdr.privacy.ledger import Balance
from pricdr.privacy.steps import Bounds, CalibratedStep, Declared, calibrate
from pricdr.privacy.strategies.spectral import Spectral

_START: Final = 0.05
_BLOCKS: Final = 8 << 20  # bytes of the blocks that are being worked on
_ALONE: Final = 0.3  # the part of the work that runs on one core, whatever there is


@dataclass(frozen=True)
class _Price:
    """What a step costs in processor seconds (all per column) and in bytes; measured (``benchmarks/publish.py``)."""

    user: float
    rating: float
    item: float
    number_bytes: int
    rating_bytes: int
    item_bytes: int


_GIVEN: Final = _Price(15e-9, 0.6e-9, 50e-9, number_bytes=4, rating_bytes=25, item_bytes=10)
_LEARNT: Final = _Price(100e-9, 3.6e-9, 50e-9, number_bytes=60, rating_bytes=45, item_bytes=60)


@dataclass(frozen=True)
class Estimate:
    """What a release takes beyond reading the ratings. Right within a factor of a few: machines differ."""

    processor_seconds: float
    memory: int
    """Bytes, on top of the ratings themselves."""
    item_rows: int
    """Bytes of what is computed for items, in the step where that is most; likewise for users."""
    user_rows: int
    learns: bool  # from the ratings, in any step: users' rows are then needed again, not only written

    @property
    def seconds(self) -> float:
        """Time that passes, on as many cores as this process may use."""
        return self.processor_seconds * (_ALONE + (1 - _ALONE) / cores())


def estimate(calibrated: Iterable[CalibratedStep], *, ratings: int, items: int) -> Estimate:
    """Return what these steps take for so many ratings of so many items."""
    seconds, memory, item_rows, user_rows, learns = _START, 0, 0, 0, False
    for step in (one.step for one in calibrated):
        price = _LEARNT if step.learnt else _GIVEN
        learns |= step.learnt
        columns = step.numbers
        seconds += columns * (price.user * step.rows + price.rating * ratings + price.item * items)
        # Steps follow one another, and each gives its memory back.
        of_items, of_users = columns * price.item_bytes * items, columns * price.number_bytes * step.rows
        memory = max(memory, of_items + of_users + price.rating_bytes * ratings)
        item_rows, user_rows = max(item_rows, of_items), max(user_rows, of_users)
    return Estimate(seconds, memory + _BLOCKS, item_rows, user_rows, learns)


MAX_RELEASES: Final = 1_000_000
EXAMPLE_USERS: Final = 1_000  # listed users of the release that σ is stated for: their number hardly changes it
_DIGITS: Final = Context(prec=6, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Allowance:
    """What each of several releases to come may cost, all alike."""

    releases: int
    mu: float
    guarantee: Guarantee  # what each may claim: the largest ε at the budget's δ, rounded down to six digits

    @property
    def sigma(self) -> float | None:
        """σ of the published numbers under the default strategy, each rating counted as 1; None if it cannot be had."""
        unit, window = self.guarantee.unit, self.guarantee.window
        bounds = Bounds(clip=None if unit is Unit.RATING else 1.0)  # σ grows with the clip
        periods = 1 if window is None else window.periods
        declared = Declared(bounds=bounds, unit=unit, users=EXAMPLE_USERS, periods=periods)
        strategy = Spectral().resolved(self.guarantee, ())
        try:
            return calibrate(strategy.steps(declared), self.guarantee, bounds)[-1].grid.sigma
        except ParameterError:  # so small an ε that rounding alone would take all of it
            return None


def equal_allowance(balance: Balance, releases: int, share: float = 1.0) -> Allowance:
    """Return what each of ``releases`` may cost if they share this part of what is left, or :class:`BudgetError`."""
    require_count(releases=releases)
    if releases > MAX_RELEASES:
        raise ParameterError(f"releases must be at most {MAX_RELEASES:,}, got {releases:,}")
    mu = balance.mu_left * (share / releases) ** 0.5  # μ² is what adds up: each gets far more than ε/n
    epsilon = composed_epsilon([(mu, 1)], balance.budget.delta)
    # What is left is computed with a margin of 1e-12, which must not turn an epsilon of 8 into 7.99999.
    rounded = float(_DIGITS.create_decimal(Decimal(epsilon * (1 + 1e-10))))
    if not rounded:
        raise BudgetError(
            f"nothing is left of {balance.budget} that {releases:,} more release{'' if releases == 1 else 's'} could "
            "claim"
        )
    return Allowance(releases, mu, replace(balance.budget, epsilon=rounded))


def allowance_at(balance: Balance, epsilon: float) -> Allowance:
    """Return how many more releases of this ε at the budget's δ fit; :class:`BudgetError` where not even one does.

    >>> budget = Guarantee(epsilon=8, delta=1e-6)
    >>> allowance_at(Balance.unspent(budget), 8.0).releases, allowance_at(Balance.unspent(budget), 1.0).releases
    (1, 41)
    """
    each = replace(balance.budget, epsilon=epsilon)
    mu = mu_of(each.epsilon, each.delta) / LATTICE_FACTOR
    releases = min(MAX_RELEASES, balance.room_for(mu))
    if not releases:
        raise BudgetError(
            f"too little is left for one more release of epsilon {epsilon:g}: the budget, {balance.budget}, has room "
            f"for one of {balance.room:.6g}"
        )
    return Allowance(releases, mu, each)
