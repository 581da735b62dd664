"""Release folders made to do harm: each is refused in one line, cheaply, and nothing unaccounted travels in one."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pricdr import JLT, Guarantee, Ratings, publish, verify
from pricdr.errors import VerificationError
from pricdr.privacy.ledger import Ledger
from pricdr.privacy.strategies import Spectral
from pricdr.release.certificate import seal
from pricdr.untrusted.footers import LayoutError
from pricdr.untrusted.layout import Weight, require_fitting, require_runs
from pricdr.untrusted.thrift import read_struct

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = [f"u{at:03}" for at in range(50)]


def reseal(folder, **changes):
    """As a careful forger would: hashes, digest and bytes all fit."""
    content = json.loads((folder / "certificate.json").read_text())
    del content["digest"]
    content.update(changes)
    content["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in content["files"]}
    (folder / "certificate.json").write_bytes(seal(content))


def refused(folder) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    return str(caught.value)


@pytest.fixture(params=["jlt", "spectral"])
def folder(tmp_path, request):
    ratings = Ratings.from_triples([u for u in USERS for _ in "12"], [f"i{at % 7}" for at in range(100)])
    strategy = JLT(dim=8) if request.param == "jlt" else Spectral(dim=8)
    return publish(ratings, PROMISE, strategy=strategy, users=USERS).save(tmp_path / "a.release")


def rewrite(folder, frame, **options):
    frame.write_parquet(folder / "release.parquet", **{"compression": "uncompressed", "statistics": False, **options})
    reseal(folder)


def with_matrix(folder, change):
    frame = pl.read_parquet(folder / "release.parquet")
    matrix = np.array(frame["vector"].to_numpy())
    grid = json.loads((folder / "certificate.json").read_text())["grid"]
    changed = change(matrix)
    on_grid = (np.rint(changed.astype(np.float64) / grid) * grid).astype(np.float32)
    rewrite(folder, pl.DataFrame({"user": frame["user"], "vector": pl.Series(on_grid)}))


# Structure


def _footer(raw):
    length = int.from_bytes(raw[-8:-4], "little")
    return read_struct(raw[-8 - length : -8])[0]


def write_struct(fields) -> bytes:
    """Thrift's compact protocol, the other way round: enough of it for footers."""
    out, last = b"", 0
    for number, value in sorted(fields.items()):
        if isinstance(value, bool):
            kind, content = (1 if value else 2), b""
        else:
            kind, content = _value(value)
        out += bytes([(number - last) << 4 | kind]) + content
        last = number
    return out + b"\0"


def _value(value) -> tuple[int, bytes]:
    if isinstance(value, int):
        return 6, _varint((value << 1) ^ (value >> 63))
    if isinstance(value, bytes):
        return 8, _varint(len(value)) + value
    if isinstance(value, dict):
        return 12, write_struct(value)
    parts = [_value(part) for part in value]
    kind = parts[0][0] if parts else 12
    head = bytes([len(parts) << 4 | kind]) if len(parts) < 15 else bytes([0xF0 | kind]) + _varint(len(parts))
    return 9, head + b"".join(content for _, content in parts)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def test_a_payload_before_the_footer_is_refused(folder):
    raw = (folder / "release.parquet").read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    at = len(raw) - 8 - length
    (folder / "release.parquet").write_bytes(raw[:at] + os.urandom(300_000) + raw[at:])
    reseal(folder)
    assert "bytes" in refused(folder)


@pytest.mark.parametrize("size", [1, 40, 2000])
def test_a_small_payload_before_the_footer_is_refused_too(folder, size):
    raw = (folder / "release.parquet").read_bytes()
    at = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    (folder / "release.parquet").write_bytes(raw[:at] + bytes(size) + raw[at:])
    reseal(folder)
    assert "belong to no column" in refused(folder)


def test_a_payload_between_footer_and_end_is_refused(folder):
    raw = (folder / "release.parquet").read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    longer = raw[:-8] + b"x" * 500 + (length + 500).to_bytes(4, "little") + b"PAR1"
    (folder / "release.parquet").write_bytes(longer)
    reseal(folder)
    assert "between its footer and its end" in refused(folder)


