"""The exchange over loopback: the same result and bytes as with files, and what makes it fail halfway."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from pricdr.alignment import live, protocol
from pricdr.alignment.certificates import create_certificate
from pricdr.alignment.connection import Connection, Listener, connect
from pricdr.alignment.messages import Header, Kind, Message, WhoLearns, write_message
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.tls import Credentials
from pricdr.errors import ExchangeError, InputError, ParameterError, PriCDRError, VerificationError

FILMS = tuple(f"u{at}" for at in range(0, 60, 2))
BOOKS = tuple(f"u{at}" for at in range(0, 60, 3))
COMMON = tuple(sorted(set(FILMS) & set(BOOKS)))
BOTH, STARTER = WhoLearns.BOTH, WhoLearns.STARTER


def ids(*user_ids: str, rule: Normalisation = Normalisation.EXACT) -> NormalisedIds:
    return NormalisedIds.of(user_ids, rule)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Credentials, Credentials]:
    """Return the credentials of the side that serves and of the side that joins."""
    folder = tmp_path_factory.mktemp("keys")
    (films_key, films), (books_key, books) = (create_certificate(folder / name) for name in ("films", "books"))
    return (
        Credentials(certificate=films, key=films_key, peer_certificate=books),
        Credentials(certificate=books, key=books_key, peer_certificate=films),
    )


@pytest.fixture
def between(pair) -> Callable[..., tuple[Future, Future]]:
    """Run one function on each end of a connection, and return both results."""

    def run(
        serving: Callable[[Connection], object], joining: Callable[[Connection], object], patience: float = 10
    ) -> tuple[Future, Future]:
        with Listener("127.0.0.1", 0, pair[0]) as listener, ThreadPoolExecutor(1) as pool:

            def served() -> object:
                with listener.accept(pytest.fail, patience=patience) as connection:
                    return serving(connection)

            server, client = pool.submit(served), Future()
            try:
                with connect("127.0.0.1", int(listener.address.rpartition(":")[2]), pair[1], patience=patience) as to:
                    client.set_result(joining(to))
            except PriCDRError as error:
                client.set_exception(error)
            server.exception(30)
            return server, client

    return run


def test_the_side_that_joins_learns_the_common_users(between):
    server, client = between(
        lambda connection: live.serve(connection, ids(*FILMS)), lambda connection: live.join(connection, ids(*BOOKS))
    )
    assert server.result().alignment is None
    assert (server.result().header.starter_ids, server.result().header.answerer_ids) == (20, 30)
    assert client.result().users == COMMON
    assert client.result().record.who_learns is STARTER


def test_both_learn_them_and_have_the_same_record(between):
    server, client = between(
        lambda connection: live.serve(connection, ids(*FILMS), who_learns=BOTH, pad_to=100),
        lambda connection: live.join(connection, ids(*BOOKS), who_learns=BOTH, pad_to=50),
    )
    assert server.result().alignment.users == client.result().users == COMMON
    record = client.result().record
    assert server.result().alignment.record == record
    assert (record.starter_ids, record.answerer_ids, record.common_users) == (50, 100, len(COMMON))


def test_no_common_users(between):
    server, client = between(
        lambda connection: live.serve(connection, ids("a"), who_learns=BOTH),
        lambda connection: live.join(connection, ids("b"), who_learns=BOTH),
    )
    assert server.result().alignment.users == client.result().users == ()


def test_addresses_are_matched_by_their_rule(between):
    email = Normalisation.EMAIL
    server, client = between(
        lambda connection: live.serve(connection, ids("Ann@X.org", "b@x.org", rule=email), who_learns=BOTH),
        lambda connection: live.join(connection, ids("ann@x.org", "c@x.org", rule=email), who_learns=BOTH),
    )
    assert (server.result().alignment.own, client.result().own) == (("Ann@X.org",), ("ann@x.org",))


def test_the_messages_are_those_of_files(between):
    """The connection carries what files would hold: an answer made as for a file completes the exchange."""
    messages = []

    def serve(connection: Connection) -> None:
        _exchange_greetings(connection)
        messages.append(live._Stream(connection).receive())
        _, reply = protocol.answer(messages[0], ids(*FILMS))
        write_message(connection, reply)
        messages.append(reply)
        assert connection.read(len(live._DONE)) == live._DONE

    server, client = between(serve, lambda connection: live.join(connection, ids(*BOOKS)))
    assert server.exception() is None
    record = client.result().record
    assert (record.first_message, record.second_message) == (messages[0].sha256, messages[1].sha256)


@pytest.mark.parametrize(
    ("serving", "joining", "why"),
    [
        (
            {"rule": Normalisation.EMAIL},
            {},
            "normalise ids differently: {} here, {} there; give both the same --normalise",
        ),
        (
            {"who": BOTH},
            {},
            "disagree about who learns the users: {} here, {} there; use --both on both or neither",
        ),
    ],
)
def test_both_sides_report_different_settings_before_anything_is_computed(between, serving, joining, why, monkeypatch):
    monkeypatch.setattr(live, "start", pytest.fail)

    def side(run: Callable[..., object], rule: Normalisation = Normalisation.EXACT, who: WhoLearns = STARTER):
        return lambda connection: run(connection, ids("a@x", rule=rule), who_learns=who)

    server, client = between(side(live.serve, **serving), side(live.join, **joining))
    here, there = ("email", "exact") if "ids" in why else ("both", "the side that joins")
    assert why.format(here, there) in str(server.exception())
    assert why.format(there, here) in str(client.exception())


def test_the_name_of_the_other_sides_rule_is_escaped(between):
    def hostile(connection: Connection) -> None:
        connection.write(live.Greeting(normalisation="\x1b[2J", rule="Trimmed.", who_learns=STARTER).content())
        connection.wait()

    _, client = between(hostile, lambda connection: live.join(connection, ids("a")))
    assert "exact here, \\u001b[2J there" in str(client.exception())


def test_more_ids_than_allowed_are_refused_before_they_arrive(between):
    """Only the header is sent: a side that waited for the points would lose the connection."""

    def announce(connection: Connection) -> None:
        _exchange_greetings(connection)
        content = b"".join(map(bytes, protocol.start(ids(*BOOKS))[1].blocks()))
        connection.write(content[: -32 * (len(BOOKS) + 1)])
        connection.wait()

    server, _ = between(lambda connection: live.serve(connection, ids(*FILMS), at_most=19), announce)
    assert str(server.exception()) == ("the other side's message: the other side shows 20 ids, but --at-most allows 19")


def test_an_answer_that_matches_a_dummy_is_not_used(between):
    def cheat(connection: Connection) -> None:
        _exchange_greetings(connection, BOTH)
        stream = live._Stream(connection)
        _, reply = protocol.answer(stream.receive(), ids("a"))
        # Four points in reverse: none keeps its place, and three of them are dummies.
        stream.send(Message(reply.header, np.concatenate([reply.starter_points[::-1], reply.answerer_points])))
        with pytest.raises(ExchangeError):
            connection.wait()  # for a list that never arrives

    server, client = between(cheat, lambda connection: live.join(connection, ids("a"), who_learns=BOTH, pad_to=4))
    server.result()
    assert isinstance(client.exception(), VerificationError)
    assert "the other side's message: a dummy matched, which only we know" in str(client.exception())


def test_another_text_of_the_same_rule_is_refused(between):
    def older(connection: Connection) -> None:
        connection.write(live.Greeting(normalisation="exact", rule="Trimmed.", who_learns=STARTER).content())
        connection.wait()

    _, client = between(older, lambda connection: live.join(connection, ids("a")))
    assert "the rule exact differs between the sides: run the same version on both" in str(client.exception())


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nServer: nginx/1.0\r\n\r\n", "is not running pricdr align, or another version of it"),
        (live._FIRST_LINE + b"\xff\xff" + b"x" * 0xFFFF, "the other side's greeting has 65,535 bytes"),
        (live._FIRST_LINE + b"\0\x02{}", "the other side's greeting is not one that this version understands"),
        (
            live._FIRST_LINE + b"\0\x03\xff\xfe\xfd",
            "the other side's greeting is not one that this version understands",
        ),
        (live._FIRST_LINE[:9], "lost: it hung up in the middle of a message"),
        (b"", "lost: it hung up"),
    ],
)
def test_a_side_that_sends_something_else_is_refused(between, sent, why):
    _, client = between(lambda connection: connection.write(sent), lambda connection: live.join(connection, ids("a")))
    assert why in str(client.exception())
    assert isinstance(client.exception(), ExchangeError)


def _exchange_greetings(connection: Connection, who: WhoLearns = STARTER) -> None:
    """Send a greeting and read the other side's, as either side."""
    live._greet(connection, ids("a"), who)
    live._read_greeting(connection)


