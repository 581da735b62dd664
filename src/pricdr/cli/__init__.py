"""The command line: one file per command, which imports the library when it runs: ``--help`` answers at once."""

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from pricdr import __version__
from pricdr.cli.console import LOG_JSON, fail, log_event, log_lines, say, screen
from pricdr.cli.options import settings_of
from pricdr.cli.publish_settings import PublishSettings
from pricdr.cli.ratings import InputSettings, ReadingSettings
from pricdr.errors import POSIX_ONLY, PriCDRError
from pricdr.files import require_local

_INTERRUPTED = "interrupted; no output was left half-written"
_SIGNAL = "ended by a signal; no output was left half-written"
_OF_RATINGS = frozenset({"prepare", "publish", "split", "train"})
"""Commands that take one name of many files: a shell replaces a pattern without quotes by all that match."""
_COMMANDS: Final = (
    *("demo", "align", "publish", "ledger", "keygen", "verify", "inspect", "export", "revoke", "audit"),
    *("split", "train", "evaluate", "recommend", "model", "serve", "serving-key", "list"),
    *("prepare", "reproduce", "report"),
)
"""In the order of the work, research last."""
_ELSEWHERE: Final = {"serving-key": "serve.serving_key", "list": "listing.list_names"}
"""Functions that their command and its file are not named after."""
SETTINGS: Final[Mapping[str, type]] = {
    "publish": PublishSettings,
    **dict.fromkeys(("split", "train"), InputSettings),
    **dict.fromkeys(("evaluate", "recommend", "prepare"), ReadingSettings),
}
"""What ``--config`` of a command sets beside its options."""


class _InOrder(TyperGroup):
    """Lists commands in our order; typer would put those with subcommands at the end."""

    def list_commands(self, _context: Any) -> list[str]:  # noqa: ANN401 - typer does not export what it passes
        return list(_COMMANDS)


class _Command(TyperCommand):
    """Refuses a path such as s3://bucket/file first of all: some commands would make a folder of that name."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:  # noqa: ANN401 - typer does not export it
        rest = super().parse_args(context, words)
        for value in context.params.values():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    require_local(path)
        return rest


app = typer.Typer(
    name="pricdr",
    cls=_InOrder,
    epilog="Start with:  pricdr demo",
    context_settings={"help_option_names": ["-h", "--help"]},  # commands take it over from here
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        say(*context.get_help().split("\n"))


for name in _COMMANDS:
    file, _, function = _ELSEWHERE.get(name, f"{name}.{name}").partition(".")
    module = import_module(f"pricdr.cli.{file}")
    if (group := getattr(module, "app", None)) is not None:
        app.add_typer(group, name=name, callback=_show_help, invoke_without_command=True)
        for inner in group.registered_commands:
            inner.cls = _Command
    else:
        app.command(name, cls=_Command, epilog=getattr(module, "EXIT_CODES", None))(getattr(module, function))


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False
) -> None:
    """Share what your ratings know, not what they say: publish a rating matrix under differential privacy."""
    if version:
        say(f"pricdr {__version__}")
        raise typer.Exit
    _show_help(context)


_ended_with: list[int] = []


def end(number: int, _frame: object) -> None:
    """Exit because of a signal, with the clean-up of any other exit."""
    _ended_with.append(128 + number)
    sys.exit(128 + number)


def main() -> None:
    """Run the command line and exit with its code."""
    if os.name != "posix":
        sys.exit(fail(POSIX_ONLY, 2))
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is signal.SIG_DFL:  # not under nohup
            signal.signal(ending, end)
    code = run(sys.argv[1:])
    # CPython remembers an interrupt inside code that is made from text, as a dataclass is on import, even when it was
    # handled, and would end the process by the signal, not by our exit code. Running any text makes it forget.
    exec("")
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Return 0; 1 for a failed check, 2 for bad input or usage, 75 if another run is in the way, 130 if interrupted."""
    # Found among the words before they are parsed: wrong usage, too, must be a line of JSON then.
    with screen(json=LOG_JSON in arguments):
        try:
            # what serve writes to standard error is a log of JSON lines, for as long as it runs
            with nullcontext() if arguments[:1] == ["serve"] else log_lines(" ".join(["pricdr", *arguments[:1]])):
                code = int(app(list(arguments), prog_name="pricdr", standalone_mode=False) or 0)
            # typer hands an interrupt on as a bare exit code
            return fail(_INTERRUPTED, code) if code == 130 else code
        except PriCDRError as error:
            return fail(str(error), error.exit_code, error)
        except TyperException as error:
            return fail(_usage(error, arguments), 2)
        except (KeyboardInterrupt, typer.Abort):
            return fail(_INTERRUPTED, 130)
        except MemoryError:
            return fail("out of memory", 2)
        except OSError as error:
            return fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), 2, error)
        except SystemExit as error:
            log_event("failed", message=_SIGNAL, exit_code=error.code)
            raise
        except Exception as error:
            if _ended_with:  # compiled code, such as pydantic's, makes an error of its own of the exit
                log_event("failed", message=_SIGNAL, exit_code=_ended_with[0])
                raise SystemExit(_ended_with[0]) from error
            if os.environ.get("PRICDR_TRACEBACK"):
                raise
            what = f"{type(error).__name__}: {error}"
            return fail(f"this should not happen, please report it ({what}); PRICDR_TRACEBACK=1 shows where", 2, error)


def _usage(error: TyperException, arguments: Sequence[str]) -> str:
    """Return what typer says about wrong usage, and the value it leaves out."""
    message, (command, *_) = error.format_message(), arguments
    extra = re.match(r"Got unexpected extra argument\S* \((\S+?)[\s)]", message)
    if extra is not None and command in _OF_RATINGS:
        return f'Got an unexpected extra argument {extra[1]!r}; a pattern of files needs quotes: "ratings/*.parquet"'
    option = re.match(r"No such option: --(?:no-)?([\w-]+)", message)
    if option is not None and command in SETTINGS and option[1] in settings_of(SETTINGS[command]):
        return f"{option[0]}; {option[1]} is set in --config FILE"
    faults = getattr(error.__cause__, "errors", None)  # pydantic's, which know what was given
    if faults is None:
        return message
    value = faults()[0]["input"]
    defaults = getattr(getattr(error, "ctx", None), "default_map", None) or {}
    configured = defaults.get(getattr(getattr(error, "param", None), "name", None)) == value
    if repr(value) in message and not configured:
        return message
    return f"{message.rstrip('.')}, got {value!r}{' in --config' if configured else ''}"
