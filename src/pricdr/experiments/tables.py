"""Results as tables in Markdown: means over seeds with standard errors, users with and without history apart."""

from collections.abc import Sequence
from typing import Final

from pricdr.errors import plain
from pricdr.evaluation.metrics import NAMES
from pricdr.experiments.measured import DECISIVE, Experiment
from pricdr.experiments.outline import ArmOutline, outline
from pricdr.experiments.results import Result
from pricdr.experiments.spec import Spec

_USERS: Final = {
    "warm": "users with target history (warm)",
    "few": "warm users with 1 to 3 target ratings (few)",
    "cold": "users without target history (cold)",
}


def markdown_report(spec: Spec, results: Sequence[Result]) -> str:
    """Return all results of a spec as Markdown: a table for each kind of user that every run evaluated."""
    found = Experiment.of(outline(spec), results)
    runs = [run for arm in found.outline.arms for run in found.results_of(arm).values()]
    strata = [name for name in _USERS if runs and all(run.users.get(name) for run in runs)]
    note = "\n".join(map(plain, spec.note.strip().split("\n")))
    tables = [_table(found, name, [run.users[name] for run in runs]) for name in strata]
    parts = [f"## {plain(spec.title)}", note, *tables, _measured_by(found, runs), _not_run(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(found: Experiment, stratum: str, counts: Sequence[int]) -> str:
    arms = [arm for arm in found.outline.arms if found.results_of(arm)]
    baseline, ceiling = (found.arms.get(name or "") for name in (found.outline.baseline, found.outline.ceiling))
    # Shares are of what cold users gain; warm users have a history anyway.
    shares = baseline is not None and ceiling is not None and stratum == "cold"
    full = all("full" in run.figures for arm in arms for run in found.results_of(arm).values())
    header = ["", *NAMES]
    header += [] if baseline is None else [f"{DECISIVE} − {baseline.name}"]
    header += [f"share of the gain of {found.outline.ceiling}"] if shares else []
    header += [f"{DECISIVE}, full ranking"] if full else []

    def cells(arm: ArmOutline) -> list[str]:
        row = [arm.name, *(str(found.measured(arm, stratum, metric).mean) for metric in NAMES)]
        if baseline is not None:
            gain = found.measured(arm, stratum) - found.measured(baseline, stratum)
            row.append("" if arm is baseline or not gain else str(gain.mean))
        row += [found.share(arm).percent().replace("−", "-")] if shares else []
        return row + ([str(found.measured(arm, stratum, ranking="full").mean)] if full else [])

    rows = [[plain(cell) for cell in row] for row in (header, *map(cells, arms))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    # How many users have few ratings differs between splits.
    users = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
    return "\n".join([f"### {users} {_USERS[stratum]}, ranked among 99 negatives", "", *lines])


def _measured_by(found: Experiment, runs: Sequence[Result]) -> str:
    """Return how often and where arms ran. Most ran on one device; which ran elsewhere is said, for devices differ."""
    if not runs:
        return ""
    arms: dict[str, list[str]] = {}
    for arm in found.outline.arms:
        if by_seed := found.results_of(arm):
            arms.setdefault(" and ".join(sorted({run.device for run in by_seed.values()})), []).append(arm.name)
    most, *others = sorted(arms, key=lambda device: -len(arms[device]))
    devices = most + "".join(f"; on {device}: {' · '.join(arms[device])}" for device in others)
    n_seeds = len(found.outline.seeds)
    seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds, mean ± standard error over seeds"
    versions = " and ".join(sorted({run.provenance.version for run in runs}))
    return f"{seeds}; run on {plain(devices)}, version {plain(versions)}."


def _not_run(found: Experiment) -> str:
    lacking: dict[str, list[str]] = {}
    for arm, seed in found.missing:
        lacking.setdefault(arm, []).append(str(seed))
    all_seeds = len(found.outline.seeds)
    names = [arm + (f" (seeds {', '.join(seeds)})" if len(seeds) < all_seeds else "") for arm, seeds in lacking.items()]
    return f"Not run: {plain(' · '.join(names))}." if names else ""
