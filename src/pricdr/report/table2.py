"""The paper's Table 2 beside ours: method by task, the difference, and who saw what."""

from dataclasses import dataclass

from pricdr.experiments.outline import NOT_PRESENT, ArmOutline
from pricdr.privacy.accounting import Calibration
from pricdr.report.folder import Access, Experiment, ResultsFolder
from pricdr.report.measurements import NOTHING, Measurement
from pricdr.report.paper import METHODS, TASKS, PaperRow, Rule, paper_table

FAMILY = "table2"


@dataclass(frozen=True)
class Row:
    """One method on one task."""

    method: str
    paper: PaperRow | None
    """None for methods that the paper does not have, and for data that is not the paper's."""
    arm: ArmOutline | None
    experiment: Experiment | None
    absent: str
    """Why there is nothing of ours; empty where there is."""

    def ours(self, metric: str, stratum: str = "all") -> Measurement:
        """Return our figure; over all users, as the paper has it, where nothing else is asked for."""
        if self.experiment is None or self.arm is None:
            return NOTHING
        return self.experiment.measured(self.arm, stratum, metric)

    def difference(self, metric: str) -> float | None:
        """Return ours minus the paper's, where there are both."""
        ours = self.ours(metric)
        return ours.value - self.paper.figures[metric] if ours and self.paper is not None else None

    def refusal(self, stratum: str = "all") -> str:
        """Return what to know of a figure whose release was refused; nothing where it was used, or nothing tells."""
        if self.experiment is None or self.arm is None:
            return ""
        refused, runs = self.experiment.refused(self.arm, stratum)
        if not refused:
            return ""
        often = "every run" if refused == runs else f"{refused} of {runs} runs"
        if self.arm.plaintext:
            return f"The source was refused in {often} (trust 0): what is left is the model of the target alone."
        return f"The release was refused in {often} (trust 0): what is left is the model without a release."

    @property
    def access(self) -> str:
        """What the method saw, and at which ε."""
        if self.arm is None:
            return _paper_access(self.method)
        access = Access.of(self.arm)
        if access is not Access.PRIVATE or self.arm.release is None or self.experiment is None:
            return access.value
        return f"private, {epsilon_in_words(self.experiment, self.arm)}"


@dataclass(frozen=True)
class Task:
    """One task of the paper, or data that stands in for one, with a row for every method."""

    title: str
    stands_for: str
    """The paper's task that other data stands in for; empty for the paper's own data."""
    absent: str
    rows: tuple[Row, ...]
    further: tuple[Row, ...]
    """Methods that the paper does not have: controls for all of it."""


@dataclass(frozen=True)
class Impossible:
    """How many of the paper's figures cannot be."""

    ndcg_below_mrr: int
    falling: int
    steps: int
    rows: tuple[PaperRow, ...]
    """Rows with a contradiction of any kind."""


def tasks(folder: ResultsFolder) -> tuple[Task, ...]:
    """Return the paper's six tasks in its order, and behind each what stands in for it."""
    measured = folder.family(FAMILY)
    by_task = {one.outline.data.paper: one for one in measured if not one.outline.data.stand_in}
    found: list[Task] = []
    for task in TASKS:
        found.append(_paper_task(task, by_task.get(task)))
        stand_ins = [one for one in measured if one.outline.data.stand_in and one.outline.data.paper == task]
        found.extend(_other_data(one, task) for one in stand_ins)
    own = [one for one in measured if one.outline.data.paper not in TASKS]
    return (*found, *(_other_data(one, "") for one in own))


def impossible_cells() -> Impossible:
    """Return what the paper's table contradicts itself in."""
    rows = [row for row in paper_table().values() if row.contradictions]
    count = {rule: sum(one.rule is rule for row in rows for one in row.contradictions) for rule in Rule}
    return Impossible(count[Rule.NDCG_BELOW_MRR], count[Rule.FALLING], count[Rule.STEP], tuple(rows))


def paper_name(arm: ArmOutline) -> str:
    """Return the paper's name of an arm's method: what comes before the first bracket or comma."""
    return arm.name.partition(" (")[0].partition(",")[0]


def epsilon_in_words(experiment: Experiment, arm: ArmOutline) -> str:
    """Return the ε of a private arm; with the paper's calibration the nominal one and what it delivers."""
    assert arm.release is not None
    nominal = f"{arm.release.epsilon:g}"
    if arm.release.calibration is Calibration.EXACT:
        return f"ε = {nominal}"
    exact = exact_epsilon(experiment, arm)
    return f"nominal ε = {nominal}" + ("" if exact is None else f", exact ε = {exact:.3g}")


def exact_epsilon(experiment: Experiment, arm: ArmOutline) -> float | None:
    """Return the ε that the noise of an arm's release delivers, the largest over its runs."""
    facts = [result.release for result in experiment.results_of(arm).values() if result.release is not None]
    known = [float(one.epsilon) for one in facts if one.epsilon is not None]
    return max(known, default=None)


def _paper_access(method: str) -> str:
    if method in ("BPR", "NeuMF", "DMF"):
        return Access.TARGET.value
    return Access.PRIVATE.value if method.startswith("PriCDR") else Access.PLAINTEXT.value


def _paper_task(task: str, experiment: Experiment | None) -> Task:
    table = paper_table()
    absent = _absent(experiment)
    rows = tuple(_row(method, table[task, method], experiment, absent) for method in METHODS)
    return Task(task, "", absent, rows, _further(experiment))


def _other_data(experiment: Experiment, task: str) -> Task:
    """Return the rows of data that is not the paper's: no figure of the paper belongs beside it."""
    absent = _absent(experiment)
    rows = tuple(_row(method, None, experiment, absent) for method in METHODS)
    return Task(experiment.title, task, absent, rows, _further(experiment))


def _absent(experiment: Experiment | None) -> str:
    if experiment is None:
        return NOT_PRESENT
    return experiment.outline.missing or ("" if experiment.runs else "not run yet")


def _row(method: str, paper: PaperRow | None, experiment: Experiment | None, absent: str) -> Row:
    arms = () if experiment is None else experiment.outline.arms
    arm = next((arm for arm in arms if paper_name(arm) == method), None)
    why = absent
    if not absent and experiment is not None:
        why = "not an arm of the spec" if arm is None else "" if experiment.results_of(arm) else "not run yet"
    return Row(method, paper, arm, experiment, why)


def _further(experiment: Experiment | None) -> tuple[Row, ...]:
    if experiment is None or not experiment.runs:
        return ()
    others = [arm for arm in experiment.outline.arms if paper_name(arm) not in METHODS]
    return tuple(
        Row(arm.name, None, arm, experiment, "" if experiment.results_of(arm) else "not run yet") for arm in others
    )
