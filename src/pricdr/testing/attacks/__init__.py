"""Attacks on published matrices, for anybody's mechanism: what they need to know, what they score, what is allowed.

``projection``, ``rows``, ``reconstruction`` and ``metadata`` hold the attacks, plain functions on arrays and folders;
``evidence`` counts guesses and compares them with a guarantee; ``target`` is our mechanism as something to attack;
``trials``, ``row_trials`` and ``table`` run the attacks on the variants of ``testing.flawed`` and on ours; ``learnt``
and ``transcript`` do so for directions that are learnt from the ratings.
"""

from pricdr.testing.attacks.evidence import Tally, contest, decide, guess_bound, power_bound, refutation_power
from pricdr.testing.attacks.metadata import metadata, metadata_difference
from pricdr.testing.attacks.projection import lattice, one_sparse, row_space_residual, walsh_sparsity
from pricdr.testing.attacks.reconstruction import remove_lift, solve_for_ratings, undo_constant_seed
from pricdr.testing.attacks.rows import likelihood_ratio, low_bits
from pricdr.testing.attacks.table import AttackRow, as_markdown, attack_table

__all__ = [
    "AttackRow",
    "Tally",
    "as_markdown",
    "attack_table",
    "contest",
    "decide",
    "guess_bound",
    "lattice",
    "likelihood_ratio",
    "low_bits",
    "metadata",
    "metadata_difference",
    "one_sparse",
    "power_bound",
    "refutation_power",
    "remove_lift",
    "row_space_residual",
    "solve_for_ratings",
    "undo_constant_seed",
    "walsh_sparsity",
]
