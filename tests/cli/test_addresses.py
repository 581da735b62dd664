"""``s3://…`` and the like are named as unsupported, in one line, wherever a path is taken."""

import inspect
import typing
from pathlib import Path

import pytest
from docs._generate.command_line import commands

import pricdr as library
from pricdr.errors import InputError, OutputError
from pricdr.files import new_folder, replace_file, require_local, write_new

ADDRESS = "s3://bucket/some/ratings.csv"
COMMANDS = {name: command.callback for name, command, _ in commands() if not hasattr(command, "commands")}


def _takes_path(parameter):
    return Path in (parameter.annotation, *_inside(parameter.annotation))


def _inside(hint):
    for inner in typing.get_args(hint):
        yield inner
        yield from _inside(inner)


PATHS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in inspect.signature(command, eval_str=True).parameters.values()
    if _takes_path(parameter)
]


def _words(command, given):
    """Arguments that typer accepts: ``given`` is the address, whatever else is required a word or a number."""
    words = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        required = parameter.default is inspect.Parameter.empty
        if parameter.name != given and not required:
            continue
        value = (
            ADDRESS if parameter.name == given else "1" if {int, float} & set(_inside(parameter.annotation)) else "word"
        )
        settings = next(inner for inner in typing.get_args(parameter.annotation)[1:] if hasattr(inner, "param_decls"))
        positional = type(settings).__name__ == "ArgumentInfo"
        option = next(iter(settings.param_decls or ()), f"--{parameter.name.replace('_', '-')}")
        words += [value] if positional else [option, value]
    return words


@pytest.mark.parametrize(("name", "parameter"), PATHS, ids=[f"{name} {one.name}" for name, one in PATHS])
def test_every_path_of_every_command_refuses_an_address(refused, name, parameter):
    words = _words(COMMANDS[name], parameter.name)
    refused(*name.split(" ")[1:], *words, says=(ADDRESS, "s3:// is not supported"))


@pytest.mark.parametrize("path", ["", ".", "/", "s3", "s3/x", "c:/x", "folder/s3:/x", "./s3:x", "/s3:/x", "ratings:/x"])
def test_everything_else_is_a_path(path):
    require_local(Path(path))


@pytest.mark.parametrize(
    "read",
    [
        library.read_ratings,
        library.read_ids,
        library.read_features,
        library.Release.load,
        library.verify,
        library.FittedModel.load,
        lambda path: library.read_ratings(f"{path}.parquet"),
        lambda path: library.Ledger(path).read(),
    ],
    ids=["ratings", "ids", "features", "load", "verify", "model", "parquet", "ledger"],
)
def test_the_library_refuses_to_read_one(read):
    with pytest.raises(InputError, match=r"s3://bucket/some/ratings.csv.*: s3:// is not supported"):
        read(ADDRESS)


def test_the_library_refuses_to_write_one(here):
    for write in (write_new, replace_file):
        with pytest.raises(OutputError, match="s3:// is not supported"):
            write(Path(ADDRESS), b"")
    with pytest.raises(OutputError, match="s3:// is not supported"), new_folder(Path(ADDRESS)):
        pytest.fail("the block must not run")
    assert list(here.iterdir()) == []
