"""``make system`` brings the browser where it can, and elsewhere says in one line why it does not."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")

pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")


def system(programs: Path, **found: str) -> str:
    """Return what ``make system`` says on a machine that has these programs and no others."""
    for name, body in found.items():
        program = programs / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [MAKE, "--silent", "system"], cwd=ROOT, env={"PATH": str(programs)}, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    (line,) = done.stdout.splitlines()
    return line


def test_where_the_browser_is_nothing_is_done(tmp_path):
    assert "nothing to do" in system(tmp_path, chromium="exit 1", apt_get="exit 1")


def test_without_apt_get_the_build_goes_on(tmp_path):
    assert "no apt-get here" in system(tmp_path)


def test_without_root_it_says_who_may(tmp_path):
    assert "sudo make system" in system(tmp_path, apt_get="exit 1", id="echo 1000", sudo="exit 1")


@pytest.mark.parametrize("user", ["0", "1000"])
def test_it_installs_chromium_as_root_or_with_sudo(tmp_path, user):
    log = tmp_path / "log"
    sudo = 'shift; exec "$@"'
    found = {"id": f"echo {user}", "sudo": sudo, "apt_get": f'echo "$@" >> {log}', "true": "exit 0"}
    assert system(tmp_path, **found) == "system: installed chromium with apt-get"
    assert log.read_text().splitlines()[-1].endswith("chromium")


def test_an_installation_that_fails_does_not_fail_the_build(tmp_path):
    assert "could not install" in system(tmp_path, id="echo 0", apt_get="exit 100")
