"""TLS between two parties: who is accepted, who is refused, and the one line that says why."""

import base64
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from pricdr.alignment import connection as connections
from pricdr.alignment.certificates import create_certificate, fingerprint, read_certificate
from pricdr.alignment.connection import Connection, Listener, connect, parse_address
from pricdr.alignment.tls import Credentials
from pricdr.errors import ExchangeError, InputError, OutputError, ParameterError


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Callable[[str], tuple[Path, Path]]:
    """Return the key and certificate of a name, created on first use."""
    folder, pairs = tmp_path_factory.mktemp("keys"), {}

    def pair(name: str) -> tuple[Path, Path]:
        if name not in pairs:
            pairs[name] = create_certificate(folder / name)
        return pairs[name]

    return pair


@pytest.fixture
def credentials_of(keys) -> Callable[[str, str], Credentials]:
    """Return credentials of one name that expect another."""

    def credentials(own: str, other: str) -> Credentials:
        key, certificate = keys(own)
        return Credentials(certificate=certificate, key=key, peer_certificate=keys(other)[1])

    return credentials


class ServerThread:
    """A listener in a thread, which calls ``serve`` with the accepted connection and records refusals."""

    def __init__(self, credentials: Credentials, serve: Callable[[Connection], object], patience: float = 5.0) -> None:
        self.refused: list[str] = []
        self._refusal = threading.Event()
        self._listener = Listener("127.0.0.1", 0, credentials)
        self.port = int(self._listener.address.rpartition(":")[2])
        self._pool = ThreadPoolExecutor(1)
        self.result = self._pool.submit(self._run, serve, patience)

    def _run(self, serve: Callable[[Connection], object], patience: float) -> object:
        def on_refusal(line: str) -> None:
            self.refused.append(line)
            self._refusal.set()

        with self._listener, self._listener.accept(on_refusal, patience=patience) as connection:
            return serve(connection)

    def refusal(self) -> str:
        """Wait for the next refusal and return its line."""
        assert self._refusal.wait(10)
        self._refusal.clear()
        return self.refused[-1]


@pytest.fixture
def start_server(credentials_of):
    """Start a server that expects ``books``; at the end, a client that it accepts makes it stop."""
    servers: list[ServerThread] = []

    def start(serve=lambda connection: connection.read(3), credentials=None, patience=5.0) -> ServerThread:
        servers.append(ServerThread(credentials or credentials_of("films", "books"), serve, patience))
        return servers[-1]

    yield start
    for server in servers:
        if not server.result.done():
            with (
                suppress(ExchangeError),
                connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5) as last,
            ):
                last.write(b"bye")


def read_byte(server: ServerThread, credentials: Credentials) -> bytes:
    """Connect with these credentials and return the first byte from the server."""
    with connect("127.0.0.1", server.port, credentials, patience=5) as client:
        return client.read(1)


def test_both_sides_read_what_the_other_wrote(start_server, credentials_of):
    content = os.urandom(300_000)

    def echo(connection: Connection) -> int:
        connection.wait()
        connection.write(connection.read(len(content)))
        return len(content)

    server = start_server(echo)
    with connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5) as client:
        client.write(content)
        assert client.read(1) + client.read(0) + client.read(len(content) - 1) == content
    assert server.result.result(10) == len(content)
    assert server.refused == []


def test_a_stranger_is_refused_and_the_port_goes_on_waiting(start_server, credentials_of):
    server = start_server()
    with pytest.raises(ExchangeError, match="it does not accept our certificate: it needs this side"):
        read_byte(server, credentials_of("stranger", "films"))
    line = server.refusal()
    assert line.startswith("refused a connection from 127.0.0.1: its certificate is not the expected one")
    assert line.endswith("; still waiting")
    with connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5) as client:
        client.write(b"hey")
    assert server.result.result(10) == b"hey"


