import json

import jsonschema
import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from safetensors.numpy import load_file, save

from pricdr import Bounds, Guarantee, Ratings, Release, Unit, publish, verify
from pricdr.data import tables
from pricdr.errors import InputError, MissingExtraError, OutputError, ParameterError, VerificationError
from pricdr.release.certificate import rounded_up, schema_text
from pricdr.release.folder import MATRIX, _header, export_parquet
from pricdr.release.readme import readme, statement
from pricdr.signing import create_keys
from pricdr.strategies import JLT, SJLT, Guided
from tests.forging import reseal

IDS = ("alice", "böb", "0042", 'com,ma "quoted"', " spaced ", "🙂")


@pytest.fixture(scope="module")
def release():
    ratings = Ratings.from_triples(IDS[:-1], ["x", "y", "x", "z", "y"])
    return publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=5), users=IDS)


@pytest.fixture
def folder(release, tmp_path):
    return release.save(tmp_path / "a.release")


FILES = ("README.md", "certificate.json", "release.safetensors", "users.txt")


def test_the_folder_holds_what_the_design_says(folder):
    assert sorted(p.name for p in folder.iterdir()) == sorted(FILES)
    (matrix,) = load_file(folder / "release.safetensors").values()
    assert (matrix.shape, matrix.dtype) == ((6, 5), np.float32)
    assert (folder / "users.txt").read_text(encoding="utf-8").split("\n") == [*IDS, ""]
    loaded = Release.load(folder)
    assert loaded.users == IDS
    assert not loaded.matrix.flags.writeable


def test_the_certificate_obeys_the_committed_schema(folder, pytestconfig):
    committed = (pytestconfig.rootpath / "docs" / "certificate.schema.json").read_text()
    assert committed == schema_text(), "run make schema"
    jsonschema.validate(json.loads((folder / "certificate.json").read_text()), json.loads(committed))


def test_the_contracts_names_are_at_the_top_level(folder):
    content = json.loads((folder / "certificate.json").read_text())
    top = {"schema_version", "private", "epsilon", "delta", "unit", "sigma", "sensitivity", "mu", "grid"}
    assert top | {"strategy", "users", "dim", "files"} <= set(content)
    assert "nominal_epsilon" not in content
    assert content["strategy"]["name"] == "jlt"
    assert content["mu"] == content["sensitivity"] / content["sigma"]


@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_a_missing_or_another_length_is_noticed(folder, name):
    path, content = folder / name, (folder / name).read_bytes()
    step = 17 if name == "certificate.json" else 97  # the other files are hashed whole
    changed = (content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(0, len(content), step))
    for damaged in (content[:-1], content + b"\n", b"", *changed):
        path.write_bytes(damaged)
        with pytest.raises(VerificationError):
            verify(folder)
    path.unlink()
    with pytest.raises(VerificationError, match=f"{name} is missing"):
        verify(folder)


def test_loading_refuses_what_verify_refuses_unless_told_otherwise(folder):
    reseal(folder, epsilon=1.0)
    with pytest.raises(VerificationError):
        Release.load(folder)
    assert Release.load(folder, allow_unverified=True).users == IDS


def test_no_such_folder_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        verify(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="it is not a folder"):
        verify(tmp_path / "file")


def test_signatures(release, tmp_path):
    private, public = create_keys(tmp_path / "ours")
    _, other = create_keys(tmp_path / "theirs")
    folder = release.save(tmp_path / "signed", signing_key=private)
    assert verify(folder)
    assert verify(folder, public_key=public).certificate.signed_by
    with pytest.raises(VerificationError, match="a key other than"):
        verify(folder, public_key=other)
    signature = (folder / "certificate.json.sig").read_bytes()
    for at in range(0, len(signature), 5):
        changed = signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :]
        (folder / "certificate.json.sig").write_bytes(changed)
        with pytest.raises(VerificationError, match="not a valid signature"):
            verify(folder)
    (folder / "certificate.json.sig").unlink()
    with pytest.raises(VerificationError, match=r"certificate.json.sig is missing"):
        verify(folder)
    reseal(folder, signed_by=None)  # stripped
    assert verify(folder)
    with pytest.raises(VerificationError, match="not signed"):
        verify(folder, public_key=public)
    edited = release.save(tmp_path / "edited", signing_key=private)
    reseal(edited, software="pricdr 99.0.0")
    with pytest.raises(VerificationError, match="not a valid signature"):
        verify(edited)


def test_a_folder_of_the_old_format_gets_one_clear_line(folder):
    (folder / "release.safetensors").rename(folder / "release.parquet")
    for load in (verify, lambda old: Release.load(old, allow_unverified=True)):
        with pytest.raises(VerificationError, match=r"holds release\.parquet, the format of older versions"):
            load(folder)


@given(st.floats(1e-6, 1e6))
def test_figures_for_people_never_understate(value):
    assert value * (1 - 2e-9) <= rounded_up(value) <= value * (1 + 1.1e-5)
    assert (rounded_up(4.0 * (1 + 0.9e-9)), rounded_up(4.0 * (1 + 1.5e-9))) == (4.0, 4.00001)


