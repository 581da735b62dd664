"""The attack table: every attack, how it fares on a flawed variant and on ours, and what the guarantee allows."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from pricdr.privacy.accounting import mu_of
from tests.attacks import learnt, row_trials, transcript, trials
from tests.attacks.evidence import Tally, guess_bound
from tests.attacks.integer_reference import Form
from tests.attacks.target import Setting, settings

PAPER_DELTA: Final = 1 / 16367


@dataclass(frozen=True)
class AttackRow:
    """One attack. A success is a right guess between two equally likely neighbouring inputs."""

    attack: str
    flaw: str
    flawed: Tally
    claimed: float
    """The μ that the flawed variant is held to."""
    ours: Tally
    """All settings together: jlt and sjlt, rating and user, fewer items than users and more; or all learnt targets."""
    mu: float
    """The μ that our mechanism certifies, with what the integer noise adds."""

    @property
    def flawed_success(self) -> float:
        """Share of right guesses on the flawed variant."""
        return self.flawed.success

    @property
    def ours_success(self) -> float:
        """Share of right guesses on our mechanism."""
        return self.ours.success

    @property
    def bound(self) -> float:
        """The largest share that our guarantee allows any attack."""
        return guess_bound(self.mu)

    @property
    def holds(self) -> bool:
        """Whether the attack refutes what the flawed variant claims and not what ours does."""
        return self.flawed.refutes(self.claimed) and not self.ours.refutes(self.mu)


def attack_table(seed: int) -> list[AttackRow]:
    """Run every attack on its flawed variant and on ours, (4, 1e-6)-private for one rating or one user.

    ``seed`` decides the inputs, the coins and the flawed variants; the noise of ours is secret and differs each time.
    """
    return [row for group in GROUPS for row in attack_rows(group, seed)]


def attack_rows(group: str, seed: int) -> list[AttackRow]:
    """Run the attacks of one of the ``GROUPS``: its rows of :func:`attack_table`."""
    return GROUPS[group](np.random.default_rng([seed, list(GROUPS).index(group)]))


def as_markdown(rows: Sequence[AttackRow]) -> str:
    """Return the table for people.

    >>> row = AttackRow("a", "b", Tally(20, 0, 20, 20), 0.8, Tally(20, 10, 20, 10), 0.8)
    >>> as_markdown([row]).splitlines()[-1]
    '| a | b | 100.0 % of 40 | 50.0 % of 40 | 65.5 % |'
    """
    head = "| attack | flawed variant | right on it | right on ours | most allowed |\n| --- | --- | --- | --- | --- |"
    return "\n".join([head, *map(_line, rows)])


def _line(row: AttackRow) -> str:
    shares = (f"{100 * tally.success:.1f} % of {tally.trials:,}" for tally in (row.flawed, row.ours))
    return f"| {row.attack} | {row.flaw} | {' | '.join(shares)} | {100 * row.bound:.1f} % |"


def _projection_rows(rng: np.random.Generator) -> list[AttackRow]:
    every = settings(32)
    ours = [trials.projection_ours(setting, users=64, trials=25, rng=rng) for setting in every]
    sparse = [trials.sparsity_flawed(nonzeros=nonzeros, trials=40, rng=rng) for nonzeros in (5, 20, 50)]
    lattices = [trials.lattice_flawed(density=density, trials=20, rng=rng) for density in (0.1, 0.5, 0.9)]
    flawed = {
        "row-space residual": (
            "thin SVD, fewer items than users, w = 100,000",
            trials.residual_flawed(w=100_000, trials=40, rng=rng),
        ),
        "one-sparse": (
            "SJLT as printed, q = 1/m",
            trials.sparsity_flawed(nonzeros=1, trials=100, rng=rng)["one-sparse"],
        ),
        "Walsh sparsity": (
            "SJLT as printed, 5, 20 and 50 non-zeros a row",
            _sum(tally["Walsh sparsity"] for tally in sparse),
        ),
        "lattice": ('reference code\'s "FJLT", densities 0.1, 0.5 and 0.9', _sum(lattices)),
    }
    mu = every[0].mu
    return [
        AttackRow(name, flaw, tally, mu, _sum(tallies[name] for tallies in ours), mu)
        for name, (flaw, tally) in flawed.items()
    ]


def _reconstruction_rows(rng: np.random.Generator) -> list[AttackRow]:
    every = settings(256)
    shapes = ((300, 200), (200, 300))
    flawed = _sum(trials.reconstruction_flawed(users=users, items=items, rng=rng)[0] for users, items in shapes)
    flaw, mu = "constant seed at import, k > n", every[0].mu
    return [
        AttackRow(name, flaw, flawed, mu, _sum(_reconstructed(s, known_rows=known, rng=rng) for s in every), mu)
        for name, known in (("seed regeneration", False), ("reconstruction, E known", True))
    ]


def _reconstructed(setting: Setting, *, known_rows: bool, rng: np.random.Generator) -> Tally:
    users = 120 if setting.wide else 400  # so that items stay below the 256 columns
    return trials.reconstruction_ours(setting, users=users, rng=rng, known_rows=known_rows)


def _release_rows(rng: np.random.Generator) -> list[AttackRow]:
    """Return the rows on two releases, last bits and metadata."""
    every, wider = settings(16), settings(64)
    mu, first = every[0].mu, every[0]
    return [
        AttackRow(
            "noise reuse",
            "two releases from one seed",
            row_trials.noise_reuse_flawed(first, trials=400, rng=rng),
            mu,
            _sum(row_trials.noise_reuse_ours(s, trials=2000, rng=rng) for s in every),
            mu,
        ),
        AttackRow(
            "two releases together",
            "each priced as if it were the only one",
            row_trials.differencing_flawed(first, trials=8000, rng=rng),
            mu,
            _sum(row_trials.differencing_ours(s, trials=2000, rng=rng) for s in every),
            math.sqrt(2) * mu,
        ),
        AttackRow(
            "last bits",
            "double-precision noise",
            row_trials.low_bits_flawed(wider[0], trials=400, rng=rng),
            mu,
            _sum(row_trials.low_bits_ours(s, trials=500, rng=rng) for s in wider),
            mu,
        ),
        AttackRow(
            "metadata",
            "certificate with a count or a hash of the input",
            trials.metadata_flawed("counts", trials=40, rng=rng) + trials.metadata_flawed("hash", trials=40, rng=rng),
            mu,
            _sum(trials.metadata_ours(s, trials=8, rng=rng) for s in every),
            mu,
        ),
    ]


def _membership_rows(rng: np.random.Generator) -> list[AttackRow]:
    every = settings(16)
    mu = every[0].mu
    ours = _sum(row_trials.membership_ours(s, trials=4000, rng=rng) for s in every)
    weak = _sum(row_trials.membership_ours(s, trials=2000, rng=rng, noise_scale=0.7) for s in every)
    per_column = row_trials.membership_flawed(epsilon=4, delta=PAPER_DELTA, dim=400, trials=4000, rng=rng)
    name, claimed = "one rating or user, all else and E known", mu_of(4, PAPER_DELTA)
    return [
        AttackRow(name, "reference code's ε per column, called the total", per_column, claimed, ours, mu),
        AttackRow(name, "ours with 0.7 times the noise", weak, mu, ours, mu),
    ]


def _learnt_rows(rng: np.random.Generator) -> list[AttackRow]:
    """Return the rows on learnt directions: the whole matrix, everything known but one rating or user."""
    targets = [target for target in learnt.targets() if target.way.form is Form.ROWS]
    mu, tight = targets[0].mu, [target for target in targets if target.tight]
    ours = _sum(learnt.whole_matrix_ours(target, trials=3000, rng=rng) for target in targets)
    weak = _sum(learnt.whole_matrix_ours(target, trials=3000, rng=rng, noise_scale=0.7) for target in tight)
    name = "learnt rows, the whole matrix, all else and the guide known"
    flawed = [(flaw.name, learnt.whole_matrix_flawed(flaw, mu=mu, trials=400, rng=rng)) for flaw in learnt.FLAWS]
    flawed.append(("directions published too", learnt.directions_published_flawed(mu=mu, trials=400, rng=rng)))
    flawed.append(("ours with 0.7 times the noise", weak))
    return [AttackRow(name, flaw, tally, mu, ours, mu) for flaw, tally in flawed]


def _transcript_rows(rng: np.random.Generator) -> list[AttackRow]:
    """Return the rows on strategies in rounds: every step shown, and then only what is published."""
    every = transcript.rounds_targets()
    popular = {way: every[f"{way}: a popular item"] for way in ("spectral", "guided")}
    rows = []
    for way, target in popular.items():
        ours = transcript.transcript_ours(target, trials=200, rng=rng)
        cheating = transcript.transcript_ours(replace(target, noise_scale=0.5), trials=500, rng=rng)
        name = f"every step of {way} shown"
        rows.append(AttackRow(name, "ours with half of the noise", cheating, target.mu, ours, target.mu))
    target = popular["spectral"]
    ours = transcript.simulating_ours(target, trials=200, training=300, rng=rng)
    loud = replace(target, noise_scale=0.1)
    caught = transcript.simulating_ours(loud, trials=200, training=300, rng=rng)
    name, flaw = "published rows of spectral, releases simulated", "ours with a tenth of the noise"
    return [*rows, AttackRow(name, flaw, caught, target.mu, ours, target.mu)]


GROUPS: Final[Mapping[str, Callable[[np.random.Generator], list[AttackRow]]]] = {
    "projections": _projection_rows,
    "reconstruction": _reconstruction_rows,
    "releases": _release_rows,
    "membership": _membership_rows,
    "learnt rows": _learnt_rows,
    "rounds": _transcript_rows,
}
"""The table in parts that can be run on their own."""


def _sum(tallies: Iterable[Tally]) -> Tally:
    combine: Callable[[Tally, Tally], Tally] = add
    return reduce(combine, tallies)
