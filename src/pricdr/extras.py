"""The optional dependencies that ``pip install pricdr`` leaves out; publishing and checking need none of them."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from pricdr.errors import MissingExtraError


@dataclass(frozen=True)
class Extra:
    """Packages that one part of the software needs, and the extra that installs them."""

    name: str
    modules: tuple[str, ...]
    """The modules that must be importable."""
    purpose: str
    """What needs them, as a plural for messages."""

    def require(self) -> None:
        """Raise :class:`MissingExtraError` if a package is not installed; nothing is imported.

        >>> Extra("nowhere", ("no_such_module",), "examples").require()
        Traceback (most recent call last):
        ...
        pricdr.errors.MissingExtraError: examples need no_such_module: pip install 'pricdr[nowhere]'
        """
        missing = [module for module in self.modules if find_spec(module) is None]
        if missing:
            raise MissingExtraError(
                f"{self.purpose} need {' and '.join(missing)}: pip install 'pricdr[{self.name}]'", name=missing[0]
            )


TRAIN: Final = Extra("train", ("torch",), "methods and networks")
REPORT: Final = Extra("report", ("altair", "vl_convert"), "charts")
SERVE: Final = Extra("serve", ("fastapi", "httptools", "prometheus_client", "uvicorn"), "servers")
FAISS: Final = Extra("faiss", ("faiss",), "approximate searches")
