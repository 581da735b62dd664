"""The process that decodes on behalf of another: it loads polars once and forks for every file.

Each child is given limits that follow from its file, reads that one file, writes what it read into a pipe and exits,
and with it goes whatever the file did to it.
"""

import json
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LENGTH = 8
"""Bytes of the length that precedes every message."""
_RESERVED = 4 << 30
"""Addresses, not memory, that a child may reserve beside what it may use."""


def main() -> None:
    """Serve requests from standard input, a socket, until its other end is closed."""
    from pricdr.untrusted import decoding, slices  # noqa: F401 - loaded here, so that no child has to

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child is waited for: its pipe shows how it ended
    link = socket.socket(fileno=os.dup(0))
    while True:
        message, descriptors, _, _ = socket.recv_fds(link, LENGTH, 2)
        if len(message) < LENGTH or len(descriptors) != 2:
            return
        request = _exactly(link, int.from_bytes(message, "little"))
        if os.fork() == 0:
            link.close()
            status = 1
            try:
                _serve(json.loads(request), *descriptors)
                status = 0
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(request: dict[str, Any], source: int, sink: int) -> None:
    from pricdr.untrusted.decoding import RefusedError, decode

    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # a library that aborts must not print on the user's terminal
        os.dup2(null, standard)
    _limit_time(int(request["seconds"]))
    with os.fdopen(sink, "wb") as pipe:
        try:
            for report, arrays in decode(source, request, _limit_memory):
                shapes = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
                _send(pipe.write, {**report, "arrays": shapes})
                for array in arrays.values():
                    pipe.write(array.reshape(-1).view("uint8").data)
                pipe.flush()
        except RefusedError as refused:
            _send(pipe.write, {"refused": str(refused)})
        except MemoryError:
            _send(pipe.write, {"refused": "it needs more memory than a file of its size should"})
        except BaseException as error:  # a panic inside polars is not an Exception
            _send(pipe.write, {"refused": " ".join(str(error).split())[:120] or type(error).__name__})


def _send(write: Callable[[bytes], Any], message: dict[str, Any]) -> None:
    content = json.dumps(message).encode()
    write(len(content).to_bytes(LENGTH, "little") + content)


def _exactly(link: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length and (part := link.recv(length - len(content))):
        content += part
    return content


def _limit_time(seconds: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds * 4, seconds * 4))


def _limit_memory(more: int, mapped: int = 0) -> None:
    """Allow ``more`` bytes beyond what the process has now. Only Linux has this limit; elsewhere time alone is.

    A file of ``mapped`` bytes may be mapped beside them: it takes addresses, not memory.
    """
    with suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            now = int(file.read().split()[0]) * resource.getpagesize()
        most = now + more + (512 << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        # Allocators reserve addresses for every thread, how many differs from run to run; most are never used.
        addresses = most + mapped + _RESERVED
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))


if __name__ == "__main__":
    main()
