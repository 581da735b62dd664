"""What a test sets in a file for ``publish --config``."""

import hashlib
import json
import tempfile
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="pricdr-settings-")  # until the tests end


def config(**settings: object) -> tuple[str, str]:
    """Return the words ``--config FILE``; the file sets these, by their names with underscores."""
    named = {name.strip("_").replace("_", "-"): value for name, value in settings.items()}
    text = "".join(f"{key} = {json.dumps(value, default=str)}\n" for key, value in named.items())
    file = Path(_FOLDER.name) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    file.write_text(text)
    return "--config", str(file)
