"""What experiments gave: one JSON line per run, appended, never rewritten; tables are means over seeds of it."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pricdr.errors import InputError

Figures: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""sampled|full → all|warm|few|cold → metric → mean over users; results from before there was ``few`` lack it."""


@dataclass(frozen=True)
class Result:
    """One arm with one seed."""

    spec: str
    arm: str
    key: str
    """:meth:`Spec.key`: a result counts only for the arm it was measured with."""
    seed: int
    figures: Figures
    users: dict[str, int]
    """How many users were evaluated, by stratum; ``few`` are among ``warm``."""
    validation: float
    """NDCG@10 on the validation items, all users."""
    epochs: int
    seconds: float
    """Of this run; a network that another arm had trained already counts for nothing."""
    device: str


@dataclass(frozen=True)
class Mean:
    """A mean over seeds."""

    value: float
    error: float
    """Its standard error; nan for a single seed."""
    seeds: int

    def __str__(self) -> str:
        """As tables print it.

        >>> str(Mean(0.31662, 0.00123, 5))
        '.3166 ± .0012'
        """
        return f"{self.value:.4f} ± {self.error:.4f}".replace("0.", ".")


def mean(values: Iterable[float]) -> Mean:
    """Mean and standard error over seeds.

    >>> print(mean([0.1, 0.2, 0.3]))
    .2000 ± .0577
    """
    found = np.array(list(values), dtype=np.float64)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
    return Mean(float(found.mean()), error, len(found))


def append_line(path: Path, line: str) -> None:
    """Add a line to a file of results; what a kill left of the last one is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = "".join(f"{kept}\n" for kept in whole_lines(path)).encode()
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(len(kept))
        file.truncate()
        file.write(f"{line}\n".encode())


def whole_lines(path: Path) -> list[str]:
    """The lines that were written to the end."""
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def append(path: Path, result: Result) -> None:
    """Add a line."""
    append_line(path, json.dumps(asdict(result)))


def read(path: Path) -> list[Result]:
    """Every line of a results file; none where there is no file."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(whole_lines(path), 1):
        try:
            content: dict[str, Any] = json.loads(line)
            found.append(Result(**content))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}, line {number}: not a result: {error}") from error
    return found