def test_a_hostile_message_is_refused_as_in_a_file(between):
    def join(connection: Connection) -> None:
        _exchange_greetings(connection)
        _, message = protocol.start(ids("a", "b"))
        content = b"".join(map(bytes, message.blocks()))
        connection.write(content[:-1] + bytes([content[-1] ^ 1]))

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert isinstance(server.exception(), InputError)
    assert "the other side's message: its content does not match the SHA-256 at its end" in str(server.exception())


def test_a_huge_announcement_without_points_is_only_a_lost_connection(between, monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "900TB")  # so that it is not the memory limit that refuses it

    def join(connection: Connection) -> None:
        _exchange_greetings(connection)
        header = Header(
            kind=Kind.START,
            session="0" * 32,
            normalisation="exact",
            rule=Normalisation.EXACT.rule,
            who_learns=STARTER,
            starter_ids=1 << 30,
        ).content()
        connection.write(b"pricdr alignment message 1\n" + len(header).to_bytes(4, "big") + header)

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert isinstance(server.exception(), ExchangeError)
    assert "it hung up in the middle of a message" in str(server.exception())


def test_a_message_that_contradicts_the_greeting_is_refused(between):
    def join(connection: Connection) -> None:
        _exchange_greetings(connection)
        write_message(connection, protocol.start(ids("a"), who_learns=BOTH)[1])

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert "it contradicts the greeting about who learns" in str(server.exception())


