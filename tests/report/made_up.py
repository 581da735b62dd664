"""Results folders with made-up figures, in which the answer is known."""

import json
from pathlib import Path
from typing import Any

METRICS = ("HR@5", "NDCG@5", "MRR@5", "HR@10", "NDCG@10", "MRR@10")
SEEDS = (1, 2, 3, 4, 5)
WOBBLE = {1: -0.002, 2: -0.001, 3: 0.0, 4: 0.001, 5: 0.002}
"""What every arm has in common with a seed: differences are seed by seed, so it cancels."""
PROVENANCE = {
    **{"version": "0.6.0", "commit": "0123456789abcdef", "python": "3.11.2", "torch": "2.11.0", "numpy": "2.1.0"},
    **{"scipy": "1.15.0", "machine": "x86_64, 2 cores", "finished": "2026-11-16T10:00:00Z"},
}


def arm(name: str, method: str = "hetero", **more: Any) -> dict[str, Any]:
    return {"name": name, "method": method, **more}


def released(name: str, *, strategy: str = "spectral", epsilon: float = 8.0, **more: Any) -> dict[str, Any]:
    release = {"strategy": strategy, "epsilon": epsilon, "dim": 8, **more.pop("release", {})}
    return arm(name, release=release, **more)


def along(curve: str, axis: str, at: float, **more: Any) -> dict[str, Any]:
    letter = {"epsilon": "ε", "dim": "n", "density": "sp", "source_share": "sd"}[axis]
    epsilon = at if axis == "epsilon" else 8.0
    point = {"curve": curve, "axis": axis, "at": at}
    return released(f"{curve}, {letter} = {at:g}", epsilon=epsilon, point=point, **more)


def control(rows: str, **more: Any) -> dict[str, Any]:
    return released(f"{rows} (control)", release={"rows": rows}, **more)


def key_of(name: str) -> str:
    return f"key of {name}"[:60]


def outline(name: str, arms: list[dict[str, Any]], missing: str = "", **more: Any) -> dict[str, Any]:
    """Return the outline of a table called after its family and its data, such as frontier_toy."""
    data = {
        **{"name": name.rpartition("_")[2], "title": "Toy A→B", "folder": "toy", "source": "a.csv"},
        **{"target": "b.csv", "cold": 0.2, **more.pop("data", {})},
    }
    spec = {"name": name, "title": f"{name.rpartition('_')[0]}: {data['title']}", "data": data, "arm": arms, **more}
    keys = {one["name"]: key_of(one["name"]) for one in arms}
    return {"spec": {"seeds": list(SEEDS), "full": False, **spec}, "keys": keys, "missing": missing}


def results(
    spec: str, levels: dict[str, dict[str, float]], *, noise: float = 0.0002, **more: Any
) -> list[dict[str, Any]]:
    """Return a result for every arm and seed: its level, what the seed has in common, and a little of its own."""
    lines = []
    for at, (name, by_stratum) in enumerate(levels.items()):
        for seed in SEEDS:
            own = WOBBLE[seed] + noise * ((7 * seed + 3 * at) % 5 - 2)
            values = {"all": sum(by_stratum.values()) / len(by_stratum) + own}
            values |= {stratum: level + own for stratum, level in by_stratum.items()}
            strata = {stratum: dict.fromkeys(METRICS, round(value, 6)) for stratum, value in values.items()}
            line = {"spec": spec, "arm": name, "key": key_of(name), "seed": seed, "validation": 0.2, "epochs": 10}
            line |= {"figures": {"sampled": strata}, "users": dict.fromkeys(by_stratum, 100), "seconds": 2.0}
            line |= {"device": "cpu", "release": None, "trust": None, "memory": 2.0**30, "provenance": PROVENANCE}
            lines.append({**line, **more})
    return lines


def write(folder: Path, content: dict[str, Any], lines: list[dict[str, Any]] | None = None) -> Path:
    """Write one task of one spec into a results folder."""
    name = content["spec"]["name"]
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{name}.spec.json").write_text(json.dumps(content), encoding="utf-8")
    if lines is not None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
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
    content = outline(name, arms, baseline="popularity", ceiling="plain", **more)
    lines = results(name, by_arm, noise=noise)
    for line in lines:
        if line["arm"] == "popularity":
            line["validation"] = 0.1
    return write(folder, content, lines)


HOSTILE = '</title><script>alert(1)</script> & "quotes" {{ 7 * 7 }}'


