"""The certificate in words: what is promised to users, and at what cost. One text for ``inspect`` and README.md.

The words of README.md belong to the schema version, as those of the certificate do: ``verify`` compares the file with
what is written here. Changing a sentence takes a new version.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scipy.special import ndtr, ndtri

from pricdr.privacy.accounting import HARDLY_ANY_EPSILON, LATTICE_FACTOR, Unit, epsilon_warnings, odds_factor
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.release.certificate import Certificate, StepStatement, rounded_up

_FILES: Final = """## Files

- `users.txt`: the listed users, one id per line
- `release.safetensors`: one tensor, `matrix` (float32), with one row per listed user, in that order
- `certificate.json`: the same promises for programs; `pricdr verify` checks them
"""
_COMPARED: Final = {
    "exact": "byte for byte",
    "email": "as e-mail addresses, each in its normal form",
    "phone": "as telephone numbers, each in its normal form",
}
_BITS: Final = {
    "secret": "AES-256-CTR under a fresh key from the operating system, erased after use",
    "seeded": "a seed, so anyone who knows it can subtract the noise",
    "none": "none",
}


@dataclass(frozen=True)
class ReadmeSection:
    """A heading and its sentences."""

    title: str
    lines: tuple[str, ...]


def statement(certificate: Certificate) -> list[ReadmeSection]:
    """Return everything a certificate says, in an order a privacy officer can follow, for a screen."""
    return [
        # Quotation marks are enough on a screen.
        ReadmeSection(title, tuple(line.replace('"`', '"').replace('`"', '"') for line in lines))
        for title, lines in _sections(certificate)
    ]


def readme(certificate: Certificate) -> str:
    """Return the README.md of a release folder."""
    sections = (f"## {title}\n\n" + "".join(f"- {line}\n" for line in lines) for title, lines in _sections(certificate))
    return "\n".join(["# A pricdr release\n", *sections, _FILES])


def weakness(certificate: Certificate) -> tuple[str, ...]:
    """Return the warning that ε is large, where it is, and how little is promised, where that is hardly anything."""
    if not certificate.promises or certificate.epsilon is None:
        return ()
    little = () if certificate.private else (_little_promised(certificate, certificate.epsilon),)
    return *epsilon_warnings(certificate.epsilon, Unit(certificate.unit)), *little


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
        **dict.fromkeys((*certificate.warnings, *weakness(certificate)), True),
        "this release is NOT PRIVATE and must not leave the source": not certificate.private,
    }
    return [text for text, holds in texts.items() if holds]


def _sections(certificate: Certificate) -> list[tuple[str, list[str]]]:
    sections: Mapping[str, Callable[[Certificate], Iterable[str]]] = {
        "What this is": _what,
        "What is promised": _promise,
        "What it means for a whole user": _whole_user,
        "How it was made": _made,
        "Where the user list came from": _aligned,
        "What is not protected": lambda c: c.not_protected,
        "Budget": _budget,
        "Who issued it": _issued,
        "Warnings": lambda c: c.warnings,
    }
    return [(title, lines) for title, words in sections.items() if (lines := list(words(certificate)))]


def _what(c: Certificate) -> Iterable[str]:
    yield (
        f"One noisy row of {c.dim:,} numbers for each of {c.users:,} listed users, computed from a rating matrix "
        f"(strategy {c.strategy.name})."
    )
    if c.private:
        yield "PRIVATE: it may leave the source, within the promise below."
    elif not c.promises or c.epsilon is None:
        yield "NOT PRIVATE: a test release. It protects nobody and must not leave the source."
    else:
        yield _little_promised(c, c.epsilon)


def _little_promised(c: Certificate, epsilon: float) -> str:
    secret = "one rating" if c.unit == "rating" else "the ratings of one user"
    # The best guess between two equally likely neighbours is right with a probability of Φ(μ/2).
    success = float(ndtr((c.mu or 0.0) * LATTICE_FACTOR / 2))
    return (
        f"NOT PRIVATE, LITTLE IS PROMISED: epsilon = {_figure(epsilon)} is above {HARDLY_ANY_EPSILON:g}. Whoever knows "
        f"everything but {secret} can tell two equally likely versions of it apart in up to "
        f"{math.ceil(100 * success)} % of cases (50 % would be blind guessing), and its odds may change by a "
        f"factor of {odds_factor(epsilon)}. Hand it over only where the ratings themselves could be handed over."
    )


def _promise(c: Certificate) -> Iterable[str]:
    if not c.promises or c.epsilon is None:
        yield "Nothing: " + ("no noise was added." if c.epsilon is None else "its noise can be drawn again.")
        return
    delta = f"{rounded_up(c.delta):g}"
    no_protection = f"e^{c.epsilon:.3g} (no protection worth the name)"
    odds = f"{rounded_up(math.exp(c.epsilon), 3):,g}" if c.epsilon < 14 else no_protection
    # The trade-off curve of a Gaussian mechanism.
    power = float(ndtr(ndtri(0.05) + (c.mu or 0.0)))
    yield f"epsilon = {_figure(c.epsilon)} and delta = {delta}, for one {c.unit}."
    yield f"Neighbours: {c.neighbours}."
    yield (
        f"In words: whatever an adversary believed about one {c.unit} before, however much else it knows, "
        f"this release multiplies the odds by at most {odds}, except with probability {delta}."
    )
    yield (
        f"As a test: an adversary who knows everything but one {c.unit} and accepts 5 % false alarms "
        f"detects a change in at most {math.ceil(100 * power)} % of cases (5 % would be blind guessing)."
    )
    points = ", ".join(f"{_figure(point.epsilon)} at {point.delta:g}" for point in c.epsilon_at_delta)
    yield f"epsilon at other deltas: {points}."
    if c.nominal_epsilon is not None:
        yield (
            f"Calibrated as the paper's Algorithm 1 prints it: nominal epsilon {c.nominal_epsilon:g}, "
            f"exact epsilon {_figure(c.epsilon)}."
        )


def _whole_user(c: Certificate) -> Iterable[str]:
    if c.unit == "user":
        yield "The promise above already covers all ratings of a user together."
        return
    for figure in c.whole_user:
        typically = "" if figure.removed_typically is None else f", about {_figure(figure.removed_typically)} typically"
        yield (
            f"{figure.ratings} ratings removed: epsilon {_figure(figure.removed_at_worst)} at worst{typically}; "
            f"replaced by others: {_figure(figure.replaced_at_worst)} at worst."
        )


def _made(c: Certificate) -> Iterable[str]:
    learnt = any(step.rounding for step in c.steps)
    parameters = "".join(f", {name} {value:g}" for name, value in c.strategy.parameters.items())
    if learnt:
        rows = (
            f"Each user's {c.dim:,} numbers are a sum over the items it rated, along directions of norm below 1 that "
            "the ratings themselves gave to items, inside the steps below; those directions were erased"
        )
    else:
        # Of a strategy that nobody knows (in a folder that fails to verify), no words.
        directions = BY_NAME.get(c.strategy.name, Strategy).item_rows_are
        rows = f"Each user's ratings were projected to {c.dim:,} numbers by {directions}"
    if c.bounds.counts == "values":
        bound = f"[0, {c.bounds.rating_bound:g}]"
        entries = f"a rating counts as its value in steps of {c.bounds.rating_step:g}, forced into {bound}"
    else:
        least = "" if c.input.threshold is None else f" at least {c.input.threshold:g}"
        entries = f"every {f'item rated{least}' if least else 'rated item'} counts as 1"
    yield f"{rows} ({c.strategy.name}{parameters}); {entries}."
    if learnt or len(c.steps) > 1:
        yield from (_step(number, len(c.steps), step) for number, step in enumerate(c.steps, 1))
    yield from _guide(c)
    mu = "" if c.mu is None else f"; mu {c.mu:.6g}"
    yield (
        f"Noise: {c.noise.law}, sigma {c.sigma:.6g}; sensitivity {c.sensitivity:g}{mu}; bits: {_BITS[c.noise.source]}."
    )
    yield f"User list: {c.input.user_list}. Item universe: {c.input.item_universe}."
    if c.bounds.clip is not None and learnt:
        yield f"Every user's ratings were scaled down to a sum of at most {c.bounds.clip:g}."
    elif c.bounds.clip is not None:
        yield f"Every user's projected profile was clipped to norm {c.bounds.clip:g}."
    if c.input.filtered_by is not None:
        # Quoted as somebody else's words: nothing in them must pass for a promise of ours.
        words = f"in the words of the source, which nothing here vouches for: {_quoted(c.input.filtered_by)}"
        yield f"The ratings had gone through a filter before, {words}."
    yield f"Made by {c.software}."


def _step(number: int, count: int, step: StepStatement) -> str:
    return (
        f"Step {number} of {count}, {step.name}: {step.purpose}. "
        + f"{step.rows:,} row{'' if step.rows == 1 else 's'} of {step.numbers:,} noisy numbers"
        + ("" if step.published else ", not published")
        + f"; sensitivity {step.sensitivity:.4g}, sigma {step.sigma:.4g}"
        + ("" if step.mu is None else f", mu {step.mu:.4g}")
        + ("" if step.share is None else f" ({step.share:.1%} of what the {step.payer} paid)")
        + "."
    )


def _guide(c: Certificate) -> Iterable[str]:
    if (guide := c.guide) is None:
        return
    promise = f"private at epsilon {_figure(guide.epsilon)}, delta {guide.delta:g}, for one {guide.unit}"
    yield (
        f"Directions were learnt along a release of the other party ({guide.strategy}, "
        f"{promise if guide.private else 'NOT PRIVATE'}; "
        f"SHA-256 {guide.sha256[:16]}…). The promise here holds whatever that release is."
    )
    if guide.missing_users:
        yield f"It lacks {guide.missing_users:,} listed users, who got a row of zeros in it."


def _aligned(c: Certificate) -> Iterable[str]:
    """Yield what an exchange of blinded ids revealed, and to whom; nothing where the list came another way."""
    if (alignment := c.input.alignment) is None:
        return
    whom = "both parties" if alignment.learnt_by == "both" else "the party that began it"
    yield (
        "By the source's own account, a private set intersection (pricdr align) of its users with those of another "
        f"party; ids were compared {_COMPARED[alignment.normalisation]}. Session {alignment.session}."
    )
    yield (
        "What the exchange revealed: to each party, how many ids the other one showed, padding included; to "
        f"{whom}, which users both have. To nobody, anything else about users of one party alone, as long as both "
        "followed the protocol."
    )
    yield "How many ids were shown is not stated here: that is between the two parties."


def _budget(c: Certificate) -> Iterable[str]:
    if (ledger := c.ledger) is None:
        yield "No ledger: other releases of the same ratings add to the cost and are not counted here."
        return
    yield (
        f"Release {ledger.releases} of this ledger: epsilon {_figure(ledger.epsilon_total)} spent of "
        f"{ledger.budget_epsilon:g} at delta {ledger.budget_delta:g} (mu {ledger.mu_total:.6g})."
    )
    if ledger.head is None:
        return
    yield (
        f"All releases of this ledger together stay within epsilon {_figure(ledger.budget_epsilon)} at delta "
        f"{rounded_up(ledger.budget_delta):g}, however each of them was chosen. What is spent so far is what they "
        "would have cost had all of them been fixed in advance: a figure for orientation, not a promise."
    )
    yield (
        f"Recorded {ledger.recorded} in the ledger {ledger.opening}, whose line for release {ledger.releases} must "
        f"have the hash {ledger.head}. The source can check that with pricdr ledger verify."
    )


def _issued(c: Certificate) -> Iterable[str]:
    """Yield what the source says about itself."""
    name = "no issuer is named" if c.issuer is None else f"issuer: {_quoted(c.issuer)}"
    day = "no day of issue is stated" if c.issued is None else f"day of issue: {c.issued} (UTC)"
    yield f"By the source's own account, {name}; {day}."
    yield "Anybody can write such words. What vouches for them is a signature by a key that you have from the source."


def _quoted(words: str) -> str:
    """Return somebody else's words so that nothing in them is markup, in README.md, or ends the quotation."""
    plain = words.replace("`", "'").replace('"', "'")
    return f'"`{plain}`"'


def _figure(epsilon: float | None) -> str:
    """Return ε as text, rounded up: a promise must not look better than it is."""
    return "without limit" if epsilon is None else f"{rounded_up(epsilon, 4):g}"
