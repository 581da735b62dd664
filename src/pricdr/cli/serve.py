"""``pricdr serve`` and ``pricdr serving-key``: recommendations over HTTP, and API keys for them."""

import os
import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from pricdr.cli.console import answer, event_line, say, warn
from pricdr.cli.options import PublicKeyOption, refuse_given
from pricdr.files import only_run

if TYPE_CHECKING:
    from pricdr.serving.snapshot import Snapshot

ScopeName = StrEnum("ScopeName", ["recommend", "page", "metrics"])  # the library's own would be slow to import


def serve(
    model: Annotated[Path, Argument(help="The model folder, or a link to one.")],
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="The port; 0 chooses a free one.", min=0, max=65535)] = 8000,
    keys: Annotated[Path | None, Option(help="The file of API keys; see pricdr serving-key.")] = None,
    insecure_listen: Annotated[bool, Option("--insecure-listen", help="Listen beyond this host without TLS.")] = False,
    allowed_host: Annotated[list[str] | None, Option(help="A host name that requests may use; repeatable.")] = None,
    compare: Annotated[Path | None, Option(help="A second model, for comparison on the page.")] = None,
    evaluation: Annotated[Path | None, Option(help="The output of evaluate --json, for the page.")] = None,
    frontier: Annotated[Path | None, Option(help="Measurements of several releases, for the page.")] = None,
    exact: Annotated[bool, Option("--exact", help="Score every item, however many: no approximate search.")] = False,
    public_key: PublicKeyOption = None,
    log_requests: Annotated[bool, Option(help="Log every request as a line of JSON on standard error.")] = True,
) -> None:
    """Serve recommendations over HTTP: for one user or many, similar items, and a page for people.

    MODEL may be replaced while the server runs, or be a link that is moved: the new model is loaded and checked, then
    takes over between two requests. One that cannot be loaded changes nothing; /ready, /metrics and the log say so.

    It listens on 127.0.0.1, where no key is needed. TLS and limits for strangers are left to a proxy in front, such as
    nginx with deploy/nginx.conf; beyond this machine the server refuses to listen, unless --insecure-listen says that
    something else protects it. When stopped, it gives requests in flight 8 seconds.

    Logs are lines of JSON on standard error. They contain no ids, no query strings and no keys.
    """
    # Before numpy is imported: products of a few rows are too short to be split among threads, and threads that spin
    # while they wait for the next product would take the processor from the thread that reads requests.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pricdr.serving.log import ServerLog
    from pricdr.serving.server import is_loopback, serve as run

    if insecure_listen and not is_loopback(host):
        warn(f"{host} may be reached from other machines without TLS{'' if keys else ' and without keys'}")
    log = ServerLog(sys.stderr, event_line, requests=log_requests)
    try:
        run(
            model,
            host=host,
            port=port,
            keys=keys,
            insecure_listen=insecure_listen,
            allowed_hosts=allowed_host or (),
            public_key=public_key,
            exact=exact,
            compare=compare,
            evaluation=evaluation,
            frontier=frontier,
            log=log,
            ready=_say_ready,
        )
    finally:
        log.close()
    say("stopped")


def serving_key(
    name: Annotated[str, Argument(help="A name for the key: letters, digits, - and _.")],
    keys: Annotated[Path, Option(help="The file of keys; created with mode 0600 if it does not exist.")],
    scope: Annotated[list[ScopeName] | None, Option(help="Its scope; repeatable.  [default: recommend]")] = None,
    days: Annotated[int | None, Option(help="Days it is valid.  [default: until removed]", min=1, max=36500)] = None,
    remove: Annotated[bool, Option("--remove", help="Remove the key from the file instead.")] = False,
) -> None:
    """Create an API key for pricdr serve. It is shown only once: the file keeps only its hash.

    A running server notices a changed file within two seconds.
    """
    from pricdr.serving.keys import Scope, add_key, remove_key

    if not remove:
        keys.parent.mkdir(parents=True, exist_ok=True)
    with only_run(keys, "nothing was changed"):  # of two changes at once, one would undo the other
        if remove:
            refuse_given({"--scope": scope, "--days": days}, "--remove takes only NAME and --keys")
            remove_key(keys, name)
            say(f"removed the key {name} from {keys}")
            return
        expires = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
        answer(add_key(keys, name, [Scope(one.value) for one in scope or [ScopeName.recommend]], expires=expires))


def _say_ready(address: str, snapshot: "Snapshot") -> None:
    model = snapshot.model
    say(f"serving {snapshot.folder}: {len(model.users):,} users, {len(model.items):,} items")
    say(f"listening on {address}, the page is {address}/page; Ctrl-C stops")
