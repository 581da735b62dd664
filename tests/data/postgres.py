"""A PostgreSQL server of our own, in a folder that is thrown away; it listens on a socket in that folder alone."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD = "reader", "s3cr:t word"
ADDRESS_PASSWORD = "s3cr%3At%20word"


def missing() -> str | None:
    """Return why there is no server to test against; None where there can be one."""
    if importlib.util.find_spec("adbc_driver_postgresql") is None:
        return "adbc-driver-postgresql is not installed: `make system` brings it (pip install '.[sql]')"
    if _programs() is None:
        return "PostgreSQL is not installed: `make system` brings it"
    if os.getuid() == 0 and (_someone() is None or shutil.which("setpriv") is None):
        return "PostgreSQL does not run as root, and there is no other user (postgres or nobody) to run it as"
    return None


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Yield the address of a server with an empty database, where ``reader`` has a password."""
    programs = _programs()
    assert programs is not None
    folder.mkdir(mode=0o755)
    as_user: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        someone = _someone()
        assert someone is not None
        os.chown(folder, someone.pw_uid, someone.pw_gid)
        as_user = ["setpriv", f"--reuid={someone.pw_uid}", f"--regid={someone.pw_gid}", "--clear-groups"]
        for parent in folder.parents:  # pytest's folders are for their owner alone
            if parent.stat().st_uid == 0 and parent.stat().st_mode & 0o111 != 0o111:
                parent.chmod(parent.stat().st_mode | 0o011)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)

    data = folder / "data"
    command = [*as_user, str(programs / "initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "--no-sync", "-E", "UTF8"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=60)
    options = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
    command = [*as_user, str(programs / "postgres"), "-D", str(data)]
    command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as server:
        try:
            _wait_until_ready(data / "postmaster.pid", server)
            yield f"postgresql://{USER}:{ADDRESS_PASSWORD}@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: what it holds is thrown away
            server.wait(30)


def _wait_until_ready(status: Path, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while not (status.exists() and "ready" in status.read_text().split()):
        assert server.poll() is None, "PostgreSQL ended before it was ready"
        assert time.monotonic() < until, "PostgreSQL took more than a minute to start"
        time.sleep(0.05)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _someone() -> pwd.struct_passwd | None:
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users.get("nobody")
