"""A model folder from outside: whatever it holds, one line that names the file, and never a crash or a wrong number."""

import json
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pricdr.errors import InputError, VerificationError
from pricdr.models.fitted import Chosen, FittedModel, ReleaseOrigin, Trust
from pricdr.models.folder import read_model, write_model
from pricdr.models.methods.factorisation import BPR, BPRConfig, NeuMF, NeuMFConfig
from pricdr.models.methods.hetero import HeteroCDR, SourceStageConfig
from pricdr.models.methods.linear import EASE, ItemKNN
from pricdr.signing import create_keys, public_text, read_public_key
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions

QUICK = TrainingOptions(epochs=1, batch=64, device="cpu")
FAR = 2**62


@pytest.fixture(scope="module")
def fitted():
    """A model of each kind of arrays."""
    target = Planted.pair().target
    return {
        "itemknn": ItemKNN().fit(target),
        "ease": EASE().fit(target),
        "bpr": BPR(config=BPRConfig(width=4), options=QUICK).fit(target),
        "neumf": NeuMF(config=NeuMFConfig(product_width=4, width=8), options=QUICK).fit(target),
        "towers": HeteroCDR(config=SourceStageConfig(hidden=5, width=4, base="dmf"), options=QUICK).fit(
            target, Planted.pair().release, chosen=Chosen(epochs={"target": 1, "source": 1}, trust=Trust(0.5, 1.0))
        ),
    }


@pytest.fixture
def folder(fitted, tmp_path):
    """Write a model, with its arrays changed."""

    def write(name="itemknn", change=lambda arrays: None):
        write_model(tmp_path, fitted[name])
        arrays = load_file(tmp_path / "model.safetensors")
        change(arrays)
        save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, tmp_path / "model.safetensors")
        return tmp_path

    return write


def refuses(folder, *says):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as raised:
            read_model(folder)
    message = str(raised.value)
    assert str(folder) in message
    assert message.isprintable()
    assert len(message) < 500
    for words in says:
        assert words in message
    return message


def put(name, at, value):
    return lambda arrays: arrays[name].__setitem__(at, value)


def longer(name, value):
    return lambda arrays: arrays.update({name: np.append(arrays[name], np.array([value], arrays[name].dtype))})


def shorter(name, kept=-1):
    return lambda arrays: arrays.update({name: arrays[name][:kept]})


def put_wider(name, axis):
    return lambda arrays: arrays.update({name: np.concatenate([arrays[name]] * 3, axis=axis)})


def swapped(name, left, right):
    return lambda arrays: put(name, [left, right], arrays[name][[right, left]])(arrays)


def retyped(name, dtype):
    return lambda arrays: arrays.update({name: arrays[name].astype(dtype)})


def both(*changes):
    return lambda arrays: [change(arrays) for change in changes]


def everywhere(columns, starts):
    yield f"{columns} one too far", put(columns, -1, 40)
    yield f"{columns} far below zero", put(columns, 3, -FAR)
    yield f"{columns} not rising", swapped(columns, 0, 1)
    yield f"{columns} twice", lambda arrays: put(columns, 1, arrays[columns][0])(arrays)
    yield f"{columns} one more", longer(columns, 0)
    yield f"{columns} none", shorter(columns, 0)
    yield f"{starts} below zero", put(starts, 1, -8)
    yield f"{starts} that wrap round", both(put(starts, 1, 2**63 - 1), put(starts, 2, -(2**63)))
    yield f"{starts} falling", swapped(starts, 2, 5)
    yield f"{starts} not from zero", put(starts, 0, 1)
    yield f"{starts} to a wrong end", put(starts, -1, FAR)
    yield f"{starts} one more", longer(starts, 0)
    yield f"{starts} none", shorter(starts, 0)


PLACES = {
    name: change
    for columns, starts in (("seen_items", "seen_starts"), ("item_vectors/indices", "item_vectors/indptr"))
    for name, change in everywhere(columns, starts)
}


@pytest.mark.parametrize("name", PLACES)
def test_places_outside_a_matrix_are_refused(folder, name):
    refuses(folder("itemknn", PLACES[name]), "model.safetensors")