def table2(folder: Path) -> Path:
    """Write Table 2: Douban measured, a stand-in, and a task without data."""
    arms = [arm("popularity", "popularity"), arm("BPR", "bpr"), arm("DMF", "dmf")]
    arms += [arm("ETL (plaintext)", "etl", plaintext=True), released("PriCDR-J, ε = 8", strategy="jlt")]
    arms.append(released("PriCDR-S, ε = 8", strategy="sjlt", release={"calibration": "paper"}))
    tasks = {
        "table2_douban": {"paper": "Douban Book→Music", "title": "Douban Book→Music", "official": "split.csv"},
        "table2_movie": {"paper": "Amazon Movie→Music", "title": "Amazon Movie→Music (stand-in)", "stand_in": True},
    }
    for name, data in tasks.items():
        strata = ("warm",) if "official" in data else ("warm", "cold")
        levels = {one["name"]: dict.fromkeys(strata, 0.1 + 0.03 * at) for at, one in enumerate(arms)}
        lines = results(name, levels)
        for line in lines:
            exact = {"PriCDR-J, ε = 8": 8.0, "PriCDR-S, ε = 8": 0.25}.get(line["arm"])
            line["release"] = {"dim": 200, "sigma": 9.0, "epsilon": exact, "delta": 1e-6} if exact else None
        write(folder, outline(name, arms, data=data), lines)
    absent = {"paper": "Amazon Music→Book", "title": "Amazon Music→Book"}
    missing = "data not present: point PRICDR_DATA at it"
    return write(folder, outline("table2_absent", arms, missing, data=absent))


def curves(folder: Path, family: str = "rq4_epsilon", axis: str = "epsilon") -> Path:
    """Write curves of jlt: the paper's noise and exact noise with gates off, and exact noise that is always refused."""
    places = {"epsilon": (1, 4, 16, 64), "source_share": (0.25, 0.5, 1)}[axis]
    arms, levels, delivered = [arm("DMF (target only)", "dmf")], {"DMF (target only)": {"cold": 0.1, "warm": 0.3}}, {}
    for curve in ("jlt", "jlt, gates off", "jlt, paper's noise, gates off"):
        release = {"dim": 200, **({"calibration": "paper"} if "paper" in curve else {})}
        for place, at in enumerate(places):
            one = along(curve, axis, at, strategy="jlt", release=release, settings={"gated": "gates off" not in curve})
            arms.append(one)
            levels[one["name"]] = {"cold": 0.1 + (0.01 * place if curve == "jlt, gates off" else 0.0), "warm": 0.3}
            delivered[one["name"]] = one["release"]["epsilon"] / (40 if "paper" in curve else 1)
    lines = results(f"{family}_toy", levels)
    for line in (line for line in lines if line["arm"] in delivered):
        line["release"] = {"dim": 200, "sigma": 3.0, "epsilon": delivered[line["arm"]], "delta": 1e-6}
        line["trust"] = dict.fromkeys(("warm", "cold"), 1.0 if "gates off" in line["arm"] else 0.0)
    return write(folder, outline(f"{family}_toy", arms, baseline="DMF (target only)"), lines)


def searched(folder: Path, trials: tuple[tuple[float, dict[str, Any], str], ...] = ((0.2, {}, ""),)) -> Path:
    """Write a search: for each trial its figure on validation, its settings, and why it failed if it did."""
    (folder / "search").mkdir(exist_ok=True, parents=True)
    lines = [
        {"data": "toy", "method": "dmf", "number": at, "settings": settings, "validation": value, "failure": failure}
        for at, (value, settings, failure) in enumerate(trials)
    ]
    text = "".join(json.dumps({**line, "epochs": 3, "seconds": 2.0}) + "\n" for line in lines)
    (folder / "search" / "toy.jsonl").write_text(text)
    return folder


def table3(folder: Path) -> Path:
    """Write Table 3: one task that agrees, one without data."""
    counts = {"users": 924, "source_items": 3916, "source_ratings": 50429}
    counts |= {"target_items": 4228, "target_ratings": 50157}
    row = {"preprocessing": "the paper's five steps", "paper": counts, "measured": counts, "expected": []}
    readings = [{"words": "5-core", "counts": {**counts, "users": 900}}]
    rows = [
        {**row, "title": "Douban Book→Music", "readings": readings},
        {**row, "title": "Amazon Movie→Book", "measured": None, "expected": ["Books.csv"], "readings": []},
    ]
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "table3.json").write_text(json.dumps({"rows": rows, "provenance": PROVENANCE}), encoding="utf-8")
    return folder


def everything(folder: Path) -> Path:
    """Write a little of all that a results folder can hold, a hostile name among it."""
    cold = {"guided, ε = 1": 0.1, "guided, ε = 4": 0.175, "guided, ε = 8": 0.19, "jlt, ε = 8": 0.1}
    frontier(folder, cold)
    frontier(folder, {"guided, ε = 4": 0.11}, noise=0.02, name="frontier_noisy", data={"title": "Noisy A→B"})
    for write_part in (table2, searched, table3):
        write_part(folder)
    curves(folder)
    curves(folder, "rq5", "source_share")
    arms = [arm("popularity", "popularity"), arm(HOSTILE, "dmf")]
    levels = {"popularity": {"warm": 0.1}, HOSTILE: {"warm": 0.3}}
    data = {"title": HOSTILE}
    return write(folder, outline("other_toy", arms, data=data, note=HOSTILE), results("other_toy", levels))
