"""One exception tree, and the rules of arguments. Every message names the file or argument, the value and the rule."""

import math
import re
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Final

MAX_SEED: Final = 2**63 - 1
MAX_SCALE: Final = 1e15  # the largest bound, step, clip, threshold or prior, 1/1e15 the smallest: squares stay finite

_MARKUP: Final = str.maketrans({"|": "&#124;", "<": "&lt;", "[": "&#91;", "`": "&#96;"})
FILE_NAME: Final = "[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}"

POSIX_ONLY = "pricdr runs on Linux and macOS: file locks, signals and permissions follow POSIX"


def printable(text: str) -> str:
    r"""Return text from outside on one line, with everything that a terminal would act on or hide as an escape.

    >>> print(printable("a\x1b[31m\u202e b\nc"))
    a\u001b[31m\u202e b\u000ac
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def plain(text: str) -> str:
    """Return ``text`` on one line of Markdown that shows it as it is: no cell, tag, link or code begins in it."""
    return printable(text).translate(_MARKUP)


class PublishWarning(UserWarning):
    """Something that makes the promise of a release weaker than it could be; nothing has been spent yet."""


class PriCDRError(Exception):
    """Anything this library refuses to do, in one line: whatever a hostile value in the message tries to print."""

    exit_code = 2
    spent = False
    """Whether a ledger had recorded the release by then: to publish again is to pay again."""
    withheld: ClassVar[bool] = False
    """Whether the message may quote ratings, or tell how many there are: logs then have ``logged`` in its place."""
    logged: str | None = None

    def __init__(self, message: str) -> None:
        super().__init__(printable(message.replace("\r", "").replace("\n", " ")))

    @property
    def disclosed(self) -> str | None:
        """What a log that others collect may say of it; None where that is nothing."""
        return self.logged if self.withheld else str(self)


class InputError(PriCDRError, ValueError):
    """A file, column, row or value that cannot be used; most messages name a row or a value."""

    withheld = True


class InputFileError(InputError):
    """A file that cannot be used as a whole: missing, unreadable, empty, truncated, or without a column.

    Logs show it, so ``logged``, in place of the ``fault``, must quote nothing from the rows and no count of them.
    """

    def __init__(self, subject: str, fault: str, *, logged: str | None = None) -> None:
        super().__init__(f"{subject}: {fault}")
        self._fault = fault if logged is None else logged
        self.log_as(subject)

    def log_as(self, subject: str) -> None:
        """Let logs name another subject: the name of the file itself may be an id."""
        self.logged = printable(f"{subject}: {self._fault}")


class LedgerError(InputError):
    """A ledger that is damaged or was changed: it is not spent from. It holds no ratings."""

    withheld = False


class MemoryLimitError(InputError):
    """An input that needs more memory than the limit; the message says how much."""

    # No sizes: they may follow from the number of ratings.
    logged = "more memory is needed than the limit allows: raise it with PRICDR_MEMORY, or use smaller inputs"


class MissingDataError(InputError):
    """A data set that is not there. All say the same, and ``expected`` says which files would do."""

    def __init__(self, *expected: str) -> None:
        super().__init__("data not present: point PRICDR_DATA at it")
        self.expected = tuple(map(printable, expected))


class ParameterError(PriCDRError, ValueError):
    """An argument outside its rule."""


class OutputError(PriCDRError, OSError):
    """An output that already exists or cannot be written."""


class DiskSpaceError(OutputError):
    """A disk that is too small for what is to be sorted there; the message says how many ratings that is."""

    withheld = True
    logged = "the disk has too little room: choose another one with temp-dir in --config"


class MissingExtraError(PriCDRError, ImportError):
    """A package that pip installs only when an extra of pricdr is asked for; the message says which."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name
        """The module that is missing, as any ImportError has it."""


class BusyError(PriCDRError):
    """Another run spends from the same ledger or writes the same output; nothing was done. Try again later."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: what a scheduler may repeat


class BudgetError(PriCDRError):
    """The ledger's budget would be exceeded; nothing was drawn and nothing was spent."""

    exit_code = 1


class TrainingError(PriCDRError):
    """Training went wrong; the last good checkpoint is kept."""

    exit_code = 1


class EngineError(PriCDRError):
    """Spark could not finish what it was asked; the message says whether a budget may be spent.

    Logs do without the ``cause``: what Spark says may quote a value (``The value 'alice' … cannot be cast``) or a path.
    """

    withheld = True

    def __init__(self, message: str, cause: str | None = None) -> None:
        super().__init__(message if cause is None else f"{message}: {cause}")
        self.logged = printable(message)


class VerificationError(PriCDRError):
    """A release that is not what its certificate or ledger says, or a user list that is not what was agreed on."""

    exit_code = 1


def _rule(holds: Callable[[Any], bool], rule: str) -> Callable[..., None]:
    """Return a check that refuses arguments, given by their names, that it does not hold for."""

    def require(**named: float) -> None:
        for name, value in named.items():
            if not holds(value):
                raise ParameterError(f"{name} must {rule}, got {value!r:.40}")

    return require


def _whole(value: Any) -> bool:  # noqa: ANN401 - whatever a caller passes
    return isinstance(value, Integral) and not isinstance(value, bool)


require_positive: Final = _rule(lambda value: math.isfinite(value) and value > 0, "be a finite number above 0")
require_probability: Final = _rule(lambda value: 0 < value < 1, "lie strictly between 0 and 1")
require_share: Final = _rule(lambda value: 0 <= value < 1, "lie in [0, 1)")
require_not_negative: Final = _rule(lambda value: 0 <= value < math.inf, "be zero or more")
require_at_most_scale: Final = _rule(lambda value: not value > MAX_SCALE, f"be at most {MAX_SCALE:g}")
require_scale: Final = _rule(
    lambda value: 1 / MAX_SCALE <= value <= MAX_SCALE, f"be a number from {1 / MAX_SCALE:g} to {MAX_SCALE:g}"
)
require_count: Final = _rule(lambda value: _whole(value) and value >= 1, "be a whole number of at least 1")
require_seed: Final = _rule(
    lambda value: _whole(value) and 0 <= value <= MAX_SEED, f"be a whole number from 0 to {MAX_SEED}"
)


def require_file_name(**named: str) -> None:
    """Refuse text that cannot be, or begin, the name of a file in a given folder: it must not lead out of it."""
    for name, value in named.items():
        if not re.fullmatch(FILE_NAME, value):
            rule = "1 to 100 letters, digits, _, - or . (not first)"
            raise ParameterError(f"{name} becomes a file name: {rule}, got {value[:200]!r}")
