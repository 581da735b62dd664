"""The frontier in full: every strategy at every ε for every kind of users, and the synthetic pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pricdr.experiments.synthetic_results import CONTROLS, PLAIN, SyntheticResult, read_synthetic
from pricdr.report.answer import Crossing, crosses
from pricdr.report.folder import Access, Experiment
from pricdr.report.measurements import Measurement


@dataclass(frozen=True)
class FrontierRow:
    """One arm of the frontier."""

    arm: str
    epsilon: float | None
    access: Access
    by_stratum: dict[str, Measurement]
    share: Measurement
    crosses: dict[str, Crossing]
    """By stratum, for private releases: whether it is better than the reference and every control."""


def frontier_rows(experiment: Experiment) -> tuple[FrontierRow, ...]:
    """Return the rows of one pair, arms without results left out."""
    return tuple(
        FrontierRow(
            arm.name,
            float(arm.release.epsilon) if arm.release is not None and Access.of(arm) is not Access.CONTROL else None,
            Access.of(arm),
            {stratum: experiment.measured(arm, stratum) for stratum in experiment.strata},
            experiment.share(arm),
            {stratum: crosses(experiment, arm, stratum) for stratum in experiment.strata}
            if Access.of(arm) is Access.PRIVATE
            else {},
        )
        for arm in experiment.outline.arms
        if experiment.results_of(arm)
    )


@dataclass(frozen=True)
class SyntheticPoint:
    """What one strategy keeps at one ε on pairs of one size."""

    users: int
    arm: str
    epsilon: float
    share: Measurement
    """Of the plaintext gain of the same seed."""
    user_error: float
    """The error over users of the first seed, for sizes with a single one."""
    seconds: float
    memory: float | None
    """Most bytes of the publish step beyond what was held before; None where it was not measured."""

    @property
    def error(self) -> float:
        """The standard error over seeds, or over users where there is one seed."""
        return self.share.error if self.share.seeds > 1 else self.user_error


def synthetic_points(path: Path) -> tuple[SyntheticPoint, ...]:
    """Return what private strategies keep on synthetic pairs, by size, strategy and ε."""
    lines = read_synthetic(path)
    groups: dict[tuple[int, str, float], list[SyntheticResult]] = {}
    for line in lines:
        if line.epsilon is not None and line.arm not in CONTROLS:
            groups.setdefault((line.users, line.arm, float(line.epsilon)), []).append(line)
    plain = {(line.users, line.seed): float(line.gain) for line in lines if line.arm == PLAIN}
    points = [_synthetic(key, group, plain) for key, group in groups.items()]
    return tuple(point for point in points if point.share)


def _synthetic(
    key: tuple[int, str, float], lines: Sequence[SyntheticResult], plain: Mapping[tuple[int, int], float]
) -> SyntheticPoint:
    # Without a gain in plaintext there is nothing to keep a share of.
    kept = [line for line in lines if plain.get((line.users, line.seed), 0.0) > 0]
    wholes = [plain[line.users, line.seed] for line in kept]
    memories = [float(line.memory) for line in lines if line.memory is not None]
    return SyntheticPoint(
        *key,
        Measurement({line.seed: float(line.gain) / whole for line, whole in zip(kept, wholes, strict=True)}),
        float(kept[0].gain_error) / wholes[0] if kept else 0.0,
        sum(float(line.seconds) for line in lines) / len(lines),
        max(memories, default=None),
    )
