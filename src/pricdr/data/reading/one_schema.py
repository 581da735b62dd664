"""Files that are read together have one schema: the same columns, of the same types."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pricdr.data.reading.formats import Format
from pricdr.data.reading.raw_ratings import Schema
from pricdr.data.reading.text_files import named, refusal, shorten

_RULE = "files that are read together need one schema"


@dataclass
class OneSchema:
    """The schema of the first file, which all others must have; the order of its columns does not matter."""

    file: Path | str | None = None
    columns: Schema = ()

    def require(self, file: Path | str, schema: Schema) -> None:
        """Refuse a file of another schema, and name the first column that differs."""
        if self.file is None:
            self.file, self.columns = file, schema
        if schema == self.columns:
            return
        expected, actual, first = dict(self.columns), dict(schema), named(self.file)
        for name, kind in expected.items():
            if name not in actual:
                raise refusal(file, f"it has no column {shorten(name)}, and {first} has one; {_RULE}")
            if actual[name] != kind:
                raise refusal(file, f"column {shorten(name)} holds {actual[name]}, in {first} {kind}; {_RULE}")
        for name in actual:
            if name not in expected:
                raise refusal(file, f"it has a column {shorten(name)}, and {first} has none; {_RULE}")


@dataclass
class OneFilter:
    """What files disclose about a filter on counts: those that do must say the same."""

    file: Path | None = None
    text: str | None = None

    def add(self, file: Path, text: str | None) -> None:
        """Take what a file discloses, or refuse it."""
        if text is None or text == self.text:
            return
        if self.text is not None and self.file is not None:
            both = (
                f"it says that it was filtered by {shorten(text, 60)}, {named(self.file)} by {shorten(self.text, 60)}"
            )
            raise refusal(file, f"{both}; they cannot be read together")
        self.file, self.text = file, text


def require_one_kind(files: Sequence[tuple[Path, Format]]) -> None:
    """Refuse files of different formats."""
    for path, kind in files:
        if kind is not files[0][1]:
            raise refusal(path, f"it is {kind}, and {named(files[0][0])} is {files[0][1]}; {_RULE}")