def test_what_people_read_never_understates():
    ratings = Ratings.from_triples(["a"], ["x"])
    certificate = publish(ratings, Guarantee(epsilon=1.00049, delta=1.0000049e-6), users=["a"]).certificate
    text = readme(certificate)
    assert "epsilon = 1.001, delta = 1.00001e-06 and mu = " in text
    stated = [float(word) for word in text.split("epsilon at other deltas: ")[1].split(".\n")[0].split() if "." in word]
    exact = [point.epsilon for point in certificate.epsilon_at_delta]
    assert all(shown >= value for shown, value in zip(stated, exact, strict=True))
    titles = [section.title for section in statement(certificate)]
    assert all(must in text for must in ("one rating", "PRIVATE", "not protected", "No ledger", *titles))


def test_a_representation_is_one_printable_line(release):
    strategy = release.certificate.strategy.model_copy(update={"name": "jlt\x1b[31m\nok"})
    hostile = Release(release.matrix, release.users, release.certificate.model_copy(update={"strategy": strategy}))
    assert repr(hostile).isprintable()
    assert r"jlt\u001b[31m\u000aok" in repr(hostile)


RATINGS = Ratings.from_triples(["a", "b", "b", "c"], ["x", "x", "y", "z"])
USERS = ("b", "a", "nobody", "🙂", " spaced ")
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@given(st.integers(1, 400), st.integers(1, 400))
def test_the_header_is_the_one_that_safetensors_writes(users, dim):
    matrix = np.zeros((users, dim), np.float32)
    assert _header(users, dim) + matrix.tobytes() == save({"matrix": matrix})


RELEASES = {
    "sjlt": lambda: publish(RATINGS, PROMISE, strategy=SJLT(dim=7), users=USERS, items=["x", "y"]),
    "guided": lambda: publish(RATINGS, PROMISE, strategy=Guided(guide=RELEASES["sjlt"]()), users=USERS, issuer="F&C"),
    "user": lambda: publish(RATINGS, Guarantee(epsilon=4, delta=1e-6, unit=Unit.USER), bounds=Bounds(clip=2)),
    "noiseless": lambda: publish(RATINGS, PROMISE, strategy=JLT(dim=3), users=USERS, insecure_no_noise=True),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("signed", [False, True])
def test_a_release_survives_the_round_trip_and_is_saved_in_the_same_bytes(tmp_path, name, signed):
    key = create_keys(tmp_path / "key")[0] if signed else None
    release = RELEASES[name]()
    first = release.save(tmp_path / "first", signing_key=key)
    loaded = verify(first)
    assert (loaded.matrix.tobytes(), loaded.users) == (release.matrix.tobytes(), release.users)
    assert loaded.sha256() == release.sha256()
    assert loaded.certificate.model_copy(update={"files": {}, "signed_by": None}) == release.certificate
    assert "NOT PRIVATE" in readme(loaded.certificate) or loaded.certificate.private
    second = loaded.save(tmp_path / "second", signing_key=key)
    assert {file.name: file.read_bytes() for file in first.iterdir()} == {
        file.name: file.read_bytes() for file in second.iterdir()
    }


def test_a_matrix_in_a_file_is_written_and_read_in_chunks(tmp_path, monkeypatch):
    release = publish(RATINGS, PROMISE, strategy=JLT(dim=7), users=[f"u{at}" for at in range(100)])
    backed = np.memmap(tmp_path / "rows", np.float32, "w+", shape=release.matrix.shape)
    backed[:] = release.matrix
    monkeypatch.setattr("pricdr.release.folder._BYTES_AT_ONCE", 300)
    saved = Release(backed, release.users, release.certificate).save(tmp_path / "release")
    assert (load_file(saved / MATRIX)["matrix"] == release.matrix).all()
    assert verify(saved).sha256() == release.sha256()


def test_a_frame_is_of_the_library_that_is_installed_and_without_any_there_is_one_clear_line(release, monkeypatch):
    for library in ("polars", "pandas", "pyarrow"):
        monkeypatch.setattr(tables, "find_spec", lambda name, library=library: name == library)
        frame = release.to_frame()
        assert type(frame).__module__.startswith(library)
        users, rows = frame.to_pydict().values() if library == "pyarrow" else (frame["user"], frame["vector"])
        assert list(users) == list(IDS)
        assert (np.stack([np.asarray(row, np.float32) for row in rows]) == release.matrix).all()
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="polars, pandas or pyarrow"):
        release.to_frame()


def test_an_export_holds_the_rows_of_the_release(release, tmp_path):
    frame = pl.read_parquet(export_parquet(release, tmp_path / "it's.parquet"))
    assert frame.schema == {"user": pl.String, "vector": pl.List(pl.Float32)}
    assert frame["user"].to_list() == list(IDS)
    assert np.stack(frame["vector"].to_list()).astype(np.float32).tobytes() == release.matrix.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["it's.parquet"]


def test_an_export_is_a_new_file_beside_releases(release, tmp_path):
    folder = release.save(tmp_path / "r")
    with pytest.raises(OutputError, match="would spoil it"):
        export_parquet(release, folder / "rows.parquet")
    with pytest.raises(ParameterError, match=r"must end in \.parquet, got 'rows\.csv'"):
        export_parquet(release, tmp_path / "rows.csv")
    (tmp_path / "taken.parquet").touch()
    with pytest.raises(OutputError, match="exists already"):
        export_parquet(release, tmp_path / "taken.parquet")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r", "taken.parquet"]
