"""The exchange over loopback: the same result and the same bytes as by files, and what stops it half way."""

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


def ids(*given: str, rule: Normalisation = Normalisation.EXACT) -> NormalisedIds:
    return NormalisedIds.of(given, rule)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Credentials, Credentials]:
    """Credentials of the side that serves and of the side that joins."""
    folder = tmp_path_factory.mktemp("keys")
    (films_key, films), (books_key, books) = (create_certificate(folder / name) for name in ("films", "books"))
    return (
        Credentials(certificate=films, key=films_key, peer_certificate=books),
        Credentials(certificate=books, key=books_key, peer_certificate=films),
    )


@pytest.fixture
def between(pair) -> Callable[..., tuple[Future, Future]]:
    """Run one function on each end of a connection, and return what came of both."""

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


def test_nobody_in_common(between):
    server, client = between(
        lambda connection: live.serve(connection, ids("a"), who_learns=BOTH),
        lambda connection: live.join(connection, ids("b"), who_learns=BOTH),
    )
    assert server.result().alignment.users == client.result().users == ()


def test_addresses_meet_by_their_rule(between):
    email = Normalisation.EMAIL
    server, client = between(
        lambda connection: live.serve(connection, ids("Ann@X.org", "b@x.org", rule=email), who_learns=BOTH),
        lambda connection: live.join(connection, ids("ann@x.org", "c@x.org", rule=email), who_learns=BOTH),
    )
    assert (server.result().alignment.own, client.result().own) == (("Ann@X.org",), ("ann@x.org",))


def test_the_messages_are_those_of_files(between):
    """What passes the connection is what files would hold: the first message, taken down, is answered as a file is."""
    kept = []

    def serve(connection: Connection) -> None:
        _greeted(connection)
        kept.append(live._Stream(connection).receive())
        _, reply = protocol.answer(kept[0], ids(*FILMS))
        write_message(connection, reply)
        kept.append(reply)
        assert connection.read(len(live._DONE)) == live._DONE

    server, client = between(serve, lambda connection: live.join(connection, ids(*BOOKS)))
    assert server.exception() is None
    record = client.result().record
    assert (record.first_message, record.second_message) == (kept[0].sha256, kept[1].sha256)


@pytest.mark.parametrize(
    ("serving", "joining", "why"),
    [
        ({"rule": Normalisation.EMAIL}, {}, "disagree about ids: {} here, {} there; give both the same --normalise"),
        (
            {"who": BOTH},
            {},
            "disagree about who learns the users: {} here, {} there; give --both to both or to neither",
        ),
    ],
)
def test_a_disagreement_is_known_to_both_before_anything_is_computed(between, serving, joining, why, monkeypatch):
    monkeypatch.setattr(live, "start", pytest.fail)

    def told(act: Callable[..., object], rule: Normalisation = Normalisation.EXACT, who: WhoLearns = STARTER):
        return lambda connection: act(connection, ids("a@x", rule=rule), who_learns=who)

    server, client = between(told(live.serve, **serving), told(live.join, **joining))
    here, there = ("email", "exact") if "ids" in why else ("both", "the side that joins")
    assert why.format(here, there) in str(server.exception())
    assert why.format(there, here) in str(client.exception())


def test_what_the_other_side_calls_its_rule_reaches_no_terminal(between):
    def hostile(connection: Connection) -> None:
        connection.write(live.Greeting(normalisation="\x1b[2J", rule="Trimmed.", who_learns=STARTER).content())
        connection.wait()

    _, client = between(hostile, lambda connection: live.join(connection, ids("a")))
    assert "exact here, \\u001b[2J there" in str(client.exception())


def test_more_ids_than_allowed_are_refused_before_they_come(between):
    """A header and no points: whoever waited for those would lose the connection."""

    def announce(connection: Connection) -> None:
        _greeted(connection)
        content = b"".join(map(bytes, protocol.start(ids(*BOOKS))[1].blocks()))
        connection.write(content[: -32 * (len(BOOKS) + 1)])
        connection.wait()

    server, _ = between(lambda connection: live.serve(connection, ids(*FILMS), at_most=19), announce)
    assert str(server.exception()) == (
        "the message of the other side: the other side shows 20 ids, and --at-most allows 19"
    )


def test_an_answer_that_matches_a_dummy_is_not_used(between):
    def cheat(connection: Connection) -> None:
        _greeted(connection, BOTH)
        stream = live._Stream(connection)
        _, reply = protocol.answer(stream.receive(), ids("a"))
        # Four points, the other way round: none stays where it was, and three of them are dummies.
        stream.send(Message(reply.header, np.concatenate([reply.starter_points[::-1], reply.answerer_points])))
        with pytest.raises(ExchangeError):
            connection.wait()  # for a list that does not come

    server, client = between(cheat, lambda connection: live.join(connection, ids("a"), who_learns=BOTH, pad_to=4))
    server.result()
    assert isinstance(client.exception(), VerificationError)
    assert "the message of the other side: a dummy is common, which nobody else has" in str(client.exception())


