"""EASE on [target | plaintext source]. NOT PRIVATE: what a linear model gains from the source itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.domains import DomainPair
from pricdr.data.splits import HeldOut
from pricdr.errors import require_positive
from pricdr.models.base import UNRECORDED, PlaintextMethod
from pricdr.models.fitted import Factors
from pricdr.models.inputs import Inputs
from pricdr.models.linear._closed_form import ease
from pricdr.training.loop import Recording


@dataclass(frozen=True, kw_only=True)
class EASESourceConfig:
    """EASE's setting, and how much the source counts."""

    regularisation: float = 300.0
    weight: float = 0.3
    """What a source rating counts beside a target rating's 1."""

    def __post_init__(self) -> None:
        require_positive(regularisation=self.regularisation, weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class EASESource(PlaintextMethod):
    """EASE (Steck, WWW 2019) with the source's items as further columns: predictors, never recommended."""

    config: EASESourceConfig = field(default_factory=EASESourceConfig)
    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "regularisation": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "weight": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    }

    def fit_plaintext(
        self, pair: DomainPair, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED
    ) -> Factors:
        """Solve; a user without target ratings is scored by its source row. ``validation`` has no epoch to pick."""
        config = self.config
        inputs = Inputs.plaintext(pair)
        return ease("ease-source", inputs, regularisation=config.regularisation, weight=config.weight)
