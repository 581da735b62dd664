"""Check that files which are read together have one schema: the same columns, of the same types."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pricdr.data.reading.formats import Format
from pricdr.data.reading.raw_ratings import Schema
from pricdr.data.reading.text_files import file_refusal, named, shorten
from pricdr.errors import InputError

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
                raise _mismatch(file, f"it has no column {shorten(name)}, and {first} has one")
            if actual[name] != kind:
                raise _mismatch(file, f"column {shorten(name)} holds {actual[name]}, in {first} {kind}")
        for name in actual:
            if name not in expected:
                raise _mismatch(file, f"it has a column {shorten(name)}, and {first} has none")


def _mismatch(file: Path | str, fault: str) -> InputError:
    # Without the names: where a header is missing they are a row.
    return file_refusal(file, f"{fault}; {_RULE}", logged=f"its columns are not those of the first file; {_RULE}")


@dataclass
class OneFilter:
    """The filter on counts that files disclose: all files that disclose one must disclose the same."""

    file: Path | None = None
    text: str | None = None

    def add(self, file: Path, text: str | None) -> None:
        """Remember the filter of a file, or refuse it."""
        if text is None or text == self.text:
            return
        if self.text is not None and self.file is not None:
            both = (
                f"it says that it was filtered by {shorten(text, 60)}, {named(self.file)} by {shorten(self.text, 60)}"
            )
            rule = "they cannot be read together"
            logged = f"it was filtered in another way than the first file; {rule}"
            raise file_refusal(file, f"{both}; {rule}", logged=logged)
        self.file, self.text = file, text


def require_one_kind(files: Sequence[tuple[Path, Format]]) -> None:
    """Refuse files of different formats."""
    for path, kind in files:
        if kind is not files[0][1]:
            logged = f"it is {kind}, and the first file is {files[0][1]}; {_RULE}"
            raise file_refusal(path, f"it is {kind}, and {named(files[0][0])} is {files[0][1]}; {_RULE}", logged=logged)
