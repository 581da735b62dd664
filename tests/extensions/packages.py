"""Packages of somebody else, written as pip would leave them: modules, and metadata with entry points."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
NEIGHBOURS = re.findall(r"```python\n(.*?)```", PAGE[PAGE.index("## A method of your own") :], re.DOTALL)[0]
BUCKETS = '''
import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pricdr.strategies import Projection


@dataclass(frozen=True, kw_only=True, eq=False)
class Buckets(Projection):
    """How many items of each bucket a user rated; a public hash puts items into buckets."""

    name: ClassVar[str] = "buckets"
    summary: ClassVar[str] = "items hashed into buckets"
    item_rows_are: ClassVar[str] = "PUBLIC buckets that items are hashed into"

    dim: int | None = 4

    def item_rows(self, items, randomness, progress):
        rows = np.zeros((len(items), self.dim), dtype=np.float32)
        for at, item in enumerate(items):
            rows[at, int.from_bytes(hashlib.sha256(item.encode()).digest()[:4], "big") % self.dim] = 1
        return rows
'''
PYPROJECT = """
[project]
name = "pricdr-examples"
version = "1.2"

[project.entry-points."pricdr.methods"]
neighbours = "pricdr_examples.neighbours:Neighbours"

[project.entry-points."pricdr.strategies"]
buckets = "pricdr_examples.buckets:Buckets"
"""


def install(folder: Path, pyproject: str, **modules: str) -> Path:
    """Write a package's modules and, from its pyproject, the metadata that pip would leave beside them."""
    about = tomllib.loads(pyproject)["project"]
    package = about["name"].replace("-", "_")
    (folder / package).mkdir(parents=True)
    (folder / "pyproject.toml").write_text(pyproject)
    for name, text in {"__init__": "", **modules}.items():
        (folder / package / f"{name}.py").write_text(text)
    metadata = folder / f"{package}-{about['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    groups = about.get("entry-points", {}).items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder
