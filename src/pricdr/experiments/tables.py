"""Results as tables: means over seeds with standard errors, users with and without history apart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.errors import plain
from pricdr.evaluation.metrics import NAMES
from pricdr.experiments.results import Mean, Result, mean
from pricdr.experiments.spec import Spec

DECISIVE = "NDCG@10"
"""The metric that is also compared seed by seed, and reported for full ranking."""
_USERS: Final = {
    "warm": "users with target history (warm)",
    "few": "warm users with 1 to 3 target ratings (few)",
    "cold": "users without target history (cold)",
}


@dataclass(frozen=True)
class StratumTable:
    """The figures of one kind of user, as text, none of it markup; the first column names the arm."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown, readable as it is."""
        header, *rows = ([plain(cell) for cell in row] for row in (self.header, *self.rows))
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        ruler = ["-" * width for width in widths]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in (header, ruler, *rows)
        ]
        return "\n".join([f"### {plain(self.title)}", "", *lines])


def stratum_tables(spec: Spec, results: Sequence[Result]) -> list[StratumTable]:
    """Return one table for each kind of user that was evaluated; arms without a result have no row."""
    by_arm = results_by_arm(spec, results)
    strata = [name for name in _USERS if results and all(result.users.get(name) for result in results)]
    return [_stratum_table(spec, by_arm, name, _counted([result.users[name] for result in results])) for name in strata]


def results_by_arm(spec: Spec, results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results of each arm that has any, by seed."""
    by_arm = {arm.name: sorted((r for r in results if r.arm == arm.name), key=lambda r: r.seed) for arm in spec.arms}
    return {name: found for name, found in by_arm.items() if found}


def markdown_report(spec: Spec, results: Sequence[Result]) -> str:
    """Return all results of a spec as Markdown."""
    note = "\n".join(map(plain, spec.note.strip().split("\n")))
    tables = [table.markdown() for table in stratum_tables(spec, results)]
    parts = [f"## {plain(spec.title)}", note, *tables, *_foot(spec, results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _foot(spec: Spec, results: Sequence[Result]) -> list[str]:
    """Return how the figures were measured, and which are missing."""
    absent = []
    for arm in spec.arms:
        lacking = sorted(set(spec.seeds) - {result.seed for result in results if result.arm == arm.name})
        if len(lacking) == len(spec.seeds):
            absent.append(arm.name)
        elif lacking:
            absent.append(f"{arm.name} (seeds {', '.join(map(str, lacking))})")
    said = f"Not run: {plain(' · '.join(absent))}." if absent else ""
    if not results:
        return [said]
    seeds = "one seed" if len(spec.seeds) == 1 else f"{len(spec.seeds)} seeds, mean ± standard error over seeds"
    versions = sorted({result.provenance.version for result in results})
    return [f"{seeds}; run on {plain(_devices(spec, results))}, version {plain(' and '.join(versions))}.", said]


def paired(results: Sequence[Result], others: Sequence[Result], stratum: str, metric: str) -> list[tuple[float, float]]:
    """Return the two figures of every seed that both arms were run with."""
    by_seed = {other.seed: other for other in others}
    return [
        (own.figures["sampled"][stratum][metric], by_seed[own.seed].figures["sampled"][stratum][metric])
        for own in results
        if own.seed in by_seed
    ]


def share(spec: Spec, by_arm: Mapping[str, Sequence[Result]], name: str) -> Mean:
    """Return what an arm keeps, for cold users, of the ceiling's gain over the baseline; nan where that gains nothing.

    The error is that of the arm's gain, seed by seed; the ceiling's own gain is taken as it is.
    """
    assert spec.baseline is not None
    assert spec.ceiling is not None

    def gain(arm: str) -> Mean:
        pairs = paired(by_arm.get(arm, ()), by_arm.get(spec.baseline or "", ()), "cold", DECISIVE)
        return mean(own - base for own, base in pairs)

    whole, own = gain(spec.ceiling), gain(name)
    if not whole.value > 0:
        return Mean(math.nan, math.nan, own.seeds)
    return Mean(own.value / whole.value, own.error / whole.value, own.seeds)


def _has_shares(spec: Spec, stratum: str) -> bool:
    """Return whether a table has shares: they are of what cold users gain, and warm users have a history anyway."""
    return spec.ceiling is not None and spec.baseline is not None and stratum == "cold"


def _devices(spec: Spec, results: Sequence[Result]) -> str:
    """Return where most arms ran, and which ran elsewhere: devices differ, and methods are not to blame for it."""
    arms: dict[str, list[str]] = {}
    for arm in spec.arms:
        used = " and ".join(sorted({result.device for result in results if result.arm == arm.name}))
        if used:
            arms.setdefault(used, []).append(arm.name)
    most, *others = sorted(arms, key=lambda device: -len(arms[device]))
    return most + "".join(f"; on {device}: {' · '.join(arms[device])}" for device in others)


def _counted(counts: Sequence[int]) -> str:
    """Return how many users there were: how many have few ratings differs between splits."""
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _percent(kept: Mean) -> str:
    if math.isnan(kept.value):
        return ""
    error = "" if math.isnan(kept.error) else f" ± {100 * kept.error:.0f}"
    return f"{100 * kept.value:.0f}{error} %"


def _stratum_table(spec: Spec, by_arm: Mapping[str, Sequence[Result]], stratum: str, users: str) -> StratumTable:
    full = all("full" in result.figures for results in by_arm.values() for result in results)
    header = ["", *NAMES]
    if spec.baseline is not None:
        header.append(f"{DECISIVE} − {spec.baseline}")
    if _has_shares(spec, stratum):
        header.append(f"share of the gain of {spec.ceiling}")
    if full:
        header.append(f"{DECISIVE}, full ranking")
    rows = [_row(spec, name, by_arm, stratum, full=full) for name in by_arm]
    return StratumTable(f"{users} {_USERS[stratum]}, ranked among 99 negatives", tuple(header), tuple(rows))


def _row(spec: Spec, name: str, by_arm: Mapping[str, Sequence[Result]], stratum: str, *, full: bool) -> tuple[str, ...]:
    results = by_arm[name]
    cells = [name, *(str(mean(r.figures["sampled"][stratum][metric] for r in results)) for metric in NAMES)]
    if spec.baseline is not None:
        pairs = paired(results, by_arm.get(spec.baseline, ()), stratum, DECISIVE)
        cells.append("" if name == spec.baseline or not pairs else str(mean(own - base for own, base in pairs)))
    if _has_shares(spec, stratum):
        cells.append(_percent(share(spec, by_arm, name)))
    if full:
        cells.append(str(mean(r.figures["full"][stratum][DECISIVE] for r in results)))
    return tuple(cells)
