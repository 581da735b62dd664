"""The page for people: look up a user, see what recommendations are based on, compare models, read the model card.

It is rendered on the server, without scripts. An id is never part of an address: it is sent in the body of a form, so
no browser history, bookmark or proxy log keeps it. Handlers run in threads: the first chart takes seconds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Template
from starlette.exceptions import HTTPException

from pricdr import __version__
from pricdr.data.ids import MAX_ID_LENGTH, id_fault
from pricdr.errors import InputError
from pricdr.extras import REPORT, TRAIN
from pricdr.pages import Block, Bullets, Commands, Content, Facts, Note, Section, page_asset, template_environment
from pricdr.release.inspection import attack_section
from pricdr.release.readme import in_short, statement, trade_off_of
from pricdr.report.card import UNVERIFIED, CardRelease, ModelCard
from pricdr.report.evaluation import read_evaluation
from pricdr.serving.snapshot import MAX_K, Answer, ItemsQuery, Snapshot, WatchedModel
from pricdr.serving.worker import Worker

DEFAULT_K: Final = 10
_ERROR_TITLES: Final = {401: "A key is required", 403: "This key has no access", 503: "The server is busy"}
_FORM: Final = "application/x-www-form-urlencoded"
_FORM_BYTES: Final = 16 << 10  # the longest id takes 12,000: four bytes a character, each percent-encoded as three
_FORM_FIELDS: Final = 8
_NO_FRONTIER: Final[Content] = (
    "The frontier shows what users gain at which ε, to help choose a budget before it is spent. It is measured on data "
    "that one party holds completely: public or synthetic ratings. This server was started without one.",
    "These commands measure a frontier and show it here:",
    Commands(
        ["pricdr reproduce specs/frontier.toml --out results", "pricdr serve MODEL --frontier results/NAME.jsonl"]
    ),
)


@dataclass(frozen=True)
class UserForm:
    """The fields of the form that asks for a user, as they were typed, and what is wrong with them."""

    user: str = ""
    k_text: str = str(DEFAULT_K)
    user_error: str = ""
    k_error: str = ""


def router(
    models: Sequence[WatchedModel], worker: Worker, *, evaluation: Path | None = None, frontier: Path | None = None
) -> APIRouter:
    """Return the routes of the page, about the first model; refuse an evaluation or frontier that is of another one."""
    measured = None if evaluation is None else read_evaluation(evaluation)
    frontier_blocks = _read_frontier(frontier)
    routes = APIRouter(include_in_schema=False)

    def card_of(snapshot: Snapshot) -> tuple[ModelCard, str]:
        """Return the card of a snapshot, and why the evaluation is missing from it, if it is."""
        try:
            return ModelCard(snapshot.name, snapshot.model, measured), ""
        except InputError as error:  # the model was replaced, and the evaluation is of the old one
            return ModelCard(snapshot.name, snapshot.model), str(error)

    if measured is not None and (problem := card_of(models[0].snapshot)[1]):
        raise InputError(problem)  # now, not on a visit

    def show(template: str, title: str, active: str, *, status: int = 200, **values: object) -> HTMLResponse:
        outdated = any(model.problem for model in models)
        return _page(template, title, active=active, status=status, outdated=outdated, **values)

    @routes.get("/")
    def start() -> RedirectResponse:
        return RedirectResponse("/page", 307)

    @routes.get("/page/style.css")
    def style() -> Response:
        """Return the style sheet that all pages of this project share, and the rules that only these need."""
        return Response(f"{page_asset('page.css')}\n{_template('serve.css').render()}", media_type="text/css")

    @routes.get("/page")
    @routes.get("/page/user")  # for a reader who reloads without sending the form again
    def find() -> HTMLResponse:
        return ask(UserForm())

    def ask(form: UserForm, status: int = 200) -> HTMLResponse:
        cards = [card_of(model.snapshot)[0] for model in models]
        return show("find", "Find a user", "/page", status=status, cards=cards, form=form)

    @routes.post("/page/user")
    async def show_user(form: Annotated[UserForm, Depends(_read_form)]) -> HTMLResponse:
        if form.user_error or form.k_error:
            return await run_in_threadpool(ask, form, 422)
        lists, query = [], [ItemsQuery(form.user, int(form.k_text))]
        for snapshot in [model.snapshot for model in models]:
            lists += [_UserList(snapshot, answer) for answer in await worker.answers(worker.users, snapshot, query)]
        ranks = [user_list.ranks for user_list in lists]
        both = [ranks[0][item] == ranks[1][item] for item in ranks[0].keys() & ranks[1].keys()] if ranks[1:] else []
        page = partial(show, lists=lists, form=form, counts={"common": len(both), "unmoved": sum(both)})
        return await run_in_threadpool(page, "user", "Recommendations for one user", "/page")

    @routes.get("/page/model")
    def show_card() -> HTMLResponse:
        (card, problem), *others = (card_of(model.snapshot) for model in models)
        compared = [other for other, _ in others]
        return show("model", card.page.title, "/page/model", problem=problem, compared=compared, page=card.page)

    @routes.get("/page/certificate")
    def show_certificate() -> HTMLResponse:
        lead, sections = _certificate(card_of(models[0].snapshot)[0])
        return show("blocks", "The certificate, explained", "/page/certificate", lead=lead, sections=sections)

    @routes.get("/page/frontier")
    def show_frontier() -> HTMLResponse:
        lead, sections = frontier_blocks
        return show("blocks", "What users gain, at which ε", "/page/frontier", lead=lead, sections=sections)

    return routes


def error_page(status: int, message: str) -> HTMLResponse:
    """Return a page with an error message and a link back; ``message`` must not contain an id."""
    title = _ERROR_TITLES.get(status, HTTPStatus(status).phrase)
    return _page("error", title, status=status, sentence=f"{message[:1].upper()}{message[1:].rstrip('.')}.")


async def _read_form(request: Request) -> UserForm:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"the form must be sent as {_FORM}")
    body = await request.body()
    if len(body) > _FORM_BYTES:
        raise HTTPException(413, f"the form has at most {_FORM_BYTES:,} bytes")
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS, separator="&"
        )
    except ValueError as error:  # not ASCII, not UTF-8 once decoded, or too many fields
        raise HTTPException(400, "the form cannot be read") from error
    if any(len(values) > 1 for values in fields.values()):
        raise HTTPException(400, "the form contains a field twice")
    user, k_text = fields.get("id", [""])[0], fields.get("k", [str(DEFAULT_K)])[0].strip()
    fault, k_is_valid = id_fault(user), re.fullmatch("[0-9]{1,9}", k_text) and 1 <= int(k_text) <= MAX_K
    k_error = "" if k_is_valid else f"The number of items must be a whole number from 1 to {MAX_K:,}."
    return UserForm(user, k_text, f"The id {fault}." if fault else "", k_error)


class _UserList:
    """What one model recommends to a user, ready for the template."""

    def __init__(self, snapshot: Snapshot, answer: Answer) -> None:
        self.model, self.known, self.history = snapshot.name, snapshot.knows(answer.user), snapshot.history(answer.user)
        self.basis, self.items = answer.basis.value if self.known else "unknown", answer.items
        self.ranks = {item.item: item.rank for item in answer.items}
        self.keeps_histories = snapshot.model.summary is None  # an exported one does not


def _certificate(card: ModelCard) -> tuple[Content, Sequence[Section]]:
    """Return the promises of the model's releases in short, as charts, and in full; or why the card has none."""
    parts = [_promise(release) for release in card.releases if release.certificate is not None]
    if not parts or len(parts) < len(card.releases):
        return [], [section for section in card.page.sections if section.anchor == "privacy"]
    return [block for lead, _ in parts for block in lead], [section for _, sections in parts for section in sections]


