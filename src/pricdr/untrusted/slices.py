"""Inside the child process: a Parquet file some rows at a time, so that memory is bounded whatever its size.

Row groups are decoded one after another in one process. Text is sent as it stands in the rows, not as codes of distinct
values: sorting them would take longer than everything else.
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from pricdr.untrusted.decoding import (
    Arrays,
    Open,
    RefusedError,
    Report,
    columns_of,
    numbers_of,
    readable_metadata,
    require_no_bomb,
    taken_position,
    too_much_memory,
)
from pricdr.untrusted.footers import Footer, LayoutError, read_footer, understood, whole

_PER_ROW: Final = 96
"""Bytes that a row needs beside its values: views of two ids, their lengths, numbers, and what is sent of them."""


def decode_slices(
    descriptor: int, request: Report, limit_memory: Callable[[int, int], None]
) -> Iterator[tuple[Report, Arrays]]:
    """Yield what the footer states, the columns, and then one message for every ``slice_rows`` rows or fewer.

    ``request`` has the arguments of :meth:`pricdr.untrusted.parquet.Parquet.slices`, and what ``decode`` is given.
    """
    size, most, seconds = os.fstat(descriptor).st_size, int(request["memory"]), int(request["seconds"])
    try:
        footer = read_footer(Open(descriptor))
        require_no_bomb(footer, size)
        stretches = list(_stretches(footer, request["columns"], int(request["slice_rows"]), most))
    except LayoutError as error:
        raise RefusedError(str(error)) from error
    limit_memory(max((need for _, need in stretches), default=0) + (128 << 20), size)
    yield {"rows": footer.rows, "metadata": readable_metadata(footer)}, {}
    source = os.fdopen(os.dup(descriptor), "rb")
    schema = pl.read_parquet_schema(source)
    positions = [taken_position(schema, wanted, purpose) for wanted, purpose in request["columns"]]
    yield {"columns": columns_of(schema)}, {}
    first = 0
    for rows, _ in stretches:
        signal.alarm(seconds)
        source.seek(0)
        # By position: polars would take ^user$ for a pattern.
        frame = pl.scan_parquet(source).slice(first, rows).select(pl.nth(positions)).collect()
        if frame.height != rows:
            raise RefusedError(f"it has {first + frame.height:,} rows, and states {footer.rows:,}")
        for part in frame.iter_slices(int(request["slice_rows"])):
            arrays: Arrays = {}
            for number, (_, purpose) in enumerate(request["columns"]):
                column = part.to_series(number)
                arrays |= {f"{number}/{name}": array for name, array in _PURPOSES[purpose](column).items()}
            signal.alarm(0)  # whoever reads may take its time
            yield {"slice": part.height}, arrays
            signal.alarm(seconds)
        first += rows


def _stretches(footer: Footer, columns: list[Any], slice_rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the row groups that are decoded together: how many rows they have, and the memory they may need."""
    tops = list(dict.fromkeys(leaf.path[:1] for leaf in footer.leaves))
    wanted = {tops[position] for position, _ in columns if position < len(tops)}
    rows = need = 0
    with understood("a row group"):
        for number, group in enumerate(footer.groups, start=1):
            chunks = zip(group[1], footer.leaves, strict=True)
            unpacked = sum(whole(chunk[3][6], 1 << 50) for chunk, leaf in chunks if leaf.path[:1] in wanted)
            # Text from a dictionary takes less in the file than in memory, at most what its rows are allowed here.
            more = 4 * unpacked + group[3] * _PER_ROW
            if more > most:
                raise RefusedError(too_much_memory(f"row group {number} of {group[3]:,} rows", more, most))
            if rows and rows + group[3] > slice_rows:
                yield rows, need
                rows = need = 0
            rows, need = rows + group[3], need + more
    if rows:
        yield rows, need


def _text(column: pl.Series) -> Arrays:
    """Return the rows joined by line feeds, the bytes of each, and where they are missing."""
    missing = column.is_null().to_numpy()
    text = column.cast(pl.String).fill_null("")
    joined = text.str.join("\n").item() if len(text) else ""
    return {
        "text": np.frombuffer(joined.encode(), dtype=np.uint8),
        "lengths": text.str.len_bytes().to_numpy().astype(np.int64),
        "missing": missing,
    }


def _numbers(column: pl.Series) -> Arrays:
    return numbers_of(column)[0]


_PURPOSES: Final = {"text": _text, "numbers": _numbers}
