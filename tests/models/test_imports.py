"""What the target's stage loads, and how far it is from ``fit`` to the epoch loop."""

import subprocess
import sys
import traceback
from dataclasses import replace

import pytest

from pricdr._transfer import transfer
from pricdr.models import RunLog
from pricdr.models.base import DataAccess
from pricdr.models.catalogue import METHODS, method_class

PROGRAM = """
import sys
from importlib import import_module
from pkgutil import walk_packages
import numpy as np
from pricdr import Ratings
for name in ("models", "training", "evaluation"):
    package = import_module(f"pricdr.{name}")
    for module in walk_packages(package.__path__, f"pricdr.{name}."):
        import_module(module.name)
from pricdr.models.methods.linear import EASE
model = EASE().fit(Ratings.from_triples(["a", "b"], ["x", "y"]))
model.recommend(["a"])
print([name for name in ("pydantic", "duckdb", "polars", "pandas", "pyarrow") if name in sys.modules])
"""


@pytest.mark.slow
def test_training_and_recommending_load_neither_pydantic_nor_a_table_engine():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("name", [name for name in METHODS if method_class(name)().options is not None])
def test_the_epoch_loop_is_three_calls_from_fit(planted, name):
    def look(what, done, total, note=""):
        if note.startswith("epoch"):
            names = [frame.name for frame in traceback.extract_stack()]
            assert names.index("train_network") - names.index("fit") <= 3
            raise KeyboardInterrupt

    method = method_class(name)()
    method = replace(method, options=replace(method.options, device="cpu"))
    access = method.data_access()[0]
    release = planted.release if access is DataAccess.RELEASE else None
    source = planted.source if access is DataAccess.PLAINTEXT else None
    with pytest.raises(KeyboardInterrupt):
        transfer(planted.target, release, method=method, plaintext_source=source, log=RunLog(progress=look))
