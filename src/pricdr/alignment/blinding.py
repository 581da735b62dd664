"""Blinding many ids or points: in portions, over several processes, with finished portions kept for a later run."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from pricdr.alignment.curve import SIZE, BlindingKey, Points, as_points, hash_to_u, split_points
from pricdr.parallel import process_pool
from pricdr.progress import Progress, silent

PORTION: Final = 10_000
"""Ids or points that are blinded at a time: about a second of one core."""
_ID, _DUMMY = b"\0", b"\1"
"""What is hashed before an id, or before what stands in for one: no id can be taken for a dummy."""


class KeptPortions(Protocol):
    """Where finished portions are kept until all are there."""

    def read(self, name: str, size: int) -> bytes | None:
        """Return the portion of this name, if it is there and whole."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Keep a finished portion."""
        ...


class NothingKept:
    """Keeps no portion: a run that is stopped begins again."""

    def read(self, name: str, size: int) -> bytes | None:
        """Return None."""
        return None

    def write(self, name: str, content: bytes) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Blinder:
    """Blinds ids and points, and says how far it is.

    Args:
        processes: how many to work in; 1 works in this process. More need an importable main module, as every
            ``multiprocessing`` by spawning does.
        progress: told how many points are done.
        kept: where finished portions are kept.
    """

    processes: int = 1
    progress: Progress = silent
    kept: KeptPortions = field(default_factory=NothingKept)

    def ids(self, ids: Sequence[str], session: bytes, key: BlindingKey, *, pad_to: int) -> Points:
        """Return the blinded points of ids, then of as many dummies as it takes to make ``pad_to``."""

        def contents(start: int, stop: int) -> list[bytes]:
            real = [session + _ID + one.encode() for one in ids[start:stop]]
            return real + [session + _DUMMY + key.dummy(at) for at in range(max(start, len(ids)), stop)]

        return self._run("ids", pad_to, lambda start, stop: (_blind_contents, contents(start, stop)), key)

    def points(self, points: Points, key: BlindingKey) -> Points:
        """Return points times the key, in the same order. They must have passed ``require_points``."""
        return self._run(
            "points",
            len(points),
            lambda start, stop: (_blind_points, split_points(points[start:stop].tobytes())),
            key,
        )

    def _run(self, what: str, total: int, work: "_WorkOf", key: BlindingKey) -> Points:
        out = bytearray(total * SIZE)
        done, missing = 0, []
        for start in range(0, total, PORTION):
            stop = min(start + PORTION, total)
            content = self.kept.read(f"{what}-{start:09}", (stop - start) * SIZE)
            if content is None:
                missing.append((start, stop))
            else:
                out[start * SIZE : stop * SIZE] = content
                done += stop - start
        shown = f"blinding {what}"
        self.progress(shown, done, total)
        with closing(_blinded(missing, work, key, min(self.processes, len(missing)))) as blinded:
            for start, stop, content in blinded:
                self.kept.write(f"{what}-{start:09}", content)
                out[start * SIZE : stop * SIZE] = content
                done += stop - start
                self.progress(shown, done, total)
        return as_points(out)


_Blind: TypeAlias = Callable[[list[bytes], BlindingKey], bytes]
_WorkOf: TypeAlias = Callable[[int, int], tuple[_Blind, list[bytes]]]
"""From the bounds of a portion to the function that blinds it, and what it is to blind."""


def _blinded(
    portions: Sequence[tuple[int, int]], work: _WorkOf, key: BlindingKey, processes: int
) -> Generator[tuple[int, int, bytes], None, None]:
    """Yield bounds and blinded points of each portion, in any order."""
    if processes <= 1:
        for start, stop in portions:
            function, contents = work(start, stop)
            yield start, stop, function(contents, key)
        return
    waiting = iter(portions)
    running: dict[Future[bytes], tuple[int, int]] = {}
    with process_pool(processes, _take_key, key.reveal()) as pool:

        def submit() -> None:
            # A few at a time: the contents of all of them at once would take as much memory as the ids.
            for start, stop in waiting:
                function, contents = work(start, stop)
                running[pool.submit(_in_worker, function, contents)] = (start, stop)
                if len(running) >= 2 * processes:
                    return

        submit()
        while running:
            for finished in wait(running, return_when=FIRST_COMPLETED).done:
                yield *running.pop(finished), finished.result()
            submit()


_KEY: list[BlindingKey] = []
"""What a worker process blinds with."""


def _take_key(content: bytes) -> None:
    _KEY.append(BlindingKey(content))


def _in_worker(blind: _Blind, contents: list[bytes]) -> bytes:
    return blind(contents, _KEY[0])


def _blind_contents(contents: list[bytes], key: BlindingKey) -> bytes:
    """Return the blinded points of what is hashed to them."""
    return key.multiply(split_points(hash_to_u(contents)))


def _blind_points(points: list[bytes], key: BlindingKey) -> bytes:
    return key.multiply(points)
