"""Special functions for the accounting and its checks, in double precision.

Each docstring states a bound on the relative error. It is derived in ``docs/mathematics.md`` (section 14) and tested
against 30-digit arithmetic. ``verify`` tolerates 1e-9.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Float64Array: TypeAlias = npt.NDArray[np.float64]

_ROUNDING: Final = 2.0**-53
_ASYMPTOTIC: Final = 10.0
"""From here on the asymptotic series of the scaled error function is accurate to double precision."""
_TERMS: Final = 14
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_CLOSE: Final = 1e-6
"""Below this, a Newton step that is not half of the previous one is rounding error."""
_MOST_STEPS: Final = 200
_LARGEST_EXPONENT: Final = 709.0
_STANDARD: Final = NormalDist()


def scaled_erfc(x: float) -> float:
    """Return e^(x²) erfc(x) with a relative error below 2e-15; infinite below −26.6.

    >>> scaled_erfc(0.0), f"{scaled_erfc(1e6):.9e}"
    (1.0, '5.641895835e-07')
    """
    if x < _ASYMPTOTIC:
        return math.inf if x * x > _LARGEST_EXPONENT else _exp_square(x) * math.erfc(x)
    # 1/(x√π) (1 − 1/(2x²) + 1·3/(2x²)² − …): the error is below the first term left out, which is below 1e-17.
    ratio, total = 0.5 / x / x, 1.0
    for k in range(2 * _TERMS - 1, 0, -2):
        total = 1 - k * ratio * total
    return total / (x * math.sqrt(math.pi))


def normal_cdf(x: float) -> float:
    """Return Φ(x) with a relative error below 2e-15, down to 1e-307.

    >>> normal_cdf(0.0), f"{normal_cdf(-38.0):.4e}"
    (0.5, '2.8854e-316')
    """
    if x > -1:
        return math.erfc(-x / math.sqrt(2)) / 2
    if not x >= -39:
        return 0.0 if x < -39 else math.nan
    # With erfc alone, the rounding error of x/√2 would be multiplied by x².
    return scaled_erfc(-x / math.sqrt(2)) / 2 * _exp_square(x, -0.5)


def normal_quantile(p: float) -> float:
    """Return Φ⁻¹(p) with a relative error below 2e-15, or within 1e-16 of zero; infinite at 0 and 1.

    >>> f"{normal_quantile(0.05):.6f}", normal_quantile(0.0)
    ('-1.644854', -inf)
    """
    if not 0 < p < 1:
        return math.nan if not 0 <= p <= 1 else math.inf if p == 1 else -math.inf
    return _STANDARD.inv_cdf(p)


def gamma_cdf(a: float, x: float) -> float:
    """Return P(a, x), the probability that a gamma variable of shape ``a`` is at most ``x``; see :func:`gamma_tail`."""
    if x <= 0:
        return 0.0
    return 1 - gamma_tail(a, x) if x >= a + 1 else math.exp(_log_poisson(a, x)) * _gamma_series(a, x)


def gamma_tail(a: float, x: float) -> float:
    """Return Q(a, x) = 1 − P(a, x).

    The smaller of P and Q has a relative error below 1e-12 for a up to 1e8, down to 1e-300.
    """
    return 1 - gamma_cdf(a, x) if x < a + 1 else math.exp(_log_poisson(a, x)) * _gamma_fraction(a, x)


def gamma_quantile(a: float, p: float) -> float:
    """Return the x at which P(a, x) = p, for p up to 1/2, with a relative error below 1e-12.

    >>> f"{gamma_quantile(1.0, 0.5):.6f}"
    '0.693147'
    """

    def step(log_x: float) -> float:
        x = math.exp(log_x)
        total = _gamma_series(a, x)
        return (math.log(p) - math.log(total) - _log_poisson(a, x)) * total / a

    root = 1 - 1 / (9 * a) + normal_quantile(p) / (3 * math.sqrt(a))  # Wilson and Hilferty: (x/a)^(1/3) is near normal
    return math.exp(_newton(step, math.log(a * root**3) if root > 0 else (math.log(p) + math.lgamma(a + 1)) / a))


def gamma_upper_quantile(a: float, q: float) -> float:
    """Return the x at which Q(a, x) = q, for q up to 1/2, with a relative error below 1e-12.

    >>> f"{gamma_upper_quantile(1.0, 1e-100):.6f}"
    '230.258509'
    """

    def step(log_x: float) -> float:
        x = math.exp(log_x)
        total = _gamma_fraction(a, x)
        return (math.log(total) + _log_poisson(a, x) - math.log(q)) * total / a

    root = 1 - 1 / (9 * a) - normal_quantile(q) / (3 * math.sqrt(a))
    return math.exp(_newton(step, math.log(a * root**3)))


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return I_x(a, b), the probability that a beta variable is at most ``x``.

    It is also the probability of ``a`` or more successes in a + b − 1 trials. The smaller of it and its complement has
    a relative error below 1e-12 for a + b up to 1e8, down to 1e-300.

    >>> f"{beta_cdf(2, 3, 0.5):.6f}"  # two or more heads in four coin tosses
    '0.687500'
    """
    if not 0 < x < 1:
        return float(x >= 1)
    # Computed exactly, since a and its mean may agree in all but the last digits.
    away = float(Fraction(a) - (Fraction(a) + Fraction(b)) * Fraction(x))
    density = math.exp(_log_binomial(a, b, x, 1 - x, away)) * a * b / (a + b)
    if away > 0:
        return density / _beta_fraction(a, b, x, away)
    return 1 - density / _beta_fraction(b, a, 1 - x, -away)


