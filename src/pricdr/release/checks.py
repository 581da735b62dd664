"""What a certificate alone cannot show: that a matrix has the stated noise, and a ledger paid for it.

**The matrix.** Every number carries independent noise of a known σ. Whatever the signal under it, sums of squares then
have floors: a signal makes ‖signal + noise‖² stochastically larger, so the chi-square quantiles of noise alone bound it
from below, for rows, for columns and for differences of either. Where something declared bounds the signal, there are
ceilings too. An honest release fails any of these checks once in 10^10 times (docs/mathematics.md, section 11).

**The ledger.** Every certificate names its line in the ledger and that line's hash, which covers everything before it.
So a ledger that was rolled back, replaced or rewritten contradicts a release that exists, and a line that was cut off
can be rebuilt from the release it paid for. What no check can see: a ledger forged by whoever has its key, or an old
copy of it in place of a newer one whose further releases nobody presents.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError
from scipy.special import betainc, gammainccinv, gammaincinv

from pricdr.arrays import Float32Array, Float64Array
from pricdr.errors import LedgerError, VerificationError
from pricdr.privacy.ledger import Balance, Ledger, Spend
from pricdr.privacy.steps import MAX_ITEMS
from pricdr.release.certificate import Certificate, StepStatement, alike
from pricdr.release.certify import declared_by, guaranteed_by, ledger_statement
from pricdr.release.folder import row_chunks, verify
from pricdr.signing import public_text, read_public_key

ALPHA: Final = 1e-12  # the probability that a single check refuses an honest release
LEVELS: Final = (0.5, 0.1, 1e-3)  # quantiles of noise alone below which short rows or columns are counted
_MANY: Final = 1_000_000  # from so many numbers on a floor is a bound instead of the exact quantile
_SLACK: Final = 2.0**-50  # relative: what a few roundings of double precision can do to a multiple of the grid


def check_matrix(matrix: Float32Array, certificate: Certificate) -> None:
    """Refuse a matrix with values off the grid, too little noise somewhere, or rows longer than anything declared."""
    c, at = certificate, 0
    # Without noise: items add up along directions of norm at most 1.
    clip = None if c.bounds.clip is None else c.bounds.clip * declared_by(c).periods
    longest = (c.items or MAX_ITEMS) * c.bounds.rating_bound if clip is None else clip
    for step in (step for step in c.steps if step.published):
        values = matrix[:, at : at + step.numbers]
        _check_grid(values, step.grid)
        _check_ceiling(values, step, longest)
        if step.sigma > 0:
            check_floors(values, step.sigma, step.grid)
        at += step.numbers
    if at != c.dim:
        raise VerificationError(f"the published steps have {at} columns, the certificate states {c.dim}")


def _check_grid(values: Float32Array, grid: float) -> None:
    """Refuse numbers off the grid, to the last bit: nothing hides in a multiple's one spelling."""
    if not np.isfinite(values).all():  # before any conversion: a signalling nan would warn there
        raise VerificationError("the matrix holds a value that is not a finite number")
    for part in row_chunks(values):
        stated = part.ravel()
        # Adding 0 makes -0 a 0: publish adds up whole numbers, which have no -0.
        exact = (np.rint(stated / np.float64(grid)) + 0.0) * grid
        off = exact.astype(np.float32).view(np.uint32) != stated.view(np.uint32)
        # The grid is stated as sigma over a whole number, whose last bit may differ from the one publish drew on.
        ends = [(exact[off] * (1 + slack)).astype(np.float32).view(np.uint32) for slack in (-_SLACK, _SLACK)]
        if ((ends[0] != stated[off].view(np.uint32)) & (ends[1] != stated[off].view(np.uint32))).any():
            raise VerificationError("the matrix holds a value that is not a multiple of the grid")


