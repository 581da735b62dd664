"""A fitted model on disk: MODEL/model.safetensors, model.json, items.txt, users.txt. No pickle.

Beside them lies a copy of the certificate of the release that the model was trained with, where there was one.
A model folder is not trusted: sizes, names, types and every number are checked before anything is computed.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from pricdr.data.csr import CSR, checked_csr, sp
from pricdr.data.ids import MAX_ID_LENGTH, Ids, id_lines, parse_id_lines
from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError, MemoryLimitError, VerificationError
from pricdr.extensions import is_name
from pricdr.files import take_mode
from pricdr.memory import memory_limit, require_memory
from pricdr.models.catalogue import MOST
from pricdr.models.fitted import (
    MAX_RELEASES,
    Chosen,
    FittedModel,
    HistorySummary,
    Origin,
    ReleaseOrigin,
    Trust,
    Vectors,
)
from pricdr.models.fold_in import Encoders, Tower
from pricdr.models.interaction import Interaction
from pricdr.untrusted import Folder

SCHEMA_VERSION: Final = 7  # the only one that is read: 6 knew no series
_RECORD: Final = "model.json"
_ARRAYS: Final = "model.safetensors"
_MAX_RECORD: Final = 1 << 20
_MAX_HEADER: Final = 1 << 16  # bytes of the header, which names the arrays: about a hundred for each of a dozen

Arrays: TypeAlias = dict[str, NDArray[Any]]
Record: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Any], bool]


def _whole(value: object, most: int = 2**63 - 1) -> bool:
    return type(value) is int and 0 <= value <= most


def _number(value: object) -> bool:
    return (type(value) is int and -(2**63) <= value < 2**63) or (isinstance(value, float) and math.isfinite(value))


def _share(value: Any) -> bool:  # noqa: ANN401 - whatever JSON can hold
    return _number(value) and 0 <= value <= 1


def _text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 1000


def _setting(value: object) -> bool:
    return isinstance(value, bool | str) or _number(value)


def _table(rule: Rule) -> Rule:
    return lambda value: isinstance(value, dict) and all(_text(key) and rule(own) for key, own in value.items())


def _two(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and len(value) == 2 and all(map(rule, value))


def _list(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and len(value) <= MAX_RELEASES and all(map(rule, value))


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


_OF_CHOSEN: Final[Mapping[str, Rule]] = {
    "epochs": _table(lambda value: _whole(value, MOST)),
    "trust": _or_none(_two(_share)),
    "settings": _table(_number),
    "evidence": _or_none(_list(_share)),
    "used": _or_none(_list(_whole)),
    "not_chosen": _text,
}
_OF_ORIGIN: Final[Mapping[str, Rule]] = {
    "trained_on": _or_none(_text),
    "plaintext_source": lambda value: isinstance(value, bool),
    "software": _or_none(_text),
}
_OF_RELEASE: Final[Mapping[str, Rule]] = {
    "sha256": _text,
    "signed_by": _or_none(lambda value: _text(value) and re.fullmatch("[A-Za-z0-9+/]{43}=", value) is not None),
    "verified": lambda value: value is None or isinstance(value, bool),
    "covers": _or_none(_two(_whole)),
    "source": lambda value: _whole(value, MAX_RELEASES),
}
_RECORDED: Final[Mapping[str, Rule]] = {
    # Only a name: a model holds numbers, and whatever made it need not be installed to recommend with it. Nothing is
    # looked up or imported because a folder says so.
    "method": lambda value: isinstance(value, str) and is_name(value),
    "config": _table(lambda value: _setting(value) or _table(_setting)(value)),
    **_OF_ORIGIN,
    "releases": lambda value: (
        isinstance(value, list) and len(value) <= MAX_RELEASES and all(isinstance(one, dict) for one in value)
    ),
    "chosen": lambda value: isinstance(value, dict),
    "schema_version": lambda value: type(value) is int and value == SCHEMA_VERSION,
}
"""What ``model.json`` says, in the order people read it in, and what each of it must be."""


def write_model(folder: Path, model: FittedModel) -> None:
    """Write ``model`` into an existing folder."""
    if model.origin is None:
        raise InputError("only a model that was fitted can be saved: this one does not say what it was trained on")
    if len(model.origin.releases) > MAX_RELEASES:
        raise InputError(
            f"a model is kept with at most {MAX_RELEASES} releases, those folded in included: train it again"
        )
    if not is_name(model.method):
        raise InputError(f"method {shorten(model.method)} is no name of a method: small letters, digits, - and _")
    arrays = {
        **_pack("user_vectors", model.user_vectors),
        **_pack("item_vectors", model.item_vectors),
        "item_bias": model.item_bias,
        "in_release": model.in_release.astype(np.uint8),
        **({} if model.uses_history else {"uses_history": np.zeros(1, dtype=np.uint8)}),
    }
    if model.interaction is not None:
        arrays["interaction/user_parts"] = model.interaction.user_parts
        arrays["interaction/item_parts"] = model.interaction.item_parts
        for index, (weights, bias) in enumerate(model.interaction.layers):
            arrays |= {f"interaction/{index}/weights": weights, f"interaction/{index}/bias": bias}
    if (encoders := model.encoders) is not None:
        widths = [part.stop - part.start for part in encoders.columns]
        arrays |= {"encoders/rows": encoders.rows, "encoders/widths": np.array(widths, dtype=np.int64)}
        arrays["encoders/scale"] = np.array([encoders.scale], dtype=np.float32)
        for name, tower in (("history", encoders.history), ("source", encoders.source)):
            arrays |= {f"encoders/{name}/{part}": own for part, own in (tower._asdict() if tower else {}).items()}
    if model.summary is not None:
        arrays["item_counts"] = model.summary.item_counts
        arrays["has_history"] = model.summary.has_history.astype(np.uint8)
    else:
        arrays["seen_starts"] = model.seen.indptr.astype(np.int64)
        arrays["seen_items"] = model.seen.indices.astype(np.int64)
    save_file({name: np.ascontiguousarray(part) for name, part in arrays.items()}, folder / _ARRAYS)
    take_mode(folder / _ARRAYS)
    origin = {name: getattr(model.origin, name) for name in _OF_ORIGIN}
    releases = [{name: getattr(one, name) for name in _OF_RELEASE} for one in model.origin.releases]
    record = {"method": model.method, "config": model.origin.settings, **origin, "releases": releases}
    record |= {"chosen": asdict(model.chosen), "schema_version": SCHEMA_VERSION}
    (folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for number, release in enumerate(model.origin.releases, 1):
        if release.certificate is not None:
            (folder / certificate_name(number)).write_bytes(release.certificate.to_bytes())
    (folder / "users.txt").write_bytes(id_lines(model.users))
    (folder / "items.txt").write_bytes(id_lines(model.items))


def read_model(folder: Path, *, public_key: Path | None = None) -> FittedModel:
    """Return the model in ``folder``, see :meth:`FittedModel.load`."""
    with Folder.opened(folder, "a model") as opened:
        record = _read_record(opened)
        releases = tuple(_read_release(opened, number, one) for number, one in enumerate(record["releases"], 1))
        if opened.holds(beyond := certificate_name(len(releases) + 1)):
            raise InputError(f"{opened.path / beyond} is not the certificate of the release that {_RECORD} names")
        users, items = _ids(opened, "user"), _ids(opened, "item")
        content = opened.read(_ARRAYS, limit=memory_limit() * 2 // 5)  # held twice while it is decoded
    # Before the arrays are decoded: a model that may not be used is not worth the work.
    if public_key is not None:
        _require_signed_by(record, folder, public_key)
    try:
        arrays = _Arrays(content)
        del content  # the arrays are copies, and as large again
        return _model(record, releases, users, items, arrays)
    except InputError as error:
        raise InputError(f"{folder / _ARRAYS} holds no model that can be read: {error}") from error


def _require_signed_by(record: Record, folder: Path, public_key: Path) -> None:
    """Refuse a model trained on a release that this key did not sign; one without a release passes."""
    from pricdr.signing import public_text, read_public_key

    expected = public_text(read_public_key(public_key))
    for release in record["releases"]:
        if release["signed_by"] is None:
            raise VerificationError(f"{folder} was trained on a release that was not signed, or that was not verified")
        if release["signed_by"] != expected:
            raise VerificationError(f"{folder} was trained on a release signed with a key other than {public_key}")


def certificate_name(number: int) -> str:
    """Return what a copy is called: not certificate.json, since by that name a folder is taken for a release."""
    return f"release{'' if number == 1 else f'-{number}'}.certificate.json"


def _read_release(opened: Folder, number: int, record: Record) -> ReleaseOrigin:
    """Return what is recorded of a release, its certificate whole and unchanged; whether its figures hold is open."""
    name = certificate_name(number)
    path = opened.path / name
    covers = record["covers"] and tuple(record["covers"])
    origin = ReleaseOrigin(**{**record, "covers": covers})
    if not opened.holds(name):
        return origin
    from pricdr.release.certificate import MAX_BYTES, Certificate
    from pricdr.release.folder import MATRIX

    try:
        certificate = Certificate.from_bytes(opened.read(name, limit=MAX_BYTES))
    except VerificationError as error:
        raise InputError(f"{path}: {error}") from error
    # One that was made in memory names no files: nothing has been written then.
    if certificate.files.get(MATRIX, origin.sha256) != origin.sha256:
        raise InputError(f"{path} is not the certificate of the release that {_RECORD} names")
    if origin.signed_by not in (None, certificate.signed_by):
        raise InputError(f"{path} is signed with a key other than the one that {_RECORD} names")
    return replace(origin, certificate=certificate)


def _ids(opened: Folder, kind: str) -> Ids:
    path = opened.path / f"{kind}s.txt"
    content = opened.read(path.name, limit=memory_limit() // 4)
    try:
        return parse_id_lines(kind, content)
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{path}: {error}") from error
    except InputError as error:
        # Its words quote the id; these end up in the log of a server, which holds none.
        raise InputError(
            f"{path} must hold one {kind} id per line: none empty, there twice, over {MAX_ID_LENGTH:,} characters, or "
            "anything but plain text in UTF-8"
        ) from error


def _read_record(opened: Folder) -> Record:
    path = opened.path / _RECORD
    if not opened.holds(_RECORD):
        raise InputError(f"{opened.path} is not a model: there is no {_RECORD} in it (pricdr train makes one)")
    raw = opened.read(_RECORD, limit=_MAX_RECORD)
    try:
        record = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # a ValueError also where a number has thousands of digits
        raise InputError(f"{path} is not JSON that can be read") from error
    version = record.get("schema_version") if isinstance(record, dict) else None
    if not _RECORDED["schema_version"](version):
        rule = f"this software reads {SCHEMA_VERSION}: train it again"
        raise InputError(f"{path} has schema_version {version!r:.40}, {rule}")
    _require_fields(path, "", record, _RECORDED)
    _require_fields(path, "chosen.", record["chosen"], _OF_CHOSEN)
    for number, release in enumerate(record["releases"]):
        _require_fields(path, f"releases.{number}.", release, _OF_RELEASE)
    return record  # type: ignore[no-any-return]


def _require_fields(path: Path, within: str, fields: Record, rules: Mapping[str, Rule]) -> None:
    for name in sorted(rules.keys() ^ fields.keys()):
        wrong = "is missing" if name in rules else "does not belong there"
        raise InputError(f"{path}: {within}{shorten(name)} {wrong}")
    for name, rule in rules.items():
        if not rule(fields[name]):
            raise InputError(f"{path}: {within}{name} is nothing that a model records: {shorten(fields[name])}")


class _Arrays:
    """The arrays of a model file. Each is taken once, by name and type; whatever is left over is refused."""

    def __init__(self, content: bytes) -> None:
        if int.from_bytes(content[:8], "little") > _MAX_HEADER:
            raise InputError(f"its header has more than {_MAX_HEADER:,} bytes")
        try:
            self._left: Arrays = load(content)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:  # the last three: a type that numpy lacks
            raise InputError(f"{error!s:.200}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, kind: type[np.generic], dimensions: int) -> NDArray[Any]:
        """Take the array of this name, which must have this type and number of dimensions."""
        if name not in self._left:
            raise InputError(f"there is no array {name!r}")
        array = self._left.pop(name)
        if array.dtype != kind or array.ndim != dimensions:
            raise InputError(
                f"{name} must be {kind.__name__} with {dimensions} dimensions, got {array.dtype} with {array.ndim}"
            )
        return array

    def flags(self, name: str, *, dimensions: int = 1) -> NDArray[np.bool_]:
        flags = self.take(name, np.uint8, dimensions)
        if (flags > 1).any():
            raise InputError(f"{name} must hold zeros and ones")
        return flags.astype(bool)

    def require_empty(self) -> None:
        if self._left:
            raise InputError(f"the array {min(self._left)!r:.60} does not belong to a model")


def _model(record: Record, releases: tuple[ReleaseOrigin, ...], users: Ids, items: Ids, arrays: _Arrays) -> FittedModel:
    user_vectors = _unpack("user_vectors", arrays, len(users))
    item_vectors = _unpack("item_vectors", arrays, len(items))
    sparse = isinstance(user_vectors, sp.csr_array), isinstance(item_vectors, sp.csr_array)
    if all(sparse) and user_vectors.shape[1] != len(items):
        raise InputError(f"sparse vectors of both sides must have one number per item, got {user_vectors.shape[1]}")
    if sparse == (True, False):
        item_vectors = np.asfortranarray(item_vectors)  # else scipy copies all of it for every product
    seen, summary = _unpack_histories(arrays, (len(users), len(items)))
    uses_history = "uses_history" not in arrays or bool(arrays.flags("uses_history").any())
    chosen = record["chosen"]
    trust = None if chosen["trust"] is None else Trust(*chosen["trust"])
    origin = {name: record[name] for name in _OF_ORIGIN}
    lists = {name: None if chosen[name] is None else tuple(chosen[name]) for name in ("evidence", "used")}
    model = FittedModel(
        method=record["method"],
        users=users,
        items=items,
        user_vectors=user_vectors,
        item_vectors=item_vectors,
        item_bias=arrays.take("item_bias", np.float32, 1),
        seen=seen,
        in_release=arrays.flags("in_release", dimensions=2),
        interaction=_unpack_interaction(arrays),
        encoders=_unpack_encoders(arrays),
        uses_history=uses_history,
        summary=summary,
        chosen=Chosen(**{**chosen, **lists, "trust": trust}),
        origin=Origin(settings=record["config"], releases=releases, **origin),
    )
    arrays.require_empty()
    return model


def _pack(name: str, vectors: Vectors) -> Arrays:
    """Return dense vectors as they are; sparse ones as the three arrays of a CSR matrix and its width."""
    if not isinstance(vectors, sp.csr_array):
        return {name: vectors}
    vectors = vectors.sorted_indices()
    return {
        f"{name}/data": vectors.data.astype(np.float32),
        f"{name}/indices": vectors.indices.astype(np.int64),
        f"{name}/indptr": vectors.indptr.astype(np.int64),
        f"{name}/width": np.array([vectors.shape[1]], dtype=np.int64),
    }


def _unpack(name: str, arrays: _Arrays, rows: int) -> Vectors:
    if name in arrays:
        return arrays.take(name, np.float32, 2)
    width = arrays.take(f"{name}/width", np.int64, 1).tolist()
    if len(width) != 1 or not 0 <= width[0] < 2**31:
        raise InputError(f"{name}/width must be one number from 0 to 2^31 - 1")
    return checked_csr(
        name,
        arrays.take(f"{name}/data", np.float32, 1),
        arrays.take(f"{name}/indices", np.int64, 1),
        arrays.take(f"{name}/indptr", np.int64, 1),
        (rows, width[0]),
    )


def _unpack_histories(arrays: _Arrays, shape: tuple[int, int]) -> tuple[CSR, HistorySummary | None]:
    if "item_counts" in arrays:
        summary = HistorySummary(arrays.take("item_counts", np.float32, 1), arrays.flags("has_history"))
        return sp.csr_array(shape), summary
    columns, starts = (arrays.take(name, np.int64, 1) for name in ("seen_items", "seen_starts"))
    checked = checked_csr("seen", np.ones(len(columns), dtype=np.int8), columns, starts, shape)
    # Five bytes a rating, not sixteen: there may be hundreds of millions.
    narrow = np.int32 if max(len(columns), *shape) < 2**31 else np.int64
    parts = checked.data, checked.indices.astype(narrow), checked.indptr.astype(narrow)
    return sp.csr_array(parts, shape=shape), None


def _unpack_interaction(arrays: _Arrays) -> Interaction | None:
    if "interaction/user_parts" not in arrays:
        return None
    user_parts, item_parts = (arrays.take(f"interaction/{part}_parts", np.float32, 2) for part in ("user", "item"))
    layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    while f"interaction/{len(layers)}/bias" in arrays:
        name = f"interaction/{len(layers)}"
        layers.append((arrays.take(f"{name}/weights", np.float32, 2), arrays.take(f"{name}/bias", np.float32, 1)))
    widest = max((len(bias) for _, bias in layers), default=0)
    require_memory(8 * len(item_parts) * widest, f"scoring {len(item_parts):,} items in a layer of {widest:,} numbers")
    return Interaction(user_parts, item_parts, tuple(layers))


def _unpack_encoders(arrays: _Arrays) -> Encoders | None:
    if "encoders/rows" not in arrays:
        return None
    rows, scale = arrays.take("encoders/rows", np.float32, 2), arrays.take("encoders/scale", np.float32, 1).tolist()
    if len(scale) != 1:
        raise InputError("encoders/scale must be one number")
    widths = arrays.take("encoders/widths", np.int64, 1)
    if len(widths) > MAX_RELEASES or (widths < 1).any() or (widths > rows.shape[1]).any():
        raise InputError("encoders/widths must hold one number of columns for each release in use")
    ends = np.cumsum(widths).tolist()
    parts = tuple(slice(end - width, end) for end, width in zip(ends, widths.tolist(), strict=True))
    history, source = (
        Tower(
            *(arrays.take(f"encoders/{name}/{part}", np.float32, 1 if "bias" in part else 2) for part in Tower._fields)
        )
        if f"encoders/{name}/first" in arrays
        else None
        for name in ("history", "source")
    )
    if history is None:
        raise InputError("there is no array 'encoders/history/first'")
    return Encoders(scale[0], history, source, rows, parts)