def test_another_reading_of_the_same_rule_is_refused(between):
    def older(connection: Connection) -> None:
        connection.write(live.Greeting(normalisation="exact", rule="Trimmed.", who_learns=STARTER).content())
        connection.wait()

    _, client = between(older, lambda connection: live.join(connection, ids("a")))
    assert "the sides mean different rules by exact: use the same version on both" in str(client.exception())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nServer: nginx/1.0\r\n\r\n", "is no pricdr align, or one of another version"),
        (live._FIRST_LINE + b"\xff\xff" + b"x" * 0xFFFF, "the greeting of the other side has 65,535 bytes"),
        (live._FIRST_LINE + b"\0\x02{}", "the greeting of the other side is none that this version knows"),
        (live._FIRST_LINE + b"\0\x03\xff\xfe\xfd", "the greeting of the other side is none that this version knows"),
        (live._FIRST_LINE[:9], "lost: it hung up in the middle of a message"),
        (b"", "lost: it hung up"),
    ],
)
def test_a_side_that_says_something_else_is_refused(between, said, why):
    _, client = between(lambda connection: connection.write(said), lambda one: live.join(one, ids("a")))
    assert why in str(client.exception())
    assert isinstance(client.exception(), ExchangeError)


def _greeted(connection: Connection, who: WhoLearns = STARTER) -> None:
    """Either side, as far as the greetings."""
    live._greet(connection, ids("a"), who)
    live._heard(connection)


def test_a_hostile_message_is_refused_as_in_a_file(between):
    def join(connection: Connection) -> None:
        _greeted(connection)
        _, message = protocol.start(ids("a", "b"))
        content = b"".join(map(bytes, message.blocks()))
        connection.write(content[:-1] + bytes([content[-1] ^ 1]))

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert isinstance(server.exception(), InputError)
    assert "the message of the other side: its bytes do not have the SHA-256 at its end" in str(server.exception())


def test_a_header_alone_allocates_nothing(between):
    def join(connection: Connection) -> None:
        _greeted(connection)
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
    assert isinstance(server.exception(), PriCDRError)


def test_a_message_that_contradicts_the_greeting_is_refused(between):
    def join(connection: Connection) -> None:
        _greeted(connection)
        write_message(connection, protocol.start(ids("a"), who_learns=BOTH)[1])

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert "it contradicts what was agreed about who learns" in str(server.exception())


def test_an_answer_instead_of_a_first_message_is_refused(between):
    def join(connection: Connection) -> None:
        _greeted(connection)
        write_message(connection, protocol.answer(protocol.start(ids("a"))[1], ids("a"))[1])

    server, _ = between(lambda connection: live.serve(connection, ids("a")), join)
    assert "the message of the other side: this is an answer" in str(server.exception())


def test_an_answer_of_another_session_is_refused(between):
    other = protocol.answer(protocol.start(ids("a"))[1], ids("a"))[1]

    def serve(connection: Connection) -> None:
        _greeted(connection)
        live._Stream(connection).receive()
        write_message(connection, other)
        connection.wait()

    _, client = between(serve, lambda connection: live.join(connection, ids("a")))
    assert "the message of the other side: it belongs to session" in str(client.exception())


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("stranger\n", "'stranger' is none of the ids"),
        ("u2\nu1\n", "is not in ascending order"),
        ("u1\nu1\n", "is not in ascending order"),
        ("u1", "its last line does not end"),
        (b"\xff\n", "it is not UTF-8"),
        ("u1\n" * 100, "it has 300 bytes, and all ids here together have 30"),
        ("\x1b[31m\n", r"'\x1b[31m' is none of the ids"),
    ],
)
def test_a_list_that_is_not_ours_is_refused(between, sent, why):
    own = ids(*(f"u{at}" for at in range(10)))

    def join(connection: Connection) -> None:
        _greeted(connection, BOTH)
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
    assert "the other side shows 20 ids, and --at-most allows 10" in str(server.exception())
    assert "lost" in str(client.exception())


@pytest.mark.parametrize("after", ["start", "answer"])
def test_a_connection_that_breaks_leaves_both_to_run_again(between, after):
    def broken(connection: Connection) -> None:
        _greeted(connection)
        if after == "answer":
            message = live._Stream(connection).receive()
            content = b"".join(map(bytes, protocol.answer(message, ids(*FILMS))[1].blocks()))
            connection.write(content[: len(content) // 2])
        connection._peer.close()

    _, client = between(broken, lambda connection: live.join(connection, ids(*BOOKS)))
    assert isinstance(client.exception(), ExchangeError)
    assert str(client.exception()).endswith("nothing was written, run both again")
    _, client = between(
        lambda connection: live.serve(connection, ids(*FILMS)), lambda connection: live.join(connection, ids(*BOOKS))
    )
    assert client.result().users == COMMON


def test_progress_tells_of_waiting_sending_and_receiving(between):
    told = set()

    def note(what: str, done: float, total: int, note: str = "") -> None:
        assert not total or done <= total
        told.add(what)

    blinder = protocol.Blinder(progress=note)
    between(
        lambda connection: live.serve(connection, ids(*FILMS)),
        lambda connection: live.join(connection, ids(*BOOKS), blinder=blinder),
    )
    assert {"waiting for the other side", "sending", "receiving", "blinding ids", "blinding points"} <= told
