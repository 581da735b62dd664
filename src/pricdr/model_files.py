"""A fitted model on disk: MODEL/model.safetensors, model.json, items.parquet, users.parquet. No pickle."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pricdr.data.ratings import Ids
from pricdr.errors import InputError
from pricdr.models.factors import Factors

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
    schema_version: int = SCHEMA_VERSION


def save_model(folder: Path, model: Factors, about: About) -> None:
    """Write ``model`` into an existing folder."""
    arrays = {
        "user_vectors": model.user_vectors,
        "item_vectors": model.item_vectors,
        "item_bias": model.item_bias,
        "seen_starts": model.seen.indptr.astype(np.int64),
        "seen_items": model.seen.indices.astype(np.int64),
        "in_release": model.in_release.astype(np.uint8),
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
        about = About(**json.loads((folder / "model.json").read_text(encoding="utf-8")))
        arrays = load_file(folder / "model.safetensors")
        users, items = (_ids(folder / f"{name}s.parquet", name) for name in ("user", "item"))
        seen = sp.csr_array(
            (np.ones(len(arrays["seen_items"])), arrays["seen_items"], arrays["seen_starts"]),
            shape=(len(users), len(items)),
        )
        model = Factors(
            method=about.method,
            users=users,
            items=items,
            user_vectors=arrays["user_vectors"],
            item_vectors=arrays["item_vectors"],
            item_bias=arrays["item_bias"],
            seen=seen,
            in_release=arrays["in_release"].astype(bool),
        )
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{folder} holds no model that can be read: {error}") from error
    if about.schema_version != SCHEMA_VERSION:
        raise InputError(f"{folder} has schema_version {about.schema_version!r}, this software knows {SCHEMA_VERSION}")
    return model, about


def _ids(path: Path, name: str) -> Ids:
    with path.open("rb") as file:
        return tuple(pl.read_parquet(file)[name].to_list())
