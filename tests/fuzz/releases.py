"""Releases: folders that anybody may have written, with hashes, digest, README and signature made to fit again.

What a release must not do is promise more than its own figures give. Whether the declarations behind the figures are
true (how the noise was drawn, what a rating may count) no reader can see; a signature says who vouches for them. So a
release that verifies is held to the formula for a Gaussian mechanism, computed here on its own; one with the same
declarations as its honest original may not promise more than that; and one that verifies under the honest party's
public key must be the honest one.

Notices: nobody but the key that signed a release may take it back, and what it did take back stays so. A release counts
as revoked exactly where its folder of notices holds one of the honest notices, byte for byte.
"""

import hashlib
import io
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from scipy.special import log_ndtr

from pricdr import Bounds, Guarantee, Ledger, Ratings, Release, publish, verify
from pricdr.cli.inspect import inspect
from pricdr.data.features import ItemFeatures
from pricdr.errors import InputError, PriCDRError, VerificationError
from pricdr.privacy.accounting import Calibration
from pricdr.randomness import Simulation
from pricdr.release.certificate import Certificate
from pricdr.release.certify import calibrated_by, issue
from pricdr.release.folder import CERTIFICATE, MATRIX, README, SIGNATURE, USERS
from pricdr.release.inspection import Inspection, render_inspection
from pricdr.release.readme import readme
from pricdr.release.revocation import ENDING, FIRST_LINE, Notice, require_not_revoked
from pricdr.signing import public_text, sign
from pricdr.strategies import JLT, SJLT, Continued, Features, Guided, Spectral
from tests.alignment.records import record_of
from tests.fuzz.cases import MAX_REFUSAL_LENGTH, Files, Kind, Seed, Wrong, require, require_ids
from tests.fuzz.mutations import (
    NUMBERS,
    TEXTS,
    at_path,
    json_bytes,
    mutate_bytes,
    mutate_folder,
    mutate_ids,
    mutate_json,
    mutate_tensors,
    nudge,
    paths,
)

_USERS = tuple(f"u{at:02d}" for at in range(12))
_ITEMS = tuple(f"i{at}" for at in range(9))
_CELLS = [(user, item) for u, user in enumerate(_USERS) for i, item in enumerate(_ITEMS) if (u * 5 + i * 3) % 4]
_RATINGS = Ratings.from_triples(*zip(*_CELLS, strict=True), [1 + at % 5 for at in range(len(_CELLS))])
_PROMISE = Guarantee(epsilon=4, delta=1e-6)
_HONEST_KEY = Ed25519PrivateKey.from_private_bytes(b"honest party's key, not a secret")
_FORGERS_KEY = Ed25519PrivateKey.from_private_bytes(b"forger's key, which is no secret")
_KEY_FILE = "honest.pub"
_TERMS = (
    "epsilon", "nominal_epsilon", "delta", "unit", "bounds", "calibration", "noise", "steps", "strategy", "users",
    "dim", "items", "input", "guide", "ledger", "software", "issuer", "issued",
)  # fmt: skip
"""Fields of a certificate that others follow from."""
_CHOICES = (
    "rating", "user", "exact", "paper", "secret", "seeded", "none", "jlt", "sjlt", "spectral", "declared", "starter",
    "\x1b[2J",
)  # fmt: skip
_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "p", "a", "dl",
    "dt", "dd", "ul", "li", "figure", "svg", "g", "line", "text", "polyline", "circle", "rect", "figcaption", "div",
    "span", "img", "picture", "source", "table", "caption", "thead", "tbody", "tr", "th", "td", "button", "script",
}  # fmt: skip
"""What the page of an inspection is made of."""


@contextmanager
def repeatable() -> Iterator[None]:
    """Let noise be drawn from a seed, time stand still and nonces repeat themselves: every run has the same seeds."""
    draws = Random(7)
    fixed = {"Secret": lambda: nullcontext(Simulation(7)), "today": lambda: "2026-01-01"}
    still = patch("pricdr.privacy.ledger._now", lambda: "2026-01-01", create=True)
    nonces = patch("secrets.token_hex", lambda size: draws.randbytes(size).hex())
    with patch.multiple(sys.modules["pricdr._publish"], **fixed), still, nonces:
        yield


