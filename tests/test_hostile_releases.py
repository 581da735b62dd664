"""Release folders made to do harm: each is refused in one line, cheaply, and nothing unaccounted travels in one."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pricdr import JLT, Guarantee, Ratings, publish, verify
from pricdr.certificate import _digest
from pricdr.errors import VerificationError
from pricdr.privacy.ledger import Ledger
from pricdr.privacy.strategies import Spectral
from pricdr.untrusted.decoding import RefusedError, _require_used
from pricdr.untrusted.footers import LayoutError, Leaf
from pricdr.untrusted.layout import Weight, _page, _require_runs, require_fitting
from pricdr.untrusted.thrift import read_struct

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = [f"u{at:03}" for at in range(50)]


def reseal(folder, **changes):
    """As a careful forger would: hashes, digest and bytes all fit."""
    content = json.loads((folder / "certificate.json").read_text())
    del content["digest"]
    content.update(changes)
    content["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in content["files"]}
    text = json.dumps({**content, "digest": _digest(content)}, indent=2, ensure_ascii=False) + "\n"
    (folder / "certificate.json").write_text(text)


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
    assert "metadata of its own" in refused(folder)


def test_a_payload_inside_a_page_is_refused(tmp_path):
    """Vectors of nine numbers in a file that shows eight: every length in it is right, and the rest is hidden."""
    weight = Weight(values=50 * 9 * 4, numbers=400, pages=1)
    with pytest.raises(LayoutError, match="200 bytes more than its values"):
        require_fitting(weight, 50 * 8 * 4)
    for padded in (Weight(levels=400, numbers=400, pages=1), Weight(indices=4000, numbers=400, pages=1)):
        with pytest.raises(LayoutError, match="more room than they need"):
            require_fitting(padded, 50 * 8 * 4)


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
    assert "100 bytes more than its values" in refused(folder)


def put_together(folder, body, footer):
    """A file of these parts, which polars reads without a word."""
    stated = write_struct(footer)
    whole = body + stated + len(stated).to_bytes(4, "little") + b"PAR1"
    assert pl.read_parquet(io.BytesIO(whole)).height == 50
    (folder / "release.parquet").write_bytes(whole)
    reseal(folder)


HIDDEN_IN_A_FOOTER = {
    "an unknown field of the file": lambda f: f.update({12: PAYLOAD}),
    "an unknown field of a schema element": lambda f: f[2][1].update({13: PAYLOAD}),
    "the name of the schema": lambda f: f[2][0].update({4: PAYLOAD}),
    "an unknown field of a row group": lambda f: f[4][0].update({9: PAYLOAD}),
    "the columns it is sorted by": lambda f: f[4][0].update({4: [{1: 1, 2: False, 3: False, 4: PAYLOAD}]}),
    "the order of columns": lambda f: f.update({7: [{1: {1: PAYLOAD}}, {1: {}}]}),
}
PAYLOAD = bytes(range(32, 127)) * 1000


@pytest.mark.parametrize("place", HIDDEN_IN_A_FOOTER)
def test_a_payload_inside_the_footer_is_refused(folder, place):
    raw = (folder / "release.parquet").read_bytes()
    footer = _footer(raw)
    HIDDEN_IN_A_FOOTER[place](footer)
    put_together(folder, raw[: len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")], footer)
    assert "its footer states more than it needs to" in refused(folder)


@pytest.mark.parametrize("kind", ["offset", "column"])
def test_a_payload_inside_a_page_index_is_refused(folder, kind):
    raw = (folder / "release.parquet").read_bytes()
    body, footer = raw[: len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")], _footer(raw)
    last = footer[4][0][1][1]
    index, _ = read_struct(raw, last[4])
    content = write_struct({**index, 9: PAYLOAD})
    if kind == "offset":  # it is the last thing before the footer
        body = body[: last[4]]
    offset = 4 if kind == "offset" else 6
    last.update({offset: len(body), offset + 1: len(content)})
    put_together(folder, body + content, footer)
    assert "states more than it needs to" in refused(folder)


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
        _require_runs(memoryview(runs), width, count)
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
            _require_runs(memoryview(runs), width, count)


def test_text_with_shared_beginnings_hides_nothing(folder):
    """Such an encoding is shorter than its values: what it saves could be spent."""
    weight = Weight()
    header = {1: 0, 2: 0, 3: 0, 5: {1: 0, 2: 7, 3: 3, 4: 3}}
    with pytest.raises(LayoutError, match="does not show its size"):
        _page(header, memoryview(b""), Leaf((b"user",), 0, 0), weight, left=0)


def test_numbers_of_a_dictionary_that_no_row_uses_are_refused():
    found = {"vectors": np.zeros((50, 8), dtype=np.float32)}
    _require_used(Weight(entries=4), found, groups=1)
    with pytest.raises(RefusedError, match="no row uses"):
        _require_used(Weight(entries=1600), found, groups=1)


@pytest.mark.parametrize("options", [{"statistics": True}, {"compression": "zstd"}])
def test_statistics_and_compression_are_refused(folder, options):
    rewrite(folder, pl.read_parquet(folder / "release.parquet"), **options)
    assert "not a whole Parquet file" in refused(folder)


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


@pytest.mark.parametrize("options", [{"compression": "zstd"}, {"compression": "zstd", "statistics": False}])
def test_a_small_file_that_unpacks_to_gigabytes_costs_nothing(folder, options):
    users = pl.Series(["u" * 1000], dtype=pl.String).new_from_index(0, 8_000_000)
    vector = pl.Series(np.zeros((1, 8), dtype=np.float32)).new_from_index(0, 8_000_000)
    pl.DataFrame({"user": users, "vector": vector}).write_parquet(folder / "release.parquet", **options)
    assert (folder / "release.parquet").stat().st_size < 2_000_000
    reseal(folder)
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
    assert "README.md is no file" in refused(folder)


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
        for _ in range(60):
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
