"""``Evaluation``: the output of ``pricdr evaluate --json``, read from a file that is not trusted, and checked."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.verdict import Training, Verdict
from pricdr.experiments.records import Count, Flag, Number, Text, read_json

MAX_BYTES: Final = 1 << 24
_LARGEST: Final = 1e9  # larger than any metric can be
_SHOWN: Final = 5  # the most models that an error names

RankingName: TypeAlias = Literal["sampled", "full"]


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)  # keys may be added within a version


class Interval(_Open):
    """A mean difference with its 95 % interval."""

    mean: Number
    low: Number
    high: Number


class _OfModel(_Open):
    """Something about one model, for the users of one stratum."""

    model: Text
    ranking: RankingName
    stratum: Text


class MeasuredVerdict(_OfModel):
    """Whether a model is better than the first one."""

    verdict: Verdict
    about_release: Flag
    difference: Number
    low: Number
    high: Number
    sentence: Text


class MeasuredRows(_OfModel):
    """Users with, or without, a release row that a model uses."""

    row: Flag
    releases: Annotated[tuple[Count, ...], Field(max_length=64)]
    """The numbers of those whose rows they have."""
    users: Count
    value: Number | None
    baseline_value: Number | None
    difference: Interval | None


class MeasuredTraining(_Open):
    """How a model was trained."""

    method: Text
    with_release: Flag


Verdicts: TypeAlias = Annotated[tuple[MeasuredVerdict, ...], Field(max_length=10_000)]


class _Repeated(_Open):
    verdicts: Verdicts = ()


class MeasuredFigure(NamedTuple):
    """The mean of a metric over the users of a stratum; with a standard error if there are two or more."""

    value: float
    error: float | None
    users: int


class Evaluation(_Open):
    """The metrics of one or several models on one split; the first model is the one that others are compared with."""

    schema_version: Literal[3]
    protocol: Text
    users: Count
    test_items: Count
    rankings: Annotated[tuple[RankingName, ...], Field(min_length=1, max_length=2)]
    compared_by: Text
    """The metric that models are compared by."""
    models: Annotated[dict[Text, dict[RankingName, dict[Text, dict[Text, Any]]]], Field(min_length=1, max_length=1000)]
    verdicts: Verdicts
    trainings: dict[Text, MeasuredTraining] = {}
    release_rows: Annotated[tuple[MeasuredRows, ...], Field(max_length=10_000)] = ()
    repeat: _Repeated = _Repeated()
    file: str = ""
    """The name of the file it was read from, without its folder."""

    @model_validator(mode="after")
    def _judges_what_it_measured(self) -> "Evaluation":
        judged = {one.model for one in (*self.verdicts, *self.release_rows)}
        if not judged <= set(self.models):
            raise ParameterError("it judges a model that it did not measure")
        return self

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

    def method_of(self, model: str) -> str | None:
        """Return the method of a model, if the file states it."""
        return self.trainings[model].method if model in self.trainings else None

    def model_of(self, folder: str, training: Training | None) -> str:
        """Return the measured model of a folder's name, or the only one with the same method, and a release or not.

        One that was trained on all ratings cannot be measured, so one that was trained on a split represents it.
        """
        known = {name: Training(one.method, one.with_release) for name, one in self.trainings.items()}
        fitting = [name for name in self.models if training is None or known.get(name, training) == training]
        named = [name for name in fitting if self.is_folder(name, folder)]
        alike = [name for name in fitting if name in known]
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


def read_evaluation(path: Path) -> Evaluation:
    """Return the evaluation in a file of ``pricdr evaluate --json``; raise :class:`InputError` for any other file."""
    evaluation = read_json(path, Evaluation, "what pricdr evaluate --json writes (measure again)", limit=MAX_BYTES)
    return evaluation.model_copy(update={"file": path.name})


def _number(value: Any) -> float | None:  # noqa: ANN401 - whatever JSON can hold
    """Return a finite number, or None: the keys of a stratum are metrics, so its values are not validated yet."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= _LARGEST else None
