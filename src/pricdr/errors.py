"""One exception tree. Every message names the file or argument, the value and the rule.

PriCDRError
├── InputError            a file, column, row or value that cannot be used      exit 2
│   ├── InputFileError    a file that cannot be used as a whole                 exit 2
│   ├── LedgerError       a ledger that is damaged or was changed               exit 2
│   ├── MemoryLimitError  an input that needs more memory than the limit        exit 2
│   └── MissingDataError  a data set that is not in the folder of data sets     exit 2
├── ParameterError        an argument outside its rule                          exit 2
├── OutputError           an output that exists or cannot be written            exit 2
│   └── DiskSpaceError    a disk that is too small to sort on                   exit 2
├── MissingExtraError     a package that pip installs only when asked for       exit 2
├── BusyError             another run that spends or writes the same            exit 75
├── BudgetError           the ledger refuses the release                        exit 1
├── TrainingError         a training that went wrong                            exit 1
├── EngineError           Spark could not finish what it was asked              exit 2
└── VerificationError     a release that is not what its certificate says,      exit 1
                          or that contradicts its ledger; a user list that
                          is not what an alignment agreed on
"""

import math
import re
from numbers import Integral
from typing import Final

LARGEST_SEED: Final = 2**63 - 1
LARGEST_SCALE: Final = 1e15
"""The largest bound, step, clip, threshold or prior; 1/1e15 is the smallest. Their squares stay finite."""

_MARKUP: Final = str.maketrans({"|": "&#124;", "<": "&lt;", "[": "&#91;", "`": "&#96;"})
FILE_NAME: Final = "[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}"
"""What text from outside may become a file name, as a pattern."""

POSIX_ONLY = "pricdr runs on Linux and macOS: file locks, signals and permissions follow POSIX"


def printable(text: str) -> str:
    r"""Return ``text`` on one line, with everything that a terminal would act on or hide written as an escape.

    Text from outside (ids, file names, certificates, specs) passes through here before it is shown. Escape sequences,
    line breaks and characters that reverse the direction of text are not printable.

    >>> print(printable("a\x1b[31m\u202e b\nc"))
    a\u001b[31m\u202e b\u000ac
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def plain(text: str) -> str:
    """Return ``text`` on one line of Markdown that shows it as it is: no cell, tag, link or code begins in it.

    >>> print(plain("a | b <img> [c](d)"))
    a &#124; b &lt;img> &#91;c](d)
    """
    return printable(text).translate(_MARKUP)


class PublishWarning(UserWarning):
    """Something that makes the promise of a release weaker than it could be; nothing has been spent yet."""


class PriCDRError(Exception):
    """Anything this library refuses to do, in one line: whatever a hostile value in the message tries to print."""

    exit_code = 2
    spent = False
    """Whether a ledger had recorded the release by then: to publish again is to pay again."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message.replace("\r", "").replace("\n", " ")))

    @property
    def disclosed(self) -> str | None:
        """What a log that others collect may say of it; None where the message may quote the ratings."""
        return str(self)


class InputError(PriCDRError, ValueError):
    """A file, column, row or value that cannot be used."""

    @property
    def disclosed(self) -> str | None:
        """Nothing: most messages name a row or a value."""
        return None


class InputFileError(InputError):
    """A file that cannot be used as a whole: missing, unreadable, empty, truncated, or without a column.

    Logs show it, so ``logged`` must quote nothing from the rows, and no count of them.

    Args:
        subject: the file, or what could not be done with it.
        fault: what is wrong, for the screen.
        logged: what is wrong, for logs; the same as ``fault`` by default.

    >>> error = InputFileError("r.csv", "no user column in ['alice', 'dune']", logged="no user column")
    >>> print(error, error.disclosed, sep="; ")
    r.csv: no user column in ['alice', 'dune']; r.csv: no user column
    """

    def __init__(self, subject: str, fault: str, *, logged: str | None = None) -> None:
        super().__init__(f"{subject}: {fault}")
        self._subject, self._logged = subject, fault if logged is None else logged

    def log_as(self, subject: str) -> None:
        """Let logs name another subject: the name of the file itself may be an id."""
        self._subject = subject

    @property
    def disclosed(self) -> str | None:
        """The subject and the fault, as far as they are for logs."""
        return printable(f"{self._subject}: {self._logged}")


class LedgerError(InputError):
    """A ledger that is damaged or was changed: it is not spent from."""

    @property
    def disclosed(self) -> str | None:
        """All of it: a ledger holds no ratings."""
        return str(self)


class MemoryLimitError(InputError):
    """An input that needs more memory than the limit; the message says how much."""

    @property
    def disclosed(self) -> str | None:
        """No sizes: they may follow from the number of ratings."""
        return "more memory is needed than the limit allows: raise it with PRICDR_MEMORY, or use smaller inputs"


