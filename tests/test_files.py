"""Writing whole files and folders, or nothing: what the helpers promise, and what they leave behind."""

import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import pricdr
from pricdr import files
from pricdr.errors import InputError, OutputError
from pricdr.files import PRIVATE, new_folder, replace_file, require_absent, write_new

NAMES = ["two words[]*?", "ünï🙂", "-dash", ".hidden", "a'b\"c", "trailing.", "name.partial-1", "x" * 200]
UMASKS = [0o000, 0o027, 0o077]


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@contextmanager
def _umask(value):
    old = os.umask(value)
    try:
        yield
    finally:
        os.umask(old)


def _modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


def test_require_absent_refuses_whatever_is_there(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in names(tmp_path):
        with pytest.raises(OutputError, match=f"{name} exists already"):
            require_absent(tmp_path / name)
    require_absent(tmp_path / "free")
    assert names(tmp_path) == ["dangling", "file", "folder"]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_appears_whole_on_the_disk_and_only_at_the_end(tmp_path, monkeypatch, name):
    path, synced = tmp_path / name, []
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path.name))
    with new_folder(path) as staging:
        assert staging.parent == tmp_path
        (staging / "a").write_text("1")
        (staging / "deeper").mkdir()
        (staging / "deeper" / "b").write_text("2")
        assert not path.exists()
    assert names(tmp_path) == [name]
    assert ((path / "a").read_text(), (path / "deeper" / "b").read_text()) == ("1", "2")
    assert {"a", "deeper", "b"} <= set(synced)


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), KeyboardInterrupt(), SystemExit(143), InputError("x"), GeneratorExit()], ids=repr
)
def test_a_failure_inside_the_block_leaves_nothing_and_passes_through(tmp_path, error):
    with pytest.raises(type(error)) as caught, new_folder(tmp_path / "made" / "for it" / "out") as staging:  # noqa: PT012
        (staging / "half").write_text("written")
        (staging / "sub").mkdir()
        raise error
    assert caught.value is error
    assert names(tmp_path) == []


def test_parents_that_somebody_else_uses_by_then_stay(tmp_path):
    (tmp_path / "before").mkdir()
    with pytest.raises(RuntimeError), new_folder(tmp_path / "before" / "a" / "b" / "out"):  # noqa: PT012
        (tmp_path / "before" / "a" / "other").touch()
        raise RuntimeError
    assert names(tmp_path / "before" / "a") == ["other"]


def test_an_error_of_the_system_names_the_output(tmp_path):
    with (
        pytest.raises(OutputError, match=r"cannot write .*/out: No space left on device"),
        new_folder(tmp_path / "out"),
    ):
        raise OSError(28, "No space left on device", "some/inner/file")
    with pytest.raises(OutputError, match="exactly this"), new_folder(tmp_path / "out"):
        raise OutputError("exactly this")
    assert names(tmp_path) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_a_target_that_exists_is_refused_and_kept(tmp_path, kind, when):
    path = tmp_path / "out"

    def appear():
        if kind == "file":
            path.write_text("theirs")
        else:
            path.mkdir()
            if kind == "folder":
                (path / "precious").write_text("theirs")

    if when == "before":
        appear()
    with pytest.raises(OutputError, match="out exists already"), new_folder(path):
        appear()  # fails where it is there already
    assert names(tmp_path) == ["out"]
    assert path.is_dir() == (kind != "file")
    assert kind != "folder" or (path / "precious").read_text() == "theirs"


def test_a_failure_after_the_folder_became_visible_takes_it_back(tmp_path, monkeypatch):
    def failing(path):
        if path == tmp_path:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync", failing)
    with pytest.raises(OutputError, match="Input/output error"), new_folder(tmp_path / "out") as staging:
        (staging / "a").touch()
    assert names(tmp_path) == []


def test_a_parent_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="Not a directory"), new_folder(tmp_path / "file" / "out"):
        pytest.fail("the block must not run")
    for write in (write_new, replace_file):
        with pytest.raises(OutputError, match="Not a directory"):
            write(tmp_path / "file" / "out", b"")
    assert names(tmp_path) == ["file"]


