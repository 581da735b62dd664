"""The input of commands that read ratings: files named by an argument, or a query (``--from``, ``--query``)."""

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path, PosixPath
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer

from pricdr.data.reading.inputs import Query
from pricdr.data.reading.text_files import STANDARD_INPUT, named
from pricdr.errors import ParameterError

Result = TypeVar("Result")
RatingsInput: TypeAlias = Path | Query
FILES: Final = "a file, a folder, a quoted pattern, or -"
"""What ratings may be, for --help."""
_FIRST_READING_OPTION: Final = "columns"
_FROM = typer.Option(
    "--from",
    help="Instead of files: a database, postgresql://user:password@host/name or sqlite:///file, or env:NAME, a "
    "variable that holds it.",
)
_QUERY = typer.Option(help='from: what to read, such as "SELECT user_id, item_id, stars FROM ratings".')


class _Written(PosixPath):
    """A path that keeps its original text: for Spark it may be an address, s3a://bucket/ratings, or a table."""

    def __init__(self, text: str) -> None:
        self.text = str(text)


def takes_query(
    parameter: str, help_text: str, *, required: bool = True
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator that fills the ``parameter`` of a command from an argument, or from --from and --query.

    Args:
        parameter: A parameter of the command, of type :data:`RatingsInput`.
        help_text: What --help says about the argument.
        required: Whether one of the two must be given; otherwise the command may get None.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(command, eval_str=True)

        @wraps(command)
        def with_input(**arguments: Any) -> Result:  # noqa: ANN401
            path, source, query = (arguments.pop(name) for name in (parameter, "source_address", "query"))
            chosen = _chosen(path, source, query, parameter.upper())
            if chosen is None and required:
                raise ParameterError(f"Missing argument '{parameter.upper()}': give it, or --from and --query")
            return command(**arguments, **{parameter: chosen})

        argument = _parameter(parameter, Annotated[Path | None, typer.Argument(help=help_text, parser=_Written)])
        options = [_parameter("source_address", Annotated[str | None, _FROM])]
        options.append(_parameter("query", Annotated[str | None, _QUERY]))
        parameters: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            # --help lists them with the options that say how ratings are read.
            parameters += options if own.name == _FIRST_READING_OPTION else []
            parameters.append(argument if own.name == parameter else own)
        give_parameters(with_input, parameters)
        return with_input

    return decorate


def give_parameters(command: Callable[..., object], parameters: Sequence[inspect.Parameter]) -> None:
    """Give a command these parameters, as keyword-only, from which typer makes its options."""
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    # typer reads both: the signature for the parameters, the annotations for their types.
    vars(command).update(
        __signature__=inspect.signature(command).replace(parameters=keyword_only),
        __annotations__={parameter.name: parameter.annotation for parameter in keyword_only},
    )


def _parameter(name: str, hint: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _chosen(path: Path | None, source: str | None, query: str | None, what: str) -> RatingsInput | None:
    if path is not None and re.match(r"\w*(sql|postgres)\w*:/", str(path)):
        raise ParameterError(
            f"{what} is the address of a database (not shown because of its password): give it with --from"
        )
    if (source is None) != (query is None):
        raise ParameterError("--from and --query go together: a database, and what to read from it")
    if source is None or query is None:
        return path
    if path is not None:
        raise ParameterError(f"give {what} or --from, not both: got {path} as well")
    return Query.of(source, query)


def as_written(path: Path) -> str:
    """Return a path as it was written on the command line: an address keeps both of its slashes."""
    return path.text if isinstance(path, _Written) else str(path)


def shown(ratings: RatingsInput) -> str:
    """Return the name of ratings for messages; a query is never shown with its address."""
    return named(ratings if isinstance(ratings, Path) else str(ratings))


def require_one_stream(*paths: RatingsInput | None) -> None:
    """Refuse standard input for more than one of these: it can be read only once."""
    if paths.count(STANDARD_INPUT) > 1:
        raise ParameterError("standard input (-) can be read only once: give a file for the other")