def beta_upper_quantile(a: float, b: float, q: float) -> float:
    """Return the x at which 1 − I_x(a, b) = q, for q up to 1/2, with a relative error below 1e-12.

    >>> f"{beta_upper_quantile(1, 100, 0.05):.4f}"
    '0.0295'
    """

    def step(logit: float) -> float:
        x, y = 1 / (1 + math.exp(-logit)), 1 / (1 + math.exp(logit))
        away = a * y - b * x
        below = _beta_fraction(b, a, y, -away)
        density = _log_binomial(a, b, x, y, away) + math.log(a * b / (a + b))
        return (density - math.log(below) - math.log(q)) / below

    return 1 / (1 + math.exp(-_newton(step, math.log(a / b))))


def binomial_probabilities(trials: int, log_odds: float) -> Float64Array:
    """Return the probabilities of 0, 1, … ``trials`` successes, each with a relative error below 1e-9 or within 1e-300.

    >>> binomial_probabilities(2, 0.0).round(9).tolist()
    [0.25, 0.5, 0.25]
    """
    odds = math.exp(log_odds)
    chance = 1 / (1 + math.exp(-log_odds))
    # From the most likely count outwards, so that no product grows.
    likeliest = min(trials, int((trials + 1) * chance))
    steps = np.arange(trials + 1, dtype=np.float64)
    steps[likeliest + 1 :] = odds * (trials + 1 - steps[likeliest + 1 :]) / steps[likeliest + 1 :]
    before = np.arange(likeliest, dtype=np.float64)
    steps[:likeliest] = (before + 1) / ((trials - before) * odds)
    rest = trials - likeliest
    unlikely = 1 / (1 + odds)
    steps[likeliest] = math.exp(_log_binomial(likeliest, rest, chance, unlikely, likeliest * unlikely - rest * chance))
    with np.errstate(under="ignore"):
        above = np.cumprod(steps[likeliest:])
        below = np.cumprod(steps[likeliest::-1])[:0:-1]
    return np.concatenate([below, above])


def _exp_square(x: float, factor: float = 1.0) -> float:
    """Return e^(factor·x²), where the factor is a power of two; the leading part of x has an exact square."""
    leading = round(x * 4096) / 4096
    return math.exp(factor * leading * leading) * math.exp(factor * (x - leading) * (x + leading))


