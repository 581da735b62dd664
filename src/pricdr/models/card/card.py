"""``ModelCard``: one page about a model, as Markdown, as HTML, or as blocks for another page."""

from dataclasses import dataclass
from pathlib import Path

from pricdr.evaluation.measured import Evaluation, read_evaluation
from pricdr.models.card import sections, texts
from pricdr.models.card.info import ModelInfo
from pricdr.models.card.quality import quality
from pricdr.models.fitted import FittedModel
from pricdr.pages import Facts, Note, Page, Section, render
from pricdr.pages.markdown import markdown
from pricdr.release.certificate import Certificate


@dataclass(frozen=True, eq=False)
class ModelCard:
    """Everything about a model for a product team and a privacy officer, without any id or rating."""

    info: ModelInfo
    evaluation: Evaluation | None = None

    @classmethod
    def of(cls, folder: Path, evaluation: Path | None = None) -> "ModelCard":
        """Return the card of the model in a folder.

        Args:
            folder: the model folder.
            evaluation: the output of ``pricdr evaluate --json`` for it, or for a model trained the same way on a split.

        Raises:
            InputError: the folder is not a model, or the evaluation is of another kind of model.
        """
        measured = None if evaluation is None else read_evaluation(evaluation)
        return cls.of_model(FittedModel.load(folder), folder.resolve().name, measured)

    @classmethod
    def of_model(cls, model: FittedModel, name: str, evaluation: Evaluation | None = None) -> "ModelCard":
        """Return the card of a loaded model; ``name`` is the name of its folder."""
        info = ModelInfo(name, model)
        if evaluation is not None:
            evaluation.model_of(name, info.training)  # raises now rather than when the card is rendered
        return cls(info, evaluation)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the release it was trained with; None if there is none or it contradicts itself."""
        return None if self.info.contradiction is not None else self.info.certificate

    @property
    def summary(self) -> dict[str, str]:
        """The most important facts, by name."""
        info = self.info
        ratings = "" if info.ratings is None else f", {info.ratings:,} ratings"
        return {
            "Method": info.method,
            "Knows": f"{len(info.model.users):,} users x {len(info.model.items):,} items{ratings}",
            "Promise to the source's users": sections.promise_summary(info),
            "Quality": "not measured" if self.evaluation is None else f"measured: {self.evaluation.file}",
        }

    @property
    def page(self) -> Page:
        """The card as a page of blocks."""
        info = self.info
        warning = [Note(texts.PLAINTEXT)] if info.origin.plaintext_source else []
        parts: list[Section | None] = [
            sections.what_it_is(info),
            sections.data(info),
            sections.privacy(info),
            quality(info, self.evaluation),
            sections.trust(info),
            *sections.use_and_limits(info),
            sections.reproduce(info),
        ]
        return Page(
            f"Model card: {info.name}",
            [part for part in parts if part is not None],
            [*warning, Facts(self.summary)],
        )

    def markdown(self) -> str:
        """Return the card as Markdown."""
        return markdown(self.page)

    def html(self) -> str:
        """Return the card as a self-contained HTML file."""
        return render(self.page)
