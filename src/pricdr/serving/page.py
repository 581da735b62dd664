"""The page for people: look up a user, see what recommendations are based on, compare models, read the model card.

Everything is rendered on the server, from the blocks and the style sheet that all pages of this project share; there
are no scripts. An id is never part of an address: it is sent in the body of a form, so no browser history, bookmark or
proxy log keeps it. Handlers run in threads: most take milliseconds, and the first chart takes seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Template
from markupsafe import Markup, escape

from pricdr import __version__
from pricdr.data.ids import MAX_ID_LENGTH, id_fault
from pricdr.errors import InputError
from pricdr.extras import REPORT, TRAIN
from pricdr.pages import Bullets, Commands, Content, Facts, Note, Section, page_asset, template_environment
from pricdr.release.inspection import attack_section
from pricdr.release.readme import in_short, statement, trade_off_of
from pricdr.report.card import NO_CERTIFICATE, NO_RELEASE, PLAINTEXT, UNVERIFIED, ModelCard
from pricdr.report.evaluation import Evaluation, read_evaluation
from pricdr.serving.middleware import Refusal
from pricdr.serving.snapshot import MAX_K, Answer, Snapshot, WatchedModel
from pricdr.signing import fingerprint, public_from_text

DEFAULT_K: Final = 10
_NAVIGATION: Final = {
    "/page": "Find a user",
    "/page/model": "Model card",
    "/page/certificate": "Certificate",
    "/page/frontier": "Frontier",
}
_ERROR_TITLES: Final = {401: "A key is required", 403: "This key has no access", 503: "The server is busy"}
_FORM: Final = "application/x-www-form-urlencoded"
_FORM_BYTES: Final = 16 << 10
"""The longest id takes 12,000: four bytes a character, each percent-encoded as three."""
_FORM_FIELDS: Final = 8
_NO_FRONTIER: Final[Content] = (
    "The frontier shows what users gain at which ε, to help choose a budget before it is spent. It is measured on data "
    "that one party holds completely: public or synthetic ratings. This server was started without one.",
    "These commands measure a frontier and show it here:",
    Commands(
        ["pricdr reproduce specs/frontier.toml --out results", "pricdr serve MODEL --frontier results/NAME.jsonl"],
    ),
)


def router(
    models: Sequence[WatchedModel], *, evaluation: Path | None = None, frontier: Path | None = None
) -> APIRouter:
    """Return the routes of the page, about the first of the models; the others are for comparison.

    Raises:
        InputError: the evaluation or the frontier cannot be read, or is of another model.
    """
    cards = _Cards(None if evaluation is None else read_evaluation(evaluation))
    if evaluation is not None and (problem := cards.of(models[0].snapshot)[1]):
        raise InputError(problem)  # now, not on a visit
    frontier_blocks = cache(_read_frontier(frontier))
    routes = APIRouter(include_in_schema=False)

    def snapshots() -> list[Snapshot]:
        return [model.snapshot for model in models]

    def show(template: str, title: str, active: str, *, status: int = 200, **values: object) -> HTMLResponse:
        return _page(
            template, title, active=active, status=status, outdated=any(model.problem for model in models), **values
        )

    @routes.get("/")
    def start() -> RedirectResponse:
        return RedirectResponse("/page", 307)

    @routes.get("/page/style.css")
    def style() -> Response:
        return _style()

    @routes.get("/page/icon.svg")
    def icon() -> Response:
        return Response(_template("icon.svg").render(), media_type="image/svg+xml")

    @routes.get("/page")
    @routes.get("/page/user")  # for a reader who reloads without sending the form again
    def find() -> HTMLResponse:
        return ask(UserForm())

    def ask(form: UserForm, status: int = 200) -> HTMLResponse:
        served = [cards.of(snapshot)[0] for snapshot in snapshots()]
        return show("find", "Find a user", "/page", status=status, cards=served, form=form, max_k=MAX_K)

    @routes.post("/page/user")
    def show_user(form: Annotated[UserForm, Depends(_read_form)]) -> HTMLResponse:
        if form.user_error or form.k_error:
            return ask(form, 422)
        lists = [_UserList(snapshot, form.user, snapshot.recommend(form.user, form.k)) for snapshot in snapshots()]
        ranks = [user_list.ranks for user_list in lists]
        both = [ranks[0][item] == ranks[1][item] for item in ranks[0].keys() & ranks[1].keys()] if ranks[1:] else []
        title, counts = "Recommendations for one user", {"common": len(both), "unmoved": sum(both)}
        return show("user", title, "/page", lists=lists, form=form, max_k=MAX_K, counts=counts)

    @routes.get("/page/model")
    def show_card() -> HTMLResponse:
        (card, problem), *others = (cards.of(snapshot) for snapshot in snapshots())
        compared = [other for other, _ in others]
        return show("model", card.page.title, "/page/model", problem=problem, compared=compared, page=card.page)

    @routes.get("/page/certificate")
    def show_certificate() -> HTMLResponse:
        lead, sections = _certificate(cards.of(models[0].snapshot)[0])
        return show("blocks", "The certificate, explained", "/page/certificate", lead=lead, sections=sections)

    @routes.get("/page/frontier")
    def show_frontier() -> HTMLResponse:
        lead, sections = frontier_blocks()
        return show("blocks", "What users gain, at which ε", "/page/frontier", lead=lead, sections=sections)

    return routes


def error_page(status: int, message: str) -> HTMLResponse:
    """Return a page with an error message and a link back; ``message`` must not contain an id."""
    title = _ERROR_TITLES.get(status, HTTPStatus(status).phrase)
    return _page("error", title, status=status, sentence=f"{message[:1].upper()}{message[1:].rstrip('.')}.")


@dataclass(frozen=True)
class UserForm:
    """The fields of the form that asks for a user, as they were typed."""

    user: str = ""
    k_text: str = str(DEFAULT_K)
    is_sent: bool = False
    """Whether anything was typed: an empty form has no errors."""

    @property
    def typed(self) -> str:
        """The id, to be sent again: a valid one character for character, another one escaped like any other text."""
        return self.user[:MAX_ID_LENGTH] if self.user_error else Markup(escape(self.user))

    @property
    def k(self) -> int:
        """How many items are requested; 0 if that is not a whole number."""
        text = self.k_text.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    @property
    def user_error(self) -> str:
        """What is wrong with the id, without repeating it."""
        if not self.user:
            return "Enter the id of a user." if self.is_sent else ""
        if len(self.user) > MAX_ID_LENGTH:
            return f"An id has at most {MAX_ID_LENGTH:,} characters."
        return "An id must not contain line breaks or other control characters." if id_fault(self.user) else ""

    @property
    def k_error(self) -> str:
        """What is wrong with the number of items."""
        return "" if 1 <= self.k <= MAX_K else f"The number of items must be a whole number from 1 to {MAX_K:,}."


async def _read_form(request: Request) -> UserForm:
    """Return the form in the body of a request; refuse a body that is not a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Refusal(415, f"the form must be sent as {_FORM}")
    body = await request.body()
    if len(body) > _FORM_BYTES:
        raise Refusal(413, f"the form has at most {_FORM_BYTES:,} bytes")
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS, separator="&"
        )
    except ValueError as error:  # not ASCII, not UTF-8 once decoded, or too many fields
        raise Refusal(400, "the form cannot be read") from error
    if any(len(values) > 1 for values in fields.values()):
        raise Refusal(400, "the form contains a field twice")
    return UserForm(fields.get("id", [""])[0], fields.get("k", [str(DEFAULT_K)])[0], is_sent=True)


