"""Facts about a fitted model: its sizes, its groups of users, and the promise it was trained under."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pricdr.errors import VerificationError
from pricdr.evaluation.verdict import Training, training_of
from pricdr.models.fitted import Chosen, FittedModel, Origin
from pricdr.models.recommend import BASES, Basis
from pricdr.release.certificate import Certificate


@dataclass(frozen=True)
class UserGroup:
    """Users with or without ratings of their own, and with or without a release row that the model uses."""

    stratum: str
    row: bool
    users: int
    bases: tuple[Basis, ...]
    """What their recommendations are based on; more than one if users of the group differ."""


@dataclass(frozen=True, eq=False)
class ModelInfo:
    """The facts about a model that a card shows: no ids and no fingerprint of ratings."""

    name: str
    model: FittedModel

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.model.method

    @property
    def origin(self) -> Origin:
        """The recorded origin of the model; empty if none was recorded."""
        return self.model.origin or Origin({}, None)

    @property
    def chosen(self) -> Chosen:
        """What validation chose."""
        return self.model.chosen

    @property
    def training(self) -> Training | None:
        """Its method and whether it saw a release; None if it saw the source's ratings."""
        return training_of(self.model)

    @property
    def ratings(self) -> int | None:
        """How many ratings it was trained on; None for an exported model."""
        return None if self.model.summary is not None else int(self.model.seen.nnz)

    @property
    def with_release(self) -> bool:
        """Whether it was trained with a release, even if the release is not used."""
        return self.origin.release is not None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of its release, as recorded in the model folder."""
        return self.origin.certificate

    @property
    def signer(self) -> str | None:
        """The fingerprint of the key that signed its release; None if no signature was checked."""
        from pricdr.signing import fingerprint, public_from_text

        key = self.origin.release_signed_by
        return None if key is None else fingerprint(public_from_text(key))

    @cached_property
    def contradiction(self) -> str | None:
        """What is wrong with the recorded certificate, if anything: anyone may have written the folder."""
        from pricdr.release.certify import check

        if self.certificate is None:
            return None
        try:
            check(self.certificate)
        except VerificationError as error:
            return str(error)
        return None

    @cached_property
    def groups(self) -> tuple[UserGroup, ...]:
        """The groups of users, without empty ones."""
        model = self.model
        warm = model.summary.has_history if model.summary is not None else np.diff(model.seen.indptr) > 0
        bases = model.bases(np.arange(len(model.users)))
        groups = []
        for stratum, in_stratum in (("warm", warm), ("cold", ~warm)):
            for row in (True, False):
                members = in_stratum & (model.in_release == row)
                group_bases = tuple(BASES[at] for at in np.unique(bases[members]).tolist())
                groups.append(UserGroup(stratum, row, int(members.sum()), group_bases))
        return tuple(group for group in groups if group.users)
