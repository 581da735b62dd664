"""What crosses at which ε, for whom and with what certainty: the first thing on the page, computed from the results.

A release counts as crossing where users do better with it than without, and better than with a release that is worth
nothing: the 95 % interval over seeds of the difference to the reference and to every control lies above 0
(:class:`~pricdr.evaluation.verdict.Verdict`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.outline import ArmOutline
from pricdr.report.folder import Access, Experiment, ResultsFolder
from pricdr.report.measurements import Measurement, number

FAMILY: Final = "frontier"
USUAL_EPSILON: Final = 4.0
"""The ε that sentences speak of, where it was measured."""
CONTROLS: Final = "controls"
PAPER_STRATEGIES: Final = ("jlt", "sjlt")


@dataclass(frozen=True)
class Point:
    """One strategy at one ε on one pair: what cold users keep of the plaintext gain."""

    pair: str
    curve: str
    epsilon: float
    share: Measurement
    gain: Measurement
    access: Access
    """A control is drawn too, under one name for all of them."""


@dataclass(frozen=True)
class Sentence:
    """One of the answers, under a word that says what it answers."""

    about: str
    text: str


@dataclass(frozen=True)
class Answer:
    """The chart's points and the sentences beside it; sentences without figures are left out."""

    points: tuple[Point, ...]
    sentences: tuple[Sentence, ...]


def pairs_in_order(folder: ResultsFolder) -> list[Experiment]:
    """Return the pairs of the frontier, those first on which something can be told."""
    return sorted(folder.family(FAMILY), key=_is_unclear)


def answer(folder: ResultsFolder) -> Answer:
    """Return what the frontier's results come to."""
    pairs = pairs_in_order(folder)
    points = tuple(point for pair in pairs for point in _points(pair))
    written = (
        Sentence("What crosses", _what_crosses(pairs)),
        Sentence("From which ε, and how certain", _from_which_epsilon(pairs)),
        Sentence("Who else gains", _who_else(pairs)),
    )
    return Answer(points, tuple(sentence for sentence in written if sentence.text))


def _is_unclear(pair: Experiment) -> bool:
    epsilon = usual_epsilon([pair])
    arm = None if epsilon is None else _best(pair, epsilon, "cold")
    return arm is None or crosses(pair, arm, "cold")[0] is Verdict.UNCLEAR


def has_ceiling(pair: Experiment) -> bool:
    """Return whether plaintext gains something for certain, so that shares of it mean something."""
    ceiling = pair.arms.get(pair.outline.ceiling or "")
    return ceiling is not None and pair.gain(ceiling, "cold").verdict is Verdict.HELPS


class Crossing(NamedTuple):
    """Whether an arm is better than the reference and every control."""

    verdict: Verdict
    difference: Measurement
    """That decided it."""
    against: str
    """The arm that the difference is to; empty where there is none."""


def crosses(experiment: Experiment, arm: ArmOutline, stratum: str) -> Crossing:
    """Return whether an arm is better than the reference and every control, and the difference that decided it.

    The smallest of the differences decides: helping over popularity but not over noise is not a transfer.
    """
    own = experiment.measured(arm, stratum)
    reference = experiment.reference(stratum)
    others = [*([] if reference is None else [reference]), *experiment.controls]
    differences = {other.name: gain for other in others if (gain := own - experiment.measured(other, stratum))}
    if not differences:
        return Crossing(Verdict.UNCLEAR, own - own, "")
    order = [Verdict.HURTS, Verdict.UNCLEAR, Verdict.HELPS]
    against, worst = min(differences.items(), key=lambda one: (order.index(one[1].verdict), one[1].value))
    return Crossing(worst.verdict, worst, against)


def _points(pair: Experiment) -> Iterable[Point]:
    for arm in pair.outline.arms:
        # On a logarithmic axis there is no place for 0, and a spec may well come from elsewhere.
        if arm.at is not None and arm.at <= 0:
            continue
        share, access = pair.share(arm), Access.of(arm)
        if share and access is Access.CONTROL and arm.release is not None:
            yield Point(pair.title, CONTROLS, float(arm.release.epsilon), share, pair.gain(arm, "cold"), access)
        elif share and arm.curve and _is_on_axis(arm):
            yield Point(pair.title, arm.curve, float(arm.at or 0.0), share, pair.gain(arm, "cold"), access)


