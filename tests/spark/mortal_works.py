"""Works that kill their own process, once or always. Executors import this file."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Mortal:
    """Dies instead of doing its work: only the first time over all processes, or every time without a marker."""

    work: Any
    marker: str | None
    how: str

    def __call__(self, block, start):
        if self._dies():
            end(self.how)
        return self.work(block, start)

    def _dies(self):
        if self.marker is None:
            return True
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def end(how):
    if how == "executor":  # the nearest Java process above this one
        process = os.getppid()
        while "java" not in Path(f"/proc/{process}/comm").read_text():
            process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(process, signal.SIGKILL)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)