def test_metadata_of_its_own_is_refused(folder):
    frame = pl.read_parquet(folder / "release.parquet")
    rewrite(folder, frame, metadata={"note": "x" * 1000})
    assert "metadata other than" in refused(folder)


SECRET = b"payload!" * 1000


def with_index(number, size, payload):
    """The footer's last column chunk gets an index that begins where the footer was."""

    def change(footer, start):
        footer[4][0][1][-1].update({number: start, size: len(payload)})
        return payload

    return change


HIDDEN = {
    "the footer": lambda footer, start: footer.update({15: SECRET}),
    "its schema": lambda footer, start: footer[2][1].update({15: SECRET}),
    "the schema's name": lambda footer, start: footer[2][0].update({4: SECRET}),
    "a row group": lambda footer, start: footer[4][0].update({15: SECRET}),
    "a sorting order": lambda footer, start: footer[4][0].update({4: [{1: at, 2: True, 3: True} for at in range(999)]}),
    "a pair of metadata": lambda footer, start: footer[5][0].update({15: SECRET}),
    "column orders": lambda footer, start: footer.update({7: [{1: {1: SECRET}}]}),
    "a logical type": lambda footer, start: footer[2][1].update({10: {1: {1: SECRET}}}),
    "a column index": with_index(6, 7, write_struct({1: SECRET})),
    "an offset index": with_index(4, 5, write_struct({1: SECRET})),
    "an offset index of nowhere": with_index(4, 5, write_struct({1: [{1: 9, 2: 9, 3: 9}] * 99})),
}


@pytest.mark.parametrize("where", HIDDEN)
def test_a_payload_that_readers_skip_is_refused(folder, where):
    """Polars reads each of these files without a word."""
    raw = (folder / "release.parquet").read_bytes()
    footer, start = _footer(raw), len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    payload = HIDDEN[where](footer, start) or b""
    written = write_struct(footer)
    content = raw[:start] + payload + written + len(written).to_bytes(4, "little") + b"PAR1"
    assert pl.read_parquet(io.BytesIO(content)).height == 50
    (folder / "release.parquet").write_bytes(content)
    reseal(folder)
    assert re.search(r"no release needs|its footer has|offset index|of another type", refused(folder))


def test_a_payload_inside_a_page_is_refused():
    """Vectors of nine numbers in a file that shows eight: every length in it is right, and the rest is hidden."""
    weight = Weight(values=50 * 9 * 4, numbers=400, pages=1)
    with pytest.raises(LayoutError, match="1,800 bytes of values, and they take 1,600"):
        require_fitting(weight, 1600, dictionary=True)
    for padding in ({"levels": 400}, {"indices": 4000}):
        with pytest.raises(LayoutError, match="more bytes than they need"):
            require_fitting(Weight(values=1600, numbers=400, pages=1, **padding), 1600, dictionary=True)


def test_a_page_that_is_encoded_to_save_room_is_refused(folder):
    raw = (folder / "release.parquet").read_bytes()
    start = _footer(raw)[4][0][1][-1][3][9]
    header, begin = read_struct(raw, start)
    delta = write_struct({**header, 5: {**header[5], 2: 5}})  # DELTA_BINARY_PACKED, in as many bytes
    assert len(delta) == begin - start
    (folder / "release.parquet").write_bytes(raw[:start] + delta + raw[begin:])
    reseal(folder)
    assert "does not follow from its values" in refused(folder)


def test_vectors_have_no_dictionary():
    """Noise on a grid repeats values: entries that no row uses could fill what a dictionary saves."""
    with pytest.raises(LayoutError, match="has a dictionary"):
        require_fitting(Weight(values=1600, indices=100, numbers=400, pages=2), 1600, dictionary=False)


