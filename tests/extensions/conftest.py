import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pricdr.models.catalogue import METHODS
from pricdr.privacy.strategies import BY_NAME
from tests.extensions.packages import BUCKETS, NEIGHBOURS, PYPROJECT, install


@pytest.fixture
def forgetting(tmp_path, monkeypatch):
    """Whatever a test makes known is forgotten afterwards."""
    for registry in (METHODS, BY_NAME):
        monkeypatch.setattr(registry, "_registered", {})
        monkeypatch.setattr(registry, "_references", {})
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def installed(tmp_path, monkeypatch, forgetting) -> Callable[..., Path]:
    """Install a package: it is importable, and its entry points are read."""

    def put(pyproject: str = PYPROJECT, **modules: str) -> Path:
        folder = tmp_path / f"site{len(list(tmp_path.glob('site*')))}"
        install(folder, pyproject, **(modules or {"neighbours": NEIGHBOURS, "buckets": BUCKETS}))
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return put
