"""The rivals that read the source's ratings, CoNet, DDTCDR, DARec and ETL. NOT PRIVATE: for comparison only.

CoNet and DDTCDR score pairs of a user and an item with a network (:class:`_PairedRun`); DARec and ETL decode all items
from a row of either domain (:class:`_DecodedRun`).
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, linear, relu, softplus

from pricdr.arrays import Float32Array
from pricdr.data.csr import CSR
from pricdr.models.base import Config, PlaintextMethod, SearchSpace
from pricdr.models.fitted import FittedModel
from pricdr.models.interaction import Interaction
from pricdr.models.methods.networks import NetworkMethod, NetworkRun, SparseTower, in_blocks, log_odds, numbers
from pricdr.training.loop import ScorePairs, TrainingOptions
from pricdr.training.losses import cross_entropy_per_user
from pricdr.training.rows import Bags, Negatives, SparseRows

Layers: TypeAlias = tuple[tuple[Tensor, Tensor], ...]  # weights and biases


class _RivalRun(NetworkRun):
    """A training on what each user rated in the source, ``rows_a``, and in the target, ``rows_b``."""

    of_unknown: ClassVar[float] = 0.0  # what stands in the vectors of users without any rating

    def prepare(self) -> None:
        both: tuple[Any, CSR] = (self.data.source, self.data.ratings)
        self.rows_a, self.rows_b = map(self.domain, both)
        self.known = (self.rows_a.counts > 0) | (self.rows_b.counts > 0)
        self.examples = torch.nonzero(self.known).squeeze(1)

    def domain(self, matrix: CSR) -> Any:  # noqa: ANN401 - rows, or more in a subclass
        """Return one domain's ratings by user, on the device."""
        return SparseRows(matrix, self.device)

    @abstractmethod
    def vectors(self, users: Tensor) -> Tensor:
        """Return what the model keeps of users with a rating."""

    def user_vectors(self, users: Tensor) -> Tensor:
        """Return the same for any users; of those without any rating the item bias will be all that is left."""
        return torch.where(self.known[users][:, None], self.vectors(users), self.of_unknown)

    def all_user_vectors(self) -> Float32Array:
        return in_blocks(len(self.data.users), lambda at: self.user_vectors(at).cpu(), self.device).numpy()


class _Examples(SparseRows):
    """One domain's ratings by user, on the device, and what they are compared with."""

    def __init__(self, matrix: CSR, negatives: int, device: torch.device) -> None:
        super().__init__(matrix, device)
        self._matrix, self._count = matrix, negatives
        self._negatives = Negatives(matrix, device)
        counts = torch.bincount(self.all().columns, minlength=matrix.shape[1])
        # The log-odds of an example being a rating and not a draw, where only its item is known.
        self.log_odds = torch.log((counts + 0.5) / (counts + 0.5).mean() / negatives)

    @cached_property
    def columns(self) -> Bags:
        """Who rated each item."""
        return SparseRows(self._matrix.T.tocsr(), self.counts.device).all()

    def with_drawn(self, users: Tensor, rated: Bags) -> Tensor:
        """Return a row for each rating of a batch of users: the rated item, followed by those drawn for it."""
        return torch.cat([rated.columns[:, None], self._negatives.draw(users[rated.row_of], self._count)], dim=1)

    def errors(self, items: Tensor, logits: Tensor) -> Tensor:
        logits = logits + self.log_odds[items]
        return (softplus(-logits[:, 0]) + softplus(logits[:, 1:]).sum(1)).sum()