def test_bytes_after_the_values_of_a_page_are_refused(folder):
    """The page, its chunk and the footer all made longer by the same: polars reads such a file without a word."""
    raw = (folder / "release.parquet").read_bytes()
    footer = _footer(raw)
    chunk = footer[4][0][1][-1]
    start, size = chunk[3][9], chunk[3][7]
    header, begin = read_struct(raw, start)
    grown = {**header, 2: header[2] + 100, 3: header[3] + 100}
    body = raw[begin : start + size] + b"payload!!!" * 10
    page = write_struct(grown) + body
    chunk[3] = {**chunk[3], 6: len(page), 7: len(page)}
    for key in (4, 5):
        chunk.pop(key, None)
        footer[4][0][1][0].pop(key, None)
    content = raw[:start] + page + write_struct(footer)
    whole = content + (len(write_struct(footer))).to_bytes(4, "little") + b"PAR1"
    assert pl.read_parquet(io.BytesIO(whole)).height == 50
    (folder / "release.parquet").write_bytes(whole)
    reseal(folder)
    assert "1,700 bytes of values, and they take 1,600" in refused(folder)


def put_together(folder, body, footer):
    """A file of these parts, which polars reads without a word."""
    stated = write_struct(footer)
    whole = body + stated + len(stated).to_bytes(4, "little") + b"PAR1"
    assert pl.read_parquet(io.BytesIO(whole)).height == 50
    (folder / "release.parquet").write_bytes(whole)
    reseal(folder)


def test_a_payload_after_the_levels_of_a_page_is_refused(folder):
    """Levels that repeat take three bytes; so many numbers would leave room for 150 that nobody looks at."""
    raw = (folder / "release.parquet").read_bytes()
    footer = _footer(raw)
    chunk = footer[4][0][1][1]
    start, size = chunk[3][9], chunk[3][7]
    header, begin = read_struct(raw, start)
    body = raw[begin : start + size]
    at = 4 + int.from_bytes(body[:4], "little")
    levels = int.from_bytes(body[at : at + 4], "little")
    end = at + 4 + levels
    body = body[:at] + (levels + 100).to_bytes(4, "little") + body[at + 4 : end] + b"payload!!!" * 10 + body[end:]
    page = write_struct({**header, 2: len(body), 3: len(body)}) + body
    chunk[3] = {**chunk[3], 6: len(page), 7: len(page)}
    for part in footer[4][0][1]:
        part.pop(4), part.pop(5)
    put_together(folder, raw[:start] + page, footer)
    assert "a run" in refused(folder)


def test_runs_of_numbers_end_with_their_last_byte_and_number():
    for runs, width, count in ((b"\x10\x01", 1, 8), (b"\x03\xff", 1, 7), (b"\x06\x00\x03\x0f", 1, 7), (b"", 1, 0)):
        require_runs(memoryview(runs), width, count)
    for runs, width, count in (
        (b"\x10\x01", 1, 7),  # a run beyond the end
        (b"\x10\x01", 1, 9),
        (b"\x10\x01\x00\x01", 1, 8),  # a run of nothing
        (b"\x03\xff\x03\xff", 1, 7),
        (b"\x05\xff", 1, 16),
        (b"\x10\x81", 1, 8),  # seven bits that are no level
        (b"\x10", 1, 8),
    ):
        with pytest.raises(LayoutError):
            require_runs(memoryview(runs), width, count)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"statistics": True}, "fields that no release needs"), ({"compression": "zstd"}, "compressed")],
)
def test_statistics_and_compression_are_refused(folder, options, says):
    rewrite(folder, pl.read_parquet(folder / "release.parquet"), **options)
    assert says in refused(folder)


def test_an_honest_file_of_another_layout_passes(folder):
    """Newer writers may choose other pages, row groups and encodings."""
    frame = pl.read_parquet(folder / "release.parquet")
    before = verify(folder).matrix
    for options in ({"row_group_size": 1 << 20}, {"data_page_size": 1 << 10}):
        rewrite(folder, frame, **options)
        assert np.array_equal(verify(folder).matrix, before)


def test_a_large_release_in_several_row_groups_passes(tmp_path):
    ratings = Ratings.from_triples(["u0"], ["x"])
    users = [f"u{at}" for at in range(200_000)]
    release = publish(ratings, PROMISE, strategy=JLT(dim=2), users=users)
    assert verify(release.save(tmp_path / "large")).users == tuple(users)


