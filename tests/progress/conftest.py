"""A notebook without Jupyter: what the kernel would be sent is kept."""

import sys
from types import ModuleType, SimpleNamespace

import pytest


class Kernel:
    """What was displayed, in order: the first time and every time it was drawn again."""

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []

    @property
    def html(self) -> list[str]:
        return [one["text/html"] for one in self.sent]

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id is True
        self.sent.append(bundle)
        return SimpleNamespace(update=self.update)

    def update(self, bundle, *, raw):
        assert raw
        self.sent.append(bundle)


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    """Run inside a notebook."""
    kernel, ipython, shown = Kernel(), ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=kernel)
    shown.display = kernel.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return kernel
