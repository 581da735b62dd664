"""Fitted models: what ``recommend`` loads. A model that loads gives finite scores, and items of its own list."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

from pricdr import Guarantee, Ratings, publish
from pricdr.models.card import ModelCard
from pricdr.models.fitted import Chosen, FittedModel, Origin, Trust
from pricdr.models.folder import read_model, write_model
from pricdr.models.interaction import Interaction
from pricdr.release.certificate import seal
from tests.fuzz.cases import Files, Kind, Seed, require, require_ids
from tests.fuzz.mutations import json_bytes, mutate_bytes, mutate_folder, mutate_ids, mutate_json
from tests.fuzz.tensor_files import mutate_tensors

_USERS = tuple(f"u{at}" for at in range(9))
_ITEMS = tuple(f"i{at}" for at in range(7))
_TENSORS = "model.safetensors"
_ORIGIN = Origin({"config": {"width": 4}, "options": {"seed": 1}}, "0" * 64, "1" * 64)
_CHOSEN = Chosen(epochs={"target": 3}, trust=Trust(0.25, 1.0), settings={"scale": 0.4}, evidence=0.005)
_CERTIFICATE = "release.certificate.json"


def make_seeds(folder: Path) -> list[Seed]:
    """Dense, sparse in either part or both, with an interaction, with biases alone, without history."""
    rng = np.random.default_rng(3)

    def dense(rows: int, width: int = 4) -> np.ndarray:
        return rng.standard_normal((rows, width)).astype(np.float32)

    def sparse(rows: int, width: int) -> sp.csr_array:
        return sp.csr_array(dense(rows, width) * (rng.random((rows, width)) < 0.4))

    layers = ((dense(5, 6), dense(1, 5)[0]), (dense(1, 5), dense(1, 1)[0]))
    interaction = Interaction(dense(len(_USERS), 6), dense(len(_ITEMS), 6), layers)
    n_users, n_items = len(_USERS), len(_ITEMS)
    models: dict[str, dict[str, Any]] = {
        "dense": {"user_vectors": dense(n_users), "item_vectors": dense(n_items)},
        "both sparse": {"user_vectors": sparse(n_users, n_items), "item_vectors": sparse(n_items, n_items)},
        "sparse users": {"user_vectors": sparse(n_users, n_items), "item_vectors": dense(n_items, n_items)},
        "sparse items": {"user_vectors": dense(n_users, n_items), "item_vectors": sparse(n_items, n_items)},
        "popularity": {"user_vectors": dense(n_users, 0), "item_vectors": dense(n_items, 0)},
        "no history": {"user_vectors": dense(n_users), "item_vectors": dense(n_items), "uses_history": False},
        "interaction": {
            "user_vectors": dense(n_users), "item_vectors": dense(n_items), "interaction": interaction
        },
    }  # fmt: skip
    release = publish(Ratings.from_triples(["a"], ["x"]), Guarantee(epsilon=1, delta=1e-6), users=["a"])
    known = {"release_covers": (3, 9), "release_verified": True, "software": "pricdr 0.8.0"}
    origin = replace(_ORIGIN, certificate=release.certificate, **known)
    seeds = []
    for name, parts in models.items():
        seen = sp.csr_array((rng.random((n_users, n_items)) < 0.3).astype(np.float64))
        fixed = {"item_bias": dense(1, n_items)[0], "seen": seen, "in_release": rng.random(n_users) < 0.5}
        path = folder / name
        path.mkdir()
        recorded = {"origin": origin, "chosen": _CHOSEN}
        write_model(path, FittedModel(method="dmf", users=_USERS, items=_ITEMS, **recorded, **fixed, **parts))
        seeds.append(Seed(name, {file.name: file.read_bytes() for file in sorted(path.iterdir())}))
    return seeds


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the arrays, the ids, what the model says it is, bytes of any file, or the set of files."""
    files: dict[str, Any] = dict(seed.files)
    for _ in range(rng.choice((1, 1, 1, 2))):
        draw = rng.randrange(13)
        if draw < 7:
            files[_TENSORS] = mutate_tensors(rng, seed.files[_TENSORS], other.files[_TENSORS])
        elif draw < 9:
            name = rng.choice(("users.txt", "items.txt"))
            files[name] = mutate_ids(rng, seed.files[name])
        elif draw == 9:
            about = mutate_json(rng, json.loads(seed.files["model.json"]))
            files["model.json"] = json_bytes(rng, about, indent=2)
        elif draw == 10:
            content = json.loads(seed.files[_CERTIFICATE])
            del content["digest"]
            files[_CERTIFICATE] = _certificate(rng, mutate_json(rng, content))
        else:
            name = rng.choice(sorted(files))
            files[name] = mutate_bytes(rng, files[name], other.files.get(name, b""))
    return mutate_folder(rng, files) if rng.random() < 0.05 else files


def _certificate(rng: Random, content: Any) -> bytes:
    """Half of them with a digest that is right: then only what is said can give the lie away."""
    if isinstance(content, dict) and rng.random() < 0.5:
        with suppress(ValueError):  # a number or a text that no certificate can hold
            return seal(content)
    return json_bytes(rng, content, indent=2)


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Load the model and recommend to a few of its users and to a stranger."""
    model = read_model(folder)
    require(isinstance(model.method, str), "a method that is no text")
    require(all(isinstance(epoch, int) for epoch in model.chosen.epochs.values()), "an epoch that is no number")
    require(model.chosen.trust is None or all(0 <= level <= 1 for level in model.chosen.trust), "an impossible trust")
    require_ids("user", model.users)
    require_ids("item", model.items)
    card = ModelCard.of_model(model, "model")
    require("# Model card" in card.markdown(), "a card without a title")
    own = set(model.items)
    for user in (*model.users[:3], *model.users[-1:], "a stranger"):
        ranked = model.recommend([user], 5)
        require(all(r.item in own and math.isfinite(r.score) for r in ranked), "a recommendation that is none")
        require(len({r.item for r in ranked}) == len(ranked), "the same item recommended twice")
    if model.users:
        places = np.arange(len(model.users))[:4]
        scores = model.score(places)
        require(scores.shape == (len(places), len(model.items)), f"scores of another shape: {scores.shape}")
        require(np.isfinite(scores).all(), "scores that are not finite")


KIND = Kind(make_seeds, mutate, judge)
