"""What a fitted model tells about itself: sizes, groups of users, and the promise it was trained under."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pricdr.errors import VerificationError
from pricdr.evaluation.verdict import Training, training_of
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel, Origin
from pricdr.models.recommendations import Basis
from pricdr.models.recommending import BASES
from pricdr.release.certificate import Certificate


@dataclass(frozen=True)
class UserGroup:
    """Users with or without own ratings, with or without a release row that the model uses."""

    stratum: str
    row: bool
    users: int
    bases: tuple[Basis, ...]
    """What their recommendations rest on; more than one where users of the group differ."""


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model and its name. Nothing here names a user, an item or a fingerprint of ratings."""

    name: str
    model: FittedModel

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.model.method

    @property
    def origin(self) -> Origin:
        """What it was trained with and on; nothing where it does not say."""
        return self.model.origin or Origin({}, None)

    @property
    def chosen(self) -> Chosen:
        """What validation chose."""
        return self.model.chosen

    @property
    def training(self) -> Training | None:
        """Its method and whether it saw a release; None where it saw the source's ratings."""
        return training_of(self.model)

    @property
    def ratings(self) -> int | None:
        """How many ratings it was trained on; None in an exported model."""
        return None if self.model.summary is not None else int(self.model.seen.nnz)

    @property
    def with_release(self) -> bool:
        """Whether it was trained with a release, used or not."""
        return self.origin.release is not None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of its release, as it was recorded."""
        return self.origin.certificate

    @property
    def signer(self) -> str | None:
        """The fingerprint of the key that signed its release; None where no signature was checked."""
        from pricdr.release.signing import fingerprint, public_from_text

        key = self.origin.release_signed_by
        return None if key is None else fingerprint(public_from_text(key))

    @cached_property
    def contradiction(self) -> str | None:
        """What is wrong with the recorded certificate: a folder may have been written by anybody."""
        from pricdr.release.issue import check

        if self.certificate is None:
            return None
        try:
            check(self.certificate)
        except VerificationError as error:
            return str(error)
        return None

    @cached_property
    def groups(self) -> tuple[UserGroup, ...]:
        """The four groups of users, those without anybody left out."""
        model = self.model
        warm = model.summary.has_history if model.summary is not None else np.diff(model.seen.indptr) > 0
        bases = model.bases(np.arange(len(model.users)))
        found = []
        for stratum, members in (("warm", warm), ("cold", ~warm)):
            for row in (True, False):
                own = members & (model.in_release == row)
                used = tuple(BASES[at] for at in np.unique(bases[own]).tolist())
                found.append(UserGroup(stratum, row, int(own.sum()), used))
        return tuple(group for group in found if group.users)