def test_an_extra_file_of_any_kind_is_refused(folder):
    (folder / "sub").mkdir()
    assert "'sub' does not belong" in refused(folder)
    (folder / "sub").rmdir()
    (folder / "a\x1b[2J\n.txt").touch()
    assert "does not belong" in refused(folder)


@pytest.mark.parametrize("words", ["![](http://e.vil/a)", "<b>PRIVATE</b>", "2026-01-01T00:00:00+00:00 ok", "today"])
def test_the_time_of_a_spend_is_a_time(tmp_path, words):
    """It is repeated in README.md, which people read with the images and links that are in it."""
    ledger = Ledger.create(tmp_path / "budget.jsonl", PROMISE)
    ratings = Ratings.from_triples(USERS[:2], ["x", "y"])
    honest = publish(ratings, Guarantee(epsilon=1, delta=1e-6), users=USERS, ledger=ledger)
    verify(honest.save(tmp_path / "honest"))
    account = honest.certificate.ledger.model_copy(update={"recorded": words})
    forged = replace(honest, certificate=honest.certificate.model_copy(update={"ledger": account}))
    assert "ledger.recorded" in refused(forged.save(tmp_path / "forged"))


@pytest.mark.parametrize("words", ["none. **epsilon = 0.001**", "![](http://e.vil/a)", "<img src=//e.vil>"])
def test_an_older_version_is_no_way_to_put_markup_into_a_readme(tmp_path, words):
    """Version 3 quotes what is said about a filter; before, README.md repeated it as it was."""
    ratings = Ratings.from_triples(USERS[:2], ["x", "y"]).disclosing(words)
    release = publish(ratings, PROMISE, strategy=JLT(dim=8), users=USERS)
    verify(release.save(tmp_path / "new"))
    older = replace(release, certificate=release.certificate.model_copy(update={"schema_version": 2}))
    assert "holds markup" in refused(older.save(tmp_path / "older"))


# Memory


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))  # for this process and all it starts
from pricdr import verify
from pricdr.errors import VerificationError
try:
    verify(sys.argv[1])
except VerificationError as error:
    print(error)
"""


def bomb(folder, rows):
    """A small matrix file that unpacks to a thousand bytes for each of many rows."""
    users = pl.Series(["u" * 1000], dtype=pl.String).new_from_index(0, rows)
    vector = pl.Series(np.zeros((1, 8), dtype=np.float32)).new_from_index(0, rows)
    frame = pl.DataFrame({"user": users, "vector": vector})
    rewrite(folder, frame, compression="zstd")
    assert (folder / "release.parquet").stat().st_size < 2_000_000


@pytest.mark.parametrize("folder", ["jlt"], indirect=True)
def test_rows_are_compared_before_anything_is_unpacked(folder):
    bomb(folder, 600_000)
    assert "it holds 600,000 rows, the certificate states 50" in refused(folder)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["jlt"], indirect=True)
def test_a_small_file_that_unpacks_to_gigabytes_costs_nothing(folder):
    bomb(folder, 8_000_000)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, folder], capture_output=True, text=True, check=True, timeout=60
    )
    assert "8,000,000 rows" in done.stdout


def test_a_sparse_file_of_gigabytes_is_not_read(tmp_path, monkeypatch):
    """Nothing on the sender's disk, and as long as the longest ids would make it."""
    users = [f"u{at}" for at in range(100_000)]
    release = publish(Ratings.from_triples(["u0"], ["x"]), PROMISE, strategy=JLT(dim=1), users=users)
    folder = release.save(tmp_path / "sparse")
    os.truncate(folder / "release.parquet", 400_000_000)
    monkeypatch.setenv("PRICDR_MEMORY", "500MB")
    assert "takes more memory" in refused(folder)


# Links and races


@pytest.mark.parametrize("name", ["release.parquet", "certificate.json", "README.md"])
def test_a_link_in_the_folder_is_refused(folder, tmp_path, name):
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert f"{name} cannot be read: it is a link" in refused(folder)


def test_a_pipe_in_the_folder_does_not_hang(folder):
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")
    assert "README.md is not a regular file" in refused(folder)


