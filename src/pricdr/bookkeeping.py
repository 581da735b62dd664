"""A ledger and the releases that it paid for, held against each other.

Every certificate names its line in the ledger and that line's hash, which stands for everything before it. So a ledger
that was rolled back, replaced or rewritten contradicts a release that exists, and a line that was cut off can be
rebuilt from the release it paid for. What cannot be seen: a ledger forged together with all of its releases, and a
ledger rolled back behind releases that nobody shows.
"""

from collections.abc import Iterable
from pathlib import Path

from pricdr.certificate import Certificate, LedgerStatement
from pricdr.errors import LedgerError, VerificationError
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.ledger import Balance, Ledger
from pricdr.privacy.ledger_lines import Spend
from pricdr.release import verify

_TOLERANCE = 1e-9
"""Relative; another machine may compute the last bits of a total otherwise."""


def ledger_statement(balance: Balance) -> LedgerStatement:
    """What a certificate says about the ledger whose last line is its release."""
    line = balance.spends[-1]
    return LedgerStatement(
        releases=len(balance.spends),
        mu_total=balance.mu,
        epsilon_total=balance.epsilon,
        budget_epsilon=balance.budget.epsilon,
        budget_delta=balance.budget.delta,
        numbers=line.dim,
        recorded=line.recorded,
        nonce=line.nonce,
        opening=balance.opening,
        head=line.hash,
    )


def check_ledger(ledger: Ledger, folders: Iterable[Path] = ()) -> Balance:
    """Check a ledger, and that it holds every one of these releases; returns its balance.

    :class:`VerificationError` where a line of it was changed, or where a release contradicts it.
    """
    try:
        balance = ledger.read()
    except LedgerError as error:
        raise VerificationError(str(error)) from error
    paid: dict[int, tuple[Path, str]] = {}
    for folder in folders:
        release = verify(folder)
        number = _line_of(release.certificate, balance, folder, ledger)
        other, matrix = paid.setdefault(number, (folder, release.sha256()))
        if matrix != release.sha256():
            raise VerificationError(f"{folder} and {other} both name line {number} of {ledger.path}: it paid for one")
    return balance


def lost_line(certificate: Certificate) -> Spend:
    """The ledger's line for a release, from its certificate; the hash says whether it is the one that was written."""
    account = certificate.ledger
    if account is None or account.head is None or certificate.mu is None:
        raise LedgerError(
            "the release does not name its line in a ledger: it was made without one, or before ledgers had hashes"
        )
    asked = certificate.epsilon if certificate.nominal_epsilon is None else certificate.nominal_epsilon
    assert asked is not None, "where there is a mu there is an epsilon"
    assert account.numbers is not None, "checked with the head"
    assert account.recorded is not None, "checked with the head"
    return Spend(
        mu=certificate.mu,
        dim=account.numbers,
        strategy=certificate.strategy.name,
        promise=str(Guarantee(epsilon=asked, delta=certificate.delta, unit=Unit(certificate.unit))),
        recorded=account.recorded,
        nonce=account.nonce,
        number=account.releases,
        hash=account.head,
    )


def _line_of(certificate: Certificate, balance: Balance, folder: Path, ledger: Ledger) -> int:
    """The number of the release's line, once everything that its certificate says about the ledger holds."""
    account = certificate.ledger
    if account is None:
        raise VerificationError(f"{folder} was made without a ledger: {ledger.path} does not count it")
    budget = Guarantee(epsilon=account.budget_epsilon, delta=account.budget_delta, unit=Unit(certificate.unit))
    if budget != balance.budget or account.opening not in (None, balance.opening):
        raise VerificationError(
            f"{folder} was made with another ledger than {ledger.path}, or the ledger was replaced: "
            "their first lines differ"
        )
    until = balance.until(account.releases)
    if len(until.spends) < account.releases or not _agrees(certificate, account, until):
        raise VerificationError(
            f"{ledger.path} does not hold line {account.releases} as {folder} has it: the ledger was rolled back or "
            "rewritten, and what it shows as left may be spent already"
        )
    return account.releases


def _agrees(certificate: Certificate, account: LedgerStatement, until: Balance) -> bool:
    line = until.spends[-1]
    if account.head is not None:
        named = (account.head, account.numbers, account.recorded, account.nonce)
        if named != (line.hash, line.dim, line.recorded, line.nonce):
            return False
    stated = (certificate.mu or 0.0, account.mu_total, account.epsilon_total)
    held = (line.mu, until.mu, until.epsilon)
    return all(abs(one - other) <= _TOLERANCE * other for one, other in zip(stated, held, strict=True))
