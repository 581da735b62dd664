"""``python -m pricdr.experiments.frontier``: the figure of what crosses at which ε, from committed results.

Small multiples, one panel per pair: the share of the plaintext gain that cold users keep, against ε. The page it is
put on needs nothing else: it is plain SVG.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from pricdr.errors import printable
from pricdr.experiments.results import Mean, Result, read
from pricdr.experiments.spec import Spec, read_spec
from pricdr.experiments.tables import share

LINES: Final = {
    "guided": ("guided, both parties protected", "#0a5fc2"),
    "spectral": ("spectral, the source alone", "#b8501e"),
    "guide in the clear": ("guide in the clear (target unprotected)", "#7a8290"),
    "jlt": ("jlt, as in the paper", "#1f7a4d"),
}
_WIDTH, _HEIGHT = 330, 230
_LEFT, _TOP, _GAP, _FOOT = 48, 34, 62, 100
_EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def shares(spec: Spec, results: Sequence[Result]) -> dict[str, dict[float, Mean]]:
    """Return the share that each strategy keeps, by ε; arms are named "strategy, ε = …"."""
    by_arm: Mapping[str, list[Result]] = {
        arm.name: sorted((r for r in results if r.arm == arm.name), key=lambda r: r.seed) for arm in spec.arms
    }
    found: dict[str, dict[float, Mean]] = {}
    for name in by_arm:
        match = re.fullmatch(r"(.+), ε = ([\d.]+)", name)
        if match and match[1] in LINES:
            found.setdefault(match[1], {})[float(match[2])] = share(spec, by_arm, name)
    return found


def figure(panels: Sequence[tuple[str, Mapping[str, Mapping[float, Mean]]]]) -> str:
    """Return an SVG with a panel for each (title, shares)."""
    total = _LEFT + len(panels) * (_WIDTH + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {_TOP + _HEIGHT + _FOOT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(printable(_told(panels)))}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, (title, lines) in enumerate(panels):
        parts += _panel(title, lines, _LEFT + number * (_WIDTH + _GAP))
    shown = [key for key in LINES if any(key in lines for _, lines in panels)]
    for number, key in enumerate(shown):  # two columns, so that no label runs out of the picture
        (label, colour), at, y = LINES[key], _LEFT + number % 2 * 300, _TOP + _HEIGHT + 64 + number // 2 * 20
        parts.append(f'<line x1="{at}" y1="{y}" x2="{at + 18}" y2="{y}" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{at + 23}" y="{y + 4}" fill="#1c2024">{escape(label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(epsilon: float, left: float) -> float:
    return left + _EPSILONS.index(epsilon) / (len(_EPSILONS) - 1) * _WIDTH


def _y(value: float) -> float:
    return _TOP + _HEIGHT * (1 - min(max(value, -0.05), 1.1) / 1.1)


def _panel(title: str, lines: Mapping[str, Mapping[float, Mean]], left: float) -> list[str]:
    parts = [f'<text x="{left}" y="18" font-weight="600" fill="#1c2024">{escape(printable(title))}</text>']
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + _WIDTH}" y2="{y:.1f}" stroke="#e2e5ea"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#5f6570">{10 * tenth} %</text>')
    for epsilon in _EPSILONS:
        x = _x(epsilon, left)
        label = f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle" fill="#5f6570">{epsilon:g}</text>'
        parts.append(label)
    middle = left + _WIDTH / 2
    parts.append(
        f'<text x="{middle}" y="{_TOP + _HEIGHT + 38}" text-anchor="middle" fill="#5f6570">ε, one rating</text>'
    )
    for key, (_, colour) in LINES.items():
        points = sorted(lines.get(key, {}).items())
        if not points:
            continue
        path = " ".join(f"{_x(e, left):.1f},{_y(found.value):.1f}" for e, found in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for epsilon, found in points:
            x, low, high = _x(epsilon, left), _y(found.value - found.error), _y(found.value + found.error)
            parts.append(f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{_y(found.value):.1f}" r="3.5" fill="{colour}"/>')
    return parts


def _told(panels: Sequence[tuple[str, Mapping[str, Mapping[float, Mean]]]]) -> str:
    """Return the figures in words, for those who cannot see the plot."""
    told = ["Share of the plaintext gain that cold users keep."]
    for title, lines in panels:
        for key, points in lines.items():
            values = ", ".join(f"{100 * found.value:.0f} % at {epsilon:g}" for epsilon, found in sorted(points.items()))
            told.append(f"{title}, {key}: {values}.")
    return " ".join(told)


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