def _published(strategy: Any, promise: Guarantee = _PROMISE, **more: Any) -> Release:
    return publish(_RATINGS, promise, strategy=strategy, **{"users": _USERS, **more})


def make_releases(folder: Path) -> list[Seed]:
    """One release of every strategy, unit, calibration and source of noise."""
    features = ItemFeatures.of_tags(_ITEMS, [("even",) if at % 2 else ("odd", "war") for at in range(len(_ITEMS))])
    user = Guarantee(epsilon=4, delta=1e-6, unit="user")
    with repeatable():
        jlt = _published(JLT(dim=4))
        ledger = Ledger.create(folder / "ledger.jsonl", Guarantee(epsilon=9, delta=1e-6))
        guide = _published(Spectral(dim=6))
        releases = {
            "jlt": jlt,
            "signed": jlt,
            "issued": _published(JLT(dim=4), issuer="Films & Co. <b>`x`"),
            "aligned": _published(JLT(dim=4), alignment=record_of(_USERS)),
            "seeded": _published(JLT(dim=4), insecure_seed=7),
            "noiseless": _published(JLT(dim=4), insecure_no_noise=True),
            "sjlt": _published(SJLT(dim=4), items=_ITEMS),
            "spectral": guide,
            "learnt from all": _published(Spectral(dim=6, learn_from="all"), users=_USERS[:8]),
            "guided": _published(Guided(guide=guide, dim=6)),
            "continued": _published(Continued(before=[guide])),
            "features": _published(Features(features=features, dim=2)),
            "user": _published(JLT(dim=4), user, bounds=Bounds(clip=3.0)),
            "user spectral": _published(Spectral(dim=6), user, bounds=Bounds(clip=3.0)),
            "values": _published(JLT(dim=4), bounds=Bounds(rating_bound=5.0, rating_step=0.5)),
            "ledger": _published(JLT(dim=4), ledger=ledger),
            "ledger again": _published(SJLT(dim=4), ledger=ledger),
            "paper": _published(JLT(dim=4), calibration=Calibration.PAPER),
        }
    for name, release in releases.items():
        release.save(folder / name, signing_key=_HONEST_KEY if name == "signed" else None)
    return [Seed.of_folder(folder / name, verify(folder / name).certificate) for name in releases]


