"""A fitted model on disk: MODEL/model.safetensors, model.json, items.parquet, users.parquet. No pickle."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pricdr.data.ratings import Ids
from pricdr.errors import InputError
from pricdr.models.factors import Factors, Vectors
from pricdr.models.interaction import Interaction

Arrays = dict[str, NDArray[Any]]
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class About:
    """What a model is and what it was trained on."""

    method: str
    config: dict[str, Any]
    trained_on: str
    """Fingerprint of the training ratings."""
    release: str | None
    """SHA-256 of the release's matrix file, where one was used."""
    preset: str = "default"
    plaintext_source: bool = False
    """NOT PRIVATE: the source's ratings were read as they are."""
    schema_version: int = SCHEMA_VERSION


def save_model(folder: Path, model: Factors, about: About) -> None:
    """Write ``model`` into an existing folder."""
    arrays = {
        **_pack("user_vectors", model.user_vectors),
        **_pack("item_vectors", model.item_vectors),
        **_pack_interaction(model.interaction),
        "item_bias": model.item_bias,
        "seen_starts": model.seen.indptr.astype(np.int64),
        "seen_items": model.seen.indices.astype(np.int64),
        "in_release": model.in_release.astype(np.uint8),
        **({} if model.uses_history else {"uses_history": np.zeros(1, dtype=np.uint8)}),
    }
    save_file({name: np.ascontiguousarray(part) for name, part in arrays.items()}, folder / "model.safetensors")
    (folder / "model.json").write_text(json.dumps(asdict(about), indent=2) + "\n", encoding="utf-8")
    for name, ids in (("user", model.users), ("item", model.items)):
        pl.DataFrame({name: pl.Series(ids, dtype=pl.String)}).write_parquet(folder / f"{name}s.parquet")


def load_model(folder: Path) -> tuple[Factors, About]:
    """The model in ``folder``; :class:`InputError` where it is corrupt, foreign or none."""
    if not (folder / "model.json").is_file():
        raise InputError(f"{folder} is not a model: there is no model.json in it (pricdr train makes one)")
    try:
        content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        version = content.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"{folder} has schema_version {version!r}, this software knows {SCHEMA_VERSION}")
        about = About(**content)
        arrays = load_file(folder / "model.safetensors")
        users, items = (_ids(folder / f"{name}s.parquet", name) for name in ("user", "item"))
        seen = sp.csr_array(
            (np.ones(len(arrays["seen_items"])), arrays["seen_items"], arrays["seen_starts"]),
            shape=(len(users), len(items)),
        )
        user_vectors = _unpack("user_vectors", arrays, len(users))
        item_vectors = _unpack("item_vectors", arrays, len(items))
        if sp.issparse(user_vectors) and not sp.issparse(item_vectors):
            item_vectors = np.asfortranarray(item_vectors)  # else scipy copies all of it for every product
        model = Factors(
            method=about.method,
            users=users,
            items=items,
            user_vectors=user_vectors,
            item_vectors=item_vectors,
            item_bias=arrays["item_bias"],
            seen=seen,
            in_release=arrays["in_release"].astype(bool),
            interaction=_unpack_interaction(arrays),
            uses_history="uses_history" not in arrays,
        )
    except (
        SafetensorError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        pl.exceptions.PolarsError,
    ) as error:
        raise InputError(f"{folder} holds no model that can be read: {error}") from error
    return model, about


def _ids(path: Path, name: str) -> Ids:
    with path.open("rb") as file:
        return tuple(pl.read_parquet(file)[name].to_list())


def _pack(name: str, vectors: Vectors) -> Arrays:
    """Dense vectors as they are; sparse ones as the three arrays of a CSR matrix and its width."""
    if not sp.issparse(vectors):
        return {name: vectors}
    return {
        f"{name}/data": vectors.data.astype(np.float32),
        f"{name}/indices": vectors.indices.astype(np.int64),
        f"{name}/indptr": vectors.indptr.astype(np.int64),
        f"{name}/width": np.array([vectors.shape[1]], dtype=np.int64),
    }


def _unpack(name: str, arrays: Mapping[str, NDArray[Any]], rows: int) -> Vectors:
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(parts, shape=(rows, int(arrays[f"{name}/width"][0])))


def _pack_interaction(interaction: Interaction | None) -> Arrays:
    if interaction is None:
        return {}
    arrays = {"interaction/user_parts": interaction.user_parts, "interaction/item_parts": interaction.item_parts}
    for index, (weights, bias) in enumerate(interaction.layers):
        arrays |= {f"interaction/{index}/weights": weights, f"interaction/{index}/bias": bias}
    return arrays


def _unpack_interaction(arrays: Mapping[str, NDArray[Any]]) -> Interaction | None:
    if "interaction/user_parts" not in arrays:
        return None
    depth = sum(name.startswith("interaction/") and name.endswith("/bias") for name in arrays)
    layers = tuple((arrays[f"interaction/{i}/weights"], arrays[f"interaction/{i}/bias"]) for i in range(depth))
    return Interaction(arrays["interaction/user_parts"], arrays["interaction/item_parts"], layers)
