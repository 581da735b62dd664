"""EASE on [target | release]: what a linear model gains from a release, in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.models.base import UNRECORDED, ReleaseMethod
from pricdr.models.closed_form import ease
from pricdr.models.factors import Factors
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.training.loop import Recording


@dataclass(frozen=True, kw_only=True)
class EASEReleaseConfig:
    """EASE's setting, and how much the release counts."""

    regularisation: float = 300.0
    weight: float = 1.0
    """Norm of an average release row; a target row's is the square root of its ratings."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation, weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class EASERelease(ReleaseMethod):
    """EASE (Steck, WWW 2019) with the release's numbers as further columns: predictors, never recommended.

    The zero diagonal on those columns plays no part, since none of them is predicted.
    """

    config: EASEReleaseConfig = field(default_factory=EASEReleaseConfig)
    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    }

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Solve; a user without target ratings is scored by its release row. ``validation`` has no epoch to pick."""
        config = self.config
        inputs = Inputs.of(target, release)
        return ease("ease-release", inputs, regularisation=config.regularisation, weight=config.weight)