ARRAYS = {
    "another array": ("itemknn", lambda a: a.update(extra=np.zeros(1)), "'extra' does not belong"),
    "a name that prints": ("itemknn", lambda a: a.update({"\x1b[31m": np.zeros(1)}), "does not belong"),
    "no bias": ("itemknn", lambda a: a.pop("item_bias"), "no array 'item_bias'"),
    "both kinds of vectors": ("bpr", lambda a: a.update({"user_vectors/width": np.array([4])}), "does not belong"),
    "both kinds of histories": ("bpr", lambda a: a.update(item_counts=np.zeros(40, np.float32)), "'has_history'"),
    "half a layer": ("neumf", lambda a: a.pop("interaction/0/weights"), "no array"),
    "a layer left out": ("neumf", lambda a: a.pop("interaction/1/bias"), "do not fit each other"),
    "a bias of doubles": ("bpr", retyped("item_bias", np.float64), "float32"),
    "short indices": ("bpr", retyped("seen_items", np.int32), "int64"),
    "flat vectors": ("bpr", lambda a: a.update(user_vectors=a["user_vectors"].ravel()), "2 dimensions"),
    "a bias that is short": ("bpr", shorter("item_bias"), "do not fit"),
    "flags that are short": ("bpr", shorter("in_release"), "do not fit"),
    "flags of seven": (
        "bpr",
        lambda a: a.update(in_release=np.full((len(a["in_release"]), 1), 7, np.uint8)),
        "zeros and ones",
    ),
    "parts that are short": ("neumf", shorter("interaction/user_parts"), "do not fit"),
    "a width below zero": ("ease", put("user_vectors/width", 0, -1), "width"),
    "two widths": ("ease", longer("user_vectors/width", 40), "width"),
    "a width nobody has memory for": (
        "itemknn",
        both(put("user_vectors/width", 0, 2**31 - 1), put("item_vectors/width", 0, 2**31 - 1)),
        "one number per item",
    ),
    "nan in a vector": ("bpr", put("user_vectors", (0, 0), np.nan), "finite"),
    "infinity in a bias": ("bpr", put("item_bias", 0, np.inf), "finite"),
    "nan in a sparse vector": ("itemknn", put("item_vectors/data", 0, np.nan), "finite"),
    "nan in a layer": ("neumf", put("interaction/0/weights", (0, 0), np.nan), "finite"),
    "infinity in a layer's bias": ("neumf", put("interaction/0/bias", 0, -np.inf), "finite"),
    "vectors whose product overflows": (
        "bpr",
        both(put("user_vectors", (0, 0), 1e30), put("item_vectors", (0, 0), -1e30)),
        "scores",
    ),
    "a bias next to the end of numbers": ("bpr", put("item_bias", 0, 3e38), "scores"),
    "sparse vectors whose product overflows": (
        "itemknn",
        both(put("user_vectors/data", 0, 1e30), put("item_vectors/data", 0, 1e30)),
        "scores",
    ),
    "a tower of other items": ("towers", shorter("encoders/history/first"), "the history tower of a model does not"),
    "a tower that is narrower inside": ("towers", shorter("encoders/source/first_bias"), "the source tower of a model"),
    "a tower that is wider than vectors": (
        "towers",
        both(put_wider("encoders/history/last", 1), put_wider("encoders/history/bias", 0)),
        "the history tower of a model",
    ),
    "a tower with infinity in it": ("towers", put("encoders/history/last", (0, 0), np.inf), "finite numbers"),
    "a length that is no number": ("towers", put("encoders/scale", 0, np.nan), "finite numbers"),
    "two lengths": ("towers", longer("encoders/scale", 1), "scale"),
    "a tower without its end": ("towers", lambda arrays: arrays.pop("encoders/history/bias"), "encoders/history/bias"),
    "no tower for histories": (
        "towers",
        lambda arrays: [arrays.pop(name) for name in list(arrays) if name.startswith("encoders/history/")],
        "encoders/history/first",
    ),
    "rows of release that nobody has": ("towers", shorter("encoders/rows"), "do not fit"),
    "widths of rows that lie": ("towers", put("encoders/widths", 0, 7), "do not fit"),
    "widths below zero": ("towers", put("encoders/widths", 0, -8), "one number of columns for each release"),
    "widths that wrap round": (
        "towers",
        both(put("encoders/widths", 0, FAR), longer("encoders/widths", FAR)),
        "one number of columns for each release",
    ),
    "layers that overflow": (
        "neumf",
        both(put("interaction/0/weights", (0, 0), 1e25), put("interaction/1/weights", (0, 0), -1e25)),
        "scores",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_not_a_models_are_refused(folder, name):
    kind, change, says = ARRAYS[name]
    refuses(folder(kind, change), "model.safetensors", says)


@pytest.mark.parametrize(("kind", "part"), [("bpr", ""), ("itemknn", "/data")])
def test_large_numbers_that_pass_give_numbers(folder, kind, part):
    where = folder(kind, both(put(f"user_vectors{part}", ..., 1e18), put(f"item_vectors{part}", ..., -1e18)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = read_model(where)
        assert np.isfinite(model.score(np.arange(len(model.users)))).all()


def test_a_layer_that_would_fill_the_memory_is_refused(folder, monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "110MB")

    def widen(arrays):
        width, out = arrays["interaction/0/weights"].shape[1], 360_000
        for name in [key for key in arrays if key.startswith("interaction/") and key[12].isdigit()]:
            arrays.pop(name)
        arrays["interaction/0/weights"] = np.zeros((out, width), np.float32)
        arrays["interaction/0/bias"] = np.zeros(out, np.float32)

    refuses(folder("neumf", widen), "layer of 360,000 numbers", "PRICDR_MEMORY")


def header(size, content=b"{}"):
    return lambda file: file.write_bytes(size.to_bytes(8, "little") + content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff" * 100),
        header(2**63),
        header(1 << 17, b" " * (1 << 17)),
        header(100_000, b"[" * 100_000),
        header(2009, b'{"a": "' + b"x" * 2000 + b'"}'),
        lambda file: file.write_bytes(file.read_bytes() + b"more"),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: file.unlink(),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "users.txt", "model.json"])
def test_a_file_that_is_none_is_refused(folder, spoil, name):
    where = folder("bpr")
    spoil(where / name)
    refuses(where)


CHOSEN = {"epochs": {}, "trust": None, "settings": {}, "evidence": None, "used": None, "not_chosen": ""}
RELEASE = {"sha256": "0" * 64, "signed_by": None, "verified": None, "covers": None, "source": 0}
JSON = {
    "an extra key": {"note": "trust me"},
    "a method that is a module": {"method": "os:system"},
    "a method that prints": {"method": "\x1b[31mred\n\u202e"},
    "a very long method": {"method": "x" * 500_000},
    "a number as a fingerprint": {"trained_on": 5},
    "one as a flag": {"plaintext_source": 1},
    "settings three deep": {"config": {"a": {"b": {"c": 1}}}},
    "a setting of 10^400": {"config": {"a": 10**400}},
    "a setting that is no number": {"config": {"a": float("nan")}},
    "a key holder that is no key": {"releases": [{**RELEASE, "signed_by": "somebody"}]},
    "a release of no hash": {"releases": [{**RELEASE, "sha256": 5}]},
    "a release that is none": {"releases": [5]},
    "a release with more to say": {"releases": [{**RELEASE, "note": "trust me"}]},
    "hundreds of releases": {"releases": [RELEASE] * 513},
    "a release of source -1": {"releases": [{**RELEASE, "source": -1}]},
    "a release of half a source": {"releases": [{**RELEASE, "source": 0.5}]},
    "a release of a source true": {"releases": [{**RELEASE, "source": True}]},
    "a release of a source far away": {"releases": [{**RELEASE, "source": 10**400}]},
    "a release of no source": {"releases": [{name: RELEASE[name] for name in ("sha256", "signed_by", "covers")}]},
    "a use of release -1": {"chosen": {**CHOSEN, "used": [-1]}},
    "evidence above 1": {"chosen": {**CHOSEN, "evidence": [1.5]}},
    "version 10^400": {"schema_version": 10**400},
    "version true": {"schema_version": True},
    "version 5": {"schema_version": 5},
    "a part trained for -1 epochs": {"chosen": {**CHOSEN, "epochs": {"training": -1}}},
    "a part trained for 10^9 epochs": {"chosen": {**CHOSEN, "epochs": {"training": 10**9}}},
    "trust above 1": {"chosen": {**CHOSEN, "trust": [0.0, 1.5]}},
    "a chosen setting that is no number": {"chosen": {**CHOSEN, "settings": {"scale": float("inf")}}},
    "a very long reason": {"chosen": {**CHOSEN, "not_chosen": "x" * 5000}},
    "nothing about what was chosen": {"chosen": {}},
}
TEXTS = [
    "[" * 100_000,
    '{"schema_version": 7, "config": ' + '{"a":' * 100_000,
    '{"schema_version": 7, "config": {"a": ' + "9" * 5000 + "}}",
    '{"schema_version": 7, "config": {"a": 1e400}}',
    "null",
    '{"schema_version": 7, "method": "\\ud800"}',
    "\ufeff{}",
]


@pytest.mark.parametrize("description", [*JSON, *TEXTS], ids=lambda description: description[:40])
def test_a_description_that_is_not_ours_is_refused(folder, description):
    file = folder("bpr") / "model.json"
    known = JSON.get(description)
    text = description if known is None else json.dumps(json.loads(file.read_text()) | known)
    file.write_text(text, encoding="utf-8")
    version = ["schema_version 5, this software reads 7: train it again"] if description == "version 5" else []
    refuses(file.parent, "model.json", *version)


def test_a_description_of_100_megabytes_is_not_read(folder):
    where = folder("bpr")
    os.truncate(where / "model.json", 100 << 20)
    refuses(where, "model.json", "at most 1,048,576 are allowed")


USERS = Planted.pair().target.users


@pytest.mark.parametrize(
    "ids", [USERS[:-1], [*USERS, "more"], *([name, *USERS[1:]] for name in (USERS[1], "", "a\rb", "a" * 1001, "\x1b"))]
)
def test_ids_that_no_list_may_hold_are_refused(folder, ids):
    where = folder("bpr")
    (where / "users.txt").write_text("".join(f"{name}\n" for name in ids))
    refuses(where)


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-1], lambda raw: raw + b"\n", lambda raw: b"\xff" + raw[1:]])
def test_a_list_of_ids_has_one_spelling(folder, spoil):
    where = folder("bpr")
    (where / "items.txt").write_bytes(spoil((where / "items.txt").read_bytes()))
    assert "i0" not in refuses(where, "items.txt must hold one item id per line")


