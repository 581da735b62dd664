"""``make demo`` installs little; ``make system-packages`` brings what it can, or says in one line why it does not."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")
NEEDED = ["chromium", "wrk", "nginx-light", "default-jre-headless", "postgresql"]

pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")


def system(programs: Path, **found: str) -> list[str]:
    """Return what ``make system-packages`` says on a machine that has these programs and no others."""
    for name, body in found.items():
        program = programs / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    command = [MAKE, "--silent", "system-packages", f"POSTGRESQL={programs / 'postgresql'}", "NGINX=/none"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(programs)}, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.splitlines()


ALL = dict.fromkeys(["chromium", "java", "wrk", "nginx"], "exit 1")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({**ALL, "postgres": "exit 1"}, "nothing to do"),
        ({"java": "exit 1"}, "no apt-get here; install chromium wrk nginx-light postgresql yourself"),
        ({"apt_get": "exit 1", "id": "echo 1000", "sudo": "exit 1"}, "sudo make system-packages"),
    ],
)
def test_in_one_line_why_nothing_is_installed(tmp_path, found, says):
    (line,) = system(tmp_path, **found)
    assert says in line


def test_debians_place_of_postgresql_counts_too(tmp_path):
    server = tmp_path / "postgresql" / "15" / "bin" / "postgres"
    server.parent.mkdir(parents=True)
    server.touch(mode=0o755)
    assert "nothing to do" in system(tmp_path, **ALL)[0]


@pytest.mark.parametrize("user", ["0", "1000"])
def test_it_installs_what_is_missing_as_root_or_with_sudo(tmp_path, user):
    log = tmp_path / "log"
    sudo = 'shift; exec "$@"'
    found = {"id": f"echo {user}", "sudo": sudo, "apt_get": f'echo "$@" >> {log}', "true": "exit 0"}
    assert system(tmp_path, **found) == [f"system: installed {package} with apt-get" for package in NEEDED]
    assert [line.split()[-1] for line in log.read_text().splitlines()[1:]] == NEEDED


def test_an_installation_that_fails_does_not_fail_the_build_or_the_others(tmp_path):
    lines = system(tmp_path, id="echo 0", apt_get='case "$*" in *chromium*) exit 100;; esac')
    assert "could not install chromium" in lines[0]
    assert lines[1:] == [f"system: installed {package} with apt-get" for package in NEEDED[1:]]


def test_pip_has_the_environment_to_itself():
    """CI downloads packages in the background: what runs there must not be a second pip."""
    plan = subprocess.run([MAKE, "--dry-run", "system-packages"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "apt-get" in plan.stdout
    assert "pip" not in plan.stdout
    lines = [line.split("#")[0] for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make")]
    background = [line.split()[1] for line in lines if "&" in line]
    assert background == ["system-packages", "lint"]
    assert [line.split()[1] for line in lines].index("setup") < [line.split()[1] for line in lines].index("lint")


def test_the_demo_installs_neither_linters_nor_browsers_nor_tools_for_documents(tmp_path):
    def installed(target: str) -> list[str]:
        command = [MAKE, "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
        plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [line.split()[-1] for line in plan.splitlines() if "pip install" in line]

    assert installed("demo") == ["'.[train,report]'"]
    assert installed("test") == ["'.[train,report]'", "'.[dev,docs]'"]