def mutate_release(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the certificate, the matrix, the ids, bytes of any file or the set of files; then mostly reseal."""
    files: dict[str, Any] = dict(seed.files)
    for _ in range(rng.choice((1, 1, 1, 2))):
        draw = rng.randrange(10)
        if draw < 4:
            files[CERTIFICATE] = _changed_certificate(rng, files[CERTIFICATE], other)
        elif draw < 6:
            files[MATRIX] = mutate_tensors(rng, seed.files[MATRIX], other.files[MATRIX])
        elif draw == 6:
            files[USERS] = mutate_ids(rng, seed.files[USERS])
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
    if isinstance(content, dict) and rng.random() < 0.4:
        return _reissued(rng, content)
    return json_bytes(rng, mutate_json(rng, content, json.loads(other.files[CERTIFICATE])), indent=2) + b"\n"


def _reissued(rng: Random, content: Any) -> bytes:
    """Change what is declared, and have everything that follows from it written by the product itself."""
    leaves = [path for path in paths(content) if not isinstance(at_path(content, path), dict | list)]
    places = [path for path in leaves if path[0] in _TERMS]
    for path in rng.sample(places, min(len(places), rng.choice((1, 1, 2)))):
        inner, value = at_path(content, path[:-1]), at_path(content, path)
        if isinstance(value, float):
            inner[path[-1]] = rng.choice((nudge(rng, value), nudge(rng, value), rng.choice(NUMBERS)))
        elif isinstance(value, int) and not isinstance(value, bool):
            inner[path[-1]] = rng.choice((nudge(rng, value), 1, 1 << 20, 2**31))
        else:
            inner[path[-1]] = rng.choice((*_CHOICES, None))
    draw = rng.random()
    if draw < 0.15:
        content["software"] = rng.choice(TEXTS)
    elif draw < 0.3 and isinstance(content.get("input"), dict):
        content["input"]["filtered_by"] = rng.choice(TEXTS)
    elif draw < 0.6:
        _scale_noise(content, rng.choice((0.5, 0.9, 1 - 1e-6, 1 + 1e-6, 1.01, 1.1, 2.0, 1e6, 1e-6)))
    try:
        draft = Certificate.model_validate(_without_digest(content))
        certificate = issue(draft, calibrated_by(draft))
    except (ValueError, TypeError, AttributeError, ArithmeticError, AssertionError, PriCDRError):
        return _text(content)
    return certificate.to_bytes()


def _scale_noise(content: Any, factor: float) -> None:
    """State more noise, or less, than was drawn, on a grid that fits."""
    for path in paths(content):
        if path[-1] in ("sigma", "grid") and isinstance(value := at_path(content, path), float):
            at_path(content, path[:-1])[path[-1]] = value * factor


def _reseal(rng: Random, files: dict[str, Any]) -> None:
    """Do what any forger can: hashes, digest, a README that fits the certificate, a signature of their own."""
    try:
        content = json.loads(files[CERTIFICATE])
        content.pop("digest", None)
        content["signed_by"] = public_text(_FORGERS_KEY.public_key()) if content.get("signed_by") else None
        if rng.random() < 0.97:
            files[README] = readme(Certificate.model_validate(content)).encode()
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, RecursionError, PriCDRError):
        content = None  # not a certificate any more; hash what there is
    try:
        content = json.loads(files[CERTIFICATE]) if content is None else content
        content.pop("digest", None)
        content["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in (MATRIX, USERS, README)}
        digest = hashlib.sha256(_text(content)).hexdigest()
        files[CERTIFICATE] = _text({**content, "digest": digest})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return
    if content.get("signed_by"):
        files[SIGNATURE] = sign(_FORGERS_KEY, files[CERTIFICATE])
    else:
        files.pop(SIGNATURE, None)


def _without_digest(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != "digest"}


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def judge_release(folder: Path, seed: Seed, files: Files) -> None:
    """Verify as anybody would, look at what ``inspect`` prints, and hold the promise to the formula."""
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
    with redirect_stdout(io.StringIO()) as shown:
        inspect([folder])
    unprintable = [line for line in shown.getvalue().split("\n") if not line.isprintable()]
    require(not unprintable, f"what inspect prints a terminal would act on: {unprintable[:1]!r:.200}")
    require(release.matrix.shape == (certificate.users, certificate.dim), "a matrix of another shape than certified")
    require(np.isfinite(release.matrix).all(), "a matrix with numbers that are not finite")
    require_ids("user", release.users)
    _require_one_spelling(release, files, folder.with_name("again"))
    _require_promise(certificate)
    _require_no_more(certificate, seed.meaning)
    # Whatever a certificate holds is text in the page: its tags are those of the template.
    tags: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: tags.add(tag)  # type: ignore[method-assign]
    with patch("vl_convert.vegalite_to_svg", lambda *_, **__: "<svg></svg>"):  # a picture holds numbers, and takes long
        parser.feed(render_inspection(Inspection(release, key_given=False)))
    require(tags <= _TAGS, f"tags in the page that its template has not: {sorted(tags - _TAGS)}")


def _require_one_spelling(release: Release, files: Files, again: Path) -> None:
    """What verifies has the bytes that saving it gives: nothing else fits into it."""
    release.save(again)
    same = all((again / name).read_bytes() == files[name] for name in (MATRIX, USERS, README))
    rmtree(again)
    require(same and release.certificate.to_bytes() == files[CERTIFICATE], "a file that is not written like this")


def _require_promise(c: Certificate) -> None:
    strong = c.noise.source == "secret" and c.epsilon is not None and c.epsilon <= 16
    require(c.private == strong, "a release is private exactly where its noise was secret and epsilon at most 16")
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


# Notices

_HONEST: set[bytes] = set()
"""Every notice that the honest party wrote about the release."""


def make_notices(folder: Path) -> list[Seed]:
    """Notices about one signed release, with reasons of all lengths."""
    ratings = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
    published = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=2), insecure_seed=7)
    release = verify(published.save(folder / "release", signing_key=_HONEST_KEY))
    seeds = []
    for number, reason in enumerate(("wrong user list", "x", "é 💥 <b>&\"'`" * 20, "x" * 400)):
        raw = _notice(release, reason=reason).signed(_HONEST_KEY)
        _HONEST.add(raw)
        seeds.append(Seed(f"reason {number}", {f"{number}{ENDING}": raw}, release))
    return seeds


def _notice(about: Release, **changes: Any) -> Notice:
    content = {
        "release": about.sha256(),
        "reason": "wrong user list",
        "revoked": "2026-01-02",
        "signed_by": public_text(_HONEST_KEY.public_key()),
    }
    return Notice.model_construct(**{**content, **changes})


def mutate_notice(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes or fields, sign with a key of one's own, borrow a signature, or change the set of files."""
    ((name, raw),) = seed.files.items()
    ((_, spare),) = other.files.items()
    draw = rng.randrange(8)
    if draw < 2:
        raw = mutate_bytes(rng, raw, spare)
    elif draw < 4:
        raw = _changed_fields(rng, raw, spare)
    elif draw < 7:
        raw = _forged(rng, raw, seed.meaning)
    files: dict[str, Any] = {name: raw}
    if rng.random() < 0.3:
        files[f"z{ENDING}"] = spare
    return mutate_folder(rng, files) if rng.random() < 0.2 else files


def _changed_fields(rng: Random, raw: bytes, spare: bytes) -> bytes:
    changed = mutate_json(rng, _content(raw), _content(spare))
    message = FIRST_LINE + json_bytes(rng, changed, **rng.choice(({"indent": 2}, {}))) + b"\n"
    return message + rng.choice((raw.split(b"\n")[-2] + b"\n", sign(_FORGERS_KEY, message), sign(_HONEST_KEY, b"x")))


def _forged(rng: Random, raw: bytes, release: Release) -> bytes:
    """What a stranger can write in good form: another reason under the honest name, or all under their own."""
    text = rng.choice([text for text in TEXTS if 0 < len(text) <= 400])
    if rng.random() < 0.3:
        return _notice(release, signed_by=public_text(_FORGERS_KEY.public_key())).signed(_FORGERS_KEY)
    if rng.random() < 0.2:  # the certificate's own signature, which the honest key did make
        certificate = release.certificate.to_bytes()
        return certificate + sign(_HONEST_KEY, certificate)
    changed = _notice(release, **rng.choice(({"reason": text}, {"revoked": "2025-12-31"}, {"release": "0" * 64})))
    return changed.message() + rng.choice((raw.split(b"\n")[-2] + b"\n", sign(_FORGERS_KEY, changed.message())))


def _content(raw: bytes) -> Any:
    return json.loads(raw.removeprefix(FIRST_LINE)[: -len(raw.split(b"\n")[-2]) - 1])


def judge_notice(folder: Path, seed: Seed, files: Files) -> None:
    """Look the release up: revoked where an honest notice is there to be read, and nowhere else."""
    honest = any(
        entry in _HONEST for name, entry in files.items() if name.endswith(ENDING) and not name.startswith(".")
    )
    try:
        _, remarks = require_not_revoked(seed.meaning, folder)
    except VerificationError as error:
        require("was revoked on" in str(error), f"a folder that was refused: {error}")
        require(honest, f"a notice that the key never signed: {error}")
        return
    require(not honest, "an honest notice that was overlooked")
    for remark in remarks:
        require(remark.isprintable() and len(remark) < MAX_REFUSAL_LENGTH, f"a remark not for a terminal: {remark!r}")
    raise InputError("nothing here revokes the release")


KINDS = {
    "releases": Kind(make_releases, mutate_release, judge_release),
    "notices": Kind(make_notices, mutate_notice, judge_notice),
}