class _UserList:
    """What one model recommends to a user, ready for the template."""

    def __init__(self, snapshot: Snapshot, user: str, answer: Answer) -> None:
        self.model, self.known, self.history = snapshot.name, snapshot.knows(user), snapshot.history(user)
        self.basis, self.items = answer.basis.value if self.known else "unknown", answer.items
        self.ranks = {item.item: item.rank for item in answer.items}
        self.keeps_histories = snapshot.model.summary is None
        """Whether the model folder contains what users rated; an exported one does not."""


class _Cards(WeakKeyDictionary[Snapshot, tuple[ModelCard, str]]):
    """The cards of the snapshots being served, and why an evaluation is missing from one; each is computed once.

    Weak keys: a card refers to its model, and must not keep a model in memory that has been replaced.
    """

    def __init__(self, evaluation: Evaluation | None) -> None:
        super().__init__()
        self._evaluation = evaluation

    def of(self, snapshot: Snapshot) -> tuple[ModelCard, str]:
        """Return the card of a snapshot, and why the evaluation is missing from it, if it is."""
        if snapshot not in self:
            try:
                self[snapshot] = ModelCard(snapshot.name, snapshot.model, self._evaluation), ""
            except InputError as error:  # the model was replaced, and the evaluation is of the old one
                self[snapshot] = ModelCard(snapshot.name, snapshot.model), str(error)
        return self[snapshot]


