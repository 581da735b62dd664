"""RQ3: what each part of the model is worth, and whether PriCDR-J and PriCDR-S are ahead of PriCDR-SYM.

An arm whose name goes on where another's ends (", gates off" behind "PriCDR-J, ε = 8") changes that one thing, and is
compared with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.outline import ArmOutline
from pricdr.report.folder import STRATA, Access, Experiment, ResultsFolder
from pricdr.report.measurements import NOTHING, Measurement

FAMILY: Final = "rq3"
SYMMETRIC: Final = "PriCDR-SYM"
OURS: Final = ("PriCDR-J", "PriCDR-S")
_SAME: Final = 0.5e-4
"""Figures that differ by less are the same to four digits."""
CLAIM: Final = "The paper: PriCDR-J and PriCDR-S outperform PriCDR-SYM in all tasks."


@dataclass(frozen=True)
class AblationRow:
    """One arm on one task for one kind of users."""

    task: str
    stratum: str
    arm: str
    access: Access
    measured: Measurement
    gain: Measurement
    """Over the spec's baseline, seed by seed; nothing for the baseline itself."""
    change: str
    """What tells it from the arm that it is compared with; empty where there is none."""
    difference: Measurement
    """To that arm, seed by seed."""
    drawn: bool
    """Whether the chart has a dot for it: not for popularity, which would leave no room for the others."""


@dataclass(frozen=True)
class Duel:
    """PriCDR-J or PriCDR-S against PriCDR-SYM, all else alike."""

    task: str
    stratum: str
    method: str
    setting: str
    access: Access
    difference: Measurement


@dataclass(frozen=True)
class Ablation:
    """The whole study."""

    baseline: str
    rows: tuple[AblationRow, ...]
    duels: tuple[Duel, ...]
    sentences: tuple[str, ...]
    absent: tuple[str, ...]


def ablation(folder: ResultsFolder) -> Ablation | None:
    """Return the ablation, or None where the folder has no spec of it."""
    experiments = folder.family(FAMILY)
    if not experiments:
        return None
    rows = tuple(row for one in experiments for row in _rows(one))
    duels = tuple(duel for one in experiments for duel in _duels(one))
    told = [*_duels_in_words(duels), *_parts_in_words(rows)]
    return Ablation(
        next((one.outline.baseline for one in experiments if one.outline.baseline), ""),
        rows,
        duels,
        (CLAIM, *told) if duels and told else tuple(told),
        tuple(f"{one.title}: {one.outline.missing or 'not run yet'}" for one in experiments if not one.runs),
    )


def _strata(experiment: Experiment) -> list[str]:
    return [stratum for stratum in experiment.strata if stratum != "few"]


def _rows(experiment: Experiment) -> list[AblationRow]:
    baseline = experiment.outline.baseline or ""
    rows = []
    for stratum in _strata(experiment):
        for arm in experiment.outline.arms:
            measured = experiment.measured(arm, stratum)
            whole, _, change = arm.name.rpartition(", ")
            if not measured:
                continue
            row = AblationRow(
                *(experiment.title, stratum, arm.name, Access.of(arm), measured),
                gain=_difference(experiment, arm, baseline, stratum),
                change=change if whole in experiment.arms else "",
                difference=_difference(experiment, arm, whole, stratum),
                drawn=arm.method != "popularity",
            )
            rows.append(row)
    return rows


def _difference(experiment: Experiment, arm: ArmOutline, other: str, stratum: str) -> Measurement:
    """Return how far an arm is above another; nothing where there is no other."""
    if other not in experiment.arms or other == arm.name:
        return NOTHING
    return experiment.measured(arm, stratum) - experiment.measured(experiment.arms[other], stratum)


def _duels(experiment: Experiment) -> list[Duel]:
    found = []
    for arm in experiment.outline.arms:
        method, _, setting = arm.name.partition(", ")
        if method in OURS:
            for stratum in _strata(experiment):
                difference = _difference(experiment, arm, f"{SYMMETRIC}, {setting}", stratum)
                if difference:
                    found.append(Duel(experiment.title, stratum, method, setting, Access.of(arm), difference))
    return found


def _duels_in_words(duels: Sequence[Duel]) -> list[str]:
    told = []
    for access, where in (
        (Access.PRIVATE, "With a private release"),
        (Access.NOISELESS, "Without noise (NOT PRIVATE)"),
    ):
        own = [duel for duel in duels if duel.access is access]
        counts = {verdict: sum(duel.difference.verdict is verdict for duel in own) for verdict in Verdict}
        if own:
            largest = max(own, key=lambda duel: abs(duel.difference.value))
            told.append(
                f"{where}, of {len(own)} comparisons they are ahead of PriCDR-SYM in {counts[Verdict.HELPS]}, behind "
                f"it in {counts[Verdict.HURTS]}, and cannot be told from it in {counts[Verdict.UNCLEAR]}. The largest "
                f"difference: {largest.method} {largest.difference.interval_in_words()} ({largest.setting}, "
                f"{STRATA[largest.stratum]}, {largest.task})."
            )
    return told


def _parts_in_words(rows: Sequence[AblationRow]) -> list[str]:
    """Return for every change how often it helps and hurts, and how often it changes next to nothing."""
    told = []
    for change in dict.fromkeys(row.change for row in rows if row.change and row.difference):
        own = [row.difference for row in rows if row.change == change and row.difference]
        counts = {verdict: sum(one.verdict is verdict for one in own) for verdict in Verdict}
        # A part that weighs next to nothing, or whose release is refused anyway, cannot show what it is worth.
        same = sum(abs(value) < _SAME for one in own for value in one.by_seed.values())
        runs = sum(one.seeds for one in own)
        told.append(
            f"{change}: worse in {counts[Verdict.HURTS]} of {len(own)}, better in {counts[Verdict.HELPS]} (no "
            f"difference to four digits in {same} of {runs} runs)"
        )
    return [f"What a change does, over arms, tasks and kinds of users: {'; '.join(told)}."] if told else []
