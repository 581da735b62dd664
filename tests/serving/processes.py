"""A server in its own process, and raw connections to it."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager

_SERVE = """
import json, sys
from pathlib import Path
from pricdr.cli.console import event_line
from pricdr.serving.log import ServerLog
from pricdr.serving import server

model, keys = json.loads(sys.argv[1])
log = ServerLog(sys.stderr, event_line)
def ready(address, snapshot):
    sys.stdout.write(address + "\\n")
    sys.stdout.flush()
server._SHUTDOWN_SECONDS = 2
server.serve(Path(model), port=0, keys=keys and Path(keys), log=log, ready=ready, poll_interval=0.1)
log.close()
"""


class Server:
    """A running server."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.port = int(address.rpartition(":")[2])

    def ask(self, method, path, body=None, headers=None):
        """Return the response, and its body as bytes."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response, response.read()

    def request(self, method, path, body=None, headers=None):
        response, content = self.ask(method, path, body, headers)
        return response.status, json.loads(content), response.headers

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def send(self, content):
        """Return all that a raw connection receives until it is closed."""
        with self.connect() as connection:
            connection.sendall(content)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def metric(self, name):
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def stop(self, how=signal.SIGTERM):
        """Stop it, and return its exit code and its log."""
        self.process.send_signal(how)
        _, log = self.process.communicate(timeout=120)
        return self.process.returncode, log


@contextmanager
def serving(folder, keys=None):
    """Run a server on a free port until the block ends."""
    arguments = json.dumps([str(folder), keys and str(keys)])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], 60)
        address = process.stdout.readline().strip() if ready else ""
        assert address, process.stderr.read() if process.poll() is not None else "it did not start"
        yield Server(process, address)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