def test_an_answer_instead_of_a_first_message_is_refused(between):
    def join(connection: Connection) -> None:
        _exchange_greetings(connection)
        write_message(connection, protocol.answer(protocol.start(ids("a"))[1], ids("a"))[1])

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert "the other side's message: this is an answer" in str(server.exception())


def test_an_answer_of_another_session_is_refused(between):
    other = protocol.answer(protocol.start(ids("a"))[1], ids("a"))[1]

    def serve(connection: Connection) -> None:
        _exchange_greetings(connection)
        live._Stream(connection).receive()
        write_message(connection, other)
        connection.wait()

    _, client = between(serve, lambda connection: live.join(connection, ids("a")))
    assert "the other side's message: it belongs to session" in str(client.exception())


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("stranger\n", "'stranger' is not one of the ids"),
        ("u2\nu1\n", "is not in ascending order"),
        ("u1\nu1\n", "is not in ascending order"),
        ("u1", "its last line has no line break"),
        (b"\xff\n", "it is not UTF-8"),
        ("u1\n" * 100, "it has 300 bytes, but a list of all our ids has only 30"),
        ("\x1b[31m\n", r"'\x1b[31m' is not one of the ids"),
    ],
)
def test_a_list_that_is_not_ours_is_refused(between, sent, why):
    own = ids(*(f"u{at}" for at in range(10)))

    def join(connection: Connection) -> None:
        _exchange_greetings(connection, BOTH)
        stream = live._Stream(connection)
        stream.send(protocol.start(own, who_learns=BOTH)[1])
        stream.receive()
        content = sent if isinstance(sent, bytes) else sent.encode()
        connection.write(len(content).to_bytes(8, "big") + content)

    server, _ = between(lambda connection: live.serve(connection, own, who_learns=BOTH), join)
    assert why in str(server.exception())
    assert isinstance(server.exception(), ExchangeError | VerificationError)
    assert str(server.exception()).isprintable()


def test_a_limit_on_what_the_other_side_shows(between):
    server, client = between(
        lambda connection: live.serve(connection, ids(*FILMS), at_most=10),
        lambda connection: live.join(connection, ids(*BOOKS)),
    )
    assert isinstance(server.exception(), ParameterError)
    assert "the other side shows 20 ids, but --at-most allows 10" in str(server.exception())
    assert "lost" in str(client.exception())


@pytest.mark.parametrize("after", ["start", "answer"])
def test_after_a_broken_connection_both_sides_can_run_again(between, after):
    def broken(connection: Connection) -> None:
        _exchange_greetings(connection)
        if after == "answer":
            message = live._Stream(connection).receive()
            content = b"".join(map(bytes, protocol.answer(message, ids(*FILMS))[1].blocks()))
            connection.write(content[: len(content) // 2])
        connection._peer.close()

    _, client = between(broken, lambda connection: live.join(connection, ids(*BOOKS)))
    assert isinstance(client.exception(), ExchangeError)
    assert str(client.exception()).endswith("nothing was written here, run both sides again")
    _, client = between(
        lambda connection: live.serve(connection, ids(*FILMS)), lambda connection: live.join(connection, ids(*BOOKS))
    )
    assert client.result().users == COMMON


def test_progress_reports_waiting_sending_and_receiving(between):
    stages = set()

    def progress(what: str, done: float, total: int, note: str = "") -> None:
        assert not total or done <= total
        stages.add(what)

    blinder = protocol.Blinder(progress=progress)
    between(
        lambda connection: live.serve(connection, ids(*FILMS)),
        lambda connection: live.join(connection, ids(*BOOKS), blinder=blinder),
    )
    assert {"waiting for the other side", "sending", "receiving", "blinding ids", "blinding points"} <= stages
