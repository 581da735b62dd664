"""A query and the database that answers it: what may be shown of them, and what never is."""

import os
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from pricdr.data.reading.text_files import shorten
from pricdr.errors import ParameterError

_ENVIRONMENT: Final = "env:"
_SERVERS: Final = ("postgresql", "postgres")
_FILE: Final = "sqlite:///"
"""How the address of a SQLite file starts; a fourth slash makes its path absolute."""
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z]+)://((?P<user>[^:@/?#\s]*)(:(?P<password>[^@/?#\s]*))?@)?[^@/?#\s]*(/[^@/?#\s]*)?"
    r"(\?(?P<options>[^#\s]*))?"
)
"""Stricter than drivers are: they would take part of an unescaped password for a port, and quote it."""
_SECRET_OPTIONS: Final = ("password", "sslpassword")
_LONGEST_REASON: Final = 300


@dataclass(frozen=True)
class Query:
    """A query and the database that answers it. The address may hold a password, and is never shown."""

    address: str = field(repr=False)
    sql: str = field(repr=False)

    @classmethod
    def of(cls, source: str, sql: str) -> "Query":
        """Return the query; ``source`` is an address, or ``env:NAME`` for the variable that holds it.

        >>> Query.of("postgresql://bob:secret@db.example.com/shop", "SELECT …")
        Query()
        >>> str(Query.of("postgresql:///shop", "SELECT …"))
        'the postgresql query'
        >>> str(Query.of("sqlite:///shop.db", "SELECT …"))
        'the sqlite query'
        """
        address, origin = source, "--from"
        if source.startswith(_ENVIRONMENT):
            name = source.removeprefix(_ENVIRONMENT)
            origin = f"the environment variable {shorten(name)}"
            address = os.environ.get(name, "")
            if not address:
                raise ParameterError(f"{origin} is not set, and --from names it as the address of a database")
        parts = _ADDRESS.fullmatch(address)
        is_file = address.startswith(_FILE) and address != _FILE
        if not is_file and (parts is None or parts["scheme"] not in _SERVERS):
            form = "postgresql://user:password@host:port/database or sqlite:///file"
            rule = "with / ? # @ and blanks in a name or password written as %2F, %3F, %23, %40, %20"
            raise ParameterError(f"{origin} must read {form}, {rule}; its value is not shown because of the password")
        if not sql.strip(" \t\r\n;"):
            raise ParameterError("--query is empty; it must select a user, an item and perhaps a rating and a time")
        return cls(address, sql)

    @property
    def database(self) -> str:
        """The kind of database: ``postgresql`` or ``sqlite``."""
        return "sqlite" if self.address.startswith(_FILE) else "postgresql"

    @property
    def file(self) -> str:
        """The path of a SQLite file."""
        return self.address.removeprefix(_FILE)

    def __str__(self) -> str:
        return f"the {self.database} query"

    def cleaned(self, text: str) -> str:
        """Return the message of a driver in one line, without the address, passwords, and the query itself."""
        parts = _ADDRESS.fullmatch(self.address)
        secrets = []
        if parts is not None:  # a path of SQLite may be any text
            options = [option.partition("=") for option in (parts["options"] or "").split("&")]
            secrets = [parts["password"] or "", *(value for key, _, value in options if key in _SECRET_OPTIONS)]
        # Before anything is cut: half of a password would no longer match.
        for secret in sorted({self.address, *secrets, *map(unquote, secrets)}, key=len, reverse=True):
            text = text.replace(secret, "…") if secret else text
        reason = re.sub(r"^[A-Z_]+: ", "", text.partition("Query was:")[0])
        return " ".join(reason.split())[:_LONGEST_REASON]
