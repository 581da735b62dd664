"""RQ3: what each part of the model is worth, and whether PriCDR-J and PriCDR-S are ahead of PriCDR-SYM."""

from dataclasses import dataclass
from typing import Final

from pricdr.evaluation.verdict import Verdict
from pricdr.experiments.outline import ArmOutline
from pricdr.report.folder import STRATA, Access, Experiment, ResultsFolder
from pricdr.report.measurements import NOTHING, Measurement
from pricdr.report.table2 import paper_name

FAMILY: Final = "rq3"
SYMMETRIC: Final = "PriCDR-SYM"
OURS: Final = ("PriCDR-J", "PriCDR-S")


@dataclass(frozen=True)
class AblationRow:
    """One arm on one task for one kind of users."""

    task: str
    stratum: str
    arm: str
    access: Access
    measured: Measurement
    compared_with: str
    difference: Measurement
    """To the spec's baseline, seed by seed; nothing for the baseline itself."""


@dataclass(frozen=True)
class Ablation:
    """The whole study."""

    rows: tuple[AblationRow, ...]
    sentences: tuple[str, ...]
    absent: tuple[str, ...]


def ablation(folder: ResultsFolder) -> Ablation | None:
    """Return the ablation, or None where the folder has no spec of it."""
    experiments = folder.family(FAMILY)
    if not experiments:
        return None
    sentences = [sentence for one in experiments for sentence in _against_symmetric(one)]
    claim = "The paper: PriCDR-J and PriCDR-S outperform PriCDR-SYM in all tasks."
    return Ablation(
        tuple(row for one in experiments for row in _rows(one)),
        (claim, *sentences) if sentences else (),
        tuple(f"{one.title}: {one.outline.missing or 'not run yet'}" for one in experiments if not one.runs),
    )


def _rows(experiment: Experiment) -> list[AblationRow]:
    base = experiment.arms.get(experiment.outline.baseline or "")
    rows = []
    for stratum in (stratum for stratum in experiment.strata if stratum != "few"):
        for arm in experiment.outline.arms:
            measured = experiment.measured(arm, stratum)
            if not measured:
                continue
            compared = base if base is not None and base.name != arm.name else None
            difference = NOTHING if compared is None else measured - experiment.measured(compared, stratum)
            rows.append(
                AblationRow(
                    experiment.title,
                    stratum,
                    arm.name,
                    Access.of(arm),
                    measured,
                    "" if compared is None else compared.name,
                    difference,
                )
            )
    return rows


def _against_symmetric(experiment: Experiment) -> list[str]:
    by_method: dict[str, ArmOutline] = {}
    for arm in experiment.outline.arms:
        if Access.of(arm) is not Access.CONTROL:
            by_method.setdefault(paper_name(arm), arm)
    symmetric = by_method.get(SYMMETRIC)
    if symmetric is None:
        return []
    words = {Verdict.HELPS: "is ahead of it", Verdict.HURTS: "is behind it", Verdict.UNCLEAR: "cannot be told from it"}
    told: dict[str, list[str]] = {}
    for method in OURS:
        for stratum in (stratum for stratum in experiment.strata if stratum != "few" and method in by_method):
            difference = experiment.measured(by_method[method], stratum) - experiment.measured(symmetric, stratum)
            if difference:
                found = f"for {STRATA[stratum]} ({difference.interval_in_words()})"
                told.setdefault(f"{method} {words[difference.verdict]}", []).append(found)
    clauses = [f"{what} {' and '.join(users)}" for what, users in told.items()]
    return [f"Ours on {experiment.title}: {'; '.join(clauses)}."] if clauses else []