def test_a_server_with_another_certificate_is_refused(start_server, credentials_of):
    server = start_server()
    with pytest.raises(ExchangeError, match=r"no connection to 127.0.0.1:\d+: its certificate is not the expected one"):
        connect("127.0.0.1", server.port, credentials_of("books", "stranger"), patience=5)
    assert "it does not accept our certificate" in server.refusal()


def _bare_client(**settings: object) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def test_a_client_without_a_certificate_is_refused(start_server):
    server = start_server()
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain,
        _bare_client().wrap_socket(plain) as client,  # whose handshake ends before the server checks
        pytest.raises(OSError, match=r"certificate required|reset"),
    ):
        client.recv(1)
    assert "it did not present a certificate; still waiting" in server.refusal()


def test_an_older_tls_is_refused(start_server, keys):
    server = start_server()
    context = _bare_client(maximum_version=ssl.TLSVersion.TLSv1_2)
    context.load_cert_chain(keys("books")[1], keys("books")[0])
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    assert "it does not speak TLS 1.3, and older versions are not accepted" in server.refusal()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it does not speak TLS, but plain HTTP"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "it does not speak TLS"),
        (bytes(200), "it does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + b"x" * 300, "it does not speak TLS"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "TLS failed|it does not speak TLS|it hung up"),
        (b"", "it hung up"),
    ],
)
def test_anything_but_tls_is_refused(start_server, content, why):
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
        plain.sendall(content)
        with suppress(OSError):  # the server may have closed it already
            plain.shutdown(socket.SHUT_WR)
        line = server.refusal()
    assert any(reason in line for reason in why.split("|")), line
    assert line.count("\n") == 0


def test_a_silent_client_is_disconnected(start_server, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.2)
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5):
        assert "it took too long; still waiting" in server.refusal()


def test_an_occasional_byte_does_not_keep_a_connection_alive(start_server, credentials_of, monkeypatch):
    monkeypatch.setattr(connections, "_GRACE", 0.3)
    server = start_server(lambda connection: connection.read(1000))
    with connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5) as client:
        for _ in range(20):
            with suppress(ExchangeError):
                client.write(b"x")
            time.sleep(0.05)
        with pytest.raises(
            ExchangeError, match="lost: it took too long; nothing was written here, run both sides again"
        ):
            server.result.result(10)


def test_a_side_that_never_answers_times_out(start_server, credentials_of):
    release = threading.Event()
    server = start_server(lambda _: release.wait(10))
    with connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=0.2) as client:
        with pytest.raises(ExchangeError, match="it took too long"):
            client.wait()
        release.set()


def test_patience_is_for_computing_and_not_for_the_middle_of_a_message(start_server, credentials_of, monkeypatch):
    monkeypatch.setattr(connections, "_GRACE", 0.2)

    def reads(connection: Connection) -> bytes:
        connection.wait()
        return connection.read(1) + connection.read(1)

    server = start_server(reads, patience=60)
    with connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5) as client:
        client.write(b"x")
        with pytest.raises(ExchangeError, match="it took too long"):
            server.result.result(10)


def test_one_key_for_both_sides_is_refused(credentials_of, keys, tmp_path):
    with pytest.raises(InputError, match=r"films\.crt has our own key: give the other side's certificate"):
        credentials_of("films", "films").context(server=False)


@pytest.mark.parametrize("sent", [b"", b"half of it"])
def test_a_connection_that_breaks_is_lost(start_server, credentials_of, sent):
    server = start_server(lambda connection: connection.read(100))
    client = connect("127.0.0.1", server.port, credentials_of("books", "films"), patience=5)
    if sent:
        client.write(sent)
    client._peer.close()  # without a close_notify
    with pytest.raises(ExchangeError, match=r"connection to the other side was lost: it hung up.*run both sides again"):
        server.result.result(10)


