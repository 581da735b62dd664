"""Write the command line reference from the typer app itself, so that no option can be missing or out of date."""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer
from pydantic import TypeAdapter

from pricdr.cli import SETTINGS, app
from pricdr.cli.options import settings_of

INTRODUCTION: Final = """# Command line

`pricdr COMMAND --help` shows the same text in a terminal. This page is generated from the program.

Every command exits with 0 when it succeeds, 1 when a check fails, 2 for bad input or usage, 75 when another run is in
its way and 130 when it is interrupted ([what that says about the budget](../operations.md#exit-codes)). Results go to
standard output, warnings and errors to standard error. No command leaves half-written output.
"""
_FACT: Final = re.compile(r"\[(default|env var|required)(?:: ([^\]]*))?\]")
_RANGE: Final = re.compile(r"\[[^\]]*<=[^\]]*\]")


def commands() -> Iterator[tuple[str, Any, typer.Context]]:
    """Yield every command as (name, command, context), groups before what they hold."""
    root = typer.main.get_command(app)
    yield from _within(root, typer.Context(root, info_name="pricdr"))


def reference() -> str:
    """Return the whole page as Markdown."""
    sections = [_section(name, command, context) for name, command, context in commands() if name != "pricdr"]
    return "\n\n".join([INTRODUCTION.rstrip(), *sections]) + "\n"


def _within(command: Any, context: typer.Context) -> Iterator[tuple[str, Any, typer.Context]]:  # noqa: ANN401
    yield context.command_path, command, context
    for name, inner in getattr(command, "commands", {}).items():
        yield from _within(inner, typer.Context(inner, parent=context, info_name=name))


def _section(name: str, command: Any, context: typer.Context) -> str:  # noqa: ANN401
    level = "##" if name.count(" ") == 1 else "###"
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts = [f"{level} {name}", f"    {usage}", _plain(command.help or "")]
    parts += [_parameter(parameter.get_help_record(context)) for parameter in command.params if not parameter.hidden]
    if (settings := SETTINGS.get(name.removeprefix("pricdr "))) is not None:
        parts += list(_settings(name, settings))
    return "\n\n".join(part for part in parts if part)


def _settings(name: str, kind: type) -> Iterator[str]:
    """Yield what a file for --config can set beside the options."""
    yield f"### Settings of {name} --config"
    others = {
        "pricdr publish": "every option above by its name without dashes in front, except `log-json`",
        "pricdr train": "the settings of the method by their names",
    }
    yield f"TOML: {others.get(name, 'every option above by its name without dashes in front')}, and these:"
    described: dict[str, str] = {}
    for base in kind.__mro__[:-1]:  # each class knows only the texts of its own fields
        schemas = TypeAdapter(base).json_schema()["properties"]
        described |= {field: schema["description"] for field, schema in schemas.items() if "description" in schema}
    for key, field in settings_of(kind).items():
        yield _parameter((key, " ".join(described[field].split())))


def _parameter(record: tuple[str, str]) -> str:
    """Return one argument or option as an entry of a definition list."""
    name, help_text = record
    notes = "".join(
        f" *{fact}*." if not value else f" *{fact}*: `{value}`." for fact, value in _FACT.findall(help_text)
    )
    return f"`{name}`\n:   {_plain(_RANGE.sub('', _FACT.sub('', help_text)).strip())}{notes}"


def _plain(text: str) -> str:
    """Return text as Markdown: options and commands set as code, nothing else taken for markup."""
    quoted = re.sub(r'"(pricdr [^"]+)"', r"`\1`", text)
    parts = re.split(r"(`[^`]*`)", quoted)
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    shown = text.replace("<", "&lt;").replace("*", r"\*").replace("[", r"\[")
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", shown)
