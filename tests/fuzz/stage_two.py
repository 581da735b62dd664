"""What stage two reads: model folders, checkpoints of a training, and specs of experiments.

A model that loads gives finite scores, and items of its own list. A training that resumes from a checkpoint has a
network of the same shapes, finite, that can go on. A spec that is read can be filed and run, as the settings that a
search chose can.
"""

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from pricdr import Guarantee, Ratings, publish
from pricdr.experiments.results import Outline
from pricdr.experiments.spec import read_search, read_specs
from pricdr.models.fitted import Chosen, FittedModel, Origin, ReleaseOrigin, Trust
from pricdr.models.fold_in import Encoders, Tower
from pricdr.models.folder import read_model, write_model
from pricdr.models.interaction import Interaction
from pricdr.pages import markdown
from pricdr.release.certificate import seal
from pricdr.report.card import ModelCard
from pricdr.training.checkpoints import Checkpoint, RunState
from tests.fuzz.cases import Files, Kind, Seed, require, require_ids
from tests.fuzz.mutations import (
    NUMBERS,
    TEXTS,
    json_bytes,
    mutate_bytes,
    mutate_folder,
    mutate_ids,
    mutate_json,
    mutate_lines,
    mutate_tensors,
)

_USERS = tuple(f"u{at}" for at in range(9))
_ITEMS = tuple(f"i{at}" for at in range(7))
_TENSORS = "model.safetensors"
_ORIGIN = Origin({"config": {"width": 4}, "options": {"seed": 1}}, "0" * 64)
_CHOSEN = Chosen(epochs={"target": 3}, trust=Trust(0.25, 1.0), settings={"scale": 0.4}, evidence=(0.005,))
_CERTIFICATE = "release.certificate.json"


def make_models(folder: Path) -> list[Seed]:
    """Dense, sparse in either part or both, with an interaction, with biases alone, without history."""
    rng = np.random.default_rng(3)

    def dense(rows: int, width: int = 4) -> np.ndarray:
        return rng.standard_normal((rows, width)).astype(np.float32)

    def sparse(rows: int, width: int) -> sp.csr_array:
        return sp.csr_array(dense(rows, width) * (rng.random((rows, width)) < 0.4))

    layers = ((dense(5, 6), dense(1, 5)[0]), (dense(1, 5), dense(1, 1)[0]))
    interaction = Interaction(dense(len(_USERS), 6), dense(len(_ITEMS), 6), layers)
    n_users, n_items = len(_USERS), len(_ITEMS)
    width = dense(1).shape[1]
    towers = (Tower(dense(count, 5), dense(1, 5)[0], dense(5, width), dense(1, width)[0]) for count in (n_items, 3))
    encoders = Encoders(2.0, *towers, dense(n_users, 3), (slice(0, 3),))
    models: dict[str, dict[str, Any]] = {
        "towers": {"user_vectors": dense(n_users), "item_vectors": dense(n_items), "encoders": encoders},
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
    known = ReleaseOrigin(release.sha256(), None, True, (3, 9), release.certificate)
    origin = replace(_ORIGIN, releases=(known,), software="pricdr 0.9.0")
    seeds = []
    for name, parts in models.items():
        seen = sp.csr_array((rng.random((n_users, n_items)) < 0.3).astype(np.float64))
        fixed = {"item_bias": dense(1, n_items)[0], "seen": seen, "in_release": rng.random(n_users) < 0.5}
        path = folder / name
        path.mkdir()
        recorded = {"origin": origin, "chosen": _CHOSEN}
        write_model(path, FittedModel(method="dmf", users=_USERS, items=_ITEMS, **recorded, **fixed, **parts))
        seeds.append(Seed.of_folder(path))
    return seeds


def mutate_model(rng: Random, seed: Seed, other: Seed) -> Files:
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


def judge_model(folder: Path, seed: Seed, files: Files) -> None:
    """Load the model and recommend to a few of its users and to a stranger."""
    model = read_model(folder)
    require(isinstance(model.method, str), "a method that is no text")
    require(all(isinstance(epoch, int) for epoch in model.chosen.epochs.values()), "an epoch that is no number")
    require(model.chosen.trust is None or all(0 <= level <= 1 for level in model.chosen.trust), "an impossible trust")
    require_ids("user", model.users)
    require_ids("item", model.items)
    card = ModelCard("model", model)
    require("# Model card" in markdown(card.page), "a card without a title")
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


# Checkpoints

_CHECKPOINT = "run.checkpoint"
_FINGERPRINT = "f" * 64


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))


def _optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)


