"""The private folder of a sort: readable by its owner alone, removed at the end or after a kill, checked for space."""

import signal
import stat
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from pricdr.data.workspace import Workspace, sweep
from pricdr.errors import OutputError

HOLDER = """
import sys, time
from pathlib import Path
from pricdr.data.workspace import Workspace
with Workspace.opened(Path(sys.argv[1])) as workspace:
    (workspace.folder / "rows").write_bytes(b"plaintext")
    print(workspace.folder, flush=True)
    time.sleep(60)
"""


def test_only_its_owner_can_look_into_it_and_it_is_gone_at_the_end(tmp_path):
    with Workspace.opened(tmp_path) as workspace:
        (workspace.folder / "rows").touch()
        assert stat.S_IMODE(workspace.folder.stat().st_mode) == 0o700
    assert not list(tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError), Workspace.opened(tmp_path):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_holds_is_not(tmp_path):
    held = [
        subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = (Path(process.stdout.readline().strip()) for process in held)
    try:
        held[0].send_signal(signal.SIGKILL)
        held[0].wait()
        assert (killed / "rows").exists()
        with Workspace.opened(tmp_path):
            assert not killed.exists()
            assert (living / "rows").exists()
    finally:
        for process in held:
            process.kill()
            process.wait()
            process.stdout.close()


def test_nothing_but_its_own_folders_is_swept(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / ".pricdr-sort-link").symlink_to(elsewhere)
    (tmp_path / ".pricdr-sort-file").touch()
    (tmp_path / "other").mkdir()
    with Workspace.opened(tmp_path):
        pass
    assert (elsewhere / "kept").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"elsewhere", "other", ".pricdr-sort-file"}


def test_a_folder_that_another_run_sweeps_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def swept_at_once(**options):
        made.append(make(**options))
        if len(made) == 1:
            sweep(tmp_path)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    with Workspace.opened(tmp_path) as workspace:
        (workspace.folder / "rows").touch()
    assert len(made) == 2
    assert not list(tmp_path.iterdir())


def test_too_little_space_is_refused_with_the_way_out(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    with Workspace.opened(tmp_path) as workspace:
        monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1, 1, 10**6))
        workspace.require_space(10**6, "sorting")
        with pytest.raises(OutputError, match=r"sorting needs about 2\.0 MB on the disk of .*temp-dir in --config"):
            workspace.require_space(2 * 10**6, "sorting")


def test_an_array_on_disk_is_like_any_other_and_its_file_has_no_name(tmp_path):
    with Workspace.opened(tmp_path) as workspace:
        array = workspace.array((3, 4), np.float32)
        array[:] = np.arange(12).reshape(3, 4)
        assert not list(workspace.folder.iterdir())
    array.flags.writeable = False  # the folder is gone, and the array is there
    assert array.sum() == 66
    assert array.dtype == np.float32
