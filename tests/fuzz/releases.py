"""Releases: folders that anybody may have written, with hashes, digest, README and signature made to fit again.

What a release must not do is promise more than its own figures give. Whether the declarations behind the figures are
true (how the noise was drawn, what a rating may count) no reader can see; a signature says who vouches for them. So a
release that verifies is held to the formula for a Gaussian mechanism, computed here on its own; one with the same
declarations as its honest original may not promise more than that; and one that verifies under the honest party's
public key must be the honest one.
"""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from scipy.special import log_ndtr

from pricdr import (
    JLT,
    SJLT,
    Bounds,
    Calibration,
    Features,
    Guarantee,
    Guided,
    Ratings,
    Release,
    Spectral,
    publish,
    verify,
)
from pricdr.certificate import Certificate, LedgerStatement
from pricdr.data.features import ItemFeatures
from pricdr.disclosure import readme, statement
from pricdr.errors import PriCDRError
from pricdr.issuing import issue
from pricdr.release import CERTIFICATE, MATRIX, README, SIGNATURE
from pricdr.signing import public_text, sign
from pricdr.terms import Terms
from tests.fuzz.cases import Files, Kind, Seed, Wrong, require, require_ids
from tests.fuzz.matrices import mutate_matrix
from tests.fuzz.mutations import json_bytes, mutate_bytes, mutate_folder, mutate_json

_USERS = tuple(f"u{at:02d}" for at in range(12))
_ITEMS = tuple(f"i{at}" for at in range(9))
_CELLS = [(user, item) for u, user in enumerate(_USERS) for i, item in enumerate(_ITEMS) if (u * 5 + i * 3) % 4]
_RATINGS = Ratings.from_triples(*zip(*_CELLS, strict=True), [1 + at % 5 for at in range(len(_CELLS))])
_PROMISE = Guarantee(epsilon=4, delta=1e-6)
_HONEST_KEY = Ed25519PrivateKey.from_private_bytes(b"honest party's key, not a secret")
_FORGERS_KEY = Ed25519PrivateKey.from_private_bytes(b"forger's key, which is no secret")
_KEY_FILE = "honest.pub"
_VERSION_1 = Path(__file__).parents[1] / "version1"


def _published(strategy: Any, promise: Guarantee = _PROMISE, **more: Any) -> Release:
    return publish(_RATINGS, promise, strategy=strategy, insecure_seed=7, **{"users": _USERS, **more})


def _as_private(release: Release, *, ledger: LedgerStatement | None = None) -> Release:
    """The seeded release with the certificate of one whose noise was secret, so that every run has the same seeds."""
    terms = replace(Terms.of(release.certificate), source="secret", ledger=ledger)
    return Release(release.matrix, release.users, issue(terms))


def make_seeds(folder: Path) -> list[Seed]:
    """One release of every strategy, unit, calibration and source of noise, and those of schema version 1."""
    jlt = _published(JLT(dim=4))
    features = ItemFeatures.of_tags(_ITEMS, [("even",) if at % 2 else ("odd", "war") for at in range(len(_ITEMS))])
    guide = _as_private(_published(Spectral(dim=6)))
    user = Guarantee(epsilon=4, delta=1e-6, unit="user")
    mu = jlt.certificate.mu
    account = LedgerStatement(releases=2, mu_total=mu * 1.5, epsilon_total=7.0, budget_epsilon=9.0, budget_delta=1e-6)
    releases = {
        "jlt": _as_private(jlt),
        "signed": _as_private(jlt),
        "seeded": jlt,
        "noiseless": publish(_RATINGS, _PROMISE, strategy=JLT(dim=4), users=_USERS, insecure_no_noise=True),
        "sjlt": _as_private(_published(SJLT(dim=4), items=_ITEMS)),
        "spectral": _as_private(_published(Spectral(dim=6))),
        "learnt from all": _as_private(_published(Spectral(dim=6, learn_from="all"), users=_USERS[:8])),
        "guided": _as_private(_published(Guided(guide=guide, dim=6))),
        "features": _as_private(_published(Features(features=features, dim=2))),
        "user": _as_private(_published(JLT(dim=4), user, bounds=Bounds(clip=3.0))),
        "user spectral": _as_private(_published(Spectral(dim=6), user, bounds=Bounds(clip=3.0))),
        "values": _as_private(_published(JLT(dim=4), bounds=Bounds(rating_bound=5.0, rating_step=0.5))),
        "ledger": _as_private(jlt, ledger=account),
        "automatic": _as_private(_published(JLT(dim=None))),
        "paper": _as_private(_published(JLT(dim=4), calibration=Calibration.PAPER)),
    }
    for name, release in releases.items():
        release.save(folder / name, signing_key=_HONEST_KEY if name == "signed" else None)
    folders = [*(folder / name for name in releases), *sorted(path for path in _VERSION_1.iterdir() if path.is_dir())]
    return [_seed(path, path.name if path.parent == folder else f"version 1 {path.name}") for path in folders]


