"""The optional dependencies, by the extra that installs them; publishing and checking need none of them."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from typing import Final

from pricdr.errors import MissingExtraError


@dataclass(frozen=True)
class Extra:
    """The modules that one part of the software needs, and the extra that installs them."""

    name: str
    modules: tuple[str, ...]
    needs: str  # the beginning of a message: what needs them, with the verb

    def require(self) -> None:
        """Raise :class:`MissingExtraError` if a package is not installed; nothing is imported."""
        missing = [module for module in self.modules if find_spec(module) is None]
        if missing:
            raise MissingExtraError(f"{self.needs} {' and '.join(missing)}: {self.command}", name=missing[0])

    @property
    def command(self) -> str:
        """The command that installs them: by the packages' own names, since pip finds no package named pricdr."""
        try:
            lines = [line.partition(";") for line in requires("pricdr") or ()]
        except PackageNotFoundError:  # run from the sources
            return f"pip install '.[{self.name}]' in the folder of the sources"
        packages = [f"'{line.strip()}'" for line, _, marker in lines if f"extra == '{self.name}'" in marker]
        return f"pip install {' '.join(packages)}"


TRAIN: Final = Extra("train", ("torch",), "methods and networks need")
REPORT: Final = Extra("report", ("altair", "vl_convert"), "charts need")
SERVE: Final = Extra("serve", ("fastapi", "httptools", "prometheus_client", "uvicorn"), "servers need")
FAISS: Final = Extra("faiss", ("faiss",), "approximate searches need")
SPARK: Final = Extra("spark", ("pyspark", "pyarrow", "pandas"), "--engine spark needs")
SQL: Final = Extra("sql", ("adbc_driver_postgresql", "pyarrow"), "databases need")