class _PairedRun(_RivalRun):
    """A training on all ratings of a batch of users, beside drawn negatives. User vectors add to the first layer."""

    target: Any
    # A ReLU follows, so every unit is off.
    of_unknown = -1e9

    def domain(self, matrix: CSR) -> _Examples:
        return _Examples(matrix, self.config.negatives, self.device)

    @abstractmethod
    def item_parts(self) -> Tensor:
        """Return what the target's items add to the first layer."""

    @abstractmethod
    def layers(self, own: Any) -> Layers:  # noqa: ANN401 - a network of one domain
        """Return the layers after the first that score the items of one domain."""

    def through(self, layers: Layers, parts: Tensor) -> Tensor:
        """Return what comes out of these layers, ReLU and dropout before each, for sums of user and item parts."""
        for weights, bias in layers:
            parts = linear(dropout(relu(parts), self.config.dropout, self.training), weights, bias)
        return parts.squeeze(-1)

    def logits(self, parts: Tensor) -> Tensor:
        return self.through(self.layers(self.target), parts)

    @torch.no_grad()
    def scorer(self) -> ScorePairs:
        item_parts, log_odds = self.item_parts(), self.rows_b.log_odds
        return lambda users, items: self.logits(self.user_vectors(users)[:, None] + item_parts[items]) + log_odds[items]

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        layers = tuple((numbers(weights), numbers(bias)) for weights, bias in self.layers(self.target))
        interaction = Interaction(self.all_user_vectors(), numbers(self.item_parts()), layers)
        users, items = (torch.zeros(count, 0).numpy() for count in self.rows_b.shape)
        return self.data.model(self.method.name, users, items, numbers(self.rows_b.log_odds), interaction=interaction)


