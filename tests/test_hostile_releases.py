"""Release folders made to do harm: each is refused in one line, cheaply, and nothing unaccounted travels in one."""

import json
import os
import shutil
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, load_file, save

from pricdr import Bounds, Guarantee, Ratings, Release, publish, verify
from pricdr.errors import InputError, VerificationError
from pricdr.release.checks import check_matrix
from pricdr.release.folder import MATRIX
from pricdr.strategies import JLT, Spectral
from tests.forging import reseal, rewrite

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = [f"u{at:03}" for at in range(50)]


def refused(folder) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    return str(caught.value)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """One release whose numbers are on a coarse grid, and one on the finest."""
    ratings = Ratings.from_triples([u for u in USERS for _ in "12"], [f"i{at % 7}" for at in range(100)])
    made = tmp_path_factory.mktemp("honest")
    for name, strategy in (("jlt", JLT(dim=8)), ("spectral", Spectral(dim=8))):
        publish(ratings, PROMISE, strategy=strategy, users=USERS).save(made / name)
    return made


@pytest.fixture
def folder(honest, tmp_path, request):
    return Path(shutil.copytree(honest / getattr(request, "param", "jlt"), tmp_path / "a.release"))


BOTH = pytest.mark.parametrize("folder", ["jlt", "spectral"], indirect=True)


def matrix_of(folder):
    return load_file(folder / MATRIX)["matrix"]


def with_matrix(folder, change):
    grid = json.loads((folder / "certificate.json").read_text())["grid"]
    on_grid = np.rint(change(matrix_of(folder)).astype(np.float64) / grid) * grid + 0.0
    rewrite(folder, MATRIX, save({"matrix": on_grid.astype(np.float32)}))


# Structure


def _with_header(change):
    """The file with another header, whose length is stated."""

    def changed(raw):
        size = int.from_bytes(raw[:8], "little")
        text = change(raw[8 : 8 + size])
        return len(text).to_bytes(8, "little") + text + raw[8 + size :]

    return changed


def _tensors(change):
    return lambda raw: change(load(raw)["matrix"])