def _check_ceiling(values: Float32Array, step: StepStatement, longest: float) -> None:
    """Refuse a row that is longer than any signal and, but for one release in 10^12, its noise."""
    rows, width = values.shape
    noise = step.sigma * math.sqrt(2 * float(gammainccinv(width / 2, ALPHA / rows)))
    most = (longest + noise) * (1 + 1e-6) + step.grid * width
    found = max(float(np.einsum("ij,ij->i", part, part, dtype=np.float64).max()) for part in row_chunks(values)) ** 0.5
    if found > most:
        raise VerificationError(
            f"the matrix has a row of norm {found:.4g}: the declared bounds and this noise allow {most:.4g}"
        )


def check_floors(values: Float32Array, sigma: float, grid: float) -> None:
    """Refuse values that are smaller than noise of this σ alone would be, in rows, columns or differences."""
    _check_floor(values, sigma, grid, "some values are")
    half, columns = len(values) // 2, values.shape[1] // 2
    # Disjoint pairs: their differences over √2 carry noise of the same σ, again independent.
    for what, left, right in (
        ("differences of rows are", values[0 : 2 * half : 2], values[1 : 2 * half : 2]),
        ("differences of rows are", values[:half], values[half : 2 * half]),
        ("differences of columns are", values[:, :columns], values[:, columns : 2 * columns]),
    ):
        _check_floor((left - right) / np.sqrt(2), sigma, grid, what)
    _check_repeats(values, sigma, grid)


def _check_floor(values: Float32Array, sigma: float, grid: float, what: str) -> None:
    if not values.size:
        return
    chunks, of_columns = [], np.zeros(values.shape[1])
    for part in row_chunks(values):
        squares = (part.astype(np.float64) / sigma) ** 2
        chunks.append(squares.sum(axis=1))
        of_columns += squares.sum(axis=0)
    of_rows = np.concatenate(chunks)
    # On the grid a vector of noise can be shorter than a continuous one by half a cell's diagonal.
    cell = grid / sigma / 2
    whole = np.array([of_rows.sum()])
    for sums, count in ((whole, values.size), (of_rows, values.shape[1]), (of_columns, len(values))):
        if too_short(sums, count, cell * math.sqrt(count)):
            raise VerificationError(f"the matrix holds less noise than sigma states: {what} too small")


def too_short(sums: Float64Array, count: int, slack: float, *, alpha: float = ALPHA) -> bool:
    """Return whether more sums of ``count`` squares are small than noise alone could make small."""
    lengths = np.sqrt(sums)
    for level in (*LEVELS, alpha / len(sums)):
        most = _most_often(len(sums), level, alpha)
        if most == len(sums):  # all of them may be short by chance: no floor to compute
            continue
        floor = floor_of(count, level) - slack
        if np.count_nonzero(lengths < floor) > most:
            return True
    return False


def floor_of(count: int, level: float) -> float:
    """Return a length that ``count`` standard normal numbers fall short of with a probability of at most ``level``."""
    if count < _MANY:
        return math.sqrt(2 * gammaincinv(count / 2, level))
    # From here on scipy computes the quantile too large and would refuse honest releases. The bound of Laurent and
    # Massart (2000), χ² ≥ n − 2√(n ln(1/level)), is a length smaller by less than 0.1 %.
    return math.sqrt(count - 2 * math.sqrt(count * math.log(1 / level)))


def _most_often(trials: int, chance: float, alpha: float) -> int:
    """Return the number of successes that is exceeded with a probability of at most ``alpha``."""
    # betainc: the probability of more than k
    return bisect_left(range(trials), True, key=lambda k: bool(betainc(k + 1, trials - k, chance) <= alpha))


