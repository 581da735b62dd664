"""A release has one spelling: what safetensors would write, and what saving it again writes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from pricdr import Bounds, Guarantee, Ratings, Unit, publish, verify
from pricdr.release import folder
from pricdr.release.folder import MATRIX, _header
from pricdr.signing import create_keys
from pricdr.strategies import JLT, SJLT, Guided

RATINGS = Ratings.from_triples(["a", "b", "b", "c"], ["x", "x", "y", "z"])
USERS = ("b", "a", "nobody", "🙂", " spaced ")
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@given(st.integers(1, 400), st.integers(1, 400))
def test_the_header_is_the_one_that_safetensors_writes(users, dim):
    matrix = np.zeros((users, dim), np.float32)
    assert _header(users, dim) + matrix.tobytes() == save({"matrix": matrix})


RELEASES = {
    "jlt": lambda: publish(RATINGS, PROMISE, strategy=JLT(dim=5), users=USERS),
    "sjlt": lambda: publish(RATINGS, PROMISE, strategy=SJLT(dim=7), users=USERS, items=["x", "y"]),
    "spectral": lambda: publish(RATINGS, PROMISE, users=USERS, issuer="Films & Co."),
    "guided": lambda: publish(RATINGS, PROMISE, strategy=Guided(guide=RELEASES["jlt"]()), users=USERS),
    "user": lambda: publish(RATINGS, Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER), bounds=Bounds(clip=2)),
    "noiseless": lambda: publish(RATINGS, PROMISE, strategy=JLT(dim=3), users=USERS, insecure_no_noise=True),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("signed", [False, True])
def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path, name, signed):
    key = create_keys(tmp_path / "key")[0] if signed else None
    release = RELEASES[name]()
    first = release.save(tmp_path / "first", signing_key=key)
    loaded = verify(first)
    assert loaded.matrix.tobytes() == release.matrix.tobytes()
    assert loaded.sha256() == release.sha256()
    second = loaded.save(tmp_path / "second", signing_key=key)
    assert {file.name: file.read_bytes() for file in first.iterdir()} == {
        file.name: file.read_bytes() for file in second.iterdir()
    }


def test_a_matrix_in_a_file_is_written_and_read_in_chunks(tmp_path, monkeypatch):
    release = publish(RATINGS, PROMISE, strategy=JLT(dim=7), users=[f"u{at}" for at in range(100)])
    backed = np.memmap(tmp_path / "rows", np.float32, "w+", shape=release.matrix.shape)
    backed[:] = release.matrix
    monkeypatch.setattr(folder, "_BYTES_AT_ONCE", 300)
    saved = folder.Release(backed, release.users, release.certificate).save(tmp_path / "release")
    assert (load_file(saved / MATRIX)["matrix"] == release.matrix).all()
    assert verify(saved).sha256() == release.sha256()
