"""Distribution tests with computed error rates: a test of a noise scale must reject wrong scales, or it is decoration.

Every check compares a p-value with :data:`ALPHA`, so a correct sampler fails a check once in 10^6 runs, on any seed;
:func:`scale_power` says how surely a wrong scale is caught.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

Sample: TypeAlias = npt.NDArray[Any]

ALPHA: Final = 1e-6


def scale_p_value(sample: Sample, scale: float) -> float:
    """Return the two-sided p-value that a centred Gaussian sample has this standard deviation (chi-square, exact)."""
    statistic = float(np.sum((np.asarray(sample, dtype=np.float64) / scale) ** 2))
    law = stats.chi2(np.size(sample))
    return float(min(1.0, 2 * min(law.cdf(statistic), law.sf(statistic))))


def shape_p_value(sample: Sample, scale: float) -> float:
    """Return the p-value that a sample is N(0, scale²) (Kolmogorov-Smirnov)."""
    return float(stats.kstest(np.ravel(sample) / scale, "norm").pvalue)


def scale_power(size: int, ratio: float) -> float:
    """Return the chance that :func:`scale_p_value` is below :data:`ALPHA` if the true scale is ``ratio`` times claimed.

    >>> scale_power(100_000, 0.9) > 1 - 1e-9, scale_power(100_000, 1.1) > 1 - 1e-9
    (True, True)
    >>> f"{scale_power(100_000, 1.0):.1e}"
    '1.0e-06'
    """
    law = stats.chi2(size)
    low, high = law.ppf(ALPHA / 2), law.isf(ALPHA / 2)
    return float(law.cdf(low / ratio**2) + law.sf(high / ratio**2))


def has_scale(sample: Sample, scale: float) -> bool:
    """Return whether the sample is consistent with this scale **and** rules out 0.9 and 1.1 times it."""
    if min(scale_power(np.size(sample), ratio) for ratio in (0.9, 1.1)) < 1 - 1e-6:
        raise ValueError(f"a sample of {np.size(sample)} cannot tell a scale from 0.9 or 1.1 times it")
    wrong = max(scale_p_value(sample, 0.9 * scale), scale_p_value(sample, 1.1 * scale))
    return scale_p_value(sample, scale) > ALPHA > wrong


def mean_p_value(sample: Sample, mean: float) -> float:
    """Return the two-sided p-value that independent observations have this mean (normal approximation)."""
    values = np.asarray(sample, dtype=np.float64)
    z = (values.mean() - mean) / (values.std(ddof=1) / np.sqrt(values.size))
    return float(2 * stats.norm.sf(abs(z)))
