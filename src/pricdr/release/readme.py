"""The certificate in words: what is promised to users, and at what cost. One text for ``inspect`` and README.md.

The words of README.md belong to the schema version, as those of the certificate do: ``verify`` compares the file with
what is written here. Changing a sentence takes a new version.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

from pricdr.privacy.accounting import HARDLY_ANY_EPSILON, LATTICE_FACTOR, Unit, epsilon_warnings, odds_factor
from pricdr.privacy.registry import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.release.certificate import Certificate, rounded_up


@dataclass(frozen=True)
class Section:
    """A heading and its sentences."""

    title: str
    lines: tuple[str, ...]


def statement(certificate: Certificate) -> list[Section]:
    """Return everything a certificate says, in an order a privacy officer can follow, for a screen."""
    return [
        Section(section.title, tuple(_without_markup(line) for line in section.lines))
        for section in _sections(certificate)
    ]


def weakness(certificate: Certificate) -> tuple[str, ...]:
    """Return the warning that ε is large, where it is, and how little is promised, where that is hardly anything."""
    if not certificate.promises or certificate.epsilon is None:
        return ()
    little = () if certificate.private else (_little_promised(certificate, certificate.epsilon),)
    return *epsilon_warnings(certificate.epsilon, Unit(certificate.unit)), *little


def cautions(certificate: Certificate, *, counted: bool) -> list[str]:
    """Return everything that makes a promise weaker than it could be; ``counted``: a ledger counts the release."""
    given, texts = certificate.input, []
    if given.user_list != "declared":
        texts.append("no user list: the users are read off the ratings, so who has ratings at all is not protected")
    if given.item_universe == "read off the ratings":
        strategy = certificate.strategy.name
        texts.append(f"{strategy} without an item list: the item universe is read off the ratings; it is disclosed")
    if given.filtered_by is not None:
        texts.append(f"these ratings were filtered before ({given.filtered_by}); it is disclosed")
    if certificate.promises and not counted:
        texts.append(
            "no ledger: this release is not counted against a budget; others of the same ratings add to its cost"
        )
    texts += [*certificate.warnings, *weakness(certificate)]
    if not certificate.private:
        texts.append("this release is NOT PRIVATE and must not leave the source")
    return list(dict.fromkeys(texts))


def _sections(certificate: Certificate) -> list[Section]:
    sections = [
        Section("What this is", _what(certificate)),
        Section("What is promised", _promise(certificate)),
        Section("What it means for a whole user", _whole_user(certificate)),
        Section("How it was made", _made(certificate)),
        Section("Where the user list came from", _aligned(certificate)),
        Section("What is not protected", tuple(certificate.not_protected)),
        Section("Budget", _budget(certificate)),
        Section("Who issued it", _issued(certificate)),
        Section("Warnings", tuple(certificate.warnings)),
    ]
    return [section for section in sections if section.lines]


def readme(certificate: Certificate) -> str:
    """Return the README.md of a release folder."""
    lines = ["# A pricdr release", ""]
    for section in _sections(certificate):
        lines += [f"## {section.title}", "", *(f"- {line}" for line in section.lines), ""]
    lines += [
        "## Files",
        "",
        "- `users.txt`: the listed users, one id per line",
        "- `release.safetensors`: one tensor, `matrix` (float32), with one row per listed user, in that order",
        "- `certificate.json`: the same promises for programs; `pricdr verify` checks them",
        "",
    ]
    return "\n".join(lines)


def _what(c: Certificate) -> tuple[str, ...]:
    return (
        f"One noisy row of {c.dim:,} numbers for each of {c.users:,} listed users, computed from a rating matrix "
        f"(strategy {c.strategy.name}).",
        _standing(c),
    )


def _standing(c: Certificate) -> str:
    if c.private:
        return "PRIVATE: it may leave the source, within the promise below."
    if not c.promises or c.epsilon is None:
        return "NOT PRIVATE: a test release. It protects nobody and must not leave the source."
    return _little_promised(c, c.epsilon)


def _little_promised(c: Certificate, epsilon: float) -> str:
    secret = "one rating" if c.unit == "rating" else "the ratings of one user"
    return (
        f"NOT PRIVATE, LITTLE IS PROMISED: epsilon = {_figure(epsilon)} is above {HARDLY_ANY_EPSILON:g}. Whoever knows "
        f"everything but {secret} can tell two equally likely versions of it apart in up to "
        f"{math.ceil(100 * _success(c))} % of cases (50 % would be blind guessing), and its odds may change by a "
        f"factor of {odds_factor(epsilon)}. Hand it over only where the ratings themselves could be handed over."
    )


def _issued(c: Certificate) -> tuple[str, ...]:
    """Return what the source says about itself."""
    name = "no issuer is named" if c.issuer is None else f"issuer: {_quoted(c.issuer)}"
    day = "no day of issue is stated" if c.issued is None else f"day of issue: {c.issued} (UTC)"
    return (
        f"By the source's own account, {name}; {day}.",
        "Anybody can write such words. What vouches for them is a signature by a key that you have from the source.",
    )


def _promise(c: Certificate) -> tuple[str, ...]:
    if not c.promises or c.epsilon is None:
        return ("Nothing: " + ("no noise was added." if c.epsilon is None else "its noise can be drawn again."),)
    lines = [
        f"epsilon = {_figure(c.epsilon)} and delta = {rounded_up(c.delta):g}, for one {c.unit}.",
        f"Neighbours: {c.neighbours}.",
        f"In words: whatever an adversary believed about one {c.unit} before, however much else it knows, "
        f"this release multiplies the odds by at most {_odds(c.epsilon)}, "
        f"except with probability {rounded_up(c.delta):g}.",
        f"As a test: an adversary who knows everything but one {c.unit} and accepts 5 % false alarms "
        f"detects a change in at most {math.ceil(100 * _power(c))} % of cases (5 % would be blind guessing).",
        "epsilon at other deltas: "
        + ", ".join(f"{_figure(point.epsilon)} at {point.delta:g}" for point in c.epsilon_at_delta)
        + ".",
    ]
    if c.nominal_epsilon is not None:
        lines.append(
            f"Calibrated as the paper's Algorithm 1 prints it: nominal epsilon {c.nominal_epsilon:g}, "
            f"exact epsilon {_figure(c.epsilon)}."
        )
    return tuple(lines)


def _whole_user(c: Certificate) -> tuple[str, ...]:
    if c.unit == "user":
        return ("The promise above already covers all ratings of a user together.",)
    return tuple(
        f"{figure.ratings} ratings removed: epsilon {_figure(figure.removed_at_worst)} at worst"
        + ("" if figure.removed_typically is None else f", about {_figure(figure.removed_typically)} typically")
        + f"; replaced by others: {_figure(figure.replaced_at_worst)} at worst."
        for figure in c.whole_user
    )


def _made(c: Certificate) -> tuple[str, ...]:
    parameters = "".join(f", {name} {value:g}" for name, value in c.strategy.parameters.items())
    lines = [
        f"{_rows(c)} ({c.strategy.name}{parameters}); {_entries(c)}.",
        *_steps(c),
        *_guide(c),
        f"Noise: {c.noise.law}, sigma {c.sigma:.6g}; sensitivity {c.sensitivity:g}"
        + ("" if c.mu is None else f"; mu {c.mu:.6g}")
        + f"; bits: {_BITS[c.noise.source]}.",
        f"User list: {c.input.user_list}. Item universe: {c.input.item_universe}.",
    ]
    if c.bounds.clip is not None:
        learnt = any(step.rounding for step in c.steps)
        lines.append(
            f"Every user's ratings were scaled down to a sum of at most {c.bounds.clip:g}."
            if learnt
            else f"Every user's projected profile was clipped to norm {c.bounds.clip:g}."
        )
    if c.input.filtered_by is not None:
        lines.append(f"The ratings had gone through a filter before{_filter(c)}.")
    return (*lines, f"Made by {c.software}.")


def _aligned(c: Certificate) -> tuple[str, ...]:
    """Return what an exchange of blinded ids revealed, and to whom; nothing where the list came another way."""
    alignment = c.input.alignment
    if alignment is None:
        return ()
    whom = "both parties" if alignment.learnt_by == "both" else "the party that began it"
    return (
        "By the source's own account, a private set intersection (pricdr align) of its users with those of another "
        f"party; ids were compared {_COMPARED[alignment.normalisation]}. Session {alignment.session}.",
        "What the exchange revealed: to each party, how many ids the other one showed, padding included; to "
        f"{whom}, which users both have. To nobody, anything else about users of one party alone, as long as both "
        "followed the protocol.",
        "How many ids were shown is not stated here: that is between the two parties.",
    )


def _filter(c: Certificate) -> str:
    """Quote whoever filtered the ratings, as theirs: nothing in it must pass for a promise of ours."""
    return f", in the words of the source, which nothing here vouches for: {_quoted(str(c.input.filtered_by))}"


def _quoted(words: str) -> str:
    """Return somebody else's words so that nothing in them is markup, in README.md, or ends the quotation."""
    plain = words.replace("`", "'").replace('"', "'")
    return f'"`{plain}`"'


