"""A PostgreSQL server of our own, in a folder that is thrown away; it listens on a socket in that folder alone."""

import importlib.util
import os
import pwd
import shutil
import subprocess
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

    data, options = str(folder / "data"), f"-c listen_addresses= -c unix_socket_directories='{folder}' -c fsync=off"

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), "-D", data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, timeout=120)

    run("initdb", "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", "UTF8")
    run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
    try:
        yield f"postgresql://{USER}:{ADDRESS_PASSWORD}@/postgres?host={folder}"
    finally:
        run("pg_ctl", "stop", "-m", "immediate")  # what it holds is thrown away


def _programs() -> Path | None:
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _someone() -> pwd.struct_passwd | None:
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users.get("nobody")
