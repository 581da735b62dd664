"""An example of a release: what the accounting says of one that was never published."""

import math
from dataclasses import dataclass

from pricdr._publish import Request, dry_run
from pricdr.data.ratings import Ratings
from pricdr.privacy.accounting import Guarantee, TradeOff
from pricdr.release.drawing import DrawnRelease
from pricdr.report.answer import USUAL_EPSILON, pairs_in_order
from pricdr.report.folder import ResultsFolder

DELTA = 1e-6
BUDGET = 8.0
"""The ε of the example's ledger."""
MOST_USERS = 100_000
"""That an example is made for: nothing in it depends on how many there are."""


@dataclass(frozen=True)
class Example:
    """A release to draw, and what it is an example of."""

    drawn: DrawnRelease
    words: str


def example(folder: ResultsFolder) -> Example:
    """Return the release that the default strategy would make for the users of a measured task, at ε = 4.

    Nothing is drawn at random: σ, sensitivity and μ follow from what is declared, so a dry run has them all.
    """
    measured = [one for one in pairs_in_order(folder) if one.runs] or [one for one in folder.experiments if one.runs]
    pair = measured[0] if measured else None
    users = 1_000 if pair is None else min(MOST_USERS, max(1, pair.users("warm") + pair.users("cold")))
    listed = [str(number) for number in range(users)]
    ratings = Ratings.from_triples(listed[:1], ["item"])
    certificate = dry_run(
        Request(ratings, Guarantee(epsilon=USUAL_EPSILON, delta=DELTA), users=listed, items=["item"])
    ).certificate
    assert certificate is not None, "the default strategy knows its number of columns"
    assert certificate.mu is not None, "it is private"
    assert certificate.epsilon is not None
    published = [step for step in certificate.steps if step.published]
    shape = f"{users:,} users" + ("" if pair is None else f", as in {pair.title}")
    return Example(
        DrawnRelease(
            unit=certificate.unit,
            trade_off=TradeOff(certificate.mu, certificate.epsilon, certificate.delta),
            sigma=certificate.sigma,
            sensitivity=certificate.sensitivity,
            noise_length=math.sqrt(math.fsum(step.numbers * step.sigma**2 for step in published)),
            spent=(certificate.epsilon, BUDGET),
        ),
        f"An example, not a release: what {certificate.strategy.name} would publish at ε = {USUAL_EPSILON:g}, δ = "
        f"{DELTA:g}, for {shape}, {certificate.dim} numbers each, as the first spend of a ledger of ε = {BUDGET:g}. "
        "Its noise is computed by the accounting that publish and verify use. pricdr inspect --html draws the same "
        "of a real release.",
    )
