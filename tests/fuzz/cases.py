"""What a case is: files as a stranger may send them, the honest files they were made from, and how they are judged."""

import os
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pricdr.errors import PriCDRError

MAX_REFUSAL_LENGTH = 600
MAX_ID_LENGTH = 1000


@dataclass(frozen=True)
class Special:
    """An entry of a folder that is no plain file."""

    kind: str
    """``link``, ``pipe`` or ``folder``."""
    target: str = ""


Entry = bytes | Special
Files = Mapping[str, Entry]


@dataclass(frozen=True)
class Seed:
    """Honest input, and what it means."""

    name: str
    files: Mapping[str, bytes]
    meaning: Any = None

    @classmethod
    def of_folder(cls, folder: Path, meaning: Any = None) -> "Seed":
        """Take all files of a folder, under the folder's name."""
        return cls(folder.name, {file.name: file.read_bytes() for file in sorted(folder.iterdir())}, meaning)


@dataclass(frozen=True)
class Kind:
    """One kind of input: how honest ones are made, how they are changed, and how the product reads them."""

    seeds: Callable[[Path], list[Seed]]
    """Makes the honest inputs; the folder is there to write in. The same every time."""
    mutate: Callable[[Random, Seed, Seed], Files]
    """Changes the first seed, with the second at hand to splice from."""
    judge: Callable[[Path, Seed, Files], None]
    """Reads the files written into a folder. Refuses by a ``PriCDRError``; raises ``Wrong`` for a wrong meaning."""


class Wrong(Exception):  # noqa: N818 - it is the input's meaning that is wrong
    """The product accepted something that means what it must not mean."""


class Outcome(NamedTuple):
    """What came of one case."""

    result: str
    """``accepted``, ``refused`` or ``failed``."""
    reason: str = ""
    """The same for every case with the same cause."""
    detail: str = ""


def write_files(folder: Path, files: Files) -> None:
    """Put ``files`` into an empty folder."""
    for name, entry in files.items():
        path = folder / name
        if isinstance(entry, bytes):
            path.write_bytes(entry)
        elif entry.kind == "link":
            path.symlink_to(entry.target)
        elif entry.kind == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()


def run_judge(kind: Kind, folder: Path, seed: Seed, files: Files) -> Outcome:
    """Judge one case: anything but acceptance in silence or a refusal in one line is a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _judged(kind, folder, seed, files)
    if caught and outcome.result != "failed":
        first = caught[0]
        where = f"{Path(first.filename).name}:{first.lineno}"
        return Outcome("failed", f"{first.category.__name__} at {where}: {first.message!s:.80}")
    return outcome


def _judged(kind: Kind, folder: Path, seed: Seed, files: Files) -> Outcome:
    try:
        kind.judge(folder, seed, files)
    except Wrong as wrong:
        what, _, detail = str(wrong).partition(": ")
        return Outcome("failed", f"accepted: {what}", detail)
    except PriCDRError as error:
        message = str(error)
        if not message.isprintable():
            return Outcome("failed", f"a refusal that is not one printable line, in {_where(error)}", repr(message))
        if len(message) >= MAX_REFUSAL_LENGTH:
            fault = f"a refusal of {MAX_REFUSAL_LENGTH} characters or more, in {_where(error)}"
            return Outcome("failed", fault, message[:2000])
        return Outcome("refused")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a compiled library is no Exception, and what raises one must be found
        return Outcome("failed", f"{type(error).__name__} in {_where(error)}", traceback.format_exc())
    return Outcome("accepted")


def _where(error: BaseException) -> str:
    """The innermost line of the library that the error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}pricdr{os.sep}" in frame.filename] or frames[-1:]
    return f"{Path(ours[-1].filename).name}:{ours[-1].name}"


def require(condition: object, what: str) -> None:
    """Fail the case where ``condition`` does not hold; what comes after a colon is detail."""
    if not condition:
        raise Wrong(what)


def require_ids(what: str, ids: tuple[str, ...]) -> None:
    """The rule of ids, written down a second time."""
    require(all(isinstance(name, str) and name for name in ids), f"{what} ids that are empty or no text")
    require(len(set(ids)) == len(ids), f"{what} ids that are not distinct")
    require(all(len(name) <= MAX_ID_LENGTH for name in ids), f"{what} ids of over {MAX_ID_LENGTH} characters")
    controls = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u2028", "\u2029"}
    require(not any(set(name) & controls for name in ids), f"{what} ids with control characters")
