"""What was published before there were steps still verifies, and the same seed still gives the same matrices."""

import hashlib
import json
from pathlib import Path

import pytest

from pricdr import JLT, SJLT, Bounds, Guarantee, Unit, publish, verify
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair

OLD = Path(__file__).parents[1] / "version1"
FOLDERS = sorted(path.name for path in OLD.iterdir() if path.is_dir())
HASHES = json.loads((OLD / "seeded.json").read_text())
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture(scope="module")
def source():
    config = SyntheticConfig(
        users=24, source_items=40, target_items=12, source_ratings_per_user=6, target_ratings_per_user=3
    )
    return synthetic_pair(config, seed=5).source


def test_there_is_something_to_verify():
    assert FOLDERS == ["auto", "jlt", "noiseless", "paper", "sjlt", "user"]
    assert sorted(HASHES) == ["auto", "jlt", "sjlt", "user", "values"]


@pytest.mark.parametrize("name", FOLDERS)
def test_releases_of_version_1_verify(name):
    release = verify(OLD / name)
    stated = json.loads((OLD / name / "certificate.json").read_text())
    assert stated["schema_version"] == release.certificate.schema_version == 1
    assert not {"steps", "guide", "items"} & set(stated)
    assert release.certificate.to_bytes() == (OLD / name / "certificate.json").read_bytes()


@pytest.mark.parametrize("name", sorted(HASHES))
def test_the_same_seed_gives_the_matrix_it_gave(name, source):
    unit = Unit.USER if name == "user" else Unit.RATING
    strategy = {"sjlt": SJLT(dim=8), "auto": JLT(dim=None)}.get(name, JLT(dim=8))
    bounds = {"user": Bounds(clip=2), "values": Bounds(rating_bound=5, rating_step=1)}.get(name, Bounds())
    release = publish(
        source,
        Guarantee(epsilon=4, delta=1e-6, unit=unit),
        strategy=strategy,
        users=source.users,
        items=source.items if name == "sjlt" else None,
        bounds=bounds,
        insecure_seed=7,
    )
    assert hashlib.sha256(release.matrix.tobytes()).hexdigest() == HASHES[name]
