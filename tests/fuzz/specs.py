"""Specs of experiments, with the settings that a search chose: one that is read can be filed and run."""

import json
import math
import tomllib
from pathlib import Path
from random import Random
from typing import Any

from pricdr.experiments.outline import outline
from pricdr.experiments.spec import read_search, read_specs
from tests.fuzz.cases import Files, Kind, Seed, require
from tests.fuzz.mutations import mutate_bytes, mutate_json

_SPECS = Path(__file__).parents[2] / "specs"
_FILE = "spec.toml"
_LITERALS = (
    "1e400", "-0.0", "nan", "-inf", "9" * 400, "0x" + "f" * 40, "true", "''", '"\\u0000"', '"\\u001b[2J"', "[]", "{}",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "[" * 5000, "[" * 300 + "]" * 300, '"' + "x" * 70_000 + '"',
    "{a = " * 400 + "1" + "}" * 400, "-1", "0", "1.5", '"jlt"', "[1, 1]", "[1.5]", "'''a\nb'''",
)  # fmt: skip


def make_seeds(folder: Path) -> list[Seed]:
    """The committed specs, each with all chosen settings."""
    chosen = {file.name: file.read_bytes() for file in sorted((_SPECS / "tuned").glob("*.toml"))}
    return [Seed(path.stem, {_FILE: path.read_bytes(), **chosen}) for path in sorted(_SPECS.glob("*.toml"))]


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, lines, literals or values of the spec, sometimes of the chosen settings."""
    name = _FILE if rng.random() < 0.85 else rng.choice(sorted(seed.files))
    spare = other.files.get(name, other.files[_FILE])
    change = rng.choice((_change_bytes, _change_literal, _change_literal, _change_lines, _change_value, _change_value))
    return {**seed.files, name: change(rng, seed.files[name], spare)}


def _change_bytes(rng: Random, content: bytes, spare: bytes) -> bytes:
    return mutate_bytes(rng, content, spare)


def _change_literal(rng: Random, content: bytes, spare: bytes) -> bytes:
    lines = content.decode().split("\n")
    places = [at for at, line in enumerate(lines) if " = " in line]
    for at in rng.sample(places, rng.choice((1, 1, 2))):
        key, _, old = lines[at].partition(" = ")
        lines[at] = f"{key} = {rng.choice((*_LITERALS, old.upper(), f'[{old}]', f'{{ x = {old} }}'))}"
    return "\n".join(lines).encode()


def _change_lines(rng: Random, content: bytes, spare: bytes) -> bytes:
    lines, spares = content.split(b"\n"), spare.split(b"\n")
    for _ in range(rng.choice((1, 2, 4))):
        at, draw = rng.randrange(len(lines)), rng.randrange(5)
        if draw == 0:
            del lines[at : at + rng.choice((1, 1, 4))]
        elif draw == 1:
            lines.insert(at, rng.choice(lines))
        elif draw == 2:
            lines.insert(at, rng.choice(spares))
        elif draw == 3:
            lines.insert(
                at, rng.choice((b"[data]", b"[[arm]]", b"[arm]", b"[search]", b"[a.b.c]", b"a.b.c = 1", b"[["))
            )
        else:
            another = rng.randrange(len(lines))
            lines[at], lines[another] = lines[another], lines[at]
        lines = lines or [b""]
    return b"\n".join(lines)


def _change_value(rng: Random, content: bytes, spare: bytes) -> bytes:
    changed = mutate_json(rng, tomllib.loads(content.decode()), tomllib.loads(spare.decode()))
    if not isinstance(changed, dict):
        return content
    return "\n".join(f"{_key(key)} = {_toml(value)}" for key, value in changed.items()).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    """A value on one line; what TOML cannot say becomes text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps("none" if value is None else value)


def _key(key: object) -> str:
    return json.dumps(str(key))


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Read the spec as a run and as a search does, and file every arm under its key."""
    specs = read_specs(folder / _FILE, folder)
    require(read_search(folder / _FILE) == tuple(spec.data for spec in specs), "other data for a search than for a run")
    require(len({spec.name for spec in specs}) == len(specs), "tables of one name")
    for spec in specs:
        require(spec.arms, "a spec without arms")
        require(all(isinstance(seed, int) for seed in spec.seeds), "seeds that are no whole numbers")
        require(all(len(arm.key) == 16 for arm in outline(spec).arms), "an arm without a key")
        for promise in [(arm.release.epsilon, arm.release.delta) for arm in spec.arms if arm.release is not None]:
            require(all(map(math.isfinite, promise)) and min(promise) > 0, f"a promise that is none: {promise}")


KIND = Kind(make_seeds, mutate, judge)
