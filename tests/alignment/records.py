"""Records of made-up alignments, for tests that need a list with a record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pricdr.alignment.messages import AlignmentRecord, list_sha256, record_beside
from pricdr.alignment.normalisation import RULES, Normalisation
from pricdr.data.ids import id_lines

SESSION = "0123456789abcdef" * 2
STARTER_IDS, ANSWERER_IDS = 987_654_321, 876_543_210
"""Numbers that occur nowhere else, so that a leak into a certificate is noticed."""


def record_of(users: Sequence[str], rule: Normalisation = "exact", **changes: Any) -> AlignmentRecord:
    """The record of an alignment that found these users."""
    content = {
        "session": SESSION,
        "normalisation": rule,
        "rule": RULES[rule][0],
        "who_learns": "both",
        "starter_ids": STARTER_IDS,
        "answerer_ids": ANSWERER_IDS,
        "common_users": len(users),
        "users_sha256": list_sha256(users),
        "first_message": "ab" * 32,
        "second_message": "cd" * 32,
    }
    return AlignmentRecord(**{**content, **changes})


def write_list(path: Path, users: Sequence[str], **changes: Any) -> Path:
    """Write a user list and its record as ``align finish`` does."""
    path.write_bytes(id_lines(tuple(users)))
    record_beside(path).write_bytes(record_of(users, **changes).content())
    return path