def _is_on_axis(arm: ArmOutline) -> bool:
    """Return whether an arm has a place on a logarithmic axis of ε."""
    return arm.axis == "epsilon" and arm.at is not None and arm.at > 0


def _private_arms(pair: Experiment, *, stratum: str) -> list[ArmOutline]:
    """Return the arms with a private release on an axis of ε that have figures for a stratum."""
    return [
        arm
        for arm in pair.outline.arms
        if _is_on_axis(arm) and Access.of(arm) is Access.PRIVATE and pair.measured(arm, stratum)
    ]


def usual_epsilon(pairs: Sequence[Experiment]) -> float | None:
    """Return the ε to speak of: 4 where it was measured, otherwise the middle one."""
    measured = sorted({float(arm.at or 0.0) for pair in pairs for arm in _private_arms(pair, stratum="cold")})
    if not measured:
        return None
    return USUAL_EPSILON if USUAL_EPSILON in measured else measured[len(measured) // 2]


def _best(pair: Experiment, epsilon: float, stratum: str) -> ArmOutline | None:
    """Return the private arm that gains most at an ε."""
    arms = [arm for arm in _private_arms(pair, stratum=stratum) if arm.at == epsilon]
    return max(arms, key=lambda arm: pair.measured(arm, stratum).value, default=None)


def _what_crosses(pairs: Sequence[Experiment]) -> str:
    epsilon = usual_epsilon(pairs)
    arms = [] if epsilon is None else [(pair, arm) for pair in pairs if (arm := _best(pair, epsilon, "cold"))]
    kept, unclear, lost = [], [], []
    for pair, arm in arms:
        verdict, difference, _ = crosses(pair, arm, "cold")
        share = pair.share(arm)
        if verdict is Verdict.HELPS and share:
            kept.append((-share.value, f"{share.percent()} on {pair.title} ({arm.curve})"))
        elif verdict is Verdict.HURTS:
            lost.append(f"{pair.title} ({arm.curve}: {difference.interval_in_words()})")
        else:
            unclear.append(f"{pair.title} ({arm.curve}: {difference.interval_in_words()})")
    ceilings = " or ".join(dict.fromkeys(pair.outline.ceiling for pair, _ in arms if pair.outline.ceiling))
    told = []
    if kept:
        whole = f"what {ceilings} gains" if ceilings else "what the plaintext source gains"
        best = _listed([words for _, words in sorted(kept)])
        told.append(
            f"at ε = {epsilon:g} the best private release keeps {best}, of {whole} for cold users over popularity"
        )
    if unclear:
        told.append(f"whether cold users gain at ε = {epsilon:g} cannot be told on {_listed(unclear)}")
    if lost:
        told.append(f"cold users lose at ε = {epsilon:g} on {_listed(lost)}")
    return _sentence(told)


def _from_which_epsilon(pairs: Sequence[Experiment]) -> str:
    certain, never, strategies = [], [], 0
    controls: list[tuple[Experiment, ArmOutline]] = []
    for pair in pairs:
        arms = _private_arms(pair, stratum="cold")
        if not arms:
            continue
        strategies = max(strategies, len({arm.curve for arm in arms}))
        least = _least_epsilon(pair, arms)
        if least is None:
            never.append(f"at no ε up to {max(float(arm.at or 0.0) for arm in arms):g} on {pair.title}")
        else:
            certain.append((least[0], f"from ε = {least[0]:g} on {pair.title} ({least[1]})"))
        controls += [(pair, arm) for arm in pair.controls if pair.gain(arm, "cold")]
    told = [*(words for _, words in sorted(certain)), *never]
    if not told:
        return ""
    tried = f"one of {strategies} strategies" if strategies > 1 else "the one strategy"
    return (
        f"Cold users gain {_listed(told)}. A gain is where the 95 % interval over seeds, with {tried} (not corrected "
        "for how many were tried), lies above popularity and above every control, at this ε and every larger one. "
        f"{_controls_in_words(controls)}"
    )


def _least_epsilon(pair: Experiment, arms: Sequence[ArmOutline]) -> tuple[float, str] | None:
    """Return the smallest ε from which on a strategy helps at every ε that was measured with it, and that strategy."""
    least = []
    for curve in dict.fromkeys(arm.curve for arm in arms):
        points = sorted((arm for arm in arms if arm.curve == curve), key=lambda arm: -float(arm.at or 0.0))
        helping = []
        for arm in points:
            if crosses(pair, arm, "cold")[0] is not Verdict.HELPS:
                break
            helping.append(float(arm.at or 0.0))
        least += [(epsilon, curve) for epsilon in helping[-1:]]
    return min(least, default=None)


def _controls_in_words(controls: Sequence[tuple[Experiment, ArmOutline]]) -> str:
    if not controls:
        return "No control was run, so a gain need not be a transfer."
    gains = [pair.gain(arm, "cold") for pair, arm in controls]
    gaining = sum(gain.verdict is Verdict.HELPS for gain in gains)
    most = max(gains, key=lambda gain: gain.value)
    refusals = [pair.refused(arm, "cold") for pair, arm in controls]
    refused, runs = (sum(one[at] for one in refusals) for at in (0, 1))
    # A control that was refused tests the gate, and no longer what a worthless release would do to the figures.
    gate = f" In {refused} of {runs} runs the model's gate refused the control's release." if refused else ""
    if gaining:
        return (
            f"Of {len(controls)} controls (shuffled source, noise alone), {gaining} gained as well, up to "
            f"{number(most.value, signed=True)} NDCG@10: do not trust gains of that size.{gate}"
        )
    return (
        f"None of {len(controls)} controls (shuffled source, noise alone) gained: at most "
        f"{number(most.value, signed=True)} NDCG@10.{gate}"
    )


def _who_else(pairs: Sequence[Experiment]) -> str:
    return _sentence([line for line in (*_warm_users(pairs), _paper_projections(pairs)) if line])


def _warm_users(pairs: Sequence[Experiment]) -> list[str]:
    epsilon = usual_epsilon(pairs)
    words = {
        Verdict.HELPS: "warm users gain at ε = {epsilon:g} on {pairs}",
        Verdict.HURTS: "warm users are better off without a release at ε = {epsilon:g} on {pairs}",
        Verdict.UNCLEAR: "warm users gain nothing that could be told at ε = {epsilon:g} on {pairs}",
    }
    found: dict[Verdict, list[str]] = {verdict: [] for verdict in words}
    for pair in pairs:
        arm = None if epsilon is None else _best(pair, epsilon, "warm")
        if arm is not None:
            verdict, difference, against = crosses(pair, arm, "warm")
            found[verdict].append(f"{pair.title} ({difference.interval_in_words()} against {against})")
    return [words[verdict].format(epsilon=epsilon, pairs=_listed(told)) for verdict, told in found.items() if told]


def _paper_projections(pairs: Sequence[Experiment]) -> str:
    """Return what the paper's own projections keep, at the largest ε that was measured."""
    told = []
    for pair in pairs:
        arms = [
            arm
            for arm in _private_arms(pair, stratum="cold")
            if arm.release is not None and arm.release.strategy in PAPER_STRATEGIES and has_ceiling(pair)
        ]
        arm = max(arms, key=lambda one: float(one.at or 0.0), default=None)
        if arm is not None:
            told.append(f"{pair.share(arm).percent()} on {pair.title} ({arm.curve}, ε = {arm.at:g})")
    return f"the paper's projections keep {_listed(told)} for cold users" if told else ""


def _sentence(clauses: Sequence[str]) -> str:
    """Return clauses as one sentence.

    >>> _sentence(["a gains", "b loses"]), _sentence([])
    ('A gains; b loses.', '')
    """
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence as a list in words.

    >>> _listed(["a", "b", "c"]), _listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
