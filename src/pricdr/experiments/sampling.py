"""A sparser source: a share of its ratings, drawn so that the curve over several shares is one of paired samples."""

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError
from pricdr.randomness import Simulation


def sampled_source(source: Ratings, share: float, seed: int) -> Ratings:
    """Return a share of the ratings, over the same users and items; with one seed smaller shares lie in larger ones.

    The number is exact (rounded), and not a coin for every rating: the density of the sample is then what the axis
    says. Nobody is dropped from the lists, since both parties have agreed on them: a user may be left without a rating.
    """
    if not 0 < share <= 1:
        raise ParameterError(f"the share of the source must lie in (0, 1], got {share!r}")
    if share == 1:
        return source
    # One order for every share, of which the first so many are kept: that is what nests them.
    order = Simulation(seed).generator("sampled source").permutation(len(source))
    kept = np.zeros(len(source), dtype=bool)
    kept[order[: round(share * len(source))]] = True
    return source.only(kept)
