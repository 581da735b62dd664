"""``s3://…`` and the like are named as unsupported, in one line, wherever a path is taken."""

from pathlib import Path

import pytest
from docs._generate.command_line import commands
from typer.core import TyperArgument

import pricdr as library
from pricdr.errors import InputError, OutputError
from pricdr.files import new_folder, replace_file, require_local, write_new

ADDRESS = "s3://bucket/some/ratings.csv"
COMMANDS = {name: command for name, command, _ in commands() if not hasattr(command, "commands")}
PATHS = [
    (name, option.name)
    for name, command in COMMANDS.items()
    for option in command.params
    if option.type_descriptor.annotation in (Path, list[Path])
]


def _words(name, given):
    """Arguments that typer accepts: ``given`` is the address, whatever else is required a word or a number."""
    for option in COMMANDS[name].params:
        if option.name == given or option.required:
            number = "1" if option.type_descriptor.annotation in (int, float) else "word"
            yield from () if isinstance(option, TyperArgument) else option.opts[:1]
            yield ADDRESS if option.name == given else number


@pytest.mark.parametrize(("name", "given"), PATHS, ids=[" ".join(path) for path in PATHS])
def test_every_path_of_every_command_refuses_an_address(refused, name, given):
    refused(*name.split(" ")[1:], *_words(name, given), says=(ADDRESS, "s3:// is not supported"))


def test_paths_were_found():
    assert len(PATHS) > 50


@pytest.mark.parametrize("path", ["", ".", "/", "s3", "s3/x", "c:/x", "folder/s3:/x", "./s3:x", "/s3:/x", "ratings:/x"])
def test_everything_else_is_a_path(path):
    require_local(Path(path))


def test_the_library_refuses_to_read_or_write_one(here):
    reads = (library.read_ratings, library.read_ids, library.read_features, library.Release.load, library.verify)
    for read in (*reads, library.FittedModel.load, lambda path: library.Ledger(path).read()):
        for address in (ADDRESS, f"{ADDRESS}.parquet"):
            with pytest.raises(InputError, match=r"s3://bucket/some/ratings.csv.*: s3:// is not supported"):
                read(address)
    for write in (write_new, replace_file):
        with pytest.raises(OutputError, match="s3:// is not supported"):
            write(Path(ADDRESS), b"")
    with pytest.raises(OutputError, match="s3:// is not supported"), new_folder(Path(ADDRESS)):
        pytest.fail("the block must not run")
    assert list(here.iterdir()) == []
