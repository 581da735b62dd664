"""Write the command line reference from the typer app itself, so that no option can be missing or out of date."""

import re
from collections.abc import Iterator
from typing import Any, Final, get_type_hints

import typer
from pydantic import TypeAdapter

from pricdr.cli import app
from pricdr.cli.publish_settings import SETTINGS, PublishSettings

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
    if name == "pricdr publish":
        parts += list(_settings())
    return "\n\n".join(part for part in parts if part)


def _settings() -> Iterator[str]:
    """Yield what a file for --config can set beside the options."""
    yield "### Settings of pricdr publish --config"
    yield "TOML: every option above by its name without dashes in front, except `log-json`, and these:"
    described = TypeAdapter(PublishSettings).json_schema()["properties"]
    annotated = get_type_hints(PublishSettings, include_extras=True)
    for key, field in SETTINGS.items():
        stated = described[field].get("description") or annotated[field].__metadata__[0].help
        yield _parameter((key, " ".join(stated.split())))


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
