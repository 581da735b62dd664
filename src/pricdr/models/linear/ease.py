"""EASE: a linear item-to-item model in closed form. Seconds to fit, and hard to beat."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.models.base import UNRECORDED, TargetMethod
from pricdr.models.fitted import Factors
from pricdr.models.inputs import Inputs
from pricdr.models.linear._closed_form import ease
from pricdr.training.loop import Recording


@dataclass(frozen=True, kw_only=True)
class EASEConfig:
    """The one setting of EASE."""

    regularisation: float = 300.0
    """λ: the larger, the less a pair of items that met by chance counts."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation)


@dataclass(frozen=True, kw_only=True)
class EASE(TargetMethod):
    """Each item predicted from all the others by ridge regression with a zero diagonal (Steck, WWW 2019)."""

    config: EASEConfig = field(default_factory=EASEConfig)
    space: ClassVar[Mapping[str, tuple[object, ...]]] = {"regularisation": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)}

    def fit(self, target: Ratings, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED) -> Factors:
        """Solve; a user without ratings gets what is popular. ``validation`` has no epoch to pick here."""
        return ease("ease", Inputs.target_only(target), regularisation=self.config.regularisation)