def test_what_dead_processes_left_is_swept_and_nothing_else(tmp_path, dead_pid):
    keep = [
        f".out.partial-{os.getppid()}",
        f".other.partial-{dead_pid}",
        f".out.partial-{dead_pid}x",
        ".out.partial-",
        ".out.partial-²",
        f"out.partial-{dead_pid}",
        f".out-{dead_pid}",
        ".out.partial",
    ]
    for name in [*keep, f".out.partial-{dead_pid}", ".out.partial-99999999999999999999"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").touch()
    with new_folder(tmp_path / "out"):
        pass
    assert names(tmp_path) == sorted([*keep, "out"])
    shutil.rmtree(tmp_path / "out")
    # Files too; links are not followed, neither to sweep what they point to nor to write into it.
    precious = tmp_path / ".out.partial"
    for left in (f".out.partial-{dead_pid}", f".out.partial-{os.getpid()}"):
        (tmp_path / left).symlink_to(precious)
    replace_file(tmp_path / "out", b"1")
    (tmp_path / f".out.partial-{dead_pid}").write_text("half")
    (tmp_path / f".out.partial-{os.getpid()}").symlink_to(precious / "content")
    replace_file(tmp_path / "out", b"2")
    assert names(tmp_path) == sorted([*keep, "out"])
    assert not (tmp_path / "out").is_symlink()
    assert (precious / "content").read_bytes() == b""


def test_what_an_earlier_process_of_the_same_number_left_is_no_obstacle(tmp_path):
    """In a container every publish may be process 1."""
    mine = f".out.partial-{os.getpid()}"
    (tmp_path / mine).mkdir()
    (tmp_path / mine / "stale").touch()
    with new_folder(tmp_path / "out") as staging:
        assert names(staging) == []
    shutil.rmtree(tmp_path / "out")
    (tmp_path / mine).write_text("stale")
    write_new(tmp_path / "out", b"fresh")
    assert names(tmp_path) == ["out"]


def test_two_writers_in_one_process_do_not_mix(tmp_path):
    with new_folder(tmp_path / "out") as staging:
        (staging / "a").touch()
        with pytest.raises(OutputError, match="being written"), new_folder(tmp_path / "out"):
            pytest.fail("the block must not run")
        assert names(staging) == ["a"]
    assert names(tmp_path / "out") == ["a"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", [write_new, replace_file])
def test_a_file_is_written_whole(tmp_path, write, name):
    content = bytes(range(256)) * 1000
    write(tmp_path / "made" / name, content)
    assert (tmp_path / "made" / name).read_bytes() == content
    assert names(tmp_path / "made") == [name]


def test_write_new_never_replaces_anything_also_without_hard_links(tmp_path, monkeypatch):
    write_new(tmp_path / "out", b"first")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("out", "link"):
        with pytest.raises(OutputError, match=f"{name} exists already"):
            write_new(tmp_path / name, b"second")
    with monkeypatch.context() as patch:  # it appears meanwhile
        patch.setattr(files, "require_absent", lambda _: None)
        with pytest.raises(OutputError, match="File exists"):
            write_new(tmp_path / "out", b"second")

    def unsupported(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    write_new(tmp_path / "other", b"content")
    assert names(tmp_path) == ["link", "other", "out"]
    assert [(tmp_path / name).read_bytes() for name in ("out", "other")] == [b"first", b"content"]


def test_of_many_writers_of_a_new_file_exactly_one_wins(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from pricdr.errors import OutputError\nfrom pricdr.files import write_new\n"
        "sys.stdin.readline()\n"
        "for round in range(20):\n"
        "    try: write_new(Path(f'{round}'), sys.argv[1].encode() * 1000); print(round)\n"
        "    except OutputError: pass\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, name], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    outs = []
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    for name, writer in zip("abc", writers, strict=True):
        outs += [(int(line), name) for line in writer.communicate(timeout=60)[0].split()]
    assert sorted(won for won, _ in outs) == list(range(20))
    for won, name in outs:
        assert (tmp_path / f"{won}").read_text() == name * 1000
    assert len(names(tmp_path)) == 20


def test_replace_file_puts_new_content_in_place(tmp_path):
    path = tmp_path / "out"
    replace_file(path, b"first")
    with path.open("rb") as before:
        replace_file(path, b"second")
        assert before.read() == b"first", "a reader keeps the file it opened"
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("write", [write_new, replace_file])
@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, write, error, step):
    old = tmp_path / "old"
    old.write_bytes(b"old")
    path = old if write is replace_file else tmp_path / "new"

    def failing(*_, **__):
        raise error

    with monkeypatch.context() as broken:
        if step == "fsync":
            broken.setattr(os, "fsync", failing)
        else:
            broken.setattr(Path, "rename", failing)
            broken.setattr(os, "link", failing)
        expected = OutputError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            write(path, b"new content")
    assert names(tmp_path) == ["old"]
    assert old.read_bytes() == b"old"


@pytest.mark.parametrize("umask", UMASKS)
def test_what_is_private_is_for_its_owner_alone_and_everything_else_follows_the_umask(tmp_path, umask):
    target = pricdr.Ratings.from_triples(["a", "a", "b", "b"], ["x", "y", "y", "z"])
    model = pricdr.models.Popularity().fit(target)
    release = pricdr.publish(target, pricdr.Guarantee(epsilon=4, delta=1e-6), strategy=pricdr.strategies.JLT(dim=4))
    with _umask(umask):
        for write in (write_new, replace_file):
            write(tmp_path / f"{write.__name__} private", b"secret", mode=PRIVATE)
            write(tmp_path / f"{write.__name__} public", b"open")
        with new_folder(tmp_path / "private", private=True) as staging:
            assert stat.S_IMODE(staging.stat().st_mode) == 0o700
            (staging / "a").write_text("1")
            (staging / "b").touch(mode=0o600)
            (staging / "deeper").mkdir()
        with new_folder(tmp_path / "out") as staging:
            (staging / "a").write_text("1")
            write_new(staging / "key", b"secret", mode=PRIVATE)
        model.save(tmp_path / "model")
        model.without_histories().save(tmp_path / "export")
        release.save(tmp_path / "release")
    modes = _modes(tmp_path)
    for write in ("write_new", "replace_file"):
        assert (modes[f"{write} private"], modes[f"{write} public"]) == (0o600, 0o644 & ~umask)
    modes = _modes(tmp_path / "private")
    assert modes.pop("deeper") & stat.S_IXUSR, "a folder can still be entered"
    assert modes == {"private": 0o700, "a": 0o600, "b": 0o600}
    assert _modes(tmp_path / "out") == {"out": 0o777 & ~umask, "a": 0o666 & ~umask, "key": 0o600}
    own = {"model": (0o700, 0o600), "export": (0o700, 0o600), "release": (0o777 & ~umask, 0o666 & ~umask)}
    for name, expected in own.items():
        modes = _modes(tmp_path / name)
        assert (modes.pop(name), *set(modes.values())) == expected
