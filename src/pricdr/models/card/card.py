"""``ModelCard``: one page about a model, as Markdown, as HTML, and as blocks for whoever has a page already."""

from dataclasses import dataclass
from pathlib import Path

from pricdr.evaluation.measured import Evaluation, read_evaluation
from pricdr.models.card import sections, words
from pricdr.models.card.known import KnownModel
from pricdr.models.card.quality import quality
from pricdr.models.fitted import FittedModel
from pricdr.pages import Facts, Note, Page, Section, render
from pricdr.pages.markdown import markdown
from pricdr.release.certificate import Certificate


@dataclass(frozen=True, eq=False)
class ModelCard:
    """What is known about a model, for a product team and a privacy officer. No id and no rating is in it."""

    known: KnownModel
    evaluation: Evaluation | None = None

    @classmethod
    def of(cls, folder: Path, evaluation: Path | None = None) -> "ModelCard":
        """Return the card of the model in a folder.

        Args:
            folder: the model folder.
            evaluation: what ``pricdr evaluate --json`` wrote about it, or about a model trained alike on a split.

        Raises:
            InputError: it is no model, or the evaluation is not of such a model.
        """
        measured = None if evaluation is None else read_evaluation(evaluation)
        return cls.of_model(FittedModel.load(folder), folder.resolve().name, measured)

    @classmethod
    def of_model(cls, model: FittedModel, name: str, evaluation: Evaluation | None = None) -> "ModelCard":
        """Return the card of a model that is loaded already; ``name`` is what its folder is called."""
        known = KnownModel(name, model)
        if evaluation is not None:
            evaluation.model_of(name, known.training)  # now, and not when somebody reads the card
        return cls(known, evaluation)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the release it was trained with; None where there is none, or none that holds."""
        return None if self.known.contradiction is not None else self.known.certificate

    @property
    def summary(self) -> dict[str, str]:
        """The model in a few lines."""
        known = self.known
        ratings = "" if known.ratings is None else f", {known.ratings:,} ratings"
        return {
            "Method": known.method,
            "Knows": f"{len(known.model.users):,} users x {len(known.model.items):,} items{ratings}",
            "Promise to the source's users": sections.promise_in_short(known),
            "Quality": "not measured" if self.evaluation is None else f"measured: {self.evaluation.file}",
        }

    @property
    def page(self) -> Page:
        """The card as blocks."""
        known = self.known
        warning = [Note(words.PLAINTEXT)] if known.origin.plaintext_source else []
        parts: list[Section | None] = [
            sections.what_it_is(known),
            sections.data(known),
            sections.privacy(known),
            quality(known, self.evaluation),
            sections.trust(known),
            *sections.use_and_limits(known),
            sections.reproduce(known),
        ]
        return Page(
            f"Model card: {known.name}",
            [part for part in parts if part is not None],
            [*warning, Facts(self.summary)],
        )

    def markdown(self) -> str:
        """Return the card as Markdown."""
        return markdown(self.page)

    def html(self) -> str:
        """Return the card as one HTML file that loads nothing."""
        return render(self.page)