@pytest.mark.parametrize("folder", ["jlt"], indirect=True)
def test_what_is_hashed_is_what_is_read_whatever_happens_meanwhile(folder, tmp_path):
    """Another file comes and goes under the same name all the time: every load is the honest one or none."""
    honest = verify(folder).matrix
    good = (folder / "release.parquet").read_bytes()
    frame = pl.read_parquet(folder / "release.parquet")
    other = tmp_path / "other.parquet"
    forged = frame.with_columns(vector=pl.Series(honest + 1))
    forged.write_parquet(other, compression="uncompressed", statistics=False)
    bad = other.read_bytes()
    over = threading.Event()

    def swap():
        at = 0
        while not over.is_set():
            staged = tmp_path / f"staged{at % 2}"
            staged.write_bytes(good if at % 2 else bad)
            staged.rename(folder / "release.parquet")
            at += 1

    racing = threading.Thread(target=swap)
    racing.start()
    outcomes = set()
    try:
        for _ in range(30):
            try:
                outcomes.add(bool(np.array_equal(verify(folder).matrix, honest)))
            except VerificationError as error:
                outcomes.add("refused" if "was changed" in str(error) else str(error))
    finally:
        over.set()
        racing.join()
    assert outcomes <= {True, "refused"}
    assert "refused" in outcomes


# Impossible matrices


def one_far_row(matrix):
    far = matrix.copy()
    far[7] = 3e38
    return far


def mostly_zero(matrix):
    zeros = np.zeros_like(matrix)
    zeros[3] = matrix[3]
    return zeros


IMPOSSIBLE = {
    "values of 3e38": one_far_row,
    "49 of 50 rows zero": mostly_zero,
    "one row zero": lambda m: np.where(np.arange(50)[:, None] == 4, 0, m),
    "one column zero": lambda m: np.where(np.arange(8) == 4, 0, m),
    "all rows equal": lambda m: np.broadcast_to(m[0], m.shape).copy(),
    "every second row a copy": lambda m: m[np.arange(50) // 2 * 2],
    "the halves equal": lambda m: np.concatenate([m[:25], m[:25]]),
    "one row twice": lambda m: m[[0, *range(49)]],
    "all columns equal": lambda m: np.broadcast_to(m[:, :1], m.shape).copy(),
    "half of the noise": lambda m: m / 3,
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_certified_noise_makes_impossible_is_refused(folder, name):
    with_matrix(folder, IMPOSSIBLE[name])
    assert "the matrix" in refused(folder)


def test_a_signalling_nan_is_refused_without_a_warning(folder):
    frame = pl.read_parquet(folder / "release.parquet")
    matrix = np.array(frame["vector"].to_numpy())
    matrix.view(np.uint32)[2, 3] = 0x7F800001
    rewrite(folder, pl.DataFrame({"user": frame["user"], "vector": pl.Series(matrix)}))
    assert "not a finite number" in refused(folder)


def test_declared_items_and_clips_bound_the_rows(tmp_path):
    ratings = Ratings.from_triples(USERS[:2], ["x", "y"])
    listed = publish(ratings, PROMISE, strategy=JLT(dim=8), users=USERS, items=["x", "y"]).save(tmp_path / "listed")
    with_matrix(listed, lambda m: np.where(np.arange(50)[:, None] == 4, m + 1000, m))
    assert "a row of norm" in refused(listed)


def test_a_release_without_noise_is_exempt_from_floors(tmp_path):
    ratings = Ratings.from_triples(USERS[:2], ["x", "x"])
    release = publish(ratings, PROMISE, strategy=JLT(dim=8), users=USERS, insecure_no_noise=True)
    assert not verify(release.save(tmp_path / "plain")).matrix[5].any()


# Ids


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "a\x1b[31mb", "x" * 100_000, "a\u2028b", "a\x85b"])
def test_ids_of_a_release_obey_the_rule_of_ids(folder, name):
    frame = pl.read_parquet(folder / "release.parquet")
    rewrite(folder, frame.with_columns(pl.col("user").replace("u004", name)))
    assert "release.parquet" in refused(folder)
