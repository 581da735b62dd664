"""TOML from outside: bounded before it is parsed, with numbers that can be computed with."""

import math
import tomllib
from pathlib import Path
from typing import Any, Final

from pricdr.data.reading.text_files import explaining_os_errors, refusal, shorten
from pricdr.untrusted import read_bounded

MOST_BYTES: Final = 1 << 18
LONGEST_LINE: Final = 2_000
"""Bytes. A key of n parts takes the parser n² steps, and a key stands on one line."""
DEEPEST: Final = 8
"""Tables and lists inside one another."""


def read_toml(file: Path) -> dict[str, Any]:
    """Return the table in a TOML file; whole numbers in it fit in 64 bits, and other numbers are finite."""
    with explaining_os_errors(file):
        content = read_bounded(file, limit=MOST_BYTES)
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) > LONGEST_LINE:
            raise refusal(file, f"line {number} has {len(line):,} bytes; at most {LONGEST_LINE:,} are read")
    try:
        table = tomllib.loads(content.decode())
    except RecursionError as error:
        raise refusal(file, f"is nested more than {DEEPEST} levels deep") from error
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise refusal(file, f"is not TOML: {error}") from error
    _require_usable(file, table)
    return table


def _require_usable(file: Path, table: dict[str, Any]) -> None:
    waiting: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in table.items()]
    while waiting:  # not recursively: a hostile table could be nested deeper than the stack
        key, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise refusal(file, f"{shorten(key)} is nested more than {DEEPEST} levels deep")
        if isinstance(value, dict):
            waiting += [(f"{key}.{name}", inside, depth + 1) for name, inside in value.items()]
        elif isinstance(value, list):
            waiting += [(key, inside, depth + 1) for inside in value]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise refusal(file, f"{key} must be a number that fits in 64 bits, got {shorten(value)}")
        elif isinstance(value, float) and not math.isfinite(value):
            raise refusal(file, f"{key} must be a finite number, got {value!r}")
