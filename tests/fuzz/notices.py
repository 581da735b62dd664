"""Revocation notices: nobody but the key that signed a release may take it back, and what it did take back stays so.

A release counts as revoked exactly where its folder of notices holds one of the honest notices, byte for byte.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import Guarantee, Ratings, Release, publish, verify
from pricdr.errors import InputError, VerificationError
from pricdr.release.certificate import Certificate
from pricdr.release.folder import CERTIFICATE
from pricdr.release.revocation import ENDING, FIRST_LINE, Notice, require_not_revoked
from pricdr.signing import public_text, sign
from pricdr.strategies import JLT
from tests.fuzz.cases import LONGEST_REFUSAL, Files, Kind, Seed, require
from tests.fuzz.mutations import TEXTS, json_bytes, mutate_bytes, mutate_folder, mutate_json

_HONEST_KEY = Ed25519PrivateKey.from_private_bytes(b"honest party's key, not a secret")
_FORGERS_KEY = Ed25519PrivateKey.from_private_bytes(b"forger's key, which is no secret")
_HONEST: set[bytes] = set()
"""Every notice that the honest party wrote about the release."""
_RELEASES: list[Release] = []
_CERTIFICATES: list[bytes] = []
"""The release and its signed certificate, which is no notice."""


def make_seeds(folder: Path) -> list[Seed]:
    """Notices about one signed release, with reasons of all lengths."""
    ratings = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
    published = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=2), insecure_seed=7)
    published.save(folder / "release", signing_key=_HONEST_KEY)
    release = verify(folder / "release")
    _RELEASES[:] = [release]
    _CERTIFICATES[:] = [(folder / "release" / CERTIFICATE).read_bytes()]
    assert Certificate.from_bytes(_CERTIFICATES[0]) == release.certificate
    seeds = []
    for number, reason in enumerate(("wrong user list", "x", "é 💥 <b>&\"'`" * 20, "x" * 400)):
        raw = _notice(release, reason=reason).signed(_HONEST_KEY)
        _HONEST.add(raw)
        seeds.append(Seed(f"reason {number}", {f"{number}{ENDING}": raw}))
    return seeds


def _notice(about: Release, **changes: Any) -> Notice:
    content = {
        "release": about.sha256(),
        "reason": "wrong user list",
        "revoked": "2026-01-02",
        "signed_by": public_text(_HONEST_KEY.public_key()),
    }
    return Notice.model_construct(**{**content, **changes})


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes or fields, sign with a key of one's own, borrow a signature, or change the set of files."""
    ((name, raw),) = seed.files.items()
    ((_, spare),) = other.files.items()
    draw = rng.randrange(8)
    if draw < 2:
        raw = mutate_bytes(rng, raw, spare)
    elif draw < 4:
        raw = _changed_fields(rng, raw, spare)
    elif draw < 7:
        raw = _forged(rng, raw)
    files: dict[str, Any] = {name: raw}
    if rng.random() < 0.3:
        files[f"z{ENDING}"] = spare
    return mutate_folder(rng, files) if rng.random() < 0.2 else files


def _changed_fields(rng: Random, raw: bytes, spare: bytes) -> bytes:
    changed = mutate_json(rng, _content(raw), _content(spare))
    message = FIRST_LINE + json_bytes(rng, changed, **rng.choice(({"indent": 2}, {}))) + b"\n"
    return message + rng.choice((raw.split(b"\n")[-2] + b"\n", sign(_FORGERS_KEY, message), sign(_HONEST_KEY, b"x")))


def _forged(rng: Random, raw: bytes) -> bytes:
    """What a stranger can write in good form: another reason under the honest name, or all under their own."""
    release = _RELEASES[0]
    text = rng.choice([text for text in TEXTS if 0 < len(text) <= 400])
    if rng.random() < 0.3:
        return _notice(release, signed_by=public_text(_FORGERS_KEY.public_key())).signed(_FORGERS_KEY)
    if rng.random() < 0.2:  # the certificate's own signature, which the honest key did make
        return _CERTIFICATES[0] + sign(_HONEST_KEY, _CERTIFICATES[0])
    changed = _notice(release, **rng.choice(({"reason": text}, {"revoked": "2025-12-31"}, {"release": "0" * 64})))
    return changed.message() + rng.choice((raw.split(b"\n")[-2] + b"\n", sign(_FORGERS_KEY, changed.message())))


def _content(raw: bytes) -> Any:
    return json.loads(raw.removeprefix(FIRST_LINE)[: -len(raw.split(b"\n")[-2]) - 1])


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Look the release up: revoked where an honest notice is there to be read, and nowhere else."""
    honest = any(
        entry in _HONEST for name, entry in files.items() if name.endswith(ENDING) and not name.startswith(".")
    )
    try:
        read = require_not_revoked(_RELEASES[0], folder)
    except VerificationError as error:
        require("was revoked on" in str(error), f"a folder that was refused: {error}")
        require(honest, f"a notice that the key never signed: {error}")
        return
    require(not honest, "an honest notice that was overlooked")
    for remark in read.remarks:
        require(remark.isprintable() and len(remark) < LONGEST_REFUSAL, f"a remark not for a terminal: {remark!r}")
    raise InputError("nothing here revokes the release")


KIND = Kind(make_seeds, mutate, judge)