def _log_poisson(a: float, x: float) -> float:
    """Return the logarithm of x^a e^−x / Γ(a + 1), in Loader's saddle-point form, where no large terms cancel."""
    return -_stirling_error(a) - _deviance(a, x, a - x) - 0.5 * math.log(2 * math.pi * a)


def _log_binomial(a: float, b: float, x: float, y: float, away: float) -> float:
    """Return the logarithm of Γ(a + b + 1) / (Γ(a + 1) Γ(b + 1)) x^a y^b, where y = 1 − x and away = a y − b x."""
    if not a or not b:
        return a * math.log1p(-y) if not b else b * math.log1p(-x)
    n = a + b
    exponent = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    exponent -= _deviance(a, n * x, away) + _deviance(b, n * y, -away)
    return exponent + 0.5 * math.log(n / (2 * math.pi * a * b))


def _deviance(x: float, mean: float, away: float) -> float:
    """Return x ln(x/mean) − away, where ``away`` = x − mean."""
    v = away / (x + mean)
    if abs(v) > 0.5:
        return x * math.log(x / mean) - away
    # ln(x/mean) = 2 artanh(v), whose first term cancels most of the rest.
    total, power = away * v, 2 * x * v
    for k in range(3, 60, 2):  # each term is at most a quarter of the previous one
        power *= v * v
        total += power / k
    return total


def _stirling_error(a: float) -> float:
    """Return ln Γ(a + 1) minus Stirling's ½ ln(2πa) + a ln a − a."""
    if a < 16:
        return math.lgamma(a + 1) - 0.5 * math.log(2 * math.pi * a) - a * math.log(a) + a
    total = 0.0
    for coefficient in reversed(_STIRLING):
        total = coefficient + total / (a * a)
    return total / a


def _terms(size: float) -> range:
    """Return the range of term numbers of a series or fraction; about 9 times the root of its size are needed."""
    return range(1, 2000 + int(50 * math.sqrt(size)))


def _gamma_series(a: float, x: float) -> float:
    """Return P(a, x) divided by x^a e^−x / Γ(a + 1), as a series of positive terms."""
    total = term = 1.0
    for k in _terms(a):
        term *= x / (a + k)
        total += term
        # Each further term is at most x/(a + k) of the previous one, so a geometric series bounds the rest.
        if term * x <= total * _ROUNDING * (a + k - x):
            break
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """Return Q(a, x) divided by x^a e^−x / Γ(a + 1), for x above a − 1.

    This is Legendre's continued fraction, by Lentz's method.
    """
    b = x + 1 - a
    d = 1 / b
    c, value = math.inf, d
    for k in _terms(a):
        numerator = k * (a - k)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        value *= c * d
        if abs(c * d - 1) <= 2 * _ROUNDING:
            break
    return a * value


def _beta_fraction(a: float, b: float, x: float, away: float) -> float:
    """Return x^a (1 − x)^b / B(a, b) divided by I_x(a, b), where away = a − (a + b) x is above −1.

    This is the continued fraction of DiDonato and Morris (1992), by Lentz's method; its terms are positive up to the
    b-th.
    """
    c = value = a * (away + 1) / (a + 1)
    d = 0.0
    for k in _terms(a + b):
        odd = a + 2 * k - 1
        numerator = (a + k - 1) * (a + b + k - 1) / odd * k * (b - k) / odd * x * x
        denominator = k + k * (b - k) * x / odd + (a + k) * (away + 1 + k * (2 - x)) / (odd + 2)
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        value *= c * d
        if abs(c * d - 1) <= 2 * _ROUNDING:
            break
    return value


def _newton(step_at: Callable[[float], float], x: float) -> float:
    """Return the root that Newton's steps converge to. The function is concave: after the first they go one way."""
    step = step_at(x)
    for _ in range(_MOST_STEPS):
        x += step
        previous, step = step, step_at(x)
        if abs(previous) < _CLOSE and abs(step) >= abs(previous) / 2:  # only rounding error is left
            break
    return x