def _promise(release: CardRelease) -> tuple[list[Block | str], list[Section]]:
    origin, c = release.origin, release.certificate
    assert c is not None
    checked = [  # a copy of a certificate is not the release itself
        "This is the copy in the model folder. Its figures were derived again for this page: the promise follows from "
        "the noise that the certificate states.",
        "No signature was checked: anyone could have made this release."
        if release.signer is None
        else f"Its signature was checked when the model was trained. Fingerprint of the key: {release.signer}.",
        f"The release itself has the SHA-256 {origin.sha256}. pricdr verify RELEASE checks all of it.",
    ]
    in_full = {**{part.title: part.lines for part in statement(c)}, "How this was checked": checked}
    charts = [] if trade_off_of(c) is None else [attack_section(c)]
    unverified = [Note(UNVERIFIED)] if origin.verified is False else []
    lead: list[Block | str] = [*unverified, next(iter(in_full.values()))[-1], Facts(in_short(c))]
    return lead, [*charts, *(Section(title, [Bullets(lines)]) for title, lines in in_full.items())]


def _read_frontier(path: Path | None) -> tuple[Content, Sequence[Section]]:
    """Return the results in a file, with those beside it that a release has to beat; imports what no server needs."""
    if path is None:
        return _NO_FRONTIER, []
    REPORT.require()
    TRAIN.require()
    from pricdr.report.folder import LINES, SUFFIX, read_folder
    from pricdr.report.page import FRONTIER, every_arm, lead

    folder = read_folder(path.parent)
    experiments = tuple(one for one in folder.family(FRONTIER) if path.name == f"{one.spec.name}{LINES}")
    if not experiments:
        rule = f"these are NAME{LINES} beside NAME{SUFFIX}, from pricdr reproduce specs/frontier.toml"
        raise InputError(f"{path} contains no frontier results: {rule}")
    about = (
        f"Measured on {experiments[0].title}, not on the data of the model served here. Use it as a guide to which ε "
        "to ask for, before a budget is spent."
    )
    in_full = Section("The frontier in full", [every_arm(experiments[0], "arms-1")], id="frontier")
    return [about, *lead(replace(folder, experiments=experiments))], [in_full]


def _page(template: str, title: str, *, active: str = "", status: int = 200, **values: object) -> HTMLResponse:
    limits = {"max_id": MAX_ID_LENGTH, "max_k": MAX_K}
    frame = {"title": title, "active": active, "version": __version__, "outdated": False, **limits}
    return HTMLResponse(_template(f"{template}.html").render({**frame, **values}), status)


def _template(name: str) -> Template:
    return template_environment("pricdr.serving").get_template(f"{name}.j2")