def _without_markup(line: str) -> str:
    """Return a sentence for a screen: quotation marks are enough there."""
    return line.replace('"`', '"').replace('`"', '"')


def _rows(c: Certificate) -> str:
    """Return in one clause what a user's numbers are."""
    if any(step.rounding for step in c.steps):
        return (
            f"Each user's {c.dim:,} numbers are a sum over the items it rated, along directions of norm below 1 that "
            "the ratings themselves gave to items, inside the steps below; those directions were erased"
        )
    return f"Each user's ratings were projected to {c.dim:,} numbers by {_strategy(c).item_rows_are}"


def _strategy(c: Certificate) -> type[Strategy]:
    """Return the strategy that is named; of one that nobody knows (in a folder that fails to verify), no words."""
    return BY_NAME.get(c.strategy.name, Strategy)


def _steps(c: Certificate) -> list[str]:
    """Return one line for each step where there is more than one, or where directions were learnt."""
    if len(c.steps) < 2 and not any(step.rounding for step in c.steps):
        return []
    return [
        f"Step {number} of {len(c.steps)}, {step.name}: {step.purpose}. "
        + f"{step.rows:,} row{'' if step.rows == 1 else 's'} of {step.numbers:,} noisy numbers"
        + ("" if step.published else ", not published")
        + f"; sensitivity {step.sensitivity:.4g}, sigma {step.sigma:.4g}"
        + ("" if step.mu is None else f", mu {step.mu:.4g}")
        + ("" if step.share is None else f" ({step.share:.1%} of what the {step.payer} paid)")
        + "."
        for number, step in enumerate(c.steps, 1)
    ]


