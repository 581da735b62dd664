"""Metadata differencing: whatever leaves beside the matrix is compared with what each candidate input would leave."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from pricdr.release.folder import CERTIFICATE, MATRIX, SIGNATURE

Contents: TypeAlias = Mapping[str, bytes]
"""The files of a folder, by name."""


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def metadata(contents: Contents) -> str:
    """Return everything in a release folder but the noisy matrix: names, sizes, and the bytes of all other files.

    The matrix's own hash in the certificate, and the digest and signature that cover it, say no more than the matrix.
    """
    shown: dict[str, str] = {}
    for name, data in contents.items():
        text = f"{len(data)} bytes"
        if name == CERTIFICATE:
            certificate = json.loads(data)
            certificate.pop("digest", None)
            certificate.get("files", {}).pop(MATRIX, None)
            text = f"{text}: {json.dumps(certificate)}"
        elif name not in (MATRIX, SIGNATURE):
            text = f"{text}: {data!r}"
        shown[name] = text
    return json.dumps(shown)


def metadata_difference(absent: Contents, present: Contents) -> Callable[[Contents], float]:
    """Return a distinguisher that prefers the candidate whose own folder has the same metadata; 0 where both have."""
    candidates = metadata(absent), metadata(present)

    def score(contents: Contents) -> float:
        seen = metadata(contents)
        return float(seen == candidates[1]) - float(seen == candidates[0])

    return score
