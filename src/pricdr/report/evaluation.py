"""``Evaluation``: the output of ``pricdr evaluate --json``, read from a file that is not trusted, and checked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError
from pricdr.evaluation.verdict import Training, Verdict
from pricdr.untrusted import read_bounded

MAX_BYTES: Final = 1 << 24
_VERSION: Final = 2
_LARGEST: Final = 1e9
"""Larger than any metric can be."""
_SHOWN: Final = 5
"""The most models that an error names."""

Text: TypeAlias = Annotated[str, Field(max_length=4000)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
RankingName: TypeAlias = Literal["sampled", "full"]
VerdictName: TypeAlias = Literal["helps", "hurts", "cannot be told"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)  # keys may be added within a version


class Interval(_Record):
    """A mean difference with its 95 % interval."""

    mean: Number
    low: Number
    high: Number
    p_value: Number


class MeasuredVerdict(_Record):
    """Whether a model is better than the first one, for the users of one stratum."""

    model: Text
    baseline: Text
    ranking: RankingName
    stratum: Text
    verdict: VerdictName
    about_release: bool
    difference: Number
    low: Number
    high: Number
    sentence: Text

    @property
    def helps(self) -> bool:
        """Whether these users gain."""
        return self.verdict == Verdict.HELPS.value


class MeasuredRows(_Record):
    """Users of one stratum with, or without, a release row that a model uses; see ``evaluation.release_rows``."""

    model: Text
    ranking: RankingName
    stratum: Text
    row: bool
    users: Count
    value: Number | None
    baseline: Text | None
    baseline_value: Number | None
    difference: Interval | None


class MeasuredTraining(_Record):
    """How a model was trained."""

    method: Text
    with_release: bool


class _Repeated(_Record):
    verdicts: list[MeasuredVerdict] = Field(default_factory=list, max_length=10_000)


@dataclass(frozen=True)
class MeasuredFigure:
    """The mean of a metric over the users of a stratum; with a standard error if there are two or more."""

    value: float
    error: float | None
    users: int


class Evaluation(_Record):
    """The metrics of one or several models on one split; the first model is the one that others are compared with."""

    file: Text
    """The name of the file, without its folder."""
    protocol: Text
    users: Count
    test_items: Count
    rankings: list[RankingName] = Field(min_length=1, max_length=2)
    compared_by: Text
    """The metric that models are compared by."""
    models: dict[Text, dict[RankingName, dict[Text, dict[Text, Any]]]] = Field(min_length=1, max_length=1000)
    judged: list[MeasuredVerdict] = Field(alias="verdicts", max_length=10_000)
    trainings: dict[Text, MeasuredTraining] = Field(default_factory=dict)
    groups: list[MeasuredRows] = Field(alias="release_rows", default_factory=list, max_length=10_000)
    repeat: _Repeated = Field(default_factory=_Repeated)

    @property
    def one_item_each(self) -> bool:
        """Whether every user has one test item."""
        return self.test_items == self.users

    @property
    def baseline(self) -> str:
        """The model that the others are compared with."""
        return next(iter(self.models))

    def metrics(self, model: str, ranking: RankingName) -> list[str]:
        """Return the metrics of a model, in their order."""
        figures = next(iter(self.models[model].get(ranking, {}).values()), {})
        return [name for name in figures if name not in {"users", "standard_error"}]

    def figure(self, model: str, ranking: RankingName, stratum: str, metric: str) -> MeasuredFigure | None:
        """Return one figure; None if there are no such users, or it was not measured."""
        figures = self.models[model].get(ranking, {}).get(stratum, {})
        value, users, errors = _number(figures.get(metric)), figures.get("users"), figures.get("standard_error")
        if value is None or type(users) is not int or users < 1:
            return None
        return MeasuredFigure(value, _number(errors.get(metric)) if isinstance(errors, dict) else None, users)

    def verdicts(self, model: str, ranking: RankingName) -> list[MeasuredVerdict]:
        """Return the verdicts on a model, compared with the first one."""
        return [verdict for verdict in self.judged if (verdict.model, verdict.ranking) == (model, ranking)]

    def repeated_verdicts(self, model: str) -> list[MeasuredVerdict]:
        """Return the verdicts over several splits; empty unless ``--repeat`` was given."""
        return [verdict for verdict in self.repeat.verdicts if verdict.model == model]

    def release_rows(self, model: str, ranking: RankingName) -> list[MeasuredRows]:
        """Return the groups of users with and without a release row; empty for a model without a release."""
        return [group for group in self.groups if (group.model, group.ranking) == (model, ranking)]

    def method_of(self, model: str) -> str | None:
        """Return the method of a model, if the file states it."""
        return self.trainings[model].method if model in self.trainings else None

    def model_of(self, folder: str, training: Training | None) -> str:
        """Return the measured model that is the one in a folder, or that represents it.

        It has the name of the folder, or it is the only one with the same method, and with a release if this one has
        one: a model that was trained on all ratings cannot be measured, so one trained on a split represents it.
        """
        fitting = [name for name in self.models if self._fits(name, training)]
        named = [name for name in fitting if self.is_folder(name, folder)]
        alike = [name for name in fitting if name in self.trainings]
        for candidates in (named, alike):
            if len(candidates) == 1:
                return candidates[0]
        measured = ", ".join(shorten(name) for name in list(self.models)[:_SHOWN])
        rule = "more than one could be" if named or alike else "none of them is"
        raise InputError(f"{self.file} measured {measured}: {rule} {shorten(folder)} (pricdr evaluate measures it)")

    @staticmethod
    def is_folder(model: str, folder: str) -> bool:
        """Return whether the path of a measured model ends in this folder name."""
        return Path(model).name == folder

    def _fits(self, name: str, training: Training | None) -> bool:
        known = self.trainings.get(name)
        return known is None or training is None or (known.method, known.with_release) == tuple(training)


def read_evaluation(path: Path) -> Evaluation:
    """Return the evaluation in a file of ``pricdr evaluate --json``; raise :class:`InputError` for any other file."""
    try:
        raw = read_bounded(path, limit=MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON that can be read (pricdr evaluate --json writes it)") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != _VERSION or isinstance(version, bool):
        raise InputError(f"{path} has schema_version {shorten(version)}, not {_VERSION}: measure again")
    try:
        evaluation = Evaluation.model_validate({**content, "file": path.name})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:4])
        raise InputError(f"{path} is not what pricdr evaluate writes: {place}: {first['msg']}") from error
    judged = [verdict.model for verdict in evaluation.judged] + [group.model for group in evaluation.groups]
    if not set(judged) <= set(evaluation.models):
        raise InputError(f"{path} is not what pricdr evaluate writes: it judges a model that it did not measure")
    return evaluation


def _number(value: Any) -> float | None:  # noqa: ANN401 - whatever JSON can hold
    """Return a finite number, or None: the keys of a stratum are metrics, so its values are not validated yet."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= _LARGEST else None
