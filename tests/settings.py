"""What a test sets in a file for ``--config``."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

_FOLDER = Path(tempfile.gettempdir()) / f"pricdr-settings-{os.geteuid()}"
"""One for all processes: the paths are part of what cases are called, which must be the same in every one."""


def config(**settings: object) -> tuple[str, str]:
    """Return the words ``--config FILE``; the file sets these, by their names with underscores."""
    named = {name.strip("_").replace("_", "-"): value for name, value in settings.items()}
    text = "".join(f"{key} = {json.dumps(value, default=str)}\n" for key, value in named.items())
    file = _FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    staged = file.with_suffix(f".{os.getpid()}")
    staged.write_text(text)
    staged.rename(file)
    return "--config", str(file)
