"""Work on untrusted bytes in another process: requested here, done in ``host``.

Each process has one host, started when it is first needed. When a child runs out of time the host is killed with all
its children, and the next request starts another.
"""

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.untrusted.host import LENGTH

_LARGEST_REPORT: Final = 1 << 26
_PIPE: Final = 1 << 20
GRACE: Final = 5
"""Seconds that a child has to end by itself once its own alarm has rung."""
_DTYPES: Final = frozenset({"int32", "int64", "uint8", "float32", "float64", "bool"})
START: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from pricdr.untrusted.host import main; main()"


class SandboxError(Exception):
    """Why there was no answer, in words for the user."""


@dataclass(frozen=True)
class Answer:
    """A report and its arrays."""

    report: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


class _Host:
    """A running host and the socket to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.link, other = socket.socketpair()
        path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - as python itself reads an empty entry
        # -P: "python -c" would look for its first import in the working folder, which may be somebody else's delivery.
        command = [sys.executable, "-P", "-c", START, json.dumps(path)]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt at the keyboard is for us to handle
            )
        finally:
            other.close()

    def ask(self, request: dict[str, Any], source: int, sink: int) -> None:
        content = json.dumps(request).encode()
        socket.send_fds(self.link, [len(content).to_bytes(LENGTH, "little")], [source, sink])
        self.link.sendall(content)

    def kill(self) -> None:
        self.link.close()
        if self.owner == os.getpid():  # after a fork the host is somebody else's
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


_lock = threading.Lock()
_host: _Host | None = None


def _after_fork() -> None:
    """Begin with a lock that is free: the thread that held it stayed behind in the parent."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def ask(request: dict[str, Any], source: int, *, seconds: int, each: bool = False) -> Generator[Answer, None, None]:
    """Yield what a child process answers about the open file ``source``, message by message.

    :class:`SandboxError` where it refuses, dies, runs out of time or gives an impossible answer. ``request["memory"]``
    bounds what it may use, and what it may send. It has ``seconds`` for all messages together, or for ``each``.
    """
    reading, writing = os.pipe()
    with suppress(AttributeError, OSError):  # faster where it can be had
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    try:
        _submit({**request, "seconds": seconds}, source, writing)
        os.close(writing)
        writing = -1
        pipe = _Pipe(reading, time.monotonic() + seconds + GRACE)
        while True:
            if each:  # counted from here, since the caller may have been busy with the last one
                pipe.deadline = time.monotonic() + seconds + GRACE
            yield _answer(pipe, int(request["memory"]))
    except TimeoutError as error:
        stop()
        raise SandboxError(f"reading it took more than {seconds} seconds") from error
    except (SandboxError, GeneratorExit):  # a child whose pipe is closed ends by itself
        raise
    except BaseException:
        stop()  # interrupted: the child must not go on
        raise
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def _submit(request: dict[str, Any], source: int, sink: int) -> None:
    global _host
    with _lock:
        for attempt in (1, 2):
            if _host is not None and _host.owner != os.getpid():
                _host.process.returncode = 0  # our parent's, which waits for it
                _host = None
            _host = _host or _Host()
            try:
                _host.ask(request, source, sink)
                return
            except OSError as error:  # it was killed from outside: try once more
                _host.kill()
                _host = None
                if attempt == 2:
                    raise SandboxError("the process that decodes files cannot be started") from error


def host_pid() -> int | None:
    """Return the number of the host's process; None where none is running."""
    return None if _host is None else _host.process.pid


def stop() -> None:
    """Kill the host, if there is one, with all its children; the next request starts another."""
    global _host
    with _lock:
        if _host is not None:
            _host.kill()
            _host = None


atexit.register(stop)


class _Pipe:
    """The reading end of a pipe, with a deadline."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self.deadline = deadline
        self._ready = select.poll()  # select() takes no descriptor above 1,023
        self._ready.register(descriptor, select.POLLIN)

    def fill(self, buffer: memoryview) -> None:
        """Fill all of ``buffer``."""
        at = 0
        while at < len(buffer):
            left = self.deadline - time.monotonic()
            if left <= 0 or not self._ready.poll(left * 1000):
                raise TimeoutError
            count = os.readv(self._descriptor, [buffer[at:]])
            if count == 0:
                why = "the file is corrupt, or takes too much to read"
                raise SandboxError(f"the process that decodes files crashed or was stopped: {why}")
            at += count


def _answer(pipe: _Pipe, most: int) -> Answer:
    head = bytearray(LENGTH)
    pipe.fill(memoryview(head))
    length = int.from_bytes(head, "little")
    if length > _LARGEST_REPORT:
        raise SandboxError("the process that decodes files gave an impossible answer")
    content = bytearray(length)
    pipe.fill(memoryview(content))
    try:
        report = json.loads(content)
        if "refused" in report:
            raise SandboxError(str(report["refused"]))
        arrays = {}
        for name, (dtype, shape) in report.pop("arrays").items():
            if dtype not in _DTYPES or any(type(side) is not int or side < 0 for side in shape):
                raise ValueError
            most -= np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object))
            if most < 0:
                raise ValueError
            arrays[name] = np.empty(shape, dtype=dtype)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SandboxError("the process that decodes files gave an impossible answer") from error
    for array in arrays.values():
        if array.size:
            pipe.fill(array.reshape(-1).view(np.uint8).data)
    return Answer(report, arrays)
