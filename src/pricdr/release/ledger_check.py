"""A ledger checked against the releases it paid for.

Every certificate names its line in the ledger and that line's hash, which covers everything before it. So a ledger
that was rolled back, replaced or rewritten contradicts a release that exists, and a line that was cut off can be
rebuilt from the release it paid for. With the public key of a signed ledger, its end is shown to be one that the
holder of the key wrote. What no check can see: a ledger forged by whoever has the key, or an old copy of it in place of
a newer one whose further releases nobody presents.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pricdr.errors import LedgerError, VerificationError
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.privacy.ledger import Balance, Ledger
from pricdr.privacy.ledger_lines import Spend
from pricdr.release.certificate import Certificate, LedgerStatement
from pricdr.release.folder import Release, verify
from pricdr.signing import public_text, read_public_key

_TOLERANCE = 1e-9
"""Relative: another machine may compute the last bits of a total differently."""


def ledger_statement(balance: Balance) -> LedgerStatement:
    """Return what a certificate says about the ledger whose last line records its release."""
    line = balance.spends[-1]
    return LedgerStatement(
        releases=len(balance.spends),
        mu_total=balance.mu,
        epsilon_total=balance.epsilon,
        budget_epsilon=balance.budget.epsilon,
        budget_delta=balance.budget.delta,
        numbers=line.dim,
        recorded=line.recorded,
        nonce=line.nonce or None,
        opening=balance.opening,
        head=line.hash or None,
    )


def foreseen_statement(balance: Balance) -> LedgerStatement:
    """Return what a certificate would say of the ledger, of a release that is not recorded: no line, no hash yet."""
    unknown = {"recorded": None, "nonce": None, "opening": None, "head": None}
    return ledger_statement(balance).model_copy(update=unknown)


@dataclass(frozen=True)
class LedgerCheck:
    """A ledger that was checked, and which of its releases were there to check it against."""

    balance: Balance
    presented: frozenset[int]
    """Numbers of the releases that were given."""

    @property
    def not_presented(self) -> tuple[int, ...]:
        """Return the numbers that the ledger paid for and nobody gave: elsewhere, or never finished."""
        return tuple(number for number in range(1, len(self.balance.spends) + 1) if number not in self.presented)


def check_ledger(ledger: Ledger, folders: Iterable[Path] = (), *, public_key: Path | None = None) -> LedgerCheck:
    """Check a ledger, and that it holds every one of these releases.

    With ``public_key``, a PEM file, the ledger and each of them must be signed by that key.
    :class:`VerificationError` where one of its lines was changed, or where a release contradicts it.
    """
    try:
        balance = ledger.read()
    except LedgerError as error:
        raise VerificationError(str(error)) from error
    if public_key is not None and balance.signed_by != public_text(read_public_key(public_key)):
        who = "signed by another key" if balance.signed_by else "not signed"
        raise VerificationError(
            f"{ledger.path} is {who}, so {public_key} vouches for none of it: its last line may have been changed, or "
            "lines cut off"
        )
    paid: dict[int, tuple[Path, str]] = {}
    for folder in folders:
        release = _verified(folder, public_key)
        number = _number_of(release.certificate, balance, folder, ledger)
        # Two different matrices for one line: the second was never paid for, however well both verify.
        other, matrix = paid.setdefault(number, (folder, release.sha256()))
        if matrix != release.sha256():
            both = f"{folder} and {other} both claim to be release {number}"
            raise VerificationError(f"{both} of {ledger.path}: it paid for one")
    return LedgerCheck(balance, frozenset(paid))


def _verified(folder: Path, public_key: Path | None) -> Release:
    """Return the release; an error names its folder first, since several are checked at a time."""
    try:
        return verify(folder, public_key=public_key)
    except VerificationError as error:
        raise VerificationError(f"{folder}: {error}") from error


def lost_line(certificate: Certificate) -> Spend:
    """Rebuild a release's line from its certificate; its hash shows whether it is the line that was written."""
    account = certificate.ledger
    if account is None or account.head is None or certificate.mu is None:
        raise LedgerError("the release does not name its line in a ledger: it was made without one")
    asked = certificate.epsilon if certificate.nominal_epsilon is None else certificate.nominal_epsilon
    assert asked is not None, "where there is a mu there is an epsilon"
    assert account.numbers is not None, "checked with the head"
    assert account.recorded is not None, "checked with the head"
    assert account.nonce is not None, "checked with the head"
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


def _number_of(certificate: Certificate, balance: Balance, folder: Path, ledger: Ledger) -> int:
    """Return the release's number in the ledger, once everything its certificate says about the ledger holds."""
    account = certificate.ledger
    if account is None:
        raise VerificationError(f"{folder} was made without a ledger: {ledger.path} does not count it")
    budget = Guarantee(epsilon=account.budget_epsilon, delta=account.budget_delta, unit=Unit(certificate.unit))
    if budget != balance.budget or account.opening not in (None, balance.opening):
        raise VerificationError(
            f"{folder} was made with a ledger other than {ledger.path}, or the ledger was replaced: "
            "their first lines differ"
        )
    until = balance.until(account.releases)
    if len(until.spends) < account.releases or not _agrees(certificate, account, until):
        raise VerificationError(
            f"{ledger.path} does not hold release {account.releases} as {folder} states it: the ledger was rolled back "
            "or rewritten, and what it shows as left may have been spent already"
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