def _seed(path: Path, name: str) -> Seed:
    files = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return Seed(name, files, Certificate.from_bytes(files[CERTIFICATE]))


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the certificate, the matrix, the README, bytes of any file or the set of files; then mostly reseal."""
    files: dict[str, Any] = dict(seed.files)
    for _ in range(rng.choice((1, 1, 1, 2))):
        draw = rng.randrange(10)
        if draw < 4:
            files[CERTIFICATE] = _changed_certificate(rng, files[CERTIFICATE], other)
        elif draw < 8:
            files[MATRIX] = mutate_matrix(rng, seed.files[MATRIX], other.files[MATRIX])
        else:
            name = rng.choice(sorted(files))
            files[name] = mutate_bytes(rng, files[name], other.files.get(name, b""))
    if rng.random() < 0.85:
        _reseal(rng, files)
    return mutate_folder(rng, files) if rng.random() < 0.06 else files


def _changed_certificate(rng: Random, raw: bytes, other: Seed) -> bytes:
    try:
        content = json.loads(raw)
    except ValueError:
        return raw
    return json_bytes(rng, mutate_json(rng, content, json.loads(other.files[CERTIFICATE])), indent=2) + b"\n"


def _reseal(rng: Random, files: dict[str, Any]) -> None:
    """Do what any forger can: hashes, digest, a README that fits the certificate, a signature of their own."""
    try:
        content = json.loads(files[CERTIFICATE])
        content.pop("digest", None)
        content["signed_by"] = public_text(_FORGERS_KEY.public_key()) if content.get("signed_by") else None
        if rng.random() < 0.97:
            files[README] = readme(Certificate.model_validate(content)).encode()
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, PriCDRError):
        content = None  # not a certificate any more; hash what there is
    try:
        content = json.loads(files[CERTIFICATE]) if content is None else content
        content.pop("digest", None)
        content["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in (MATRIX, README)}
        digest = hashlib.sha256(_text(content)).hexdigest()
        files[CERTIFICATE] = _text({**content, "digest": digest})
    except (ValueError, TypeError, AttributeError):
        return
    if content.get("signed_by"):
        files[SIGNATURE] = sign(_FORGERS_KEY, files[CERTIFICATE])
    else:
        files.pop(SIGNATURE, None)


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Verify as anybody would, read out what ``inspect`` says, and hold the promise to the formula."""
    key = folder.with_name(_KEY_FILE)
    if not key.exists():
        key.write_bytes(_HONEST_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    try:
        vouched = verify(folder, public_key=key)
    except PriCDRError:
        vouched = None
    if vouched is not None:
        require(dict(files) == dict(seed.files), "a changed release under the honest signature")
    release = verify(folder)
    certificate = release.certificate
    for section in statement(certificate):
        require(section.lines, "an empty section")
    require(repr(release).isprintable(), f"a release whose description does not print: {release!r}")
    _require_rows(release)
    _require_promise(certificate)
    _require_no_more(certificate, seed.meaning)


def _require_rows(release: Release) -> None:
    certificate = release.certificate
    require(release.matrix.shape == (certificate.users, certificate.dim), "a matrix of another shape than certified")
    require(np.isfinite(release.matrix).all(), "a matrix with numbers that are not finite")
    require_ids("user", release.users)


def _require_promise(c: Certificate) -> None:
    require(c.private == (c.noise.source == "secret"), "a release is private exactly where its noise was secret")
    require(math.isfinite(c.delta) and 0 < c.delta < 1, "a delta that is none")
    if c.noise.source == "none":
        require(c.epsilon is None and c.sigma == 0, "an epsilon without noise")
        return
    if c.epsilon is None or not 0 < c.epsilon < math.inf:
        raise Wrong(f"noise without a finite epsilon: {c.epsilon}")
    largest = 2 * (c.bounds.clip or 0.0) if c.unit == "user" else c.bounds.rating_bound
    if c.strategy.name in ("jlt", "sjlt", "features"):
        require(c.sensitivity >= largest * (1 - 1e-9), f"a sensitivity below the bounds: {c.sensitivity} {largest}")
    mu = _least_mu(c)
    require(c.mu is not None and c.mu >= mu * (1 - 1e-9), f"a mu below its steps: {c.mu} {mu}")
    for epsilon, delta in [(c.epsilon, c.delta), *((p.epsilon, p.delta) for p in c.epsilon_at_delta)]:
        if epsilon is not None:
            needed = _log_delta(epsilon * (1 + 1e-6), mu)
            require(needed <= math.log(delta) + 1e-6, f"a promise beyond its noise: {epsilon} {delta} at mu {mu}")


def _least_mu(c: Certificate) -> float:
    """μ of the group that pays most, without roundings: at least this much was spent."""
    if not c.steps:
        return c.sensitivity / c.sigma
    payers = {step.payer for step in c.steps}
    return max(math.hypot(*(s.sensitivity / s.sigma for s in c.steps if s.payer == payer)) for payer in payers)


def _log_delta(epsilon: float, mu: float) -> float:
    """log δ of a Gaussian mechanism: Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    first, second = float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf


_DECLARED = ("unit", "strategy", "bounds", "noise", "calibration", "users", "items", "dim", "sigma", "grid")


def _require_no_more(c: Certificate, honest: Certificate) -> None:
    """Where everything that was declared is the same, so is what follows, but for a weaker promise."""
    same = all(getattr(c, name) == getattr(honest, name) for name in _DECLARED)
    if not same or [s.sigma for s in c.steps] != [s.sigma for s in honest.steps]:
        return
    require(c.private == honest.private, "private where the original is not")
    if c.epsilon is not None and honest.epsilon is not None and c.delta <= honest.delta:
        require(c.epsilon >= honest.epsilon * (1 - 1e-6), f"a smaller epsilon than the original's: {c.epsilon}")


KIND = Kind(make_seeds, mutate, judge)
