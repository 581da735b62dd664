"""What holds for every path on the command line, whichever command takes it."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from pricdr.files import require_local


def require_local_paths(app: typer.Typer) -> None:
    """Let every command of ``app`` refuse addresses such as s3://bucket/file, given as any of its paths.

    They are refused before the command does anything: some would otherwise make a folder of that name, or refuse
    another input first.
    """
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _checked(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            require_local_paths(group.typer_instance)


def _checked(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)  # typer reads the signature of the command itself
    def checking(**arguments: Any) -> Any:  # noqa: ANN401 - whatever the command takes and returns
        for name, value in arguments.items():
            if name == "ratings" and arguments.get("engine") == "spark":
                continue  # Spark reads from wherever its executors can
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    require_local(path)
        return command(**arguments)

    return checking
