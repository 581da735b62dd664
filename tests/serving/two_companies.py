"""Two small companies: a signed release, models with and without it, and an evaluation. Some ids are hostile."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from pricdr import Guarantee, Ledger, Ratings, Release, evaluate, publish, split, synthetic_pair
from pricdr.data.synthetic import SyntheticConfig
from pricdr.models import EASE, Chosen, EASERelease, Trust
from pricdr.signing import create_keys
from pricdr.strategies import Spectral

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, "a/../b", "\u202egnp.exe", "😀", "'\"&amp;", "100 % x", "x" * 300)
"""Ids of users that the models know."""
CHOSEN = Chosen(trust=Trust(1.0, 1.0), evidence=(0.005,))
"""Fixed, since the noise is different in every run."""
_COMPANIES: dict[Path, "Companies"] = {}


@dataclass(frozen=True)
class Companies:
    folder: Path
    """Contains the models with, without and final, evaluation.json, and the release."""
    warm: str
    cold: str

    @property
    def evaluation(self) -> Path:
        return self.folder / "evaluation.json"

    def model(self, name: str) -> Path:
        return self.folder / name


def two_companies(factory: pytest.TempPathFactory) -> Companies:
    """Return the companies, created once in every test process; tests must not change their folder."""
    base = factory.getbasetemp()
    if base not in _COMPANIES:
        _COMPANIES[base] = _create(factory.mktemp("companies"))
    return _COMPANIES[base]


def _create(folder: Path) -> Companies:
    config = SyntheticConfig(
        users=400, source_items=150, target_items=320, tastes=6, source_ratings_per_user=30, target_ratings_per_user=10
    )
    pair = synthetic_pair(config, seed=3)
    target = renamed(pair.target, dict(zip(pair.target.users, HOSTILE, strict=False)))
    source = renamed(pair.source, dict(zip(pair.target.users, HOSTILE, strict=False)))
    create_keys(folder / "key")
    ledger = Ledger.create(folder / "ledger.jsonl", Guarantee(epsilon=16, delta=1e-6))
    published = publish(
        source,
        Guarantee(epsilon=8, delta=1e-6),
        strategy=Spectral(dim=8),
        users=target.users[:330],
        items=source.items,
        ledger=ledger,
        issuer="Films <b>& Co</b>",
    )
    published.save(folder / "release", signing_key=folder / "key")
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
    """Return the same ratings with some users renamed."""
    users = tuple(names.get(user, user) for user in ratings.users)
    return Ratings(ratings.matrix, users, ratings.items, has_values=False)
