"""Newcomers: the users who show what a release row is worth on its own.

A release serves cold users only if it beats popularity for users whose rows were not used in fitting. These are
validation's cold users. If there are too few, some warm users stand in for them: their rows are left out while rows are
fitted to histories, and they are then scored by their rows alone. If their rows had been fitted, a network that only
memorised them would look like one that learnt.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pricdr.data.csr import sp
from pricdr.data.ratings import IntArray
from pricdr.data.splits import NEGATIVES, BoolArray, HeldOut, draw_negatives
from pricdr.evaluation.metrics import Float64Array
from pricdr.evaluation.paired_tests import clearly_above
from pricdr.models.inputs import Inputs
from pricdr.randomness import Simulation
from pricdr.training.sampling import LISTED

FEWEST: Final = 10
"""Fewer cold users show little: two of them are both served better by chance in one case of four."""
_SHARE: Final = 0.2
_FEWEST_STAND_INS, _MOST_STAND_INS = 30, 1000
"""Of the users with a history and a row. They cost little: their rows are left out only while a choice is made."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Held-out items of users who are scored by their release rows alone."""

    held_out: HeldOut
    stand_ins: BoolArray
    """A mask over the users of :class:`Inputs`: warm newcomers, whose rows must not be fitted to their histories."""

    def hidden_from(self, inputs: Inputs) -> Inputs:
        """Return the inputs without the histories of the stand-ins, which makes them cold users."""
        if not self.stand_ins.any():
            return inputs
        kept = sp.csr_array(sp.diags_array((~self.stand_ins).astype(np.float64)) @ inputs.ratings)
        kept.eliminate_zeros()
        return replace(inputs, ratings=kept)


def select_newcomers(inputs: Inputs, validation: HeldOut | None, *, seed: int) -> Newcomers:
    """Return validation's cold users who have a row, with stand-ins added if they are fewer than ten.

    Without validation all newcomers are stand-ins, and one rating of each is held out.
    """
    warm = np.diff(inputs.ratings.indptr) > 0
    simulation = Simulation(seed)
    if validation is None:
        stand_ins = _draw_stand_ins(np.flatnonzero(warm & inputs.present), simulation)
        return Newcomers(_held_out(inputs, stand_ins, simulation), _mask(stand_ins, len(warm)))
    users = validation.users
    cold = ~warm[users] & inputs.present[users]
    if cold.sum() >= FEWEST:
        return Newcomers(validation.only(cold), _mask(users[:0], len(warm)))
    candidates = np.unique(users[warm[users] & inputs.present[users]])
    is_stand_in = _mask(_draw_stand_ins(candidates, simulation), len(warm))
    return Newcomers(validation.only(cold | is_stand_in[users]), is_stand_in)


def shows_gain(own: Float64Array, popular: Float64Array) -> bool:
    """Return whether rows alone beat popularity by more than a standard error; False for fewer than two users."""
    return len(own) > 1 and clearly_above(own, popular)


def _draw_stand_ins(candidates: IntArray, simulation: Simulation) -> IntArray:
    """Return a fifth of the candidates, but at least thirty, and at most a thousand and a third of them."""
    count = min(max(round(_SHARE * len(candidates)), _FEWEST_STAND_INS), _MOST_STAND_INS, len(candidates) // 3)
    return np.sort(simulation.generator("stand-ins").permutation(candidates)[:count])


def _mask(users: IntArray, count: int) -> BoolArray:
    mask = np.zeros(count, dtype=bool)
    mask[users] = True
    return mask


def _held_out(inputs: Inputs, users: IntArray, simulation: Simulation) -> HeldOut:
    """Hold out one rating of each user, to be ranked among 99 items the user has not rated, or as many as there are.

    This also works where there are too few items to set any aside in the usual way.
    """
    ratings, n_items = inputs.ratings, inputs.ratings.shape[1]
    rows = [ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]] for user in users]
    count = min(NEGATIVES, n_items - max((len(rated) for rated in rows), default=n_items))
    if count < 1:
        return HeldOut(users[:0], users[:0], np.zeros((0, 1), dtype=np.int64))
    draws = simulation.generator("stand-ins: items")
    items = np.array([draws.choice(rated) for rated in rows], dtype=np.int64)
    if n_items > LISTED:  # listing all items for each user would take minutes
        codes = np.repeat(np.arange(len(users), dtype=np.int64), [len(rated) for rated in rows]) * n_items
        codes += np.concatenate(rows)
        drawn = draw_negatives(np.sort(codes), n_items, np.arange(len(users)), count, draws)
        return HeldOut(users, items, drawn)
    unrated = (np.setdiff1d(np.arange(n_items), rated) for rated in rows)
    return HeldOut(users, items, np.array([draws.permutation(others)[:count] for others in unrated]))
