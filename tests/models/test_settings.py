"""What holds for every method: impossible settings are refused by name, and so is a release over other users."""

from dataclasses import fields

import numpy as np
import pytest

from pricdr.errors import InputError, ParameterError
from pricdr.models import ReleaseMethod
from pricdr.models.catalogue import METHODS, MOST, configure, with_preset
from pricdr.models.fitted import Basis
from pricdr.testing.contracts import release_with_rows

CONFIGS = {name: METHODS.find(name)().config for name in METHODS.own if hasattr(METHODS.find(name)(), "config")}
RELEASE_METHODS = [name for name in METHODS.own if issubclass(METHODS.find(name), ReleaseMethod)]
NONE_OF_IT = [-1.0, float("inf"), float("nan")]
BEYOND = [
    *(("conet", "width", 3), ("ddtcdr", "hidden", 1), ("etl", "width", 1), ("neumf", "layers", 8)),
    *((name, "dropout", 1.0) for name, config in CONFIGS.items() if hasattr(config, "dropout")),
    *((name, "entry_dropout", 1.0) for name, config in CONFIGS.items() if hasattr(config, "entry_dropout")),
    *(("hetero", f"{kind}_dropout", 1.0) for kind in ("release", "narrow", "plaintext")),
    *(("ddtcdr", "share", 1.0), ("ddtcdr", "hide", 1.0)),
    *((name, "regularisation", 0.0) for name in ("ease", "ease-source", "ease-release", "ridge-release")),
    *(("ease-source", "weight", 0.0), ("ease-release", "weight", 0.0), ("ridge-release", "scale", 0.0)),
]


@pytest.mark.parametrize("name", CONFIGS)
def test_impossible_settings_are_refused(name):
    config = CONFIGS[name]
    for setting in fields(config):
        default = getattr(config, setting.name)
        values = [] if isinstance(default, bool | str) else [0, 2.5] if isinstance(default, int) else NONE_OF_IT
        for value in values:
            with pytest.raises(ParameterError, match=setting.name):
                type(config)(**{setting.name: value})


@pytest.mark.parametrize(("name", "setting", "value"), BEYOND)
def test_settings_beyond_their_rule_are_refused(name, setting, value):
    with pytest.raises(ParameterError, match=setting):
        type(CONFIGS[name])(**{setting: value})


@pytest.mark.parametrize("name", RELEASE_METHODS)
def test_a_release_over_other_users_is_refused(planted, name):
    strangers = release_with_rows(planted.release.matrix, tuple(f"x{i}" for i in range(60)))
    with pytest.raises(InputError, match="another user list"):
        METHODS.find(name)().fit(planted.target, strangers)


@pytest.mark.parametrize("name", RELEASE_METHODS)
def test_users_only_in_the_release_are_served_from_it(planted, name):
    settings = {"epochs": 40, "batch": 16, "learning_rate": 1e-2} if METHODS.find(name)().options else {}
    model = configure(name, settings).fit(planted.target.select(users=planted.target.users[:48]), planted.release)
    assert set(model.users) == set(planted.release.users)
    found = model.recommend(list(planted.cold), k=5)
    assert {r.basis for r in found} == {Basis.RELEASE}
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9


def test_settings_are_checked_by_name_type_and_size():
    method = configure("dmf", {"hidden": 7, "dropout": 0, "epochs": MOST, "seed": MOST + 1})
    assert (method.config.hidden, method.config.dropout) == (7, 0.0)
    assert (method.options.epochs, method.options.seed) == (MOST, MOST + 1)
    for name, settings, says in (
        ("dmf", {"epochs": MOST + 1}, "epochs must be at most 1,000,000, got 1,000,001"),
        ("dmf", {"hidden": 7.0}, "hidden must be int, got"),
        ("dmf", {"dropout": True}, "dropout must be float, got"),
        ("dmf", {"depth": 3}, r"method dmf has no setting 'depth': .*hidden"),
        ("dmff", {}, "there is no method"),
    ):
        with pytest.raises(ParameterError, match=says):
            configure(name, settings)
    with pytest.raises(ParameterError, match=r"method dmf has no preset .*paper.*: default"):
        with_preset("dmf", "paper")
