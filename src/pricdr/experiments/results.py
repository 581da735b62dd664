"""What a results folder holds: a JSON line for each run, appended and never rewritten, and what measured it.

Beside the results of a spec lies its outline, the spec as it was run: the spec itself may have changed since.
"""

import fcntl
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from pricdr import __version__
from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.metrics import NAMES
from pricdr.experiments.records import Line, Number, Text, Whole, from_json, naming, read_json, record
from pricdr.experiments.spec import Spec
from pricdr.files import replace_file
from pricdr.parallel import cores
from pricdr.untrusted import read_bounded

COMMIT: Final = "PRICDR_COMMIT"
"""The environment variable that names the commit where the program runs without its repository."""


@record
class Provenance:
    """What measured a result, and when."""

    version: Line
    commit: Line
    """Of its repository, with + where files differ from it; ``unknown`` outside one."""
    python: Line
    torch: Line
    numpy: Line
    scipy: Line
    machine: Line
    """The GPU, or the processor and how many cores this process may use."""
    finished: Line


def provenance(device: str) -> Provenance:
    """Return the provenance of something measured now on a kind of device (``cpu``, ``cuda``)."""
    import scipy
    import torch

    processor = f"{platform.machine() or 'unknown'}, {cores()} core{'s' if cores() > 1 else ''}"
    return Provenance(
        version=__version__,
        commit=commit(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        numpy=np.__version__,
        scipy=scipy.__version__,
        machine=torch.cuda.get_device_name() if device == "cuda" else processor,
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


@cache
def commit() -> str:
    """Return the commit that this program is of; read once, since files may change while it runs."""
    if given := os.environ.get(COMMIT, ""):
        return given if re.fullmatch(r"[0-9a-f]{7,64}\+?", given) else "unknown"
    try:
        # A program installed into somebody else's repository is not of that repository.
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


_PROCESS: Final = Path("/proc/self")


def watch_memory() -> None:
    """Forget the peak so far: a run begins."""
    with suppress(OSError):  # no Linux, or not permitted: peak_memory then knows of none
        (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> float | None:
    """Return the peak in bytes since :func:`watch_memory`: of the GPU for ``cuda``, else of the whole process."""
    if device == "cuda":
        return float(sys.modules["torch"].cuda.max_memory_allocated())
    with suppress(OSError):
        peak = re.search(r"VmHWM:\s*(\d+) kB", (_PROCESS / "status").read_text(encoding="ascii"))
        return None if peak is None else 1024.0 * int(peak[1])
    return None


MAX_BYTES: Final = 1 << 28
"""Of a file of results."""
T = TypeVar("T")

Figures: TypeAlias = dict[str, dict[str, dict[str, Number]]]
"""sampled|full → all|warm|few|cold → metric → mean over users; a stratum without users is left out."""


@record
class ReleaseFacts:
    """What the mechanism of a simulated release delivered."""

    dim: Whole
    sigma: Number
    epsilon: Number | None
    """The exact ε of that noise at ``delta``, of all steps together; None where there is no noise."""
    delta: Number


@record
class Result:
    """The figures of one arm with one seed."""

    spec: Line
    arm: Line
    key: Line
    """:func:`result_key`: a result counts only for the settings it was measured with, defaults included."""
    seed: Whole
    figures: Figures
    users: dict[str, Whole]
    """How many users were evaluated, by stratum; ``few`` are among ``warm``."""
    validation: Number
    """NDCG@10 on the validation items, all users."""
    epochs: Whole
    seconds: Number
    """Of this run; a network that another arm had trained already counts for nothing."""
    device: Line
    release: ReleaseFacts | None
    """Of the first, where there are several."""
    trust: dict[str, Number] | None
    """How far the model trusts its release, for ``warm`` and ``cold`` users; 0 where it was refused."""
    memory: Number | None
    """Bytes at the peak of this run, where the system tells: of the GPU, or of the process."""
    provenance: Provenance
    releases_used: tuple[Whole, ...] | None = None
    """Of several releases: the positions of those that were chosen, from 0 on."""

    def __post_init__(self) -> None:
        if "sampled" not in self.figures or not set(self.figures) <= {"sampled", "full"}:
            raise ParameterError(f"figures must be those of sampled and perhaps full, got {shorten([*self.figures])}")
        for ranking, strata in self.figures.items():
            for name, users in self.users.items():
                if users and not set(NAMES) <= set(strata.get(name, {})):
                    raise ParameterError(f"figures of {name} users, {ranking}, lack some of {', '.join(NAMES)}")


def append(path: Path, record: Any) -> None:  # noqa: ANN401 - any dataclass
    """Add a record to a file of results, one command at a time; what a kill left of the last line is cut off first."""
    line = json.dumps(asdict(record), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        file.truncate(sum(len(kept.encode()) + 1 for kept in whole_lines(path)))
        file.write(f"{line}\n".encode())


def whole_lines(path: Path) -> list[str]:
    """Return the lines that were written to the end; none where there is no file."""
    try:
        return read_bounded(path, limit=MAX_BYTES).decode().split("\n")[:-1] if path.exists() else []
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: {error}") from error


def read(path: Path) -> list[Result]:
    """Return every result in a file; none where there is no file."""
    return read_lines(path, Result)


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Return every record in a file of results or trials, each checked."""
    records, what = [], re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
    for number, line in enumerate(whole_lines(path), 1):
        with naming(f"{path}, line {number}: not a {what}", InputError):
            records.append(from_json(kind, line))
    return records


SUFFIX: Final = ".spec.json"
NOT_PRESENT: Final = "data not present: point PRICDR_DATA at it"
_MAX_OUTLINE_BYTES: Final = 1 << 24


@record
class Outline:
    """One table as it was run: what its results mean, and which there should be."""

    spec: Spec
    keys: Mapping[str, Line]
    missing: Text = ""

    def __post_init__(self) -> None:
        if [*self.keys] != [arm.name for arm in self.spec.arms]:
            raise ParameterError("keys must be those of the arms, in their order")

    @classmethod
    def of(cls, spec: Spec, missing: str = "") -> "Outline":
        """Return the outline of a spec; ``missing`` says why it could not be run."""
        return cls(spec=spec, keys={arm.name: spec.key(arm) for arm in spec.arms}, missing=missing)

    def write(self, folder: Path) -> None:
        """Write it beside the results that it describes."""
        content = asdict(self)
        content["spec"]["arm"] = content["spec"].pop("arms")  # as in a spec
        text = json.dumps(content, indent=1, ensure_ascii=False, default=lambda kind: kind.value)
        replace_file(folder / f"{self.spec.name}{SUFFIX}", f"{text}\n".encode())


def read_outline(path: Path) -> Outline:
    """Return the outline in a file, checked."""
    return read_json(path, Outline, "an outline of results", limit=_MAX_OUTLINE_BYTES)
