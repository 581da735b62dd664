"""``Evaluation``: what ``pricdr evaluate --json`` wrote, read again and checked. The file is not trusted."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.data.reading.text_files import shorten
from pricdr.errors import InputError
from pricdr.evaluation.verdict import Training, Verdict
from pricdr.untrusted.opening import read_bounded

MOST_BYTES: Final = 1 << 24
_VERSION: Final = 2
_LARGEST: Final = 1e9
"""No metric comes near it."""
_SHOWN: Final = 5
"""Models that an error names."""

Text: TypeAlias = Annotated[str, Field(max_length=4000)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
RankingName: TypeAlias = Literal["sampled", "full"]
VerdictName: TypeAlias = Literal["helps", "hurts", "cannot be told"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)  # keys may be added within a version


class Interval(_Record):
    """A mean difference and its 95 % interval."""

    mean: Number
    low: Number
    high: Number
    p_value: Number


class MeasuredVerdict(_Record):
    """Whether a model helps over the first one, for one kind of users."""

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
    """What a model was trained by."""

    method: Text
    with_release: bool


class _Repeated(_Record):
    verdicts: list[MeasuredVerdict] = Field(default_factory=list, max_length=10_000)


class _Layout(_Record):
    protocol: Text
    users: Count
    test_items: Count
    rankings: list[RankingName] = Field(min_length=1, max_length=2)
    compared_by: Text
    models: dict[Text, dict[RankingName, dict[Text, dict[Text, Any]]]] = Field(min_length=1, max_length=1000)
    verdicts: list[MeasuredVerdict] = Field(max_length=10_000)
    trainings: dict[Text, MeasuredTraining] = Field(default_factory=dict)
    release_rows: list[MeasuredRows] = Field(default_factory=list, max_length=10_000)
    repeat: _Repeated | None = None


@dataclass(frozen=True)
class MeasuredFigure:
    """The mean of a metric over the users of a stratum; its standard error where there are two or more."""

    value: float
    error: float | None
    users: int


@dataclass(frozen=True)
class Evaluation:
    """Figures of one or several models on one split."""

    file: str
    """The name of the file they were read from, without its folder."""
    layout: _Layout

    @property
    def compared_by(self) -> str:
        """The metric that models are compared by."""
        return self.layout.compared_by

    @property
    def rankings(self) -> list[RankingName]:
        """Among which candidates items were ranked."""
        return self.layout.rankings

    @property
    def one_item_each(self) -> bool:
        """Whether every user has one test item."""
        return self.layout.test_items == self.layout.users

    @property
    def baseline(self) -> str:
        """The model that the others are compared with."""
        return next(iter(self.layout.models))

    def metrics(self, model: str, ranking: RankingName) -> list[str]:
        """Return the metrics of a model, in their order."""
        strata = self.layout.models[model].get(ranking, {})
        figures = next(iter(strata.values()), {})
        return [name for name in figures if name not in {"users", "standard_error"}]

    def figure(self, model: str, ranking: RankingName, stratum: str, metric: str) -> MeasuredFigure | None:
        """Return one figure; None where there are no such users, or where it was not measured."""
        figures = self.layout.models[model].get(ranking, {}).get(stratum, {})
        value, users, errors = _number(figures.get(metric)), figures.get("users"), figures.get("standard_error")
        if value is None or type(users) is not int or users < 1:
            return None
        return MeasuredFigure(value, _number(errors.get(metric)) if isinstance(errors, dict) else None, users)

    def verdicts(self, model: str, ranking: RankingName) -> list[MeasuredVerdict]:
        """Return what the differences between a model and the first come to."""
        return [one for one in self.layout.verdicts if (one.model, one.ranking) == (model, ranking)]

    def repeated_verdicts(self, model: str) -> list[MeasuredVerdict]:
        """Return the verdicts over several splits; nothing unless ``--repeat`` was given."""
        found = [] if self.layout.repeat is None else self.layout.repeat.verdicts
        return [one for one in found if one.model == model]

    def release_rows(self, model: str, ranking: RankingName) -> list[MeasuredRows]:
        """Return the users with and without a release row; nothing for a model without a release."""
        return [one for one in self.layout.release_rows if (one.model, one.ranking) == (model, ranking)]

    def method_of(self, model: str) -> str | None:
        """Return the method of a model, where the file says it."""
        training = self.layout.trainings.get(model)
        return None if training is None else training.method

    def model_of(self, folder: str, training: Training | None) -> str:
        """Return the measured model that is, or stands for, the one in a folder.

        It has the folder's name, or else it is the only one by the same method that saw a release where this one did:
        a model that was trained on everything cannot be measured, and is described by one trained alike on a split.

        Args:
            folder: the name of the model folder.
            training: its method, and whether it saw a release.
        """
        named = [name for name in self.layout.models if self.is_folder(name, folder) and self._fits(name, training)]
        alike = [name for name in self.layout.models if name in self.layout.trainings and self._fits(name, training)]
        for found in (named, alike):
            if len(found) == 1:
                return found[0]
        measured = ", ".join(shorten(name) for name in list(self.layout.models)[:_SHOWN])
        rule = "more than one could be" if named or alike else "none of them is"
        raise InputError(f"{self.file} measured {measured}: {rule} {shorten(folder)} (pricdr evaluate measures it)")

    @staticmethod
    def is_folder(model: str, folder: str) -> bool:
        """Return whether a measured model, called by its path, lay in a folder of this name."""
        return Path(model).name == folder

    def _fits(self, name: str, training: Training | None) -> bool:
        known = self.layout.trainings.get(name)
        return known is None or training is None or (known.method, known.with_release) == tuple(training)


def read_evaluation(path: Path) -> Evaluation:
    """Return what ``pricdr evaluate --json`` wrote to a file; :class:`InputError` where it holds anything else."""
    try:
        content = json.loads(read_bounded(path, limit=MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON that can be read (pricdr evaluate --json writes it)") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != _VERSION or isinstance(version, bool):
        raise InputError(f"{path} has schema_version {shorten(version)}, not {_VERSION}: measure again")
    try:
        layout = _Layout.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:40] for part in first["loc"][:4])
        raise InputError(f"{path} is not what pricdr evaluate writes: {place}: {first['msg']}") from error
    judged = {one.model for one in layout.verdicts} | {one.model for one in layout.release_rows}
    if judged - set(layout.models):
        raise InputError(f"{path} is not what pricdr evaluate writes: it judges a model that it did not measure")
    return Evaluation(path.name, layout)


def _number(value: Any) -> float | None:  # noqa: ANN401 - whatever JSON can hold
    """Return a finite number, or None: a stratum's figures may be anything, since its keys are the metrics."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= _LARGEST else None
