"""Distribution tests with computed error rates: a test of a scale must reject wrong scales, or it is decoration."""

import numpy as np
from scipy import stats

from pricdr.testing.strategies import ALPHA, has_scale, scale_p_value, scale_power

__all__ = ["ALPHA", "has_scale", "mean_p_value", "scale_p_value", "scale_power", "shape_p_value"]


def shape_p_value(sample, scale):
    """Return the p-value that a sample is N(0, scale²) (Kolmogorov-Smirnov)."""
    return float(stats.kstest(np.ravel(sample) / scale, "norm").pvalue)


def mean_p_value(sample, mean):
    """Return the two-sided p-value that independent observations have this mean (normal approximation)."""
    values = np.asarray(sample, dtype=np.float64)
    z = (values.mean() - mean) / (values.std(ddof=1) / np.sqrt(values.size))
    return float(2 * stats.norm.sf(abs(z)))
