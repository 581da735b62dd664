import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from pricdr.errors import InputError

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a real file; a name that ends in .gz is compressed."""

    def make(name: str, content: str | bytes) -> Path:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return make


@pytest.fixture
def refused():
    """Call something that must be refused; return its one line."""

    def check(call: Callable[[], object], error: type[Exception] = InputError) -> str:
        with pytest.raises(error) as caught:
            call()
        message = str(caught.value)
        assert message
        assert "\n" not in message
        assert message.isprintable()
        return message

    return check
