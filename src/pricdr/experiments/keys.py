"""What a result was measured with, defaults included: a result counts only for the same settings.

Seed and device are apart: a result states its seed beside its key, and where it ran. A default that changes
invalidates every arm that left it as it was, and no other. So does a method's ``revision``, which is raised when the
same settings begin to give other models.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from pricdr.experiments.arms import GUIDE_DIM, Arm, ReleaseSpec
from pricdr.experiments.data_spec import DataSpec
from pricdr.models.catalogue import configure, method_class
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import Guided, Spectral, Strategy


def result_key(data: DataSpec, arm: Arm, *, full: bool) -> str:
    """Return the key of an arm's results on this data."""
    return key_of({"data": data.content(), "arm": resolved(data, arm), "full": full})


def key_of(settings: Mapping[str, Any]) -> str:
    """Return the key of results that these settings, resolved, tell from any others."""
    return hashlib.sha256(json.dumps(_alike(settings), sort_keys=True).encode()).hexdigest()[:16]


def resolved(data: DataSpec, arm: Arm) -> dict[str, Any]:
    """Return everything that decides what an arm measures beside data and seed: no name, and every default."""
    settings = configure(arm.method_name, arm.settings).settings()
    for name in ("seed", "device"):
        settings.get("options", {}).pop(name, None)
    return {
        "method": arm.method_name,
        "revision": method_class(arm.method_name).revision,
        "settings": settings,
        "release": None if arm.release is None else _resolved_release(data, arm.release),
        "plaintext": arm.plaintext,
        "source_share": arm.source_share if arm.release or arm.plaintext else None,
    }


def _resolved_release(data: DataSpec, release: ReleaseSpec) -> dict[str, Any]:
    kind = BY_NAME.find(release.strategy_name)
    guarantee = Guarantee(epsilon=release.epsilon, delta=release.delta or data.delta)
    given: dict[str, Any] = {"dim": release.dim or kind.default_dim(guarantee)}
    if release.density is not None:
        given["density"] = release.density
    if kind is Guided:
        guide = {"rows": release.guide.value, **resolved_strategy(Spectral, {"dim": GUIDE_DIM})}
        given |= {"refine": release.refine, "guide": guide}
    return {
        "strategy": release.strategy_name,
        **resolved_strategy(kind, given),
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "rows": release.rows.value,
        "calibration": release.calibration.value,
    }


def resolved_strategy(kind: type[Strategy], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides what a strategy computes: what it is given, every default, and its revision."""
    constants = {one.name: _default(one) for one in fields(kind) if one.name not in given}
    return {"revision": kind.revision, "constants": constants | dict(given)}


def _default(constant: "Field[Any]") -> Any:  # noqa: ANN401 - whatever a strategy has
    if constant.default is not MISSING:
        return constant.default
    return None if constant.default_factory is MISSING else constant.default_factory()


def _alike(value: Any) -> Any:  # noqa: ANN401 - any part of JSON
    """Return the value with every number a float, so that 4 and 4.0 are the same setting."""
    if isinstance(value, Mapping):
        return {str(name): _alike(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_alike(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if isinstance(value, str | float | bool) or value is None else repr(value)
