"""Certificates of learnt releases, forged with care: digest, README and hashes all fit, and ``verify`` still refuses.

What is tried is a change that makes the release look better, or other than it was, without redoing everything that
follows from it. A certificate that was issued anew from other terms is a matter of signatures.
"""

import json
from copy import deepcopy

import numpy as np
import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr.errors import VerificationError
from pricdr.strategies import Continued, Guided, Spectral
from tests.forging import reseal
from tests.fuzz.mutations import at_path, paths

USERS, ITEMS = (tuple(f"{kind}{at:02d}" for at in range(30)) for kind in "ui")
OTHERS = tuple(f"x{at}" for at in range(10))
PROMISE = Guarantee(epsilon=4, delta=1e-6)
BELIEVED = {
    *(("strategy", "parameters", name) for name in ("centring", "item_prior", "percentile")),
    *(("guide", name) for name in ("strategy", "epsilon", "delta", "missing_users")),
    ("series", "place"),
    ("input", "threshold"),
    ("issuer",),
}
"""Declared terms that no figure follows from, as the threat model says."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each way."""
    at, rng = tmp_path_factory.mktemp("releases"), np.random.default_rng(2)
    cells = [(user, item) for user in (*USERS, *OTHERS) for item in ITEMS if rng.random() < 0.3]
    ratings = Ratings.from_triples(*zip(*cells, strict=True))
    spectral = publish(ratings, PROMISE, strategy=Spectral(dim=4), users=USERS)
    made = {
        "spectral": spectral,
        "guided": publish(ratings, PROMISE, strategy=Guided(guide=spectral, dim=4), users=USERS),
        "continued": publish(ratings, PROMISE, strategy=Continued(before=[spectral]), users=USERS),
    }
    return {name: release.save(at / name) for name, release in made.items()}


def _others(value):
    """What somebody may write in place of a value."""
    match value:
        case bool():
            return [not value]
        case int():
            return [2 * value or 1]
        case float():
            return [value * (1 - 1e-6) or 1.0]
        case str():
            return ["nothing"]
        case None:
            return [0.5, "declared"]
        case list():
            return [value[1:], value[:-1], value[::-1], [*value, *value[-1:]]]
    return [None]


@pytest.mark.parametrize("way", ["spectral", "guided", "continued"])
@pytest.mark.slow
def test_whatever_is_forged_is_refused_in_one_line(folders, way, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folders[way].iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    verify(copy)
    honest = json.loads((copy / "certificate.json").read_text())
    del honest["digest"]
    believed = {("epsilon",)} | BELIEVED
    plain = {} if way == "spectral" else json.loads((folders["spectral"] / "certificate.json").read_text())
    alike = [path for path in paths(plain) if at_path(plain, path) == at_path(honest, path)]  # which that way forges
    refusals = []
    for path in paths(honest):
        if path[0] == "files" or path in alike:
            continue
        for value in _others(at_path(honest, path)):
            forged = deepcopy(honest)
            at_path(forged, path[:-1])[path[-1]] = value
            if forged == honest:
                continue
            reseal(copy, lambda content, forged=forged: content.update(forged), rewrite_readme=True)
            try:
                verify(copy)
            except VerificationError as refusal:
                refusals.append(str(refusal))
            else:
                assert path in believed, (path, value)
                assert path != ("epsilon",) or value > PROMISE.epsilon, "less may be promised than is kept, never more"
    assert len(refusals) > (40 if way == "continued" else 60)  # which has two steps
    assert all("\n" not in refusal and len(refusal) < 400 for refusal in refusals)
