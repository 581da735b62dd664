"""Two small companies: a signed release, models with it and without, and what was measured. Some ids are hostile."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from pricdr import (
    Guarantee,
    Ledger,
    Ratings,
    Release,
    Spectral,
    SyntheticConfig,
    evaluate,
    publish,
    split,
    synthetic_pair,
)
from pricdr.models import EASE, Chosen, EASERelease, Trust
from pricdr.release.signing import create_keys

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, "a/../b", "\u202egnp.exe", "😀", "'\"&amp;", "100 % x", "x" * 300)
"""Ids of users whom the models know."""
CHOSEN = Chosen(trust=Trust(1.0, 1.0), evidence=0.005)
"""Not left to the noise, which is new in every run."""
_MADE: dict[Path, "Companies"] = {}


@dataclass(frozen=True)
class Companies:
    folder: Path
    """Holds with, without, final and exported, evaluation.json, and the release."""
    warm: str
    cold: str

    @property
    def evaluation(self) -> Path:
        return self.folder / "evaluation.json"

    def model(self, name: str) -> Path:
        return self.folder / name


def two_companies(factory: pytest.TempPathFactory) -> Companies:
    """Return the companies, made once in every test process; nobody may change their folder."""
    base = factory.getbasetemp()
    if base not in _MADE:
        _MADE[base] = _made(factory.mktemp("companies"))
    return _MADE[base]


def _made(folder: Path) -> Companies:
    config = SyntheticConfig(
        users=400, source_items=150, target_items=320, tastes=6, source_ratings_per_user=30, target_ratings_per_user=10
    )
    pair = synthetic_pair(config, seed=3)
    target = renamed(pair.target, dict(zip(pair.target.users, HOSTILE, strict=False)))
    source = renamed(pair.source, dict(zip(pair.target.users, HOSTILE, strict=False)))
    create_keys(folder / "key")
    ledger = Ledger.create(folder / "ledger.jsonl", Guarantee(epsilon=16, delta=1e-6))
    made = publish(
        source,
        Guarantee(epsilon=8, delta=1e-6),
        strategy=Spectral(dim=8),
        users=target.users[:330],
        items=source.items,
        ledger=ledger,
        issuer="Films <b>& Co</b>",
    )
    made.save(folder / "release", signing_key=folder / "key")
    release = Release.load(folder / "release", public_key=folder / "key.pub")
    parts = split(target, cold=0.3, seed=1)
    models = {
        "without": EASE().fit(parts.train, validation=parts.validation),
        "with": EASERelease().fit(parts.train, release, chosen=CHOSEN),
    }
    final = EASERelease().fit(target, release, chosen=CHOSEN)
    for name, model in {**models, "final": final}.items():
        model.save(folder / name)
    comparison = evaluate(models, parts)
    (folder / "evaluation.json").write_text(json.dumps(comparison.to_dict()))
    known = [user for user in parts.train.users if user not in HOSTILE]
    cold = {parts.train.users[at] for at, is_cold in enumerate(parts.cold) if is_cold}
    return Companies(folder, next(u for u in known if u not in cold), next(u for u in known if u in cold))


def renamed(ratings: Ratings, names: dict[str, str]) -> Ratings:
    """Return the same ratings of users with other names."""
    users = tuple(names.get(user, user) for user in ratings.users)
    return Ratings(ratings.matrix, users, ratings.items, has_values=False)
