"""What a method is. Three kinds, told apart by what they are allowed to see; a fitted one is always :class:`Factors`.

A method is a frozen dataclass of its configuration (and, where it is trained, its ``TrainingOptions``). It reads no
files, parses no arguments and owns no epoch loop.
"""

from abc import ABC, abstractmethod

from pricdr.data.domains import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.fitted import Factors
from pricdr.models.inputs import ReleaseRows
from pricdr.training.loop import Recording

UNRECORDED = Recording()


class TargetMethod(ABC):
    """Sees the target's ratings and nothing else."""

    @abstractmethod
    def fit(self, target: Ratings, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED) -> Factors:
        """Fit to the target; ``validation`` picks the epoch, where there are epochs."""


class ReleaseMethod(ABC):
    """Sees the target's ratings and a release: what it does costs the source no privacy beyond the release."""

    @abstractmethod
    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Fit to the target and the rows of a release; users of either are served."""


class PlaintextMethod(ABC):
    """NOT PRIVATE: sees the source's ratings as they are. For comparison only."""

    @abstractmethod
    def fit_plaintext(
        self, pair: DomainPair, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED
    ) -> Factors:
        """Fit to both domains in plaintext; ``validation`` is about the target's items."""
