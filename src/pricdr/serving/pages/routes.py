"""The routes of the page. Handlers run in threads: most take milliseconds, and the first chart takes seconds."""

from threading import Lock
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from pricdr.data.ids import LONGEST_ID
from pricdr.errors import InputError
from pricdr.evaluation.measured import Evaluation, read_evaluation
from pricdr.models.card import ModelCard
from pricdr.serving.models import Models
from pricdr.serving.pages import answers
from pricdr.serving.pages.forms import UserForm, read_form
from pricdr.serving.pages.frontier import NO_FRONTIER, Frontier
from pricdr.serving.pages.layout import icon_response, page, style_response
from pricdr.serving.pages.release import certificate_blocks
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import MAX_K, Snapshot

_OLDER_MODEL: Final = "A newer model folder was refused, so an older model is being served. The server's log says why."
FIND, MODEL, CERTIFICATE, FRONTIER = "/page", "/page/model", "/page/certificate", "/page/frontier"


class _Cards:
    """The cards of the snapshots being served, each computed once."""

    def __init__(self, evaluation: Evaluation | None) -> None:
        self._evaluation = evaluation
        self._lock = Lock()
        # Weak keys: a card refers to its model, and must not keep a model in memory that has been replaced.
        self._cards: WeakKeyDictionary[Snapshot, tuple[ModelCard, str]] = WeakKeyDictionary()

    def of(self, snapshot: Snapshot) -> tuple[ModelCard, str]:
        """Return the card of a snapshot, and why the evaluation is missing from it, if it is."""
        with self._lock:
            card = self._cards.get(snapshot)
            if card is None:
                card = self._cards[snapshot] = self._create(snapshot)
            return card

    def _create(self, snapshot: Snapshot) -> tuple[ModelCard, str]:
        try:
            return ModelCard.of_model(snapshot.model, snapshot.name, self._evaluation), ""
        except InputError as error:  # the model was replaced, and the evaluation is of the old one
            return ModelCard.of_model(snapshot.model, snapshot.name), str(error)


def router(models: Models, settings: Settings) -> APIRouter:
    """Return the routes of the page.

    Raises:
        InputError: the evaluation or the frontier cannot be read, or is of another model.
    """
    evaluation = None if settings.evaluation is None else read_evaluation(settings.evaluation)
    frontier = None if settings.frontier is None else Frontier.read(settings.frontier)
    cards = _Cards(evaluation)
    if evaluation is not None:
        with models.current() as snapshot:
            ModelCard.of_model(snapshot.model, snapshot.name, evaluation)  # fail now, not on a visit
    routes = APIRouter(include_in_schema=False)
    _add_assets(routes)
    _add_user_routes(routes, models, cards)
    _add_model_routes(routes, models, cards)

    @routes.get(FRONTIER)
    def show_frontier() -> HTMLResponse:
        lead, sections = (NO_FRONTIER, []) if frontier is None else frontier.blocks
        title = "What users gain, at which ε"
        return page("blocks", title, active=FRONTIER, lead=lead, sections=sections, warning=_warning(models))

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


def _add_user_routes(routes: APIRouter, models: Models, cards: _Cards) -> None:
    @routes.get(FIND)
    @routes.get("/page/user")  # for a reader who reloads without sending the form again
    def find() -> HTMLResponse:
        return _form_page(models, cards, UserForm())

    @routes.post("/page/user")
    def show_user(form: Annotated[UserForm, Depends(read_form)]) -> HTMLResponse:
        if not form.is_valid:
            return _form_page(models, cards, form, status=422)
        compared = models.compared()
        with models.current() as snapshot:
            if compared is None:
                model_answers, difference = [answers.single_answer(snapshot, form.user, form.k)], ""
            else:
                model_answers, difference = answers.compare_answers([snapshot, compared], form.user, form.k)
        return page(
            "user",
            "Recommendations for one user",
            active=FIND,
            answers=model_answers,
            difference=difference,
            warning=_warning(models),
            **_form_values(form),
        )


def _add_model_routes(routes: APIRouter, models: Models, cards: _Cards) -> None:
    @routes.get(MODEL)
    def show_card() -> HTMLResponse:
        with models.current() as snapshot:
            card, problem = cards.of(snapshot)
        content, compared = card.page, models.compared()
        return page(
            "model",
            content.title,
            active=MODEL,
            lead=content.lead,
            sections=content.sections,
            problem=problem,
            compared=None if compared is None else cards.of(compared)[0],
            warning=_warning(models),
        )

    @routes.get(CERTIFICATE)
    def show_certificate() -> HTMLResponse:
        with models.current() as snapshot:
            card, _ = cards.of(snapshot)
        lead, sections = certificate_blocks(card)
        title = "The certificate, explained"
        return page("blocks", title, active=CERTIFICATE, lead=lead, sections=sections, warning=_warning(models))


def _form_page(models: Models, cards: _Cards, form: UserForm, status: int = 200) -> HTMLResponse:
    """Return the form with its errors, if any, and summaries of the models."""
    compared = models.compared()
    with models.current() as snapshot:
        summaries = [("Being served", cards.of(snapshot)[0])]
    if compared is not None:
        summaries.append(("For comparison", cards.of(compared)[0]))
    values = {**_form_values(form), "models": summaries, "warning": _warning(models)}
    return page("find", "Find a user", active=FIND, status=status, **values)


def _form_values(form: UserForm) -> dict[str, Any]:
    # A valid id stays in the field character for character, so that sending the form again asks for the same user. An
    # invalid one is escaped like any text from outside.
    typed = form.user[:LONGEST_ID] if form.user_error else Markup(escape(form.user))
    return {"form": form, "typed": typed, "max_k": MAX_K}


def _warning(models: Models) -> str:
    return "" if models.problem is None else _OLDER_MODEL
