"""Certificates changed as a careful forger would: README, hashes, digest and bytes all fit."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pricdr.release.certificate import Certificate, seal
from pricdr.release.readme import readme


def reseal(
    folder: Path, change: Callable[[Any], object] | None = None, *, rewrite_readme: bool = False, **fields: Any
) -> None:
    """Change what the certificate in a release folder says, and let the folder fit it again."""
    content = json.loads((folder / "certificate.json").read_bytes())
    del content["digest"]
    if change is not None:
        change(content)
    content.update(fields)
    if rewrite_readme:
        with suppress(ValueError, TypeError, ArithmeticError):  # no README fits what cannot be a certificate
            (folder / "README.md").write_text(readme(Certificate.model_validate(content)))
    if "files" not in fields:
        names = content["files"]
        content["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "certificate.json").write_bytes(seal(content))


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Put another file into a release folder, and seal it again."""
    (folder / name).write_bytes(content)
    reseal(folder)