def _step(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    network(torch.ones(3, 5)).square().mean().backward()
    optimizer.step()


def make_checkpoints(folder: Path) -> list[Seed]:
    """Runs of one to four epochs, with validation and without."""
    seeds = []
    for metric in (None, 0.25):
        network = _network()
        optimizer = _optimizer(network)
        state = RunState.fresh(network)
        for epoch in range(1, 5):
            _step(network, optimizer)
            state = state.after(network, metric)
            path = folder / f"{epoch} {metric}"
            Checkpoint(path, fingerprint=_FINGERPRINT).save(state, network, optimizer)
            seeds.append(Seed(path.name, {_CHECKPOINT: path.read_bytes()}, epoch))
    return seeds


def mutate_checkpoint(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the arrays, their header, or bytes."""
    content, spare = seed.files[_CHECKPOINT], other.files[_CHECKPOINT]
    if rng.random() < 0.75:
        return {_CHECKPOINT: mutate_tensors(rng, content, spare)}
    return {_CHECKPOINT: mutate_bytes(rng, content, spare)}


def judge_checkpoint(folder: Path, seed: Seed, files: Files) -> None:
    """Resume, look at everything the training would go on with, and take a step."""
    network = _network()
    shapes = {name: (value.shape, value.dtype) for name, value in network.state_dict().items()}
    optimizer = _optimizer(network)
    state = Checkpoint(folder / _CHECKPOINT, fingerprint=_FINGERPRINT).resume(network, optimizer)
    for what, weights in (("network", network.state_dict()), ("best network", state.best)):
        require({n: (v.shape, v.dtype) for n, v in weights.items()} == shapes, f"a {what} of other shapes or types")
        require(all(bool(torch.isfinite(v).all()) for v in weights.values()), f"a {what} that is not finite")
    # An epoch below 0 would be trained for as long as it takes to reach the last one.
    require(0 <= state.epoch < 2**53 and 0 <= state.stale <= state.epoch, f"epochs that are none: {state.epoch}")
    require(state.metric == state.metric and state.metric < float("inf"), f"a metric nothing can beat: {state.metric}")
    slots = [value for slot in optimizer.state_dict()["state"].values() for value in slot.values()]
    require(all(bool(torch.isfinite(value).all()) for value in slots), "an optimiser that is not finite")
    # Weights that huge but finite numbers break in this step are for the training loop to refuse, as it does.
    _step(network, optimizer)
    require({n: (v.shape, v.dtype) for n, v in network.state_dict().items()} == shapes, "other shapes after a step")


# Specs

_SPECS = Path(__file__).parents[2] / "specs"
_SPEC = "spec.toml"
_LITERALS = (
    "1e400", "-0.0", "nan", "-inf", "9" * 400, "0x" + "f" * 40, "true", "''", '"\\u0000"', '"\\u001b[2J"', "[]", "{}",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "[" * 5000, "[" * 300 + "]" * 300, '"' + "x" * 70_000 + '"',
    "{a = " * 400 + "1" + "}" * 400, "-1", "0", "1.5", '"jlt"', "[1, 1]", "[1.5]", "'''a\nb'''",
)  # fmt: skip
_ODD_LINES = (b"[data]", b"[[arm]]", b"[arm]", b"[search]", b"[a.b.c]", b"a.b.c = 1", b"[[")


def make_specs(folder: Path) -> list[Seed]:
    """The committed specs, each with all chosen settings."""
    chosen = {file.name: file.read_bytes() for file in sorted((_SPECS / "tuned").glob("*.toml"))}
    return [Seed(path.stem, {_SPEC: path.read_bytes(), **chosen}) for path in sorted(_SPECS.glob("*.toml"))]


def mutate_spec(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, lines, literals or values of the spec, sometimes of the chosen settings."""
    name = _SPEC if rng.random() < 0.85 else rng.choice(sorted(seed.files))
    spare = other.files.get(name, other.files[_SPEC])
    content, draw = seed.files[name], rng.randrange(6)
    lines, spares = content.split(b"\n"), spare.split(b"\n")
    if draw == 0:
        return {**seed.files, name: mutate_bytes(rng, content, spare)}
    for _ in range(rng.choice((1, 1, 2, 4))):
        if draw == 1:
            lines = mutate_lines(rng, lines, spares, _ODD_LINES)
        else:
            at = rng.choice([at for at, line in enumerate(lines) if b" = " in line])
            key, _, old = lines[at].decode().partition(" = ")
            literals = (*_LITERALS, old.upper(), f"[{old}]", f"{{ x = {old} }}", json.dumps(rng.choice(TEXTS)))
            lines[at] = f"{key} = {rng.choice((*literals, repr(rng.choice(NUMBERS))))}".encode()
    return {**seed.files, name: b"\n".join(lines)}


def judge_spec(folder: Path, seed: Seed, files: Files) -> None:
    """Read the spec as a run and as a search does, and file every arm under its key."""
    specs = read_specs(folder / _SPEC, folder)
    require(read_search(folder / _SPEC) == tuple(spec.data for spec in specs), "other data for a search than for a run")
    require(len({spec.name for spec in specs}) == len(specs), "tables of one name")
    for spec in specs:
        require(spec.arms, "a spec without arms")
        require(all(isinstance(seed, int) for seed in spec.seeds), "seeds that are no whole numbers")
        require(all(len(key) == 16 for key in Outline.of(spec).keys.values()), "an arm without a key")
        for promise in [(arm.release.epsilon, arm.release.delta) for arm in spec.arms if arm.release is not None]:
            require(all(map(math.isfinite, promise)) and min(promise) > 0, f"a promise that is none: {promise}")


KINDS = {
    "models": Kind(make_models, mutate_model, judge_model),
    "checkpoints": Kind(make_checkpoints, mutate_checkpoint, judge_checkpoint),
    "specs": Kind(make_specs, mutate_spec, judge_spec),
}