def _certificate(card: ModelCard) -> tuple[Content, Sequence[Section]]:
    """Return the promise of the model's release in short, as charts, and in full; or why there is none."""
    origin, c = card.origin, card.certificate
    if origin.plaintext_source:
        return [Note(PLAINTEXT)], []
    if not card.with_release:
        return [NO_RELEASE], []
    if card.contradiction is not None:
        return [Note(f"Do not rely on the recorded certificate. {card.contradiction}")], []
    if c is None:
        return [Note(NO_CERTIFICATE), Commands(["pricdr inspect RELEASE"])], []
    signature = "No signature was checked: anyone could have made this release."
    if origin.release_signed_by is not None:
        key = fingerprint(public_from_text(origin.release_signed_by))
        signature = f"Its signature was checked when the model was trained. Fingerprint of the key: {key}."
    checked = [  # a copy of a certificate is not the release itself
        "This is the copy in the model folder. Its figures were derived again for this page: the promise follows from "
        "the noise that the certificate states.",
        signature,
        f"The release itself has the SHA-256 {origin.release}. pricdr verify RELEASE checks all of it.",
    ]
    in_full = statement(c)
    charts = [] if trade_off_of(c) is None else [attack_section(c)]
    texts = [Section(part.title, [Bullets(part.lines)]) for part in in_full]
    unverified = [Note(UNVERIFIED)] if origin.release_verified is False else []
    sections = [*charts, *texts, Section("How this was checked", [Bullets(checked)])]
    return [*unverified, in_full[0].lines[-1], Facts(in_short(c))], sections


def _read_frontier(path: Path | None) -> Callable[[], tuple[Content, Sequence[Section]]]:
    """Return what draws the results in a file; others in its folder are used for what a release has to beat.

    ``pricdr.report`` has more dependencies than a server needs, so it is imported only here.

    Raises:
        InputError: the file does not contain frontier results.
        MissingExtraError: the packages that read and draw results are not installed.
    """
    if path is None:
        return lambda: (_NO_FRONTIER, [])
    REPORT.require()
    TRAIN.require()
    from pricdr.report.folder import LINES, SUFFIX, read_folder
    from pricdr.report.page import FRONTIER, every_arm, lead

    name = path.name.removesuffix(LINES)
    if not path.name.endswith(LINES) or not path.is_file():
        raise InputError(f"{path} is not a results file, NAME{LINES} (run pricdr reproduce specs/frontier.toml)")
    if not (path.parent / f"{name}{SUFFIX}").is_file():
        raise InputError(f"{path} has no {name}{SUFFIX} next to it, which describes what was measured")
    folder = read_folder(path.parent)
    experiments = tuple(experiment for experiment in folder.experiments if experiment.spec.name == name)
    if not experiments or experiments[0].spec.family != FRONTIER:
        raise InputError(f"{path} contains no frontier results (run pricdr reproduce specs/frontier.toml)")
    folder = replace(folder, experiments=experiments)
    about = (
        f"Measured on {experiments[0].title}, not on the data of the model served here. Use it as a guide to which ε "
        "to ask for, before a budget is spent."
    )
    return lambda: (
        [about, *lead(folder)],
        [Section("The frontier in full", [every_arm(experiments[0], "arms-1")], id="frontier")],
    )


def _page(template: str, title: str, *, active: str = "", status: int = 200, **values: object) -> HTMLResponse:
    """Return a page rendered from one of the templates, with one link of the navigation highlighted."""
    frame = {"title": title, "active": active, "navigation": _NAVIGATION, "version": __version__, "outdated": False}
    return HTMLResponse(_template(f"{template}.html").render({**frame, **values}), status)


@cache
def _style() -> Response:
    """Return the shared style sheet of all pages, and the rules that only the served page needs."""
    return Response(f"{page_asset('page.css')}\n{_template('serve.css').render()}", media_type="text/css")


def _template(name: str) -> Template:
    return template_environment("pricdr.serving").get_template(f"{name}.j2")
