"""Whoever calls the public interface can name every type that it takes or returns."""

import inspect
import typing
from types import ModuleType

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import pricdr
from pricdr.data.tables import Library

STATEMENTS = {"pricdr.release.certificate", "pricdr.alignment.messages"}
"""The parts of a certificate, and of an alignment's record: fields of a public class, as its file has them."""
CALLED_BY_PUBLISH = {"described", "example_rows", "item_rows", "publish", "resolved", "steps", "units"}
"""Methods of strategies and of ratings: what they take exists inside ``publish`` alone."""
SEAMS = {"training_run", "target_stage", "source_stage"}
"""Networks that are not trained yet: for those who test or write a method."""

PUBLIC = {name: getattr(pricdr, name) for name in pricdr.__all__ if not isinstance(getattr(pricdr, name), ModuleType)}
PUBLIC |= {name: getattr(pricdr.strategies, name) for name in pricdr.strategies.__all__}
PUBLIC |= {name: getattr(pricdr.models, name) for name in pricdr.models.__all__}
NAMES = {**PUBLIC, "pd": pd, "pa": pa, "pl": pl, "sp": sp, "Library": Library, "Ed25519PrivateKey": Ed25519PrivateKey}


def _classes(hint):
    """Every class inside a type: dict[str, Ratings | None] holds Ratings."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def _annotated(value):
    """A function, or the fields, the properties and the methods of a class that anybody may call."""
    yield value
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        plain = getattr(plain, "fget", None) or getattr(plain, "func", None) or plain
        if inspect.isfunction(plain) and not name.startswith("_") and name not in CALLED_BY_PUBLISH | SEAMS:
            yield plain


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_type_in_a_public_signature_is_public(name):
    hidden = {
        f"{one.__module__}.{one.__qualname__}"
        for annotated in _annotated(PUBLIC[name])
        for what, hint in typing.get_type_hints(annotated, localns=NAMES).items()
        if not what.startswith("_")
        for one in _classes(hint)
        if one.__module__.startswith("pricdr") and one not in PUBLIC.values() and one.__module__ not in STATEMENTS
    }
    assert not hidden


def test_the_check_would_notice_a_hidden_type():
    def careless(folder: "dict[str, pricdr.data.pairs.Overlap]") -> None: ...

    assert {one.__name__ for hint in typing.get_type_hints(careless).values() for one in _classes(hint)} == {
        *("str", "Overlap", "NoneType")
    }
