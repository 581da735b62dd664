"""Hostile messages: truncated, changed, reordered, or with a header that lies."""

import hashlib
import io
import json
import os
import tracemalloc

import pytest

from pricdr.alignment.curve import P, split_points
from pricdr.alignment.messages import FIRST_LINE, MAX_IDS, Message, load_message, read_message, read_record
from pricdr.errors import InputError
from tests.alignment.conftest import answer, as_bytes, normalised, read, start
from tests.alignment.records import record_of

_, FIRST = start(normalised(["a", "b", "c"]))
_, SECOND = answer(FIRST, normalised(["b", "c", "d", "e"]))


def sealed(header: bytes, points: bytes) -> bytes:
    """Return a message with the right hash at its end, whatever its content: anyone can compute that."""
    body = FIRST_LINE + len(header).to_bytes(4, "big") + header + points
    return body + hashlib.sha256(body).digest()


def changed(message: Message, points: list[bytes] | None = None, **fields: object) -> bytes:
    content = {**message.header.model_dump(mode="json"), **fields}
    header = json.dumps(content, separators=(",", ":")).encode()
    return sealed(header, message.points.tobytes() if points is None else b"".join(points))


@pytest.mark.parametrize("message", [FIRST, SECOND], ids=["first", "second"])
def test_a_message_is_read_back_and_no_changed_byte_of_it(message, tmp_path):
    content = as_bytes(message)
    (tmp_path / "m").write_bytes(content)
    again = load_message(tmp_path / "m")
    assert (again.header, again.points.tobytes()) == (message.header, message.points.tobytes())
    assert again.sha256 == hashlib.sha256(content).hexdigest()
    (tmp_path / "longer").write_bytes(content + b"x")
    with pytest.raises(InputError, match="its header announces"):
        load_message(tmp_path / "longer")
    for at in range(len(content)):
        for size in (at, len(content)):  # or cut off while it is read
            with pytest.raises(InputError, match=r"^message: "):
                read_message(io.BytesIO(content[:at]), "message", size)
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(InputError, match=r"^message: "):
            read(bytes(flipped))


def test_points_that_no_honest_side_sends():
    points = split_points(SECOND.points.tobytes())
    for wrong, rule in (
        ([points[0], (0).to_bytes(32, "little"), *points[2:]], "message: point 2 has low order"),
        ([(9 + P).to_bytes(32, "little"), *points[1:]], "message: point 1 is not canonical"),
        (points[:3] + points[:2:-1], "not in ascending order"),
        ([*points[:3], points[3], points[3], points[4], points[5]], "not in ascending order"),
        ([points[0], points[0], *points[2:]], "a point of the starter repeats"),
    ):
        with pytest.raises(InputError, match=rule):
            read(changed(SECOND, wrong))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"starter_ids": MAX_IDS}, "its header announces"),
        *(({"starter_ids": number}, "starter_ids") for number in (MAX_IDS + 1, 0, 3.0, "3", True)),
        ({"starter_ids": float("nan")}, "starter_ids|content"),
        ({"session": "../../etc/passwd"}, "session"),
        ({"kind": "finish"}, "kind"),
        ({"who_learns": "everybody"}, "who_learns"),
        ({"normalisation": "x"}, "normalisation: Input should be 'exact', 'email' or 'phone'"),
        ({"normalisation": "email"}, "the rule email reads"),
        ({"rule": "Ids are compared \x1b[31m loosely."}, "the rule exact reads"),
        ({"rule": "x" * 401}, "rule"),
        ({"previous": "0" * 64}, "are for answers"),
        ({"answerer_ids": 1}, "its header announces|are for answers"),
        ({"kind": "answer"}, "are for answers"),
        ({"more": 1}, "more"),
    ],
    ids=str,
)
def test_headers_that_lie(fields, rule):
    with pytest.raises(InputError, match=rule) as refused:
        read(changed(FIRST, **fields))
    assert str(refused.value).startswith("message: ")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("header", [b"", b"null", b"[" * 4000, b"\xff\xfe", b"NaN", b" " * 4096], ids=len)
def test_headers_that_are_not_headers(header):
    with pytest.raises(InputError, match="message: the header"):
        read(sealed(header, FIRST.points.tobytes()))


def test_a_header_has_one_encoding_and_a_limit():
    content = FIRST.header.content()
    for other in (content.replace(b",", b", "), content.replace(b"{", b'{"kind":"start",', 1)):
        with pytest.raises(InputError, match="not canonical JSON"):
            read(sealed(other, FIRST.points.tobytes()))
    with pytest.raises(InputError, match="the header has 4,097 bytes"):
        read(sealed(content.ljust(4097), FIRST.points.tobytes()))


@pytest.mark.parametrize("size", [0, 10**12], ids=["its own", "sparse file"])
def test_no_memory_is_allocated_on_the_word_of_a_header(size, monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "900TB")  # so that it is not the memory limit that refuses it
    announced = changed(FIRST, starter_ids=MAX_IDS)[:-32]
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="cut off"):
            read_message(io.BytesIO(announced), "message", size or len(announced))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    content = changed(FIRST, starter_ids=10**6)
    with pytest.raises(InputError, match="an alignment of 1,000,000 points needs about"):
        read_message(io.BytesIO(content), "message", len(content) + 32 * (10**6 - 3))


def test_other_and_missing_files_and_folders(tmp_path):
    for content in (b"", b"user,item\n", b"PAR1", b"pricdr alignment message 2\n" + b"x" * 99):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(InputError, match="m: not a pricdr align message, or one of another version"):
            load_message(tmp_path / "m")
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)  # so that opening it does not wait
    paths = {"none": "no such file", ".": "this is a folder", "pipe": "pipe: this is not a regular file"}
    for path, rule in ((tmp_path / name, rule) for name, rule in paths.items()):
        with pytest.raises(InputError, match=rule):
            load_message(path)
    os.close(writer)


RECORD = record_of(("a", "b"), starter_ids=3, answerer_ids=2)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "r: content: "),
        (b"[" * 5000, "r: content: "),
        (RECORD.content().replace(b": 3,", b": NaN,"), "starter_ids|content"),
        (RECORD.content().replace(b'"common_users": 2', b'"common_users": 3'), "larger than the number of ids"),
        (RECORD.content().replace(b"byte for byte", b"loosely"), "the rule exact reads"),
        (b" " * 9000, "more than 8,192 bytes"),
    ],
)
def test_hostile_records(content, rule, tmp_path):
    (tmp_path / "r").write_bytes(RECORD.content())
    assert read_record(tmp_path / "r") == RECORD
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(InputError, match=rule) as refused:
        read_record(tmp_path / "r")
    assert str(refused.value).isprintable()
