"""docs/extending.md, "A method of your own": the example is run as it is printed."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pricdr import Guarantee, publish, synthetic_pair, transfer
from pricdr.data.synthetic import SyntheticConfig
from pricdr.errors import InputError
from pricdr.experiments.search import draws
from pricdr.models.catalogue import METHODS, configure, method_class
from pricdr.strategies import JLT

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## A method of your own") : PAGE.index("## A package of your own")]
METHOD, CONTRACT = re.findall(r"```python\n(.*?)```", SECTION, re.S)


def _module() -> ModuleType:
    """The example as the file that the page says to save."""
    module = ModuleType("neighbours")
    sys.modules[module.__name__] = module  # a dataclass looks its module up
    exec(compile(METHOD, "docs/extending.md", "exec"), module.__dict__)
    exec(compile(CONTRACT, "docs/extending.md", "exec"), module.__dict__)
    return module


MODULE = _module()
TestNeighbours = MODULE.TestNeighbours
"""The contract, collected here like any other test."""


@pytest.fixture
def catalogue(monkeypatch):
    """The example's name, once the user has named its class."""
    monkeypatch.setattr(METHODS, "_registered", {})
    monkeypatch.setattr(METHODS, "_references", {})
    return METHODS.resolve_reference("neighbours:Neighbours")


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(SyntheticConfig(users=120, source_items=250, target_items=300))


def test_naming_it_makes_it_known_to_specs_searches_and_settings(catalogue):
    assert "--method neighbours:Neighbours" in SECTION
    assert method_class(catalogue) is MODULE.Neighbours
    assert configure(catalogue, {"neighbours": 3}).config.neighbours == 3
    assert {"neighbours": 20} in draws(catalogue, 4)


def test_it_chooses_by_items_set_aside_and_refuses_what_is_not_private(pair):
    # Bits that repeat: whether real noise leaves enough to choose by is a matter of luck.
    promise = Guarantee(epsilon=200, delta=1e-6)
    seeded = publish(pair.source, promise, strategy=JLT(dim=64), users=pair.users, insecure_seed=1)
    model = transfer(pair.target, seeded, method=MODULE.Neighbours(), allow_not_private=True)
    assert model.chosen.settings["neighbours"] in (5, 10, 20)
    with pytest.raises(InputError, match="NOT PRIVATE"):
        transfer(pair.target, seeded, method=MODULE.Neighbours())
