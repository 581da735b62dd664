"""Results folders with made-up figures, in which the answer is known."""

import json
from pathlib import Path
from typing import Any

METRICS = ("HR@5", "NDCG@5", "MRR@5", "HR@10", "NDCG@10", "MRR@10")
SEEDS = (1, 2, 3, 4, 5)
WOBBLE = {1: -0.002, 2: -0.001, 3: 0.0, 4: 0.001, 5: 0.002}
"""What every arm has in common with a seed: differences are seed by seed, so it cancels."""
PROVENANCE = {
    "version": "0.6.0",
    "commit": "0123456789abcdef",
    "python": "3.11.2",
    "torch": "2.11.0",
    "numpy": "2.1.0",
    "scipy": "1.15.0",
    "machine": "x86_64, 2 cores",
    "finished": "2026-11-16T10:00:00Z",
}


def arm(name: str, method: str = "hetero", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "key": f"key of {name}"[:60],
        "method": method,
        "settings": {},
        "plaintext": False,
        "release": None,
        **more,
    }


def released(name: str, *, strategy: str = "spectral", epsilon: float = 8.0, **more: Any) -> dict[str, Any]:
    release = {"strategy": strategy, "epsilon": epsilon, "dim": 8, **more.pop("release", {})}
    return arm(name, release=release, **more)


def along(curve: str, axis: str, at: float, **more: Any) -> dict[str, Any]:
    letter = {"epsilon": "ε", "dim": "n", "density": "sp", "source_share": "sd"}[axis]
    epsilon = at if axis == "epsilon" else 8.0
    return released(f"{curve}, {letter} = {at:g}", epsilon=epsilon, curve=curve, axis=axis, at=at, **more)


def control(rows: str, **more: Any) -> dict[str, Any]:
    return released(f"{rows} (control)", release={"rows": rows}, **more)


def outline(name: str, family: str, arms: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    data = {
        **{"name": "toy", "title": "Toy A→B", "folder": "toy", "source": "a.csv", "target": "b.csv"},
        **{"cold": 0.2, "distinct": False, "official": False, "paper": "", "stand_in": False},
        **more.pop("data", {}),
    }
    return {
        **{"name": name, "family": family, "title": f"{family}: {data['title']}", "note": "", "data": data},
        **{"arms": arms, "seeds": list(SEEDS), "baseline": None, "ceiling": None, "full": False, "missing": ""},
        **more,
    }


def result(spec: str, name: str, seed: int, by_stratum: dict[str, float], **more: Any) -> dict[str, Any]:
    strata = {stratum: dict.fromkeys(METRICS, round(value, 6)) for stratum, value in by_stratum.items()}
    every = {"all": dict.fromkeys(METRICS, round(sum(by_stratum.values()) / len(by_stratum), 6))}
    return {
        **{"spec": spec, "arm": name, "key": f"key of {name}"[:60], "seed": seed, "validation": 0.2, "epochs": 10},
        **{"figures": {"sampled": {**every, **strata}}, "users": dict.fromkeys(by_stratum, 100)},
        **{"seconds": 2.0, "device": "cpu", "release": None, "trust": None, "memory": 2.0**30},
        **{"provenance": PROVENANCE, **more},
    }


def results(
    spec: str,
    levels: dict[str, dict[str, float]],
    *,
    noise: float = 0.0002,
    seeds: tuple[int, ...] = SEEDS,
    **more: Any,
) -> list[dict[str, Any]]:
    """Return a result for every arm and seed: its level, what the seed has in common, and a little of its own."""
    return [
        result(
            spec,
            name,
            seed,
            {
                stratum: level + WOBBLE[seed] + noise * ((7 * seed + 3 * at) % 5 - 2)
                for stratum, level in by_stratum.items()
            },
            **more,
        )
        for at, (name, by_stratum) in enumerate(levels.items())
        for seed in SEEDS
    ]


def write(folder: Path, content: dict[str, Any], lines: list[dict[str, Any]] | None = None) -> Path:
    """Write one task of one spec into a results folder."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{content['name']}.spec.json").write_text(json.dumps(content), encoding="utf-8")
    if lines is not None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{content['name']}.jsonl").write_text(text, encoding="utf-8")
    return folder


def frontier(
    folder: Path,
    cold: dict[str, float],
    warm: dict[str, float] | None = None,
    *,
    noise: float = 0.0002,
    controls: float = 0.1,
    name: str = "frontier_toy",
    **more: Any,
) -> Path:
    """Write a frontier: popularity .1, plaintext .2 for cold users, and ``cold`` for curves "guided, ε = 4"."""
    warm = warm or {}
    arms = [arm("popularity", "popularity"), arm("DMF", "dmf"), arm("plain", "ddtcdr", plaintext=True)]
    arms += [control("shuffled"), control("noise")]
    for key in cold:
        curve, _, at = key.partition(", ε = ")
        strategy = "jlt" if curve == "jlt" else "guided" if curve.startswith("guide") else "spectral"
        release = {"guide": "clear", "refine": False} if curve == "guide in the clear" else {}
        arms.append(along(curve, "epsilon", float(at), strategy=strategy, release=release))
    levels = {"popularity": (0.1, 0.1), "DMF": (0.1, 0.3), "plain": (0.2, 0.3)}
    levels |= {"shuffled (control)": (controls, 0.3), "noise (control)": (controls, 0.3)}
    levels |= {key: (value, warm.get(key, 0.3)) for key, value in cold.items()}
    by_arm = {key: {"cold": value[0], "warm": value[1]} for key, value in levels.items()}
    content = outline(name, "frontier", arms, baseline="popularity", ceiling="plain", **more)
    lines = results(name, by_arm, noise=noise)
    for line in lines:
        if line["arm"] == "popularity":
            line["validation"] = 0.1
    return write(folder, content, lines)
