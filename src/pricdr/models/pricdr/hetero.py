"""HeteroCDR: the target through DMF towers, the release through an auto-encoder, both into one space of users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pricdr.data.domains import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import UNRECORDED, PlaintextMethod, ReleaseMethod
from pricdr.models.fitted import Factors
from pricdr.models.inputs import Inputs, ReleaseRows
from pricdr.models.pricdr._networks import TwoTowers
from pricdr.models.pricdr._source_stage import SourceConfig, fit_both
from pricdr.training.loop import Recording, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class HeteroCDR(ReleaseMethod, PlaintextMethod):
    """Train on target ratings and a release: the `default` preset, what works best. The paper's is ``PaperCDR``.

    In two parts: DMF on the target, then the release's rows into the same space, against its finished items. Trained
    jointly, as the paper has it, a release at ε = 8 cost users with history NDCG@10 (.009 ± .006 for sjlt on Douban).
    """

    space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "batch": (128, 256, 512),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
        "release_dropout": (0.2, 0.5),
        "reconstruction": (0.0, 0.1, 1.0),
        "alignment": (0.0, 0.01, 0.1),
    }
    narrow_space: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "learning_rate": (2e-4, 5e-4, 1e-3),
        "weight_decay": (1e-4, 1e-2, 1e-1),
        "batch": (128, 256, 512),
        "dropout": (0.3, 0.5, 0.7),
        "entry_dropout": (0.3, 0.5, 0.7),
        "narrow_dropout": (0.0, 0.1, 0.2),
    }
    """What a search tries with a release of at most 32 numbers per row."""

    config: SourceConfig = field(default_factory=SourceConfig)
    options: TrainingOptions = field(default_factory=TrainingOptions)

    def fit(
        self,
        target: Ratings,
        release: ReleaseRows,
        *,
        validation: HeldOut | None = None,
        recording: Recording = UNRECORDED,
    ) -> Factors:
        """Fit to ``target`` and to the rows of a release.

        ``validation`` picks the epochs and how far the release is trusted; it is about ``target``'s users.
        """
        return self._fit(target, Inputs.of(target, release), validation, recording)

    def fit_plaintext(
        self, pair: DomainPair, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED
    ) -> Factors:
        """NOT PRIVATE: fed the source's ratings themselves, to see what there is to gain. Nothing is reconstructed."""
        return self._fit(pair.target, Inputs.plaintext(pair), validation, recording)

    def _fit(self, target: Ratings, inputs: Inputs, validation: HeldOut | None, recording: Recording) -> Factors:
        return fit_both(TwoTowers, "hetero", target, inputs, self.config, self.options, validation, recording)
