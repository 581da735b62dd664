"""The certificate in words: what is promised to users, and at what cost. One text for ``inspect`` and README.md.

The words are in ``templates/release.md.j2``. They belong to the schema version: ``verify`` compares README.md to them.
"""

import math
from dataclasses import dataclass

from pricdr.pages import text_template
from pricdr.privacy.accounting import HARDLY_ANY_EPSILON, TradeOff, odds_factor
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.release.certificate import Certificate, rounded_up


@dataclass(frozen=True)
class ReadmeSection:
    """A heading and its sentences."""

    title: str
    lines: tuple[str, ...]


def statement(certificate: Certificate) -> list[ReadmeSection]:
    """Return everything a certificate says, for a screen."""
    _, *sections, _ = _words(certificate, quotation='"{}"').split("\n\n## ")  # a title before, and after it the files
    parts = (section.split("\n\n- ", 1) for section in sections)
    return [ReadmeSection(title, tuple(lines.split("\n- "))) for title, lines in parts]


def readme(certificate: Certificate) -> str:
    """Return the README.md of a release folder."""
    return _words(certificate, quotation='"`{}`"')


def in_short(c: Certificate) -> dict[str, str]:
    """Return the facts of a release that every page begins with, by name."""
    return {
        "Promise": c.promise,
        "Release": f"{c.users:,} users x {c.dim:,} numbers, strategy {c.strategy.name}",
        "Noise": f"standard deviation {c.sigma:.6g}" if c.sigma else "none",
        "User list": c.input.user_list if c.input.alignment is None else "found by align, by the source's own account",
        "Issuer, by its own account": c.issuer or "not declared",
        "Issued": c.issued or "not declared",
        "Recorded in a ledger": (c.ledger and c.ledger.recorded) or "not stated",
    }


def weakness(certificate: Certificate) -> tuple[str, ...]:
    """Return what the certificate warns of, and how little is promised, where that is hardly anything."""
    little = trade_off_of(certificate) is not None and not certificate.private
    return (*certificate.warnings, *([_little_promised(certificate)] if little else []))


def cautions(certificate: Certificate, *, counted: bool) -> list[str]:
    """Return everything that makes a promise weaker than it could be; ``counted``: a ledger counts the release."""
    given, strategy = certificate.input, certificate.strategy.name
    texts = {
        "no user list: the users are read off the ratings, so who has ratings at all is not protected": (
            given.user_list != "declared"
        ),
        f"{strategy} without an item list: the item universe is read off the ratings; it is disclosed": (
            given.item_universe == "read off the ratings"
        ),
        f"these ratings were filtered before ({given.filtered_by}); it is disclosed": given.filtered_by is not None,
        "no ledger: this release is not counted against a budget; others of the same ratings add to its cost": (
            certificate.promises and not counted
        ),
        **dict.fromkeys(weakness(certificate), True),
        "this release is NOT PRIVATE and must not leave the source": not certificate.private,
    }
    return [text for text, holds in texts.items() if holds]


def trade_off_of(c: Certificate) -> TradeOff | None:
    """Return a certificate's curve of false alarms against detections; None where nothing is promised."""
    if not c.promises or c.mu is None or c.epsilon is None:
        return None
    return TradeOff(c.mu, c.epsilon, c.delta)


def of_100(rate: float) -> int:
    """Return how many of 100 a rate is, rounded up: it never understates.

    >>> of_100(0.2541), of_100(0.25), of_100(0.99999)
    (26, 25, 100)
    """
    return math.ceil(100 * rate - 1e-7)


def percent_up(rate: float) -> str:
    """Return a rate as a percentage, rounded up."""
    return f"{of_100(rate)} %"


def best_guess(curve: TradeOff, unit: str) -> str:
    """Return the whole trade-off in one sentence: how often the best guess is right."""
    secret = {"rating": "one rating", "user": "the ratings of one user"}.get(unit, "one user's ratings of one period")
    return (
        f"Whoever knows everything but {secret}, and guesses between two equally likely versions of it, is right in at "
        f"most {of_100(curve.right_guesses)} of 100 guesses; 50 is blind."
    )


def _words(c: Certificate, *, quotation: str) -> str:
    """Return the text; ``quotation`` keeps somebody else's words apart, so that nothing in them is markup."""
    epsilon = 0.0 if c.epsilon is None else c.epsilon
    no_protection = f"e^{epsilon:.3g} (no protection worth the name)"
    return text_template("release.md.j2").render(
        c=c,
        trade_off=trade_off_of(c),
        little=_little_promised(c),
        odds=f"{rounded_up(math.exp(epsilon), 3):,g}" if epsilon < 14 else no_protection,
        learnt=any(step.rounding for step in c.steps),
        # Of a strategy that nobody knows (in a folder that fails to verify), no words.
        directions=BY_NAME.get(c.strategy.name, Strategy).item_rows_are,
        quoted=lambda words: quotation.format(words.replace("`", "'").replace('"', "'")),
        percent_up=percent_up,
        best_guess=best_guess,
        up=lambda value: f"{rounded_up(value):g}",
        # Rounded up: a promise must not look better than it is.
        figure=lambda value: "without limit" if value is None else f"{rounded_up(value, 4):g}",
    )


def _little_promised(c: Certificate) -> str:
    epsilon = 0.0 if c.epsilon is None else c.epsilon
    return (
        f"NOT PRIVATE, LITTLE IS PROMISED: epsilon = {rounded_up(epsilon, 4):g} is above {HARDLY_ANY_EPSILON:g}. "
        f"{best_guess(TradeOff(c.mu or 0.0, epsilon, c.delta), c.unit)} Odds may change by a factor of "
        f"{odds_factor(epsilon)}. Hand it over only where the ratings themselves could be handed over."
    )
