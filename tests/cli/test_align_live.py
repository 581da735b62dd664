"""``align serve`` and ``align join`` in two processes, as two companies run them, and what each refuses."""

import re
import socket

import pytest

from pricdr.alignment.certificates import create_certificate

FILMS, BOOKS = ("ann", "bob", "cid", "dan"), ("bob", "dan", "eve")


@pytest.fixture
def parties(here):
    """Write the ids and certificates of two companies into one folder."""
    for name, ids in (("films", FILMS), ("books", BOOKS)):
        (here / f"{name}.txt").write_text("".join(f"{user_id}\n" for user_id in ids))
        create_certificate(here / name)
    return here


def tls_options(own: str, other: str) -> tuple[str, ...]:
    return ("--cert", f"{own}.crt", "--key", f"{own}.key", "--peer-cert", f"{other}.crt", "--processes", "1")


@pytest.fixture
def serving(parties, start):
    """Start ``align serve`` for films on a free port; return the process and where it listens."""

    def begin(*options):
        child = start("align", "serve", "films.txt", "--port", 0, *tls_options("films", "books"), *options)
        line = child.stdout.readline()
        listening = re.fullmatch(
            r"listening on (127\.0\.0\.1:\d+) for the side with .*books\.crt \(SHA-256 \w{64}\)\n", line
        )
        assert listening, (line, child.communicate())
        return child, listening[1]

    return begin


def test_two_companies_find_the_users_they_share(parties, serving, pricdr):
    child, address = serving("--both", "--out", "theirs.txt", "--pad-to", 10)
    joined = pricdr(
        "align", "join", address, "books.txt", "--both", "--out", "ours.txt", *tls_options("books", "films")
    )
    out, err = child.communicate(timeout=60)
    assert (joined.code, child.returncode) == (0, 0), (joined.err, err)
    assert (parties / "ours.txt").read_text() == (parties / "theirs.txt").read_text() == "bob\ndan\n"
    records = [(parties / f"{name}.txt.alignment.json").read_bytes() for name in ("ours", "theirs")]
    assert records[0] == records[1]
    for text in (out, joined.out):
        assert "ids shown, dummies included: 3 by the side that started, 10 by the other" in text
    assert "" == err == joined.err


def test_without_both_the_side_that_serves_learns_only_a_number(parties, serving, pricdr):
    child, address = serving()
    joined = pricdr("align", "join", address, "books.txt", "--out", "ours.txt", *tls_options("books", "films"))
    out, err = child.communicate(timeout=60)
    assert (joined.code, child.returncode) == (0, 0), (joined.err, err)
    assert "only the other side has learnt the common users; it showed 3 ids, this side 4, dummies included" in out
    assert sorted(file.name for file in parties.glob("*.txt*")) == [
        *("books.txt", "films.txt", "ours.txt", "ours.txt.alignment.json"),
    ]


def test_strangers_are_refused_with_one_line_each_and_serve_keeps_waiting(parties, serving, pricdr):
    create_certificate(parties / "stranger")
    child, address = serving()
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert "does not speak TLS, but plain HTTP; still waiting" in child.stderr.readline()
    refused = pricdr("align", "join", address, "books.txt", "--out", "x.txt", *tls_options("stranger", "films"))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "it does not accept our certificate" in refused.err
    assert "its certificate is not the expected one" in child.stderr.readline()
    joined = pricdr("align", "join", address, "books.txt", "--out", "ours.txt", *tls_options("books", "films"))
    assert (joined.code, child.wait(60)) == (0, 0), joined.err
    assert not (parties / "x.txt").exists()


def test_with_different_settings_both_sides_exit_with_one_line(parties, serving, pricdr):
    child, address = serving("--both", "--out", "theirs.txt")
    joined = pricdr("align", "join", address, "books.txt", "--out", "ours.txt", *tls_options("books", "films"))
    _, err = child.communicate(timeout=60)
    for code, text in ((joined.code, joined.err), (child.returncode, err)):
        assert code == 2
        assert text.startswith("error: the sides disagree about who learns the users")
        assert text.count("\n") == 1
    assert not list(parties.glob("*.alignment.json"))


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("join", ("nowhere",), "must be HOST:PORT"),
        (
            "join",
            ("127.0.0.1:1", "--timeout", "0"),
            "Invalid value for '--timeout': Input should be greater than or equal to 1",
        ),
        ("join", ("127.0.0.1:1", "--timeout", "604801"), "Invalid value for '--timeout': Input should be less than"),
        ("join", ("127.0.0.1:1", "--peer-cert", "books.crt"), "books.crt has our own key"),
        ("join", ("127.0.0.1:1", "--processes", "0"), "Invalid value for '--processes'"),
        ("join", ("127.0.0.1:1", "--pad-to", "2"), "pad_to must be between the number of ids, 3"),
        ("join", ("127.0.0.1:1", "--normalise", "email"), "books.txt: line 1: 'bob' is not an e-mail address"),
        ("join", ("127.0.0.1:1", "--key", "films.key"), "films.key is not the key of books.crt"),
        ("join", ("127.0.0.1:1", "--cert", "none.crt"), "cannot read certificate none.crt: No such file"),
        ("join", ("127.0.0.1:1", "--peer-ca", "films.crt"), "give the other side's certificate (--peer-cert) or"),
        ("join", ("127.0.0.1:1", "--out", "books.txt"), "books.txt exists already"),
        (
            "join",
            ("127.0.0.1:1", "--own-ids", "users.txt.alignment.json"),
            "which is where the user list or its record",
        ),
        ("join", ("127.0.0.1:1",), "no connection to 127.0.0.1:1: Connection refused"),
        ("serve", ("--out", "users.txt"), "give --out together with --both"),
        ("serve", ("--both",), "give --out together with --both"),
        ("serve", ("--own-ids", "own.csv"), "--own-ids lists the common users"),
        ("serve", ("--port", "70000"), "port must be between 0"),
        ("serve", ("--host", "203.0.113.7"), "cannot listen on 203.0.113.7:8443: Cannot assign requested address"),
    ],
)
def test_bad_options_are_refused_before_connecting(parties, refused, command, options, says):
    common = tls_options("books", "films")
    if command == "join":
        refused("align", "join", options[0], "books.txt", "--out", "users.txt", *common, *options[1:], says=says)
    else:
        refused("align", "serve", "books.txt", *common, *options, says=says)


def test_a_key_that_others_can_read_is_refused(parties, refused):
    (parties / "books.key").chmod(0o640)
    command = ("align", "join", "127.0.0.1:1", "books.txt", "--out", "users.txt", *tls_options("books", "films"))
    refused(*command, says=("books.key: mode 0640 lets others read or write it", "chmod 600 books.key"))


def test_keygen(here, pricdr, refused):
    outcome = pricdr("align", "keygen", "--out", "films", "--days", 30)
    assert outcome.code == 0, outcome.err
    assert re.search(r"fingerprint \(SHA-256\), to compare by telephone: [0-9a-f]{64}\n", outcome.out)
    assert (here / "films.key").stat().st_mode & 0o777 == 0o600
    refused("align", "keygen", "--out", "films", says="films.key exists already")
    refused("align", "keygen", "--out", ".", says=". is a folder: give a name for the key and the certificate")