@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1", "Connection refused"), ("no.such.host.invalid", "no such host"), ("x" * 70, "host")]
)
def test_connecting_to_nobody(credentials_of, host, why):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ExchangeError, match=f"no connection to {host}:{port}: .*{why}"):
        connect(host, port, credentials_of("books", "films"), patience=1)


def test_a_port_that_is_taken(start_server, credentials_of):
    server = start_server()
    with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{server.port}: Address already in use"):
        Listener("127.0.0.1", server.port, credentials_of("films", "books"))
    with pytest.raises(ParameterError, match="port must be between 0"):
        Listener("127.0.0.1", 65536, credentials_of("films", "books"))


class Authority:
    """A company's certificate authority, and certificates that it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.file = self._sign("authority", self.key, ca=True)

    def pair(self, name: str, *, host: str | None = None, days: int = 1) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        file = self.folder / f"{name}.key"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.chmod(0o600)
        return file, self._sign(name, key, host=host, days=days)

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca=False, host=None, days=1) -> Path:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(named("authority"), named(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        file = self.folder / f"{name}.crt"
        file.write_bytes(builder.sign(self.key, SHA256()).public_bytes(Encoding.PEM))
        return file


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _signed(authority: Authority, pair: tuple[Path, Path]) -> Credentials:
    return Credentials(key=pair[0], certificate=pair[1], peer_authority=authority.file)


def test_a_companys_authority_vouches_for_both(start_server, authority):
    server = start_server(credentials=_signed(authority, authority.pair("server", host="localhost")))
    with connect("localhost", server.port, _signed(authority, authority.pair("client")), patience=5) as client:
        client.write(b"yes")
    assert server.result.result(10) == b"yes"


def test_with_an_authority_the_certificate_must_name_the_host(start_server, authority):
    server = start_server(credentials=_signed(authority, authority.pair("elsewhere", host="elsewhere.example")))
    ours = _signed(authority, authority.pair("client"))
    with pytest.raises(ExchangeError, match="Hostname mismatch"):
        connect("localhost", server.port, ours, patience=5)
    with pytest.raises(ExchangeError):  # not by its address either
        connect("127.0.0.1", server.port, ours, patience=5)
    server._listener._socket.shutdown(socket.SHUT_RDWR)


def test_a_pinned_certificate_need_not_be_self_signed_but_a_sibling_is_refused(start_server, authority, keys):
    pinned, sibling = authority.pair("pinned"), authority.pair("sibling")
    films_key, films = keys("films")
    expects = Credentials(key=films_key, certificate=films, peer_certificate=pinned[1])
    server = start_server(credentials=expects)
    with pytest.raises(ExchangeError):
        read_byte(server, Credentials(key=sibling[0], certificate=sibling[1], peer_certificate=films))
    assert "not the expected one" in server.refusal()
    ours = Credentials(key=pinned[0], certificate=pinned[1], peer_certificate=films)
    with connect("127.0.0.1", server.port, ours, patience=5) as client:
        client.write(b"yes")
    assert server.result.result(10) == b"yes"


def test_a_certificate_signed_by_the_pinned_one_is_refused(start_server, authority, keys):
    """OpenSSL alone would accept everything that a pinned authority has signed."""
    films_key, films = keys("films")
    server = start_server(credentials=Credentials(key=films_key, certificate=films, peer_certificate=authority.file))
    signed = authority.pair("signed")
    with pytest.raises(ExchangeError, match="lost"):
        read_byte(server, Credentials(key=signed[0], certificate=signed[1], peer_certificate=films))
    assert "the other side presented a certificate other than" in server.refusal()
    server._listener._socket.shutdown(socket.SHUT_RDWR)


def test_unusable_files_are_refused(keys, authority, tmp_path):
    key, certificate = keys("films")
    other = keys("books")[1]

    def refusal(**changed: Path) -> str:
        with pytest.raises(InputError) as refused:
            Credentials(**{"certificate": certificate, "key": key, "peer_certificate": other, **changed}).context(
                server=True
            )
        return str(refused.value)

    (tmp_path / "text").write_text("not PEM")
    (tmp_path / "two").write_bytes(certificate.read_bytes() + other.read_bytes())
    private_key = load_pem_private_key(key.read_bytes(), None)
    encrypted = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    (tmp_path / "encrypted").write_bytes(encrypted)
    assert (
        refusal(certificate=tmp_path / "none") == f"cannot read certificate {tmp_path}/none: No such file or directory"
    )
    assert refusal(key=tmp_path / "none") == f"cannot read key {tmp_path}/none: No such file or directory"
    assert refusal(peer_certificate=tmp_path / "text") == f"{tmp_path}/text does not contain a valid PEM certificate"
    assert (
        refusal(peer_certificate=tmp_path / "two") == f"{tmp_path}/two contains 2 certificates; exactly one is needed"
    )
    assert refusal(key=keys("books")[0]).endswith(f"is not the key of {certificate}")
    assert refusal(key=tmp_path / "text") == f"{tmp_path}/text does not contain a usable PEM private key"
    assert "is encrypted: give a key without a passphrase" in refusal(key=tmp_path / "encrypted")
    old = authority.pair("old", days=-1)
    assert "old.crt expired on " in refusal(peer_certificate=old[1])
    assert "old.crt expired on " in refusal(certificate=old[1], key=old[0])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05", "odd.crt does not contain a valid PEM certificate"),
        (b"\x2b\x65\x70\x03\x21", b"\x2b\x65\x7f\x03\x21", "odd.crt has a key that is not supported"),
        (b"pricdr align", b"\xffricdr align", "odd.crt has a certificate that OpenSSL cannot use"),
    ],
    ids=["version", "key type", "name"],
)
def test_a_damaged_certificate_of_the_other_side_is_refused(keys, tmp_path, old, new, why):
    """Each change passes some of the parsers that read the file."""
    content = read_certificate(keys("books")[1]).public_bytes(Encoding.DER)
    assert old in content
    odd = (
        b"-----BEGIN CERTIFICATE-----\n"
        + base64.encodebytes(content.replace(old, new))
        + b"-----END CERTIFICATE-----\n"
    )
    (tmp_path / "odd.crt").write_bytes(odd)
    key, certificate = keys("films")
    with pytest.raises(InputError, match=why):
        Credentials(certificate=certificate, key=key, peer_certificate=tmp_path / "odd.crt").context(server=True)


def test_exactly_one_way_to_recognise_the_other_side(keys):
    key, certificate = keys("films")
    for peer in ({}, {"peer_certificate": certificate, "peer_authority": certificate}):
        with pytest.raises(ParameterError, match=r"--peer-cert.*--peer-ca"):
            Credentials(certificate=certificate, key=key, **peer)


def test_creating_a_certificate(tmp_path):
    key, certificate = create_certificate(tmp_path / "films", days=30)
    assert (key.name, certificate.name) == ("films.key", "films.crt")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    created = read_certificate(certificate)
    assert 29 <= (created.not_valid_after_utc - datetime.now(UTC)).days <= 30
    assert len(fingerprint(created)) == 64
    with pytest.raises(OutputError, match="exists already"):
        create_certificate(tmp_path / "films")
    with pytest.raises(ParameterError, match="days"):
        create_certificate(tmp_path / "other", days=0)
    with pytest.raises(InputError, match="year 10000"):
        create_certificate(tmp_path / "other", days=10**9)


@pytest.mark.parametrize(
    "text",
    [
        *("host", "host:", ":80", "::1:80", "host:0", "host:65536", "host:8o", "host:٣", "[]:1"),
        *("host:000001000000", f"host:000001{'0' * 5000}"),
    ],
)
def test_an_address_is_a_host_and_a_port(text):
    with pytest.raises(ParameterError, match="must be HOST:PORT"):
        parse_address(text)