def test_more_ids_than_memory_are_refused_before_they_are_decoded(folder, monkeypatch):
    where = folder("bpr")
    (where / "users.txt").write_bytes(b"u\n" * 1_000_000)
    monkeypatch.setenv("PRICDR_MEMORY", "100MB")
    refuses(where, "a list of 1,000,000 user ids needs about 166.0 MB", "PRICDR_MEMORY")


def test_a_public_key_lets_in_only_models_of_releases_that_it_signed(planted, tmp_path):
    (_, mine), (_, theirs) = create_keys(tmp_path / "mine"), create_keys(tmp_path / "theirs")
    model = EASE().fit(planted.target)
    unsigned = replace(model.origin, releases=(ReleaseOrigin("0" * 64),))
    signed = replace(model.origin, releases=(ReleaseOrigin("0" * 64, public_text(read_public_key(mine))),))
    for name, origin in (("target", model.origin), ("unsigned", unsigned), ("signed", signed)):
        replace(model, origin=origin).save(tmp_path / name)
    for name, key in (("target", mine), ("target", theirs), ("signed", mine)):
        FittedModel.load(tmp_path / name, public_key=key)
    with pytest.raises(VerificationError, match="signed with a key other than"):
        FittedModel.load(tmp_path / "signed", public_key=theirs)
    with pytest.raises(VerificationError, match="was not signed, or that was not verified"):
        FittedModel.load(tmp_path / "unsigned", public_key=mine)