MATRICES = {
    "metadata": _tensors(lambda m: save({"matrix": m}, metadata={"note": "x" * 1000})),
    "empty metadata": _tensors(lambda m: save({"matrix": m}, metadata={})),
    "another tensor": _tensors(lambda m: save({"matrix": m, "more": np.zeros(7, np.float32)})),
    "another tensor of nothing": _tensors(lambda m: save({"matrix": m, "more": np.zeros(0, np.float32)})),
    "another name": _tensors(lambda m: save({"matriy": m})),
    "another shape": _tensors(lambda m: save({"matrix": m.ravel()})),
    "another type": _tensors(lambda m: save({"matrix": m.view(np.int32)})),
    "a row less": _tensors(lambda m: save({"matrix": m[:-1]})),
    "a row more": _tensors(lambda m: save({"matrix": m[[*range(50), 0]]})),
    "no rows": _tensors(lambda m: save({"matrix": m[:0]})),
    "bytes at the end": lambda raw: raw + b"\0",
    "nothing": lambda raw: b"",
    # Readers that parse a header take most of these for the same one, and whatever differs could be a message.
    "spaces": _with_header(lambda text: text + b" " * 8),
    "a space inside": _with_header(lambda text: text.replace(b",", b", ", 1).rstrip() + b" " * 15),
    "a key twice": _with_header(lambda text: text.replace(b'{"dtype"', b'{"dtype":"F32","dtype"')),
    "an escaped name": _with_header(lambda text: text.replace(b"matrix", b"\\u006datrix")),
    "another order": _with_header(
        lambda text: b'{"matrix":{"shape":[50,8],"dtype":"F32","data_offsets":[0,1600]}}'.ljust(len(text))
    ),
    "a line feed for a space": _with_header(lambda text: text[:-1] + b"\n"),
    "text after the object": _with_header(lambda text: text.rstrip() + b"x"),
    **{
        f"stated length {stated}": lambda raw, stated=stated: stated.to_bytes(8, "little") + raw[8:]
        for stated in (0, 1, 2**31, 2**63, 2**64 - 1)
    },
}
IDS = {
    "a\0b": "control character", "a\x1b[31mb": "control character", "a\u2028b": "control character",
    "a\x85b": "control character", "a\r": "control character", "x" * 1001: "more than 1,000 characters", "": "is empty",
    "u005": "must be distinct", "u004\nu099": "has 51 lines, the certificate states 50 users",
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_has_one_spelling(folder, name):
    rewrite(folder, MATRIX, MATRICES[name]((folder / MATRIX).read_bytes()))
    assert MATRIX in refused(folder)


def test_a_list_of_ids_has_one_spelling(folder):
    raw = (folder / "users.txt").read_bytes()
    for content, says in (
        (raw + b"bob", "the last line does not end with a line feed"),
        (raw.replace(b"u", b"\xff", 1), "must be text in UTF-8: byte 1 is not"),
        (raw.replace(b"\n", b"\r\n"), "control character"),
        *((raw.replace(b"u004", name.encode()), says) for name, says in IDS.items()),
    ):
        rewrite(folder, "users.txt", content)
        assert says in refused(folder)


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@BOTH
def test_a_number_has_one_spelling_to_the_last_bit(folder):
    """A nan keeps 23 bits of anybody's through a rewrite, a last digit one, and so does the sign of a zero."""
    finite, grid = "not a finite number", "not a multiple of the grid"
    honest = matrix_of(folder)
    old = int(honest.view(np.uint32)[2, 3])
    patterns = dict.fromkeys((0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7F800000), finite)
    patterns |= dict.fromkeys((bits(-0.0), 1, old + 1, old - 1), grid)
    for pattern, says in patterns.items():
        matrix = honest.copy()
        matrix.view(np.uint32)[2, 3] = pattern
        rewrite(folder, MATRIX, save({"matrix": matrix}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert says in refused(folder)


@pytest.mark.parametrize("strategy", [JLT(dim=33), Spectral(dim=5)], ids=repr)
@pytest.mark.parametrize("epsilon", [0.3, 4, 60])
def test_honest_numbers_are_on_the_grid_to_the_last_bit(tmp_path, strategy, epsilon):
    """The certificate states a grid that may differ in its last bit from the one that was drawn on."""
    users = [f"u{at}" for at in range(3000)]
    ratings = Ratings.from_triples(users, [f"i{at % 50}" for at in range(3000)])
    release = publish(ratings, Guarantee(epsilon=epsilon, delta=1e-6), strategy=strategy, users=users)
    assert verify(release.save(tmp_path / "r")).users == tuple(users)


def test_an_extra_file_of_any_kind_is_refused(folder):
    (folder / "sub").mkdir()
    assert "'sub' does not belong" in refused(folder)
    (folder / "sub").rmdir()
    (folder / "a\x1b[2J\n.txt").touch()
    assert "does not belong" in refused(folder)


# Memory


def test_sparse_files_of_gigabytes_are_not_read(folder, monkeypatch):
    """Nothing on the sender's disk, and as long as anything that is asked for could be."""
    monkeypatch.setenv("PRICDR_MEMORY", "500MB")
    for name in (MATRIX, "users.txt", "README.md", "certificate.json"):
        raw = (folder / name).read_bytes()
        os.truncate(folder / name, 1 << 40)
        assert "bytes" in refused(folder)
        (folder / name).write_bytes(raw)


def test_a_matrix_beyond_the_memory_limit_says_so_before_it_is_read(folder, monkeypatch):
    reseal(folder, dim=1 << 20)
    monkeypatch.setenv("PRICDR_MEMORY", "100MB")
    raw = b'{"matrix":{"dtype":"F32","shape":[50,1048576],"data_offsets":[0,209715200]}}'
    raw = raw.ljust(-(-len(raw) // 8) * 8)
    with (folder / MATRIX).open("r+b") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + 50 * (1 << 20) * 4)
    with pytest.raises(InputError, match=r"50 users x 1,048,576 numbers needs about 209\.7 MB of memory, the limit"):
        Release.load(folder, allow_unverified=True)


# Links and races


@pytest.mark.parametrize("name", [MATRIX, "users.txt", "certificate.json", "README.md"])
def test_a_link_in_the_folder_is_refused(folder, tmp_path, name):
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert f"{name} cannot be read: it is a link" in refused(folder)


def test_a_pipe_in_the_folder_does_not_hang(folder):
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")
    assert "README.md is not a regular file" in refused(folder)


def test_what_is_hashed_is_what_is_read_whatever_happens_meanwhile(folder, tmp_path):
    """Another file comes and goes under the same name all the time: every load is the honest one or none."""
    honest = verify(folder).matrix
    good = (folder / MATRIX).read_bytes()
    bad = save({"matrix": honest + np.float32(json.loads((folder / "certificate.json").read_text())["grid"])})
    over = threading.Event()

    def swap():
        at = 0
        while not over.is_set():
            staged = tmp_path / f"staged{at % 2}"
            staged.write_bytes(good if at % 2 else bad)
            staged.rename(folder / MATRIX)
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

IMPOSSIBLE = {
    "values of 3e38": lambda m: np.where(np.arange(50)[:, None] == 7, np.float32(3e38), m),
    "49 of 50 rows zero": lambda m: np.where(np.arange(50)[:, None] == 3, m, 0),
    "one row zero": lambda m: np.where(np.arange(50)[:, None] == 4, 0, m),
    "one column zero": lambda m: np.where(np.arange(8) == 4, 0, m),
    "all rows equal": lambda m: np.broadcast_to(m[0], m.shape).copy(),
    "every second row a copy": lambda m: m[np.arange(50) // 2 * 2],
    "the halves equal": lambda m: np.concatenate([m[:25], m[:25]]),
    "one row twice": lambda m: m[[0, *range(49)]],
    "all columns equal": lambda m: np.broadcast_to(m[:, :1], m.shape).copy(),
    "half of the noise": lambda m: m / 3,
}


@BOTH
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_certified_noise_makes_impossible_is_refused(folder, name):
    with_matrix(folder, IMPOSSIBLE[name])
    assert "the matrix" in refused(folder)


def test_declared_items_and_clips_bound_the_rows(tmp_path):
    ratings = Ratings.from_triples(USERS[:2], ["x", "y"])
    listed = publish(ratings, PROMISE, strategy=JLT(dim=8), users=USERS, items=["x", "y"]).save(tmp_path / "listed")
    with_matrix(listed, lambda m: np.where(np.arange(50)[:, None] == 4, m + 1000, m))
    assert "a row of norm" in refused(listed)


def test_a_release_without_noise_is_exempt_from_floors(tmp_path):
    ratings = Ratings.from_triples(USERS[:2], ["x", "x"])
    release = publish(ratings, PROMISE, strategy=JLT(dim=8), users=USERS, insecure_no_noise=True)
    assert not verify(release.save(tmp_path / "plain")).matrix[5].any()


def _released(*, users: int, dim: int, bounds: Bounds):
    ratings = Ratings.from_triples(["u0"], ["i0"], [bounds.largest])
    listed = [f"u{at}" for at in range(users)]
    return publish(ratings, PROMISE, strategy=JLT(dim=dim), users=listed, bounds=bounds, insecure_seed=1)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e6])
def test_half_of_the_noise_is_refused_whatever_a_rating_counts(bound):
    """What a grid can hide of a vector's length is a part of σ, not of the numbers themselves."""
    release = _released(users=200, dim=8, bounds=Bounds(rating_bound=bound, rating_step=bound))
    certificate = release.certificate
    check_matrix(release.matrix, certificate)
    half = (np.rint(release.matrix / np.float64(certificate.grid) / 2) + 0.0) * certificate.grid
    with pytest.raises(VerificationError, match="less noise than sigma states"):
        check_matrix(half.astype(np.float32), certificate)


def test_a_repeated_row_of_four_numbers_is_refused():
    """Rows that no check of differences pairs: four numbers on this grid never meet by chance."""
    release = _released(users=4, dim=4, bounds=Bounds())
    repeated = release.matrix.copy()
    repeated[3] = repeated[0]
    with pytest.raises(VerificationError, match="same row twice"):
        check_matrix(repeated, release.certificate)


def test_as_many_short_rows_as_chance_allows_pass():
    """All of 36 rows shorter than the median happens once in 2^36 releases, more often than a check may refuse."""
    release = _released(users=36, dim=1, bounds=Bounds())
    certificate = release.certificate
    signs = np.resize([1.0, -1.0], 18)
    short = 0.6 * certificate.sigma * np.concatenate([signs, -signs])[:, None]
    on_the_grid = np.rint(short / certificate.grid) * certificate.grid
    check_matrix(on_the_grid.astype(np.float32), certificate)
