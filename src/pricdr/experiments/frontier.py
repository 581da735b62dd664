"""``python -m pricdr.experiments.frontier``: the figure of what crosses at which ε, from committed results.

Small multiples, one panel per pair: the share of the plaintext gain that cold users keep, against ε. The page it is
put on needs nothing else: it is plain SVG.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pricdr.experiments.results import Mean, Result, read
from pricdr.experiments.spec import Spec, read_spec
from pricdr.experiments.tables import share
from pricdr.markup import template_environment

Shares: TypeAlias = Mapping[str, Mapping[float, Mean]]
"""Strategy → ε → share of the plaintext gain."""

LINES: Final = {
    "guided": ("guided, both parties protected", "#0a5fc2"),
    "spectral": ("spectral, the source alone", "#b8501e"),
    "guide in the clear": ("guide in the clear (target unprotected)", "#7a8290"),
    "jlt": ("jlt, as in the paper", "#1f7a4d"),
}
_WIDTH, _HEIGHT = 330, 230
_LEFT, _TOP, _GAP, _FOOT = 48, 34, 62, 100
_BOTTOM: Final = _TOP + _HEIGHT
_EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Point:
    """A share as it is drawn, with both ends of its error bar."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """The points of one strategy."""

    colour: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of domains; levels and ε values are where they are drawn and what is written there."""

    title: str
    left: int
    right: int
    levels: tuple[tuple[float, str], ...]
    epsilons: tuple[tuple[float, str], ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class LegendEntry:
    """A strategy and its colour."""

    x: int
    y: int
    label: str
    colour: str


def shares(spec: Spec, results: Sequence[Result]) -> dict[str, dict[float, Mean]]:
    """Return the share that each strategy keeps, by ε; arms are named "strategy, ε = …"."""
    by_arm: Mapping[str, list[Result]] = {
        arm.name: sorted((r for r in results if r.arm == arm.name), key=lambda r: r.seed) for arm in spec.arms
    }
    by_strategy: dict[str, dict[float, Mean]] = {}
    for name in by_arm:
        match = re.fullmatch(r"(.+), ε = ([\d.]+)", name)
        if match and match[1] in LINES:
            by_strategy.setdefault(match[1], {})[float(match[2])] = share(spec, by_arm, name)
    return by_strategy


def figure(panels: Sequence[tuple[str, Shares]]) -> str:
    """Return an SVG with a panel for each (title, shares)."""
    environment = template_environment("pricdr.experiments")
    environment.filters["px"] = "{:.1f}".format
    return environment.get_template("frontier.svg.j2").render(
        width=_LEFT + len(panels) * (_WIDTH + _GAP),
        height=_BOTTOM + _FOOT,
        bottom=_BOTTOM,
        in_words=_in_words(panels),
        panels=[_panel(title, lines, _LEFT + at * (_WIDTH + _GAP)) for at, (title, lines) in enumerate(panels)],
        legend=_legend([key for key in LINES if any(key in lines for _, lines in panels)]),
    )


def _x(epsilon: float, left: float) -> float:
    # The values of ε are equally far apart: each is twice the one before.
    return left + _EPSILONS.index(epsilon) / (len(_EPSILONS) - 1) * _WIDTH


def _y(value: float) -> float:
    return _TOP + _HEIGHT * (1 - min(max(value, -0.05), 1.1) / 1.1)


def _panel(title: str, lines: Shares, left: int) -> Panel:
    curves = []
    for key, (_, colour) in LINES.items():
        points = tuple(
            Point(_x(epsilon, left), _y(kept.value), _y(kept.value - kept.error), _y(kept.value + kept.error))
            for epsilon, kept in sorted(lines.get(key, {}).items())
        )
        if points:
            curves.append(Curve(colour, points))
    return Panel(
        title,
        left,
        left + _WIDTH,
        levels=tuple((_y(tenth / 10), f"{10 * tenth} %") for tenth in range(0, 11, 2)),
        epsilons=tuple((_x(epsilon, left), f"{epsilon:g}") for epsilon in _EPSILONS),
        curves=tuple(curves),
    )


def _legend(keys: Sequence[str]) -> list[LegendEntry]:
    """Return the entries in two columns, so that no label runs out of the picture."""
    return [LegendEntry(_LEFT + at % 2 * 300, _BOTTOM + 64 + at // 2 * 20, *LINES[key]) for at, key in enumerate(keys)]


def _in_words(panels: Sequence[tuple[str, Shares]]) -> str:
    """Return the figures in words, for those who cannot see the plot."""
    sentences = ["Share of the plaintext gain that cold users keep."]
    for title, lines in panels:
        for key, points in lines.items():
            values = ", ".join(f"{100 * kept.value:.0f} % at {epsilon:g}" for epsilon, kept in sorted(points.items()))
            sentences.append(f"{title}, {key}: {values}.")
    return " ".join(sentences)


def main() -> None:
    """Draw the frontier of the specs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, default=Path("results/frontier.svg"))
    given = parser.parse_args()
    panels = []
    for path in given.specs:
        spec = read_spec(path, path.parent / "tuned")
        panels.append((spec.title.partition(": ")[2], shares(spec, read(given.results / f"{spec.name}.jsonl"))))
    given.out.write_text(figure(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
