"""Certificates of learnt releases, forged with care: digest, README and hashes all fit, and ``verify`` still refuses.

What is tried is a change that makes the release look better, or other than it was, without redoing everything that
follows from it. A certificate that was issued anew from other terms is a matter of signatures.
"""

import hashlib
import json
from copy import deepcopy

import numpy as np
import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr.errors import VerificationError
from pricdr.release.certificate import Certificate, seal
from pricdr.release.readme import readme
from pricdr.strategies import Guided, LearnFrom, Spectral

USERS, ITEMS = (tuple(f"{kind}{at:02d}" for at in range(30)) for kind in "ui")
OTHERS = tuple(f"x{at}" for at in range(10))
PROMISE = Guarantee(epsilon=4, delta=1e-6)


def _ratings():
    rng = np.random.default_rng(2)
    cells = [(user, item) for user in (*USERS, *OTHERS) for item in ITEMS if rng.random() < 0.3]
    return Ratings.from_triples(*zip(*cells, strict=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each way."""
    at, ratings = tmp_path_factory.mktemp("releases"), _ratings()
    spectral = publish(ratings, PROMISE, strategy=Spectral(dim=4), users=USERS)
    everybody = Spectral(dim=4, learn_from=LearnFrom.ALL, buckets=64)
    made = {
        "spectral": spectral,
        "guided": publish(ratings, PROMISE, strategy=Guided(guide=spectral, dim=4), users=USERS),
        "buckets": publish(ratings, PROMISE, strategy=everybody, users=USERS),
        "catalogue": publish(ratings, PROMISE, strategy=everybody, users=USERS, items=ITEMS),
    }
    return {name: release.save(at / name) for name, release in made.items()}


def _forge(folder, change):
    """Change what a certificate says, and everything that can be made to fit without knowing better."""
    content = json.loads((folder / "certificate.json").read_text())
    del content["digest"]
    before = deepcopy(content)
    change(content)
    assert content != before
    try:
        text = readme(Certificate.model_validate(content)).encode()
    except Exception:  # what the disclosure cannot put in words keeps the old ones
        text = (folder / "README.md").read_bytes()
    (folder / "README.md").write_bytes(text)
    content["files"]["README.md"] = hashlib.sha256(text).hexdigest()
    (folder / "certificate.json").write_bytes(seal(content))


def _in_step(at, **changes):
    return lambda content: content["steps"][at].update(changes)


def _times(at, name, factor):
    def change(content):
        content["steps"][at][name] *= factor

    return change


def _without_step(at):
    return lambda content: content["steps"].pop(at)


def _parameter(name, value):
    return lambda content: content["strategy"]["parameters"].update({name: value})


STEP = {
    **{f"{factor} x {name} of step {at}": _times(at, name, factor)
       for at in (0, 1, -1) for name in ("sigma", "grid", "rounding", "moved", "share", "sensitivity", "rows", "mu")
       for factor in (2,)},
    **{f"step {at} dropped": _without_step(at) for at in (0, 1, -1)},
    "a little less noise": _times(1, "sigma", 1 - 1e-6),
    "the steps exchanged": lambda content: content["steps"].reverse(),
    "a step twice": lambda content: content["steps"].append(content["steps"][-1]),
    "no steps": lambda content: content["steps"].clear(),
    "an inner step published": _in_step(1, published=True),
    "the last step unpublished": _in_step(-1, published=False),
    "another payer": _in_step(1, payer="users outside the list"),
    "another name": _in_step(0, name="nothing"),
    "another purpose": _in_step(0, purpose="does nothing"),
    "a coarser grid": _in_step(-1, refinement=1),
    "an impossible grid": _in_step(-1, refinement=1 << 20),
    "a wider inner step": _in_step(1, numbers=17),
    "no noise in a step": _in_step(0, sigma=0.0),
    "no mu": _in_step(0, mu=None),
    "mu halved": lambda content: content.update(mu=content["mu"] / 2),
    "epsilon halved": lambda content: content.update(epsilon=content["epsilon"] / 2),
    "more users": lambda content: content.update(users=31),
    "another dimension": lambda content: content.update(dim=3),
    "an item universe": lambda content: content.update(items=30),
    "an item universe that is needed not": lambda content: content["input"].update(item_universe="declared"),
    "hashed items": lambda content: content["input"].update(item_universe="hashed into buckets"),
    "another strategy": lambda content: content["strategy"].update(name="jlt"),
    "an unknown strategy": lambda content: content["strategy"].update(name="oracle"),
    "no centring": _parameter("centring", 0.0),
    "all of it centring": _parameter("centring", 1.0),
    "a negative prior": _parameter("item_prior", -1.0),
    "an unknown parameter": _parameter("luck", 1.0),
    "a missing parameter": lambda content: content["strategy"]["parameters"].pop("item_prior"),
    "no percentile": _parameter("percentile", 0.0),
    "fewer words about erasure": lambda content: content["not_protected"].pop(1),
}  # fmt: skip


def _refused(folder, change, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    verify(copy)
    _forge(copy, change)
    with pytest.raises(VerificationError) as refusal:
        verify(copy)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("name", STEP)
@pytest.mark.parametrize("way", ["spectral", "guided"])
def test_a_forged_step_is_refused_in_one_line(folders, way, name, tmp_path):
    _refused(folders[way], STEP[name], tmp_path)


GUIDE = {
    "no guide": lambda content: content.update(guide=None),
    "a hash that is none": lambda content: content["guide"].update(sha256="0" * 63),
    "a guide that is not private, unnoticed": lambda content: content["guide"].update(private=False),
    "a guide that lacks everybody": lambda content: content["guide"].update(missing_users=30),
    "fewer than no missing users": lambda content: content["guide"].update(missing_users=-1),
    "a unit that is none": lambda content: content["guide"].update(unit="day"),
    "a strategy's name too long": lambda content: content["guide"].update(strategy="x" * 41),
    "one round": _parameter("refine", 0.0),
    "half refined": _parameter("refine", 0.5),
}


@pytest.mark.parametrize("name", GUIDE)
def test_a_forged_guide_is_refused_in_one_line(folders, name, tmp_path):
    _refused(folders["guided"], GUIDE[name], tmp_path)


def test_a_guide_where_there_was_none_is_refused(folders, tmp_path):
    guide = json.loads((folders["guided"] / "certificate.json").read_text())["guide"]
    _refused(folders["spectral"], lambda content: content.update(guide=guide), tmp_path)


EVERYBODY = {
    "only listed users": lambda content: content["strategy"]["parameters"].pop("learn_from_all"),
    "fewer buckets": _parameter("buckets", 32.0),
    "half a bucket": _parameter("buckets", 64.5),
    "one item round": _parameter("item_rounds", 1.0),
    "no weight of counts": _parameter("count_weight", 0.0),
    "another weight of counts": _parameter("count_weight", 0.2),
    "no floor": _parameter("floor", 0.0),
    "listed users pay": _in_step(0, payer="listed users"),
    "items read off": lambda content: content["input"].update(item_universe="read off the ratings"),
    "items not needed": lambda content: content["input"].update(item_universe="not needed"),
    "fewer rows": _times(0, "rows", 2),
}


@pytest.mark.parametrize("name", EVERYBODY)
@pytest.mark.parametrize("way", ["buckets", "catalogue"])
def test_forged_steps_of_users_outside_the_list_are_refused(folders, way, name, tmp_path):
    if (way, name) == ("catalogue", "fewer buckets"):
        pytest.skip("a declared catalogue has no buckets")
    _refused(folders[way], EVERYBODY[name], tmp_path)


def test_another_size_of_the_catalogue_is_refused(folders, tmp_path):
    _refused(folders["catalogue"], lambda content: content.update(items=31), tmp_path)