def _guide(c: Certificate) -> list[str]:
    if c.guide is None:
        return []
    g = c.guide
    promise = (
        f"private at epsilon {_figure(g.epsilon)}, delta {g.delta:g}, for one {g.unit}" if g.private else "NOT PRIVATE"
    )
    lines = [
        f"Directions were learnt along a release of the other party ({g.strategy}, {promise}; "
        f"SHA-256 {g.sha256[:16]}…). The promise here holds whatever that release is."
    ]
    if g.missing_users:
        lines.append(f"It lacks {g.missing_users:,} listed users, who got a row of zeros in it.")
    return lines


def _budget(c: Certificate) -> tuple[str, ...]:
    if c.ledger is None:
        return ("No ledger: other releases of the same ratings add to the cost and are not counted here.",)
    ledger = c.ledger
    spent = (
        f"Release {ledger.releases} of this ledger: epsilon {_figure(ledger.epsilon_total)} spent of "
        f"{ledger.budget_epsilon:g} at delta {ledger.budget_delta:g} (mu {ledger.mu_total:.6g})."
    )
    if ledger.head is None:
        return (spent,)
    return (
        spent,
        f"All releases of this ledger together stay within epsilon {_figure(ledger.budget_epsilon)} at delta "
        f"{rounded_up(ledger.budget_delta):g}, however each of them was chosen. What is spent so far is what they "
        "would have cost had all of them been fixed in advance: a figure for orientation, not a promise.",
        f"Recorded {ledger.recorded} in the ledger {ledger.opening}, whose line for release {ledger.releases} must "
        f"have the hash {ledger.head}. The source can check that with pricdr ledger verify.",
    )


def _entries(c: Certificate) -> str:
    if c.bounds.counts == "rows":
        limit = c.input.threshold
        return "every rated item counts as 1" if limit is None else f"every item rated at least {limit:g} counts as 1"
    return (
        f"a rating counts as its value in steps of {c.bounds.rating_step:g}, forced into [0, {c.bounds.rating_bound:g}]"
    )


_COMPARED = {
    "exact": "byte for byte",
    "email": "as e-mail addresses, each in its normal form",
    "phone": "as telephone numbers, each in its normal form",
}

_BITS = {
    "secret": "AES-256-CTR under a fresh key from the operating system, erased after use",
    "seeded": "a seed, so anyone who knows it can subtract the noise",
    "none": "none",
}


def _odds(epsilon: float) -> str:
    return (
        f"{rounded_up(math.exp(epsilon), 3):,g}" if epsilon < 14 else f"e^{epsilon:.3g} (no protection worth the name)"
    )


def _figure(epsilon: float | None) -> str:
    """Return ε as text, rounded up: a promise must not look better than it is."""
    return "without limit" if epsilon is None else f"{rounded_up(epsilon, 4):g}"


def _success(c: Certificate) -> float:
    """Return how often the best guess between two equally likely neighbours is right: Φ(μ/2)."""
    return float(ndtr((c.mu or 0.0) * LATTICE_FACTOR / 2))


def _power(c: Certificate) -> float:
    """Return the largest detection rate at 5 % false accusations: the trade-off curve of a Gaussian mechanism."""
    return float(ndtr(ndtri(0.05) + (c.mu or 0.0)))
