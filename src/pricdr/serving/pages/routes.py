"""The routes of the page. Handlers run in threads: what they do takes milliseconds, and the first chart seconds."""

from threading import Lock
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from pricdr.data.ids import LONGEST_ID
from pricdr.errors import InputError
from pricdr.evaluation.measured import Evaluation, read_evaluation
from pricdr.models.card import ModelCard
from pricdr.serving.models import Models
from pricdr.serving.pages import answers
from pricdr.serving.pages.forms import Question, read_form
from pricdr.serving.pages.frontier import NONE_GIVEN, Frontier
from pricdr.serving.pages.layout import icon_response, page, style_response
from pricdr.serving.pages.release import certificate_blocks
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import LARGEST_K, Snapshot

_OLDER: Final = "A newer model folder was refused. An older model answers; the server's log says why."
FIND, MODEL, CERTIFICATE, FRONTIER = "/page", "/page/model", "/page/certificate", "/page/frontier"


class _Cards:
    """The cards of the snapshots that are served: made once each, and dropped with them."""

    def __init__(self, evaluation: Evaluation | None) -> None:
        self._evaluation = evaluation
        self._lock = Lock()
        self._made: dict[str, tuple[Snapshot, ModelCard, str]] = {}

    def of(self, snapshot: Snapshot, role: str) -> tuple[ModelCard, str]:
        """Return the card of a snapshot, and why the evaluation is not in it, if it is not.

        ``role`` is what the snapshot is for: there is one of each at a time.
        """
        with self._lock:
            made = self._made.get(role)
            if made is None or made[0] is not snapshot:
                self._made[role] = made = (snapshot, *self._card(snapshot))
            return made[1], made[2]

    def _card(self, snapshot: Snapshot) -> tuple[ModelCard, str]:
        try:
            return ModelCard.of_model(snapshot.model, snapshot.name, self._evaluation), ""
        except InputError as error:  # of another model: a folder may be replaced while the evaluation stays
            return ModelCard.of_model(snapshot.model, snapshot.name), str(error)


def router(models: Models, settings: Settings) -> APIRouter:
    """Return the routes of the page.

    Raises:
        InputError: the evaluation or the frontier that was given cannot be read, or is of another model.
    """
    evaluation = None if settings.evaluation is None else read_evaluation(settings.evaluation)
    frontier = None if settings.frontier is None else Frontier.read(settings.frontier)
    cards = _Cards(evaluation)
    if evaluation is not None:
        with models.current() as snapshot:
            ModelCard.of_model(snapshot.model, snapshot.name, evaluation)  # else nobody would notice until later
    routes = APIRouter(include_in_schema=False)
    _add_assets(routes)
    _add_user(routes, models, cards)
    _add_model(routes, models, cards)

    @routes.get(FRONTIER)
    def show_frontier() -> HTMLResponse:
        first, sections = (NONE_GIVEN, []) if frontier is None else frontier.blocks
        title = "What users gain, at which ε"
        return page("blocks", title, at=FRONTIER, lead=first, sections=sections, warning=_warning(models))

    return routes


def _add_assets(routes: APIRouter) -> None:
    @routes.get("/")
    def start() -> RedirectResponse:
        return RedirectResponse(FIND, 307)

    @routes.get("/page/style.css")
    def style() -> Response:
        return style_response()

    @routes.get("/page/icon.svg")
    def icon() -> Response:
        return icon_response()


def _add_user(routes: APIRouter, models: Models, cards: _Cards) -> None:
    @routes.get(FIND)
    @routes.get("/page/user")  # where a reader who reloads without sending the form again ends up
    def find() -> HTMLResponse:
        return _found(models, cards, Question())

    @routes.post("/page/user")
    def show_user(question: Annotated[Question, Depends(read_form)]) -> HTMLResponse:
        if not question.is_good:
            return _found(models, cards, question, status=422)
        other = models.other()
        with models.current() as snapshot:
            if other is None:
                shown, change = [answers.answered(snapshot, question.user, question.k)[1]], ""
            else:
                shown, change = answers.compared([snapshot, other], question.user, question.k)
        return page(
            "user",
            "Recommendations for one user",
            at=FIND,
            answers=shown,
            change=change,
            warning=_warning(models),
            **_form(question),
        )


def _add_model(routes: APIRouter, models: Models, cards: _Cards) -> None:
    @routes.get(MODEL)
    def show_card() -> HTMLResponse:
        with models.current() as snapshot:
            card, fault = cards.of(snapshot, "current")
        about, other = card.page, models.other()
        return page(
            "model",
            about.title,
            at=MODEL,
            lead=about.lead,
            sections=about.sections,
            fault=fault,
            other=None if other is None else cards.of(other, "other")[0],
            warning=_warning(models),
        )

    @routes.get(CERTIFICATE)
    def show_certificate() -> HTMLResponse:
        with models.current() as snapshot:
            card, _ = cards.of(snapshot, "current")
        first, sections = certificate_blocks(card)
        title = "The certificate, explained"
        return page("blocks", title, at=CERTIFICATE, lead=first, sections=sections, warning=_warning(models))


def _found(models: Models, cards: _Cards, question: Question, status: int = 200) -> HTMLResponse:
    """Return the form, with what is wrong in it, and the models in short."""
    other = models.other()
    with models.current() as snapshot:
        served = [("Served", cards.of(snapshot, "current")[0])]
    if other is not None:
        served.append(("To compare with", cards.of(other, "other")[0]))
    title = "Find a user"
    return page("find", title, at=FIND, status=status, served=served, warning=_warning(models), **_form(question))


def _form(question: Question) -> dict[str, Any]:
    # As it was typed, character for character: an id that is sent again must be the same id. What is none is shown as
    # any text from outside.
    typed = question.user[:LONGEST_ID] if question.user_fault else Markup(escape(question.user))
    return {"question": question, "typed": typed, "largest_k": LARGEST_K}


def _warning(models: Models) -> str:
    return "" if models.problem is None else _OLDER