def _check_repeats(values: Float32Array, sigma: float, grid: float) -> None:
    """Refuse a row that occurs twice, unless the grid is so coarse that it can happen by chance."""
    rows, width = values.shape
    # Two rows agree by chance with at most this probability per coordinate, over all pairs of rows.
    likeliest = math.log(grid / sigma / math.sqrt(2 * math.pi))  # of any single value
    if rows < 2 or width * likeliest + 2 * math.log(rows) > math.log(ALPHA):
        return
    whole = np.ascontiguousarray(values).view(np.dtype((np.void, width * 4))).ravel()
    if len(np.unique(whole)) != rows:
        raise VerificationError("the matrix has the same row twice, which independent noise makes impossible")


def check_ledger(
    ledger: Ledger, folders: Iterable[Path] = (), *, public_key: Path | None = None
) -> tuple[Balance, tuple[int, ...]]:
    """Check a ledger, that it holds each of these releases and, with ``public_key``, that all are signed by it.

    Return it, and the numbers of releases that it paid for and nobody gave: elsewhere, or never finished.
    """
    try:
        balance = ledger.read()
    except LedgerError as error:
        raise VerificationError(str(error)) from error
    if public_key is not None and balance.signed_by != public_text(read_public_key(public_key)):
        who = "signed by another key" if balance.signed_by else "not signed"
        raise VerificationError(
            f"{ledger.path} is {who}, so {public_key} vouches for none of it: its last line may have been changed, or "
            "lines cut off"
        )
    paid: dict[int, tuple[Path, str]] = {}
    for folder in folders:
        try:
            release = verify(folder, public_key=public_key)
        except VerificationError as error:
            raise VerificationError(f"{folder}: {error}") from error  # several are checked at a time
        number = _number_of(release.certificate, balance, folder, ledger)
        # Two different matrices for one line: the second was never paid for, however well both verify.
        other, matrix = paid.setdefault(number, (folder, release.sha256()))
        if matrix != release.sha256():
            both = f"{folder} and {other} both claim to be release {number}"
            raise VerificationError(f"{both} of {ledger.path}: it paid for one")
    return balance, tuple(at for at in range(1, len(balance.spends) + 1) if at not in paid)


def lost_line(certificate: Certificate) -> Spend:
    """Rebuild a release's line from its certificate; its hash shows whether it is what was written."""
    account, asked = certificate.ledger, certificate.asked
    if account is None or account.recorded is None or account.nonce is None or account.head is None:
        raise LedgerError("the release does not name its line in a ledger: it was made without one")
    assert asked is not None and certificate.mu is not None, "only what has noise is paid for"  # noqa: PT018
    return Spend(
        mu=certificate.mu,
        dim=account.numbers,
        strategy=certificate.strategy.name,
        promise=str(guaranteed_by(certificate, asked)),
        recorded=account.recorded,
        nonce=account.nonce,
        number=account.releases,
        hash=account.head,
    )


def _number_of(certificate: Certificate, balance: Balance, folder: Path, ledger: Ledger) -> int:
    """Return the release's number in the ledger, once all that its certificate says of the ledger holds."""
    account = certificate.ledger
    if account is None:
        raise VerificationError(f"{folder} was made without a ledger: {ledger.path} does not count it")
    budget = guaranteed_by(certificate, account.budget_epsilon, account.budget_delta)
    if budget != balance.budget or account.opening != balance.opening:
        raise VerificationError(
            f"{folder} was made with a ledger other than {ledger.path}, or the ledger was replaced: "
            "their first lines differ"
        )
    until = balance.until(account.releases)
    try:
        # What is stated must be what would be stated again, of the ledger as it was then.
        again = ledger_statement(until) if len(until.spends) == account.releases else None
    except ValidationError:  # a forged line, such as one without a nonce, which no release can state
        again = None
    if (
        again is None
        or not alike(certificate.mu, until.spends[-1].mu)
        or not all(map(alike, dict(account).values(), dict(again).values()))
    ):
        raise VerificationError(
            f"{ledger.path} does not hold release {account.releases} as {folder} states it: the ledger was rolled back "
            "or rewritten, and what it shows as left may have been spent already"
        )
    return account.releases
