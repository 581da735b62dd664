"""Blinding many ids or points, on several processes."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeAlias

from pricdr.alignment.curve import BlindingKey, Points, as_points, hash_to_u, split_points
from pricdr.errors import PriCDRError
from pricdr.parallel import process_pool
from pricdr.progress import Progress, silent

PORTION: Final = 10_000
"""Ids or points that are blinded at a time: about a second of one core."""
_ID, _DUMMY = b"\0", b"\1"
"""The byte that is hashed before an id or a dummy, so that no id can hash to a dummy's point."""

_Contents: TypeAlias = Callable[[int, int], list[bytes]]
"""Returns what is blinded between two positions."""
_Blind: TypeAlias = Callable[[list[bytes], BlindingKey], bytes]


@dataclass(frozen=True)
class Blinder:
    """Blinds ids and points, and reports progress.

    Args:
        processes: number of worker processes; 1 means no workers. More than 1 needs an importable main module, as
            ``multiprocessing`` with the spawn method always does.
        progress: called with the number of points done.
    """

    processes: int = 1
    progress: Progress = silent

    def ids(self, ids: Sequence[str], session: bytes, key: BlindingKey, *, pad_to: int) -> Points:
        """Return the blinded points of the ids, followed by those of enough dummies to make ``pad_to`` points."""

        def contents(start: int, stop: int) -> list[bytes]:
            real = [session + _ID + user_id.encode() for user_id in ids[start:stop]]
            return real + [session + _DUMMY + key.dummy(number) for number in range(max(start, len(ids)), stop)]

        return self._run("blinding ids", pad_to, _blind_contents, contents, key)

    def points(self, points: Points, key: BlindingKey) -> Points:
        """Return the points times the key, in the same order. They must have passed ``require_points``."""

        def contents(start: int, stop: int) -> list[bytes]:
            return split_points(points[start:stop].tobytes())

        return self._run("blinding points", len(points), _blind_points, contents, key)

    def _run(self, what: str, total: int, blind: _Blind, contents: _Contents, key: BlindingKey) -> Points:
        out = bytearray()
        portions = [(start, min(start + PORTION, total)) for start in range(0, total, PORTION)]
        self.progress(what, 0, total)
        with closing(_blinded(portions, blind, contents, key, min(self.processes, len(portions)))) as blinded:
            for (_, stop), content in zip(portions, blinded, strict=True):
                out += content
                self.progress(what, stop, total)
        return as_points(out)


def _blinded(
    portions: Sequence[tuple[int, int]], blind: _Blind, contents: _Contents, key: BlindingKey, processes: int
) -> Generator[bytes]:
    """Yield the blinded points of each portion, in order."""
    if processes <= 1:
        yield from (blind(contents(*portion), key) for portion in portions)
        return
    running: deque[Future[bytes]] = deque()
    try:
        with process_pool(processes, _set_key, key.reveal()) as pool:
            for portion in portions:
                # A few at a time: the contents of all portions together would take as much memory as the ids.
                if len(running) >= 2 * processes:
                    yield running.popleft().result()
                running.append(pool.submit(_in_worker, blind, contents(*portion)))
            while running:
                yield running.popleft().result()
    except BrokenProcessPool as error:
        why = "a worker process was killed while blinding, perhaps for lack of memory"
        raise PriCDRError(f"{why}: use fewer --processes") from error


_KEY: list[BlindingKey] = []
"""The key of a worker process."""


def _set_key(content: bytes) -> None:
    _KEY.append(BlindingKey(content))


def _in_worker(blind: _Blind, contents: list[bytes]) -> bytes:
    return blind(contents, _KEY[0])


def _blind_contents(contents: list[bytes], key: BlindingKey) -> bytes:
    """Hash the contents to points and return these, blinded."""
    return key.multiply(split_points(hash_to_u(contents)))


def _blind_points(points: list[bytes], key: BlindingKey) -> bytes:
    return key.multiply(points)
