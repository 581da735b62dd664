"""Names in what somebody else wrote: looked up, never imported. The module they name leaves a mark when it is."""

import json

import numpy as np
import pytest

from pricdr import Guarantee, Ratings, publish, verify
from pricdr.cli import run
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.experiments.spec import read_search, read_specs
from pricdr.models import FittedModel, Popularity
from pricdr.models.catalogue import METHODS, method_class
from pricdr.privacy.strategies import BY_NAME
from pricdr.strategies import JLT
from tests.extensions.packages import BUCKETS, NEIGHBOURS
from tests.forging import reseal

MARK = 'import pathlib\npathlib.Path(__file__).with_name("imported").touch()\n'
NAMES = ["evil:Buckets", "evil:Neighbours", "evil", "evil.Buckets", "os:system", "evil:Buckets\n", "EVIL", "../evil"]


@pytest.fixture
def evil(tmp_path, monkeypatch, forgetting):
    """A module that is importable, and would do as a method or a strategy; whether it was imported."""
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "evil.py").write_text(MARK + NEIGHBOURS + BUCKETS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    return (folder / "imported").exists


def test_a_certificate_imports_nothing(evil, tmp_path):
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    folder = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=4), users=["a", "b"]).save(
        tmp_path / "release"
    )
    write_ratings(tmp_path / "target.parquet", Ratings.from_triples(["a", "b"], ["p", "q"]))
    train = ["train", str(tmp_path / "target.parquet"), "--method", "ridge-release", "--release", str(folder)]
    for at, name in enumerate(NAMES):
        reseal(folder, lambda content, name=name: content["strategy"].update(name=name))
        with pytest.raises(VerificationError, match=r"strategy\.name|is not one this software knows"):
            verify(folder)
        # Whoever insists gets a model of the numbers, where the certificate can be read at all; nothing is imported.
        refused = int(name != "evil")
        assert run([*train, "--out", str(tmp_path / f"m{at}"), "--allow-unverified"]) == refused
        assert not evil()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_folder_imports_nothing(evil, tmp_path, name):
    target = Ratings.from_triples(["a", "b"], ["x", "y"])
    folder = Popularity().fit(target).save(tmp_path / "model")
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**about, "method": name}))
    if name == "evil":  # a name like any other: what a model holds is numbers
        model = FittedModel.load(folder)
        assert model.method == "evil"
        assert np.isfinite(model.score(np.arange(2))).all()
    else:
        with pytest.raises(InputError, match=r"model\.json: method "):
            FittedModel.load(folder)
    assert not evil()


SPEC = """
title = "a table"
[data]
folder = "here"
source = "a.csv"
target = "b.csv"
[[arm]]
name = "arm"
method = "METHOD"
release = { strategy = "STRATEGY" }
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_and_the_settings_of_its_search_import_nothing(evil, tmp_path, name):
    spec = tmp_path / "table.toml"
    for key in ("METHOD", "STRATEGY"):
        text = SPEC.replace(key, json.dumps(name)[1:-1]).replace("METHOD", "ridge-release").replace("STRATEGY", "jlt")
        spec.write_text(text)
        for read in (read_specs, read_search):
            with pytest.raises(InputError, match=r"table\.toml: arm (#1|'arm')"):
                read(spec)
    fixed = f"search = {{ {json.dumps(name)} = {{ batch = 2 }} }}\n[[arm]]"
    spec.write_text(SPEC.replace("METHOD", "ridge-release").replace("STRATEGY", "jlt").replace("[[arm]]", fixed))
    with pytest.raises(InputError, match=r"table\.toml: "):
        read_search(spec)
    assert not evil()


def test_a_spec_may_name_a_module_that_the_user_names_too(evil, tmp_path):
    text = SPEC.replace("METHOD", "evil:Neighbours").replace("STRATEGY", "evil:Buckets")
    (tmp_path / "table.toml").write_text(text)
    with pytest.raises(InputError, match="unless the command line names it too"):
        read_specs(tmp_path / "table.toml")
    assert METHODS.resolve_reference("evil:Neighbours") == "neighbours"
    assert BY_NAME.resolve_reference("evil:Buckets") == "buckets"
    assert evil()
    ((arm,),) = (spec.arms for spec in read_specs(tmp_path / "table.toml"))
    assert (arm.method_name, arm.release.strategy_name) == ("neighbours", "buckets")


@pytest.mark.parametrize("name", ["evil:Neighbours", "evil", "evil.Neighbours"])
def test_looking_a_name_up_imports_nothing(evil, name):
    for registry in (METHODS, BY_NAME):
        assert name not in registry
        assert registry.get(name) is None
        assert registry.resolve_stored(name) == name
        with pytest.raises(ParameterError, match="there is no"):
            registry.find(name)
    with pytest.raises(ParameterError, match="there is no method"):
        method_class(name)
    assert not evil()
