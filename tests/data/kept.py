"""Where ratings are kept while they are published: tests let files of any size count as too large for the memory."""

import pytest

from pricdr import memory

KEPT = ("in memory", "on disk")


def keep(patch: pytest.MonkeyPatch, where: str) -> None:
    """Keep ratings in memory or on disk from now on."""
    patch.setattr(memory, "EXPANSION", 10**12 if where == "on disk" else 0)