class MissingDataError(InputError):
    """A data set that is not in the folder of data sets. All say the same, and ``expected`` says which files would do.

    >>> error = MissingDataError("amazon/ratings_Books.csv", "amazon/ratings_CDs_and_Vinyl.csv")
    >>> print(error, error.detail, sep="; ")
    data not present: point PRICDR_DATA at it; expected amazon/ratings_Books.csv and amazon/ratings_CDs_and_Vinyl.csv
    """

    def __init__(self, *expected: str) -> None:
        super().__init__("data not present: point PRICDR_DATA at it")
        self.expected = tuple(printable(one) for one in expected)

    @property
    def detail(self) -> str:
        """Return the expected files on one line."""
        return f"expected {' and '.join(self.expected)}"


class ParameterError(PriCDRError, ValueError):
    """An argument outside its rule."""


class OutputError(PriCDRError, OSError):
    """An output that already exists or cannot be written."""


class DiskSpaceError(OutputError):
    """A disk that is too small for what is to be sorted there; the message says how many ratings that is."""

    @property
    def disclosed(self) -> str | None:
        """No sizes: they follow from the number of ratings."""
        return "the disk has too little room: choose another one with --temp-dir"


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

    Args:
        message: what it was asked.
        cause: what Spark says, which may quote a value (``The value 'alice' … cannot be cast``) or a path of one user.
    """

    def __init__(self, message: str, cause: str | None = None) -> None:
        super().__init__(message if cause is None else f"{message}: {cause}")
        self._message = printable(message)

    @property
    def disclosed(self) -> str | None:
        """The message without Spark's words."""
        return self._message


class VerificationError(PriCDRError):
    """A release that is not what its certificate or ledger says, or a user list that is not what was agreed on."""

    exit_code = 1


def require_positive(**named: float) -> None:
    """Refuse values that are not finite and above zero.

    >>> require_positive(epsilon=4.0)
    >>> require_positive(epsilon=-1.0)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: epsilon must be a finite number above 0, got -1.0
    """
    for name, value in named.items():
        if not (math.isfinite(value) and value > 0):
            raise ParameterError(f"{name} must be a finite number above 0, got {value!r}")


def require_probability(**named: float) -> None:
    """Refuse values outside the open interval (0, 1).

    >>> require_probability(delta=1.5)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: delta must lie strictly between 0 and 1, got 1.5
    """
    for name, value in named.items():
        if not 0 < value < 1:
            raise ParameterError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def require_count(**named: int) -> None:
    """Refuse whole numbers below one.

    >>> require_count(dim=0)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: dim must be a whole number of at least 1, got 0
    """
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_share(**named: float) -> None:
    """Refuse values outside [0, 1): a share that may be nothing, but not everything.

    >>> require_share(dropout=1.0)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: dropout must lie in [0, 1), got 1.0
    """
    for name, value in named.items():
        if not 0 <= value < 1:
            raise ParameterError(f"{name} must lie in [0, 1), got {value!r}")


def require_not_negative(**named: float) -> None:
    """Refuse values that are not finite, or below zero.

    >>> require_not_negative(weight_decay=-1.0)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: weight_decay must be zero or more, got -1.0
    """
    for name, value in named.items():
        if not 0 <= value < math.inf:
            raise ParameterError(f"{name} must be zero or more, got {value!r}")


def require_at_most_scale(**named: float) -> None:
    """Refuse values so large that figures which follow from them might overflow.

    >>> require_at_most_scale(prior=1e16)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: prior must be at most 1e+15, got 1e+16
    """
    for name, value in named.items():
        if value > LARGEST_SCALE:
            raise ParameterError(f"{name} must be at most {LARGEST_SCALE:g}, got {value!r}")


def require_scale(**named: float) -> None:
    """Refuse values that are not positive, or that lie outside 1e-15 to 1e15.

    >>> require_scale(clip=1e-16)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: clip must be at least 1e-15, got 1e-16
    """
    require_positive(**named)
    require_at_most_scale(**named)
    for name, value in named.items():
        if value < 1 / LARGEST_SCALE:
            raise ParameterError(f"{name} must be at least {1 / LARGEST_SCALE:g}, got {value!r}")


def require_file_name(**named: str) -> None:
    """Refuse text that cannot be, or begin, the name of a file in a given folder: it must not lead out of it.

    >>> require_file_name(name="table-1.v2")
    >>> require_file_name(name="../t")
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: name becomes a file name: 1 to 100 letters, digits, _, - or . (not first), got '../t'
    """
    for name, value in named.items():
        if not re.fullmatch(FILE_NAME, value):
            rule = "1 to 100 letters, digits, _, - or . (not first)"
            raise ParameterError(f"{name} becomes a file name: {rule}, got {value[:200]!r}")


def require_seed(**named: int) -> None:
    """Refuse anything but whole numbers from 0 to 2^63 - 1.

    >>> require_seed(seed=-1)
    Traceback (most recent call last):
    ...
    pricdr.errors.ParameterError: seed must be a whole number from 0 to 9223372036854775807, got -1
    """
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= value <= LARGEST_SEED:
            raise ParameterError(f"{name} must be a whole number from 0 to {LARGEST_SEED}, got {value!r:.40}")
