"""Bad input and wrong usage: one line, the exit code, no output, no staging, the ledger as it was."""

import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from docs._generate.command_line import commands
from typer.core import TyperArgument

import pricdr as library
from pricdr import cli
from pricdr.errors import InputError, OutputError
from pricdr.files import new_folder, replace_file, require_local, write_new
from tests.cli.conftest import RATINGS
from tests.settings import config

FILES = {
    "empty.csv": b"",
    "unrated.csv": b"user,item\nalice,dune\n",
    "nan.csv": b"user,item,rating\nalice,dune,nan\n",
    "ratings.xlsx": RATINGS.encode(),
    "twice.txt": b"alice\nbob\nalice\n",
    "words.csv": b"item,genre\ndune,war\n",
    "precious/mine": b"mine",
}
MAIN = "--epsilon 4 --delta 1e-6 --dim 8 --out new --users users.txt --ledger budget.jsonl"
"""Of every ``publish`` below; what comes after it wins."""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with ratings, lists, keys, ledgers and releases; refusals leave it as it is."""
    folder = tmp_path_factory.mktemp("refusals")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "precious").mkdir()
        for name, content in FILES.items():
            (folder / name).write_bytes(content)
        (folder / "ratings.csv").write_text(RATINGS)
        (folder / "users.txt").write_text("alice\nbob\ndave\n")
        (folder / "dangling").symlink_to("nowhere")
        public = "--epsilon 4 --delta 1e-6 --dim 8"
        for command in (
            "ledger init budget.jsonl --epsilon 8 --delta 1e-6",
            "keygen --out key",
            f"publish ratings.csv {public} --out unsigned",
            f"publish ratings.csv {public} --out signed --sign key",
            f"publish ratings.csv {public} --out paid --ledger cut.jsonl",
            f"publish ratings.csv {public} --out bare --insecure-seed 1 --users users.txt",
        ):
            if "cut.jsonl" in command:
                assert cli.run(shlex.split("ledger init cut.jsonl --epsilon 8 --delta 1e-6")) == 0
            assert cli.run(shlex.split(command)) == 0, command
        (folder / "cut.jsonl").write_bytes((folder / "cut.jsonl").read_bytes()[:-50])
        shutil.copytree(folder / "unsigned", folder / "tampered")
        (folder / "tampered" / "users.txt").write_text("alice\nbob\ncarl\n")
        (folder / "none").mkdir()
    return folder


def settings(**values: object) -> str:
    return shlex.join(config(**values))


PUBLISH = [
    # files of ratings
    ("unrated.csv --values --rating-bound 5 --rating-step 1", "there was no rating column"),
    ("nan.csv", ("row 1", "'nan'", "finite number")),
    ("ratings.xlsx", ("unknown kind of file", ".csv")),
    ("ratings.csv --columns user=nobody,item=item", "no column 'nobody'"),
    ("ratings.csv extra more", ("argument 'extra'; a pattern", "needs quotes")),
    ("'red\x1b[31m.csv'", "\\u001b[31m"),
    # lists, keys, ledgers, outputs
    ("ratings.csv --users empty.csv", "empty.csv: the file is empty"),
    ("ratings.csv --users twice.txt", "line 3 repeats the id 'alice' of line 1"),
    ("ratings.csv --sign nowhere", ("nowhere", "No such file")),
    ("ratings.csv --ledger nowhere.jsonl", ("nowhere.jsonl", "No such file")),
    ("ratings.csv --insecure-seed 7", ("not private", "ledger")),
    (f"ratings.csv {settings(insecure_no_noise=True)}", ("not private", "ledger")),
    *[(f"ratings.csv --out {name}", "exists already") for name in ("precious", "ratings.csv", "dangling", ".", "..")],
    ("nowhere.csv --out a/../b/new", "nowhere.csv"),
    ("ratings.csv --out ratings.csv/new", "Not a directory"),
    # values
    *[(f"ratings.csv --epsilon {value}", ("epsilon", "above 0")) for value in ("0", "-1", "nan", "inf")],
    *[(f"ratings.csv --delta {value}", ("delta", "between 0 and 1")) for value in ("0", "1", "nan")],
    ("ratings.csv --epsilon 1e9", "too large to certify"),
    ("ratings.csv --epsilon many", ("--epsilon", "number", "got 'many'")),
    ("ratings.csv --delta ''", "got ''"),
    ("ratings.csv --dim 0", ("dim", "at least 1")),
    ("ratings.csv --insecure-seed 1.5", "got '1.5'"),
    ("ratings.csv --clip 2", ("clip", "unit rating")),
    ("ratings.csv --unit item", ("--unit", "'item'", "'rating', 'user'")),
    ("ratings.csv --unit user", ("unit user", "clip")),
    ("ratings.csv --values", "go together"),
    ("ratings.csv --values --rating-bound 5 --rating-step 2", ("multiple", "5", "2")),
    ("ratings.csv --values --rating-bound 5 --rating-step 1 --threshold 3", ("--threshold", "--values")),
    # strategies and their settings
    ("ratings.csv --strategy magic", ("--strategy", "magic", "jlt", "sjlt")),
    ("ratings.csv --strategy guided", "--strategy guided needs --guide"),
    ("ratings.csv --strategy guided --guide bare", ("the guide is marked NOT PRIVATE", "allow_not_private_guide")),
    ("ratings.csv --strategy guided --guide unsigned", ("lacks 1 of 3 listed users", "'dave'", "fill-guide")),
    ("ratings.csv --guide unsigned", "guide is no setting of strategy spectral"),
    ("ratings.csv --strategy features", "--strategy features needs item-features in --config"),
    (f"ratings.csv --strategy features {settings(item_features='words.csv')}", ("words.csv", "genre", "number")),
    (f"ratings.csv {settings(public_key='key.pub')}", "public-key key.pub has nothing to check here"),
    (f"ratings.csv {settings(revocations='none')}", "revocations is about a guide"),
    (f"ratings.csv {settings(fill_guide=True)}", "fill-guide is no setting of strategy spectral"),
    (f"ratings.csv --strategy jlt {settings(refine=False)}", "refine is no setting of strategy jlt"),
    (f"ratings.csv {settings(density=0.5)}", "density is no setting of strategy spectral"),
    (f"ratings.csv {settings(calibration='paper')}", ("paper", "not for spectral")),
    (f"ratings.csv {settings(spark_conf=['spark.x=1'])}", "spark-conf is for --engine spark"),
    (f"--engine spark {settings(from_='sqlite:///a.db', query='SELECT 1')}", "not queries or standard input"),
    (f"ratings.csv --engine spark {settings(delimiter=';')}", "delimiter is for files, and --engine spark"),
    # the file of settings
    ("ratings.csv --refine", "refine is set in --config FILE"),
    ("ratings.csv --nonsense", "--nonsense"),
    (f"ratings.csv {settings(epsilno=4)}", (".toml: unknown key 'epsilno'; allowed are", ", epsilon, ")),
    (f"ratings.csv {settings(log_json=True)}", "unknown key 'log-json'"),
    (f"ratings.csv {settings(calibration='rough')}", (".toml: calibration must", "rough", "exact", "paper")),
    (f"ratings.csv {settings(skip_bad_rows=1)}", "skip-bad-rows must be a valid boolean, got 1"),
    (f"ratings.csv {settings(unit='week')}", ("--unit", "'week'", "in --config")),
    (f"ratings.csv {settings(threshold='high')}", ("--threshold", "'high'", "in --config")),
    # logs and JSON
    ("ratings.csv --json new/facts.json", "must be different, none inside another"),
    (f"ratings.csv --json both {settings(log='both')}", "must be different, none inside another"),
    (f"ratings.csv {settings(log='-')}", "log takes a file"),
    (f"ratings.csv {settings(log='nowhere/log')}", ("cannot write", "nowhere")),
    (f"ratings.csv {settings(log='ratings.csv')}", "ratings.csv is not a log"),
    (f"ratings.csv {settings(log='budget.jsonl')}", "budget.jsonl is not a log"),
    ("ratings.csv --json ratings.csv/facts.json", "is not a folder"),
]
OTHERS = [
    ("publish --epsilon 4 --delta 1e-6 --out new", 2, "Missing argument 'RATINGS'"),
    ("keygen", 2, "--out"),
    ("keygen --out key", 2, "exists already"),
    ("verify", 2, "FOLDER"),
    ("verify signed --revocations nowhere", 2, "nowhere is not a folder of revocation notices"),
    ("inspect tampered --html page.html --json it.json", 1, "users.txt was changed"),
    ("inspect signed --html signed/page", 2, "put it beside releases"),
    ("inspect signed signed --html page.html", 2, "the page shows one release, not several"),
    ("export unsigned --out new.csv", 2, "must end in .parquet"),
    ("revoke signed --key key --reason x --out signed/notices", 2, "beside releases"),
    ("audit", 2, ("a release folder", "--epsilon")),
    ("audit signed --users 50", 2, "a release folder states its own parameters"),
    ("audit --strategy jlt --epsilon 1", 2, "--delta"),
    ("audit --epsilon 1 --delta 1e-6 --public-key key.pub", 2, "has nothing to check here"),
    ("audit nowhere --json ratings.csv", 2, "exists already"),
    ("ledger init new --epsilon 1 --delta 1e-6 --unit week", 2, ("--unit", "week")),
    ("ledger show cut.jsonl", 2, ("line 2 is cut off", "pricdr ledger repair")),
    ("ledger repair cut.jsonl unsigned", 2, "it was made without one"),
    ("ledger repair cut.jsonl --forfeit --public-key key.pub", 2, "has nothing to check here"),
    ("ledger verify budget.jsonl unsigned", 1, "unsigned was made without a ledger"),
    ("ledger verify budget.jsonl --public-key key.pub", 1, "not signed, so key.pub vouches for none of it"),
    ("ledger plan --releases 2", 2, ("a ledger", "--epsilon")),
    ("ledger plan budget.jsonl --releases 2 --unit user", 2, "a ledger, which states its budget"),
    ("ledger plan --epsilon 8", 2, "--releases"),
    ("ledger plan --epsilon 8 --releases 2 --each 1", 2, "either --releases"),
    ("prepare ratings.csv --out new", 2, "target"),
    ("prepare ratings.csv ratings.csv --out new --threshold low", 2, ("--threshold", "'low'", "none")),
    ("prepare ratings.csv ratings.csv --out new --core two", 2, ("--core", "got 'two'")),
    ("demo --out new --serve --port 99999", 2, "'--port': Input should be less than or equal to 65535, got '99999'"),
    ("nonsense", 2, "nonsense"),
    ("--nonsense", 2, "--nonsense"),
]


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [*((f"publish {MAIN} {words}", 2, says) for words, says in PUBLISH), *OTHERS],
    ids=[*(f"publish {words}" for words, _ in PUBLISH), *(line for line, *_ in OTHERS)],
)
def test_bad_input_is_one_line_and_changes_nothing(work, monkeypatch, capsys, line, code, says):
    monkeypatch.chdir(work)
    monkeypatch.delenv("PRICDR_PUBLIC_KEY", raising=False)
    before = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}
    assert cli.run(shlex.split(line)) == code
    err = capsys.readouterr().err
    refusal, *others = [text for text in err.splitlines() if not text.startswith("warning: ratings from")]
    assert (refusal[:7], others) == ("error: ", [])
    assert "should not happen" not in refusal
    assert refusal.isprintable()
    for words in (says,) if isinstance(says, str) else says:
        assert words in refusal
    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == before


def test_a_release_larger_than_the_disk_is_refused_before_the_budget_is_spent(ratings, refused_publish, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**6))
    refused_publish(ratings, "--strategy", "jlt", "--dim", 10**6, says=("needs 12.1 MB", "1.0 MB are free"))


def test_a_file_is_not_blamed_for_a_value_that_it_gives_to_another_option(ratings, refused_publish):
    refusal = refused_publish(ratings, "--dim", "many", *config(issuer="a", engine="many"))
    assert "--dim" in refusal
    assert refusal.endswith("got 'many'\n")


# ``s3://…`` and the like are named as unsupported wherever a path is taken

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


@pytest.mark.parametrize("path", ["", ".", "/", "s3", "s3/x", "c:/x", "folder/s3:/x", "./s3:x", "/s3:/x", "ratings:/x"])
def test_everything_else_is_a_path(path):
    require_local(Path(path))


def test_the_library_refuses_to_read_or_write_one(here):
    assert len(PATHS) > 50, "the command line has that many"
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
