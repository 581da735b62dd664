"""``--json FILE`` and ``--json -``: what a command found, for programs. One rule for every command that has it."""

import json
import math
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeAlias

import typer

from pricdr.cli.console import answer


class JsonOutput:
    """Where a command's JSON goes: a new file, or standard output."""

    def __init__(self, path: str) -> None:
        self.path = None if path == "-" else Path(path)
        """The file; None for standard output."""
        self._stream: TextIO | None = None

    def prepare(self, context: typer.Context) -> None:
        """Refuse a file that cannot be made before any work is done; keep standard output for the JSON alone.

        While the command runs, what it says to people goes to standard error.
        """
        from pricdr.files import require_writable
        from pricdr.release.folder import require_outside_releases

        if self.path is not None:
            require_writable(self.path)
            require_outside_releases(self.path)
        else:
            self._stream = sys.stdout
            context.with_resource(redirect_stdout(sys.stderr))

    def write(self, content: Mapping[str, Any]) -> None:
        """Write the one JSON object of this command; a number that is not finite becomes null."""
        # In ASCII, so that ids from outside cannot act on a terminal.
        text = json.dumps(_finite(content), indent=2, allow_nan=False)
        if self.path is not None:
            from pricdr.files import write_new

            write_new(self.path, f"{text}\n".encode())
        else:
            with redirect_stdout(self._stream):
                answer(*text.split("\n"))


def write_json(output: JsonOutput | None, content: Mapping[str, Any]) -> None:
    """Write what a command found where ``--json`` asks for it."""
    if output is not None:
        output.write(content)


def _prepared(context: typer.Context, output: JsonOutput | None) -> JsonOutput | None:
    if output is not None and not context.resilient_parsing:  # not while a shell asks for completions
        output.prepare(context)
    return output


JsonOption: TypeAlias = Annotated[
    JsonOutput | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        parser=JsonOutput,
        callback=_prepared,
        help="Also write all of it as JSON: a new file, or - for nothing but JSON on standard output.",
    ),
]


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
