"""The routes of the page. Handlers run in threads: most take milliseconds, and the first chart takes seconds."""

from functools import cache
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
from pricdr.serving.pages.certificate import certificate_blocks
from pricdr.serving.pages.form import UserForm, read_form
from pricdr.serving.pages.frontier import NO_FRONTIER, frontier_blocks, read_frontier
from pricdr.serving.pages.layout import CERTIFICATE, FIND, FRONTIER, MODEL, icon, page, style
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import MAX_K, Snapshot

_OLDER_MODEL: Final = "A newer model folder was refused, so an older model is being served. The server's log says why."


class _Cards:
    """The cards of the snapshots being served, each computed once."""

    def __init__(self, evaluation: Evaluation | None) -> None:
        self._evaluation, self._lock = evaluation, Lock()
        # Weak keys: a card refers to its model, and must not keep a model in memory that has been replaced.
        self._cards: WeakKeyDictionary[Snapshot, tuple[ModelCard, str]] = WeakKeyDictionary()

    def of(self, snapshot: Snapshot) -> tuple[ModelCard, str]:
        """Return the card of a snapshot, and why the evaluation is missing from it, if it is."""
        with self._lock:
            if snapshot not in self._cards:
                try:
                    card, problem = ModelCard.of_model(snapshot.model, snapshot.name, self._evaluation), ""
                except InputError as error:  # the model was replaced, and the evaluation is of the old one
                    card, problem = ModelCard.of_model(snapshot.model, snapshot.name), str(error)
                self._cards[snapshot] = card, problem
            return self._cards[snapshot]


def router(models: Models, settings: Settings) -> APIRouter:
    """Return the routes of the page.

    Raises:
        InputError: the evaluation or the frontier cannot be read, or is of another model.
    """
    evaluation = None if settings.evaluation is None else read_evaluation(settings.evaluation)
    frontier = None if settings.frontier is None else read_frontier(settings.frontier)
    if evaluation is not None:
        ModelCard.of_model(models.current.model, models.current.name, evaluation)  # fail now, not on a visit
    cards = _Cards(evaluation)
    drawn = cache(lambda: (NO_FRONTIER, []) if frontier is None else frontier_blocks(frontier))
    routes = APIRouter(include_in_schema=False)

    def show(template: str, title: str, active: str, *, status: int = 200, **values: object) -> HTMLResponse:
        warning = "" if models.problem is None else _OLDER_MODEL
        return page(template, title, active=active, status=status, warning=warning, **values)

    @routes.get("/")
    def start() -> RedirectResponse:
        return RedirectResponse(FIND, 307)

    @routes.get("/page/style.css")
    def style_sheet() -> Response:
        return style()

    @routes.get("/page/icon.svg")
    def shield() -> Response:
        return icon()

    @routes.get(FIND)
    @routes.get("/page/user")  # for a reader who reloads without sending the form again
    def find() -> HTMLResponse:
        return ask(UserForm())

    def ask(form: UserForm, status: int = 200) -> HTMLResponse:
        summaries = [("Being served", cards.of(models.current)[0])]
        if models.compared is not None:
            summaries.append(("For comparison", cards.of(models.compared)[0]))
        return show("find", "Find a user", FIND, status=status, models=summaries, **_form_values(form))

    @routes.post("/page/user")
    def show_user(form: Annotated[UserForm, Depends(read_form)]) -> HTMLResponse:
        if form.user_error or form.k_error:
            return ask(form, 422)
        snapshots = [models.current, *([] if models.compared is None else [models.compared])]
        lists, difference = answers.of_models(snapshots, form.user, form.k)
        title = "Recommendations for one user"
        return show("user", title, FIND, answers=lists, difference=difference, **_form_values(form))

    @routes.get(MODEL)
    def show_card() -> HTMLResponse:
        card, problem = cards.of(models.current)
        content, compared = card.page, None if models.compared is None else cards.of(models.compared)[0]
        lead, sections = content.lead, content.sections
        return show("model", content.title, MODEL, problem=problem, compared=compared, lead=lead, sections=sections)

    @routes.get(CERTIFICATE)
    def show_certificate() -> HTMLResponse:
        lead, sections = certificate_blocks(cards.of(models.current)[0])
        return show("blocks", "The certificate, explained", CERTIFICATE, lead=lead, sections=sections)

    @routes.get(FRONTIER)
    def show_frontier() -> HTMLResponse:
        lead, sections = drawn()
        return show("blocks", "What users gain, at which ε", FRONTIER, lead=lead, sections=sections)

    return routes


def _form_values(form: UserForm) -> dict[str, Any]:
    # A valid id stays in the field character for character, so that sending the form again asks for the same user. An
    # invalid one is escaped like any text from outside.
    typed = form.user[:LONGEST_ID] if form.user_error else Markup(escape(form.user))
    return {"form": form, "typed": typed, "max_k": MAX_K}
