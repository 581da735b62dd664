"""``pricdr serve`` behind nginx with deploy/nginx.conf: TLS, limits for strangers, nothing about users in its logs."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pricdr.serving.keys import Scope, add_key, remove_key
from tests.serving.conftest import small_model
from tests.serving.processes import serving

CONF = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
NAME = "recommendations.example.org"
ONE = "/users/u38/recommendations?k=1"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: `make system-packages` brings it")


def create_certificate(folder):
    """Write a self-signed certificate and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
    (folder / "cert.pem").write_bytes(signed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(plain)


class Proxy:
    """nginx in front of a server, and a client of it."""

    def __init__(self, port, server, keys, folder):
        self.port, self.server, self.keys, self.folder = port, server, keys, folder

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def tls(self):
        trusted = ssl.create_default_context(cafile=self.folder / "cert.pem")
        return trusted.wrap_socket(self.connect(), server_hostname=NAME)

    def ask(self, path=ONE, key="shop", body=None, half_close=False):
        """Return the status and the JSON of an answer."""
        connection = http.client.HTTPConnection(NAME, timeout=20)
        connection.sock = self.tls()
        with closing(connection):
            headers = {"authorization": f"Bearer {self.keys[key]}", "content-type": "application/json"}
            connection.request("POST" if body else "GET", path, body, headers)
            if half_close:  # of the TCP connection: TLS cannot be closed in one direction
                socket.socket.shutdown(connection.sock, socket.SHUT_WR)
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@contextmanager
def running(folder):
    """Run nginx with the site of deploy/nginx.conf in front of a new server."""
    create_certificate(folder)
    keys = {name: add_key(folder / "keys.json", name, [Scope.RECOMMEND]) for name in ("shop", "other")}
    keys["monitor"] = add_key(folder / "keys.json", "monitor", [Scope.METRICS])
    small_model().save(folder / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(folder / "model", keys=folder / "keys.json") as server:
        site = CONF.read_text()
        changes = {"127.0.0.1:8000": f"127.0.0.1:{server.port}", "listen 443": f"listen 127.0.0.1:{port}"}
        changes |= {"/etc/ssl/pricdr": str(folder)}
        for before, after in changes.items():
            assert before in site
            site = site.replace(before, after)
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""  # who owns the folders of tests
        (folder / "nginx.conf").write_text(
            f"daemon off; {user} pid {folder}/pid;\nevents {{ worker_connections 512; }}\nhttp {{\n{paths}{site}\n}}\n"
        )
        command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            proxy = Proxy(port, server, keys, folder)
            deadline = time.monotonic() + 20
            while True:
                try:
                    proxy.connect().close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None, process.stdout.read()
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            yield proxy
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with running(tmp_path_factory.mktemp("nginx")) as proxy:
        yield proxy


def test_an_answer_comes_through_tls_and_a_key_is_still_needed(proxy):
    status, body = proxy.ask()
    assert (status, body["basis"]) == (200, "both")
    proxy.keys["wrong"] = "shop.wrong"
    assert proxy.ask(key="wrong")[0] == 401
    with proxy.tls() as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n".encode())
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"strict-transport-security: max-age=31536000" in received.lower()
    assert b"nginx/" not in received


def test_certificates_and_keys_are_renewed_without_a_restart_and_no_log_tells_of_users(tmp_path):
    """`nginx -s reload` for the certificate; the server notices a changed file of keys by itself."""
    with running(tmp_path) as proxy:
        assert proxy.ask()[0] == 200
        create_certificate(tmp_path)
        with pytest.raises(ssl.SSLCertVerificationError):  # still the old one, which is not the one in the file
            proxy.ask()
        subprocess.run([NGINX, "-p", tmp_path, "-c", tmp_path / "nginx.conf", "-s", "reload"], check=True)
        until(lambda: proxy.ask()[0] == 200)
        remove_key(tmp_path / "keys.json", "shop")
        proxy.keys["next"] = add_key(tmp_path / "keys.json", "next", [Scope.RECOMMEND])
        until(lambda: (proxy.ask(key="shop")[0], proxy.ask(key="next")[0]) == (401, 200))
        proxy.server.stop()
        status, body = proxy.ask("/users/secret-user/recommendations")
        assert (status, "not running" in body["error"]) == (503, True)
        for _ in range(10):
            proxy.ask("/recommendations", body=b'{"users":["secret-user"]}')
    logs = "".join(path.read_text() for path in tmp_path.rglob("*.log"))
    for word in ("secret", "u38", "Bearer", "recommendations?"):
        assert word not in logs


def until(condition):
    deadline = time.monotonic() + 20
    while True:
        with suppress(ssl.SSLCertVerificationError):  # the old process accepts until it has ended
            if condition():
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_another_name_is_refused(proxy):
    with proxy.tls() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 421 ")


def test_half_closed_clients_are_answered(proxy):
    assert {proxy.ask(half_close=True)[0] for _ in range(20)} == {200}


def test_what_has_not_arrived_completely_does_not_reach_the_server(proxy):
    """Handshakes that are never finished, headers and bodies that are held back."""

    def connections():
        return len(list(Path(f"/proc/{proxy.server.process.pid}/fd").iterdir()))

    proxy.ask()
    before = connections()
    head = f"POST /recommendations HTTP/1.1\r\nhost: {NAME}\r\nauthorization: Bearer {proxy.keys['other']}\r\n"
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(proxy.connect())
            stack.enter_context(proxy.tls()).sendall(head.encode())
        bodies = [stack.enter_context(proxy.tls()) for _ in range(4)]
        for connection in bodies:
            connection.sendall(head.encode() + b"content-length: 100\r\n\r\n{")
        assert proxy.ask()[0] == 200
        assert connections() <= before


def test_too_many_requests_batches_and_bytes_are_refused_in_json(proxy):
    batch = json.dumps({"users": ["u38"] * 5}).encode()
    proxy.keys["greedy"] = "greedy.unknown"  # nginx counts before the key is checked
    statuses = [proxy.ask("/recommendations", "greedy", batch) for _ in range(8)]
    assert statuses[0][0] == 401
    refused = [body for status, body in statuses if status == 429]
    assert refused
    assert list(refused[0]) == ["error"]
    assert proxy.ask("/recommendations", body=batch)[0] == 200  # another key has its own rate
    assert proxy.ask("/recommendations", "other", b"x" * 2_000_000)[0] == 413