class _Decoder(nn.Module):
    """Scores all items of a domain from what is known of a user."""

    def __init__(self, rows: SparseRows, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        n_users, n_items = rows.shape
        self.hidden = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.last = nn.Linear(hidden, n_items)
        # Popularity is there from the start: what is learnt is how a user departs from it.
        self.last.bias.data = log_odds(rows.popularity(), n_users)

    def errors(self, codes: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy_per_user(self.last(self.hidden(codes)), labels)


class _DecodedRun(_RivalRun):
    """A training on two rows of each user, one of each domain."""

    source: Any
    target: Any

    @abstractmethod
    def features(self, side: Any, rows: Bags, users: Tensor) -> Tensor:  # noqa: ANN401 - a network of one domain
        """Return what is known of users by their rows in one domain."""

    def codes(self, from_a: Tensor, from_b: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the target's decoder is given, by features of the source and of the target."""
        return from_a, from_b

    def examples_of(self, users: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield for either domain who rated anything there, their rows as labels, and features of parts of the rows."""
        for side in (self.source, self.target):
            rows = side.rows.batch(users)
            features = self.features(side, rows.keep(1 - self.config.entry_dropout), users)
            yield (side.rows.counts[users] > 0).float(), rows.dense(side.rows.shape[1]), features

    def vectors(self, users: Tensor) -> Tensor:
        """Return what the target's last layer is given: by the target row, or by the source row where there is none."""
        sides = (self.source, self.target)
        from_a, from_b = self.codes(*(self.features(side, side.rows.batch(users), users) for side in sides))
        hidden: Tensor = self.target.decoder.hidden(torch.where(self.rows_b.counts[users, None] > 0, from_b, from_a))
        return hidden

    def scorer(self) -> ScorePairs:
        last = self.target.decoder.last
        return lambda users, items: (self.user_vectors(users)[:, None] * last.weight[items]).sum(2) + last.bias[items]

    @torch.no_grad()
    def fitted_model(self) -> FittedModel:
        last = self.target.decoder.last
        return self.data.model(self.method.name, self.all_user_vectors(), numbers(last.weight), numbers(last.bias))


@dataclass(frozen=True, kw_only=True)
class CoNetConfig(Config):
    """Settings of :class:`CoNet`."""

    least: ClassVar = {"width": 4}

    width: int = 64
    """Numbers in an embedding; the layers have width, a half and a quarter of it."""
    dropout: float = 0.1
    negatives: int = 4
    source: float = 1.0
    """Weight of the source's loss, per rating."""
    sparsity: float = 0.0
    """Weight of the L1 norm of the cross-connections: above 0 this is SCoNet."""


class _CoNetSide(nn.Module):
    """One domain: item embeddings, and the layers that are its own."""

    def __init__(self, rows: _Examples, width: int) -> None:
        super().__init__()
        self.rows = rows
        self.items = nn.Parameter(0.01 * torch.randn(rows.shape[1], width))
        self.first = nn.Linear(2 * width, width)
        self.second = nn.Linear(width, width // 2)
        self.third = nn.Linear(width // 2, width // 4)
        self.last = nn.Linear(width // 4, 1)


class _CoNetRun(_PairedRun):
    config: CoNetConfig

    def build(self) -> None:
        width = self.config.width
        self.users = nn.Parameter(0.01 * torch.randn(len(self.data.users), width))
        self.source, self.target = (_CoNetSide(rows, width) for rows in (self.rows_a, self.rows_b))
        self.cross_first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, 2 * width)))
        self.cross_second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width // 2, width)))

    def step(self, users: Tensor) -> Tensor:
        parts_a = self._user_parts(self.source, self.target, users)
        parts_b = self._user_parts(self.target, self.source, users)
        loss = self._loss(self.target, users, parts_b) + self.config.source * self._loss(self.source, users, parts_a)
        if self.config.sparsity:
            loss = loss + self.config.sparsity * (self.cross_first.abs().sum() + self.cross_second.abs().sum())
        return loss

    def _loss(self, own: _CoNetSide, users: Tensor, user_parts: Tensor) -> Tensor:
        rated = own.rows.batch(users)
        items = own.rows.with_drawn(users, rated)
        parts = user_parts[rated.row_of, None] + self._item_parts(own, own.items[items])
        return own.rows.errors(items, self.through(self.layers(own), parts)) / max(len(items), 1)

    def _user_parts(self, own: _CoNetSide, other: _CoNetSide, users: Tensor) -> Tensor:
        cross, user = self.cross_first, self.users[users]
        width, elsewhere = user.shape[1], other.rows.batch(users)
        mean = embedding_bag(elsewhere.columns, other.items, elsewhere.offsets, mode="mean")
        there = torch.cat([user, mean], dim=1)
        # The same H carries either side's input to the other, as in the paper.
        here = linear(user, own.first.weight[:, :width], own.first.bias) + linear(there, cross)
        return torch.cat([here, other.first(there) + linear(user, cross[:, :width])], dim=1)

    def _item_parts(self, own: _CoNetSide, items: Tensor) -> Tensor:
        width = items.shape[-1]
        return linear(items, torch.cat([own.first.weight[:, width:], self.cross_first[:, width:]]))

    def layers(self, own: _CoNetSide) -> Layers:
        # A cross-connection adds the other side's activations, so it is one wider layer over both sides' activations.
        # From the second layer on, only the own side's outputs are read.
        second = torch.cat([own.second.weight, self.cross_second], dim=1)
        return (second, own.second.bias), (own.third.weight, own.third.bias), (own.last.weight, own.last.bias)

    def vectors(self, users: Tensor) -> Tensor:
        return self._user_parts(self.target, self.source, users)

    def item_parts(self) -> Tensor:
        return self._item_parts(self.target, self.target.items)


@dataclass(frozen=True, kw_only=True)
class CoNet(NetworkMethod, PlaintextMethod):
    """NOT PRIVATE. Hu, Zhang and Yang (CIKM 2018): a shared user embedding, and the same Hˡ in both directions.

    The public code trains a source and a target example of *different* users side by side and predicts without the
    cross terms. Here both sides of an example are one user's: its own a rating or a drawn negative, the other the mean
    of the embeddings of what the user rated there, in training as in prediction. A batch is some users with all their
    ratings. Two softmax classes are one logit beside the item's log-odds; there is dropout, and no gradient is clipped.
    """

    name: ClassVar[str] = "conet"
    summary: ClassVar[str] = "two networks with cross connections"
    config: CoNetConfig = CoNetConfig()
    options: TrainingOptions = TrainingOptions(batch=64, learning_rate=3e-3, weight_decay=1.0)
    space: ClassVar[SearchSpace] = {
        "width": (32, 64, 128),
        "dropout": (0.0, 0.1, 0.3),
        "negatives": (1, 4, 8),
        "source": (0.1, 0.3, 1.0),
        "learning_rate": (1e-3, 3e-3),
        "weight_decay": (0.1, 0.3, 1.0),
    }
    _run = _CoNetRun


@dataclass(frozen=True, kw_only=True)
class DDTCDRConfig(Config):
    """Settings of :class:`DDTCDR`."""

    least: ClassVar = {"hidden": 2}
    shares = ("share", "hide", "dropout", "entry_dropout")

    width: int = 32
    """Numbers in a user's or an item's vector."""
    hidden: int = 64
    """The first layer of the encoders and of the networks."""
    share: float = 0.03
    """How much the other domain's network has to say."""
    hide: float = 0.2
    """Share of examples whose user is known by the other domain's vector alone, as a cold user is."""
    dropout: float = 0.1
    entry_dropout: float = 0.5
    """Share of the ratings in rows and columns left out in each batch."""
    negatives: int = 4


class _DDTCDRSide(nn.Module):
    """One domain: encoders of users' rows and items' columns, and a network over a pair of vectors."""

    def __init__(self, rows: _Examples, config: DDTCDRConfig) -> None:
        super().__init__()
        self.rows = rows
        (n_users, n_items), hidden, width = rows.shape, config.hidden, config.width
        self.users = SparseTower(n_items, hidden, width, config.dropout)
        self.items = SparseTower(n_users, hidden, width, config.dropout)
        self.first = nn.Linear(2 * width, hidden)
        self.second = nn.Linear(hidden, hidden // 2)
        self.last = nn.Linear(hidden // 2, 1)

    def user_parts(self, users: Tensor) -> Tensor:
        return linear(users, self.first.weight[:, : users.shape[1]], self.first.bias)

    def item_parts(self, items: Tensor) -> Tensor:
        return linear(items, self.first.weight[:, items.shape[1] :])

    def layers(self) -> Layers:
        return (self.second.weight, self.second.bias), (self.last.weight, self.last.bias)


class _DDTCDRRun(_PairedRun):
    config: DDTCDRConfig

    def build(self) -> None:
        self.source, self.target = (_DDTCDRSide(rows, self.config) for rows in (self.rows_a, self.rows_b))
        self.skew = nn.Parameter(0.01 * torch.randn(self.config.width, self.config.width))

    def rotation(self) -> Tensor:
        """Return X: a source user's vector times X is a target user's, and Xᵀ leads back."""
        # The exponential of a skew matrix is orthogonal, whatever the gradient does to the skew matrix.
        rotation: Tensor = torch.linalg.matrix_exp(self.skew - self.skew.T)
        return rotation

    def step(self, users: Tensor) -> Tensor:
        kept, there = 1 - self.config.entry_dropout, self.rotation()
        rated_a, rated_b = self.rows_a.batch(users), self.rows_b.batch(users)
        vectors_a, vectors_b = self.source.users(rated_a.keep(kept)), self.target.users(rated_b.keep(kept))
        mixed_a = self._hidden(vectors_a, vectors_b @ there.T, self.rows_b.counts[users] > 0)
        mixed_b = self._hidden(vectors_b, vectors_a @ there, self.rows_a.counts[users] > 0)
        loss = self._loss(self.source, users, rated_a, {self.source: mixed_a, self.target: mixed_a @ there})
        return loss + self._loss(self.target, users, rated_b, {self.target: mixed_b, self.source: mixed_b @ there.T})

    def _hidden(self, vectors: Tensor, lent: Tensor, present: Tensor) -> Tensor:
        """Return the vectors, some replaced by the other domain's: cold users will have nothing else."""
        hidden = (torch.rand(len(vectors), device=self.device) < self.config.hide) & present
        return torch.where(hidden[:, None], lent, vectors)

    def _loss(self, own: _DDTCDRSide, users: Tensor, rated: Bags, vectors: dict[_DDTCDRSide, Tensor]) -> Tensor:
        """Return the cross-entropy of both networks in one domain, per rating; each has its own user ``vectors``."""
        items, total = own.rows.with_drawn(users, rated), torch.zeros((), device=self.device)
        item_vectors = own.items(own.rows.columns.keep(1 - self.config.entry_dropout))
        for side, user in vectors.items():
            parts = side.user_parts(user)[rated.row_of, None] + side.item_parts(item_vectors)[items]
            weight = 1 - self.config.share if side is own else self.config.share
            total = total + weight * own.rows.errors(items, self.through(side.layers(), parts))
        return total / max(len(items), 1)

    def vectors(self, users: Tensor) -> Tensor:
        """Return what users add to the first layers of both networks, the target's first."""
        rotation = self.rotation()
        warm = self.rows_b.counts[users] > 0
        lent = self.source.users(self.rows_a.batch(users)) @ rotation
        vectors = torch.where(warm[:, None], self.target.users(self.rows_b.batch(users)), lent)
        return torch.cat([self.target.user_parts(vectors), self.source.user_parts(vectors @ rotation.T)], dim=1)

    def item_parts(self) -> Tensor:
        items = self.target.items(self.rows_b.columns)
        return torch.cat([self.target.item_parts(items), self.source.item_parts(items)], dim=1)

    def logits(self, parts: Tensor) -> Tensor:
        """Return the scores by both networks, each by its half of the parts."""
        sides = zip((self.target, self.source), parts.chunk(2, dim=2), strict=True)
        here, there = (self.through(side.layers(), half) for side, half in sides)
        return (1 - self.config.share) * here + self.config.share * there

    def layers(self, own: _DDTCDRSide) -> Layers:
        """Return both networks as one, block by block, with their shares in the last layer."""
        other, share = self.source, self.config.share
        second: Tensor = torch.block_diag(own.second.weight, other.second.weight)  # type: ignore[no-untyped-call]
        # A weighted sum of two outputs is one output over both hidden layers.
        last = torch.cat([(1 - share) * own.last.weight, share * other.last.weight], dim=1)
        bias = (1 - share) * own.last.bias + share * other.last.bias
        return (second, torch.cat([own.second.bias, other.second.bias])), (last, bias)


@dataclass(frozen=True, kw_only=True)
class DDTCDR(NetworkMethod, PlaintextMethod):
    """NOT PRIVATE. Li and Tuzhilin (WSDM 2020), deep dual transfer, which predicts ratings, made to rank.

    score(u, i) = (1 − α) B(u, i) + α A(Xᵀ u, i) + the item's log-odds, by cross-entropy of ratings and negatives.
    Encoders of rows and columns are trained with the rest, not beforehand as auto-encoders. There is one X, orthogonal
    by construction, and the gradient goes through it; the public code cuts that off, keeps two unrelated bridges and
    leaves dropout on in evaluation. A user without target ratings is X times its source vector, in training at times.
    """

    name: ClassVar[str] = "ddtcdr"
    summary: ClassVar[str] = "two networks and an orthogonal map between their users"
    config: DDTCDRConfig = DDTCDRConfig()
    options: TrainingOptions = TrainingOptions(batch=64, learning_rate=3e-3)
    space: ClassVar[SearchSpace] = {
        "width": (16, 32, 64),
        "hidden": (64, 128, 256),
        "share": (0.03, 0.1, 0.3),
        "dropout": (0.1, 0.3, 0.5),
        "negatives": (1, 4, 8),
        "learning_rate": (1e-3, 3e-3),
        "weight_decay": (1e-4, 0.1, 1.0),
    }
    _run = _DDTCDRRun


def reversed_gradient(vectors: Tensor, strength: float) -> Tensor:
    """Return the vectors as they are; the gradient that comes back is reversed and scaled.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> (3 * reversed_gradient(x, 0.5)).sum().backward()
    >>> x.grad
    tensor([-1.5000, -1.5000])
    """
    # Forward, the bracket is zero; backward, only the bracket has a gradient, with its sign reversed.
    still = vectors.detach()
    return still - strength * (vectors - still)


class Adversary(nn.Sequential):
    """Says how likely a vector is of the first set. With ReLUs for its sigmoids the game does not settle: units die."""

    def __init__(self, width: int, hidden: tuple[int, ...], dropout: float) -> None:
        parts: list[nn.Module] = []
        for into, out in pairwise((width, *hidden)):
            parts += [nn.Linear(into, out), nn.Sigmoid(), nn.Dropout(dropout)]
        super().__init__(*parts, nn.Linear(hidden[-1], 1), nn.Flatten(0))

    def errors(self, vectors: Tensor, *, first: bool, strength: float) -> Tensor:
        """Return the cross-entropy of each vector's set: the adversary lowers it, the network before it raises it."""
        logits = self(reversed_gradient(vectors, strength))
        return softplus(-logits if first else logits)


@dataclass(frozen=True, kw_only=True)
class DARecConfig(Config):
    """Settings of :class:`DARec`."""

    hidden: int = 200
    """Numbers in a user's embedding of one domain, and in a decoder's hidden layer."""
    width: int = 64
    """Numbers the extractor leaves of an embedding."""
    dropout: float = 0.0
    entry_dropout: float = 0.5
    """Share of a row's ratings left out in each batch."""
    source: float = 0.1
    """Weight of the source's reconstruction."""
    transfer: float = 0.3
    """Weight of predicting the target row from the source row."""
    reversal: float = 1.0
    """How strongly the extractor works against the domain classifier."""


class _DARecSide(nn.Module):
    """One domain's embedding of rows, as AutoRec has it, and its decoder."""

    def __init__(self, rows: SparseRows, config: DARecConfig) -> None:
        super().__init__()
        self.rows = rows
        self.first = nn.Parameter(0.1 * torch.randn(rows.shape[1], config.hidden))
        self.first_bias = nn.Parameter(torch.zeros(config.hidden))
        self.decoder = _Decoder(rows, config.width, config.hidden, config.dropout)


class _DARecRun(_DecodedRun):
    config: DARecConfig

    def build(self) -> None:
        self.source, self.target = (_DARecSide(rows, self.config) for rows in (self.rows_a, self.rows_b))
        self.extractor = nn.Sequential(nn.Linear(self.config.hidden, self.config.width), nn.ReLU())
        self.classifier = Adversary(self.config.width, (16, 8), dropout=0.0)

    def features(self, side: _DARecSide, rows: Bags, users: Tensor) -> Tensor:
        features: Tensor = self.extractor(relu(rows.times(side.first) + side.first_bias))
        return features

    def step(self, users: Tensor) -> Tensor:
        config = self.config  # an empty row counts for nothing
        (in_a, labels_a, from_a), (in_b, labels_b, from_b) = self.examples_of(users)
        loss: Tensor = (
            in_b * self.target.decoder.errors(from_b, labels_b)
            + config.source * in_a * self.source.decoder.errors(from_a, labels_a)
            + config.transfer * in_a * in_b * self.target.decoder.errors(from_a, labels_b)
            # The classifier lowers its error here, and through the reversed gradient the extractor raises it.
            + in_a * self.classifier.errors(from_a, first=True, strength=config.reversal)
            + in_b * self.classifier.errors(from_b, first=False, strength=config.reversal)
        ).mean()
        return loss


@dataclass(frozen=True, kw_only=True)
class DARec(NetworkMethod, PlaintextMethod):
    """NOT PRIVATE. Yuan, Yao and Benatallah (IJCAI 2019), U-DARec, which predicts ratings, made to rank.

    The squared error of observed ratings becomes cross-entropy over all items of a row. AutoRec's embeddings (with a
    ReLU) are trained with the rest, and the extractor is one layer. A row trains its own domain's decoder, a source row
    the target's too, so that users without target ratings can be scored from it. The domain classifier ends in one
    logit, where the public code puts a softmax over sigmoids; dropout, inactive there, acts in training. Also new:
    rows scaled by 1/√(entries), ratings dropped from them, decoders that start at the items' log-odds, and the target
    at full weight. What is beaten is the classifier it plays against: on planted data, one trained afterwards still
    tells the domains apart.
    """

    name: ClassVar[str] = "darec"
    summary: ClassVar[str] = "auto-encoders with a domain classifier to be fooled"
    config: DARecConfig = DARecConfig()
    options: TrainingOptions = TrainingOptions(patience=50, batch=128)
    space: ClassVar[SearchSpace] = {
        "width": (32, 64, 128, 200),
        "dropout": (0.0, 0.3, 0.5),
        "entry_dropout": (0.3, 0.5, 0.7),
        "source": (0.01, 0.1, 1.0),
        "transfer": (0.1, 0.3, 1.0),
        "reversal": (0.1, 1.0, 10.0),
        "learning_rate": (5e-4, 1e-3, 2e-3),
        "weight_decay": (1e-4, 0.1, 1.0),
    }
    _run = _DARecRun


@dataclass(frozen=True, kw_only=True)
class ETLConfig(Config):
    """Settings of :class:`ETL`."""

    least: ClassVar = {"width": 2}

    width: int = 200
    entry_dropout: float = 0.7
    """Share of a row's ratings left out in each batch."""
    dropout: float = 0.6
    """On the decoders' hidden layer; the paper has none."""
    source: float = 0.3
    """Weight of what is restored of the source: the target is what is to be learnt."""
    equivalence: float = 0.5
    """Weight of |z − z W Wᵀ|₁, how far the transform is from leading back."""
    adversarial: float = 0.1
    """How strongly codes are drawn to N(0, I)."""


class _ETLSide(nn.Module):
    """One domain's encoder, decoder and discriminator."""

    def __init__(self, rows: SparseRows, config: ETLConfig) -> None:
        super().__init__()
        self.rows, width = rows, config.width
        self.encoder = SparseTower(rows.shape[1], width, width, 0.0)
        self.decoder = _Decoder(rows, width, width, config.dropout)
        self.discriminator = Adversary(width, (width // 2,), dropout=0.5)


class _ETLRun(_DecodedRun):
    config: ETLConfig

    def build(self) -> None:
        width = self.config.width
        self.source, self.target = (_ETLSide(rows, self.config) for rows in (self.rows_a, self.rows_b))
        self.users = nn.Parameter(0.01 * torch.randn(len(self.data.users), width))
        self.transform = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width), gain=2**0.5))

    def features(self, side: _ETLSide, rows: Bags, users: Tensor) -> Tensor:
        """Return what the discriminators see; after a ReLU it is the code."""
        features: Tensor = side.encoder(rows) + self.users[users]
        return features

    def codes(self, from_a: Tensor, from_b: Tensor) -> tuple[Tensor, Tensor]:
        return relu(from_a) @ self.transform, relu(from_b)

    def step(self, users: Tensor) -> Tensor:
        config, transform, a, b = self.config, self.transform, self.source, self.target
        (in_a, labels_a, features_a), (in_b, labels_b, features_b) = self.examples_of(users)
        code_a, code_b = relu(features_a), relu(features_b)
        over_a, over_b = code_a @ transform, code_b @ transform.T
        # W Wᵀ = I would make the transform an equivalence: a code carried over and back is the code again.
        there_and_back = in_a * (code_a - over_a @ transform.T).abs().sum(1)
        there_and_back = there_and_back + in_b * (code_b - over_b @ transform).abs().sum(1)
        loss: Tensor = (
            in_a * config.source * a.decoder.errors(code_a, labels_a)
            + in_b * b.decoder.errors(code_b, labels_b)
            + in_a * in_b * b.decoder.errors(over_a, labels_b)
            + in_a * in_b * config.source * a.decoder.errors(over_b, labels_a)
            + config.equivalence * there_and_back
            + in_a * self._discriminator_errors(a.discriminator, features_a)
            + in_b * self._discriminator_errors(b.discriminator, features_b)
        ).mean()
        return loss

    def _discriminator_errors(self, discriminator: Adversary, features: Tensor) -> Tensor:
        """Return the discriminator's error on features and on as many draws of N(0, I)."""
        # No gradient reaches the draws, hence the strength 0.
        drawn = discriminator.errors(torch.randn_like(features), first=True, strength=0.0)
        return drawn + discriminator.errors(features, first=False, strength=self.config.adversarial)


@dataclass(frozen=True, kw_only=True)
class ETL(NetworkMethod, PlaintextMethod):
    """NOT PRIVATE. Chen et al. (TOIS 2023), equivalent transformation learning, on rows of both domains.

    Discriminators, with sigmoids for ReLUs, are trained in the same step through a reversed gradient, where the public
    code alternates two optimisers (and on a CPU pairs rows with the user ids of an earlier batch). Also new: rows
    scaled by 1/√(entries), decoders with dropout that start at the items' log-odds, and a weight on what is restored
    of the source. Losses are summed over items and averaged over users; a domain a user never rated in teaches nothing.
    Users with ratings in the target are scored by their own reconstruction y′, the others by x → y.
    """

    name: ClassVar[str] = "etl"
    summary: ClassVar[str] = "auto-encoders joined by an equivalent transformation"
    config: ETLConfig = ETLConfig()
    options: TrainingOptions = TrainingOptions(patience=50, batch=128, weight_decay=1.0)
    space: ClassVar[SearchSpace] = {
        "width": (100, 200, 400),
        "entry_dropout": (0.3, 0.5, 0.7),
        "dropout": (0.0, 0.3, 0.6),
        "source": (0.1, 0.3, 1.0),
        "equivalence": (0.1, 0.5, 1.0),
        "adversarial": (0.01, 0.1, 1.0),
        "learning_rate": (1e-3, 2e-3, 3e-3),
        "weight_decay": (0.1, 1.0, 2.0),
    }
    _run = _ETLRun
