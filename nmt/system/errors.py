"""The errors that a user can fix; the command line prints them as one message, without a traceback."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHOWN = 200
"""Most characters of another library's error in a message of ours."""
BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the order in which a line is shown."""


def printable(text: str) -> str:
    """Return a text for a terminal: control characters, but for line ends and tabs, become U+FFFD.

    A terminal obeys control characters, and text from a file of somebody else may have any.
    """
    return "".join(
        "\ufffd" if c in BIDIRECTIONAL or (unicodedata.category(c) == "Cc" and c not in "\n\t") else c for c in text
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters; its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


class _UserError(ValueError):
    """An error whose message is shown to the user; it may quote a file of somebody else."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ConfigError(_UserError):
    """A configuration key, value or argument is wrong; the message says where, expected, got, and what to do."""


class DataError(_UserError):
    """A file is missing, damaged or does not fit another; the message says which, where, expected, got, what to do."""


class MisplacedError(ValueError):
    """A ValueError of a model about one of its parts; ``place`` is the part's path below the model."""

    def __init__(self, message: str, place: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.place = place


@contextmanager
def at_place(*place: str | int) -> Iterator[None]:
    """Add a place to a ValueError of the block, so that the message names its line.

    Args:
        place: keys and numbers of the part that is wrong, below the model that validates it.
    """
    try:
        yield
    except ValueError as error:
        raise MisplacedError(str(error), place) from None


@contextmanager
def fitting(path: Path, expected: str, advice: str) -> Iterator[None]:
    """Turn errors about the content of files into one DataError.

    Args:
        path: the file or folder that the block reads.
        expected: what it should be, e.g. ``a model directory``.
        advice: what to do.
    """
    try:
        yield
    except (ConfigError, DataError):
        raise
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        text = error.errors()[0]["msg"] if hasattr(error, "errors") else str(error)  # pydantic's has one per field
        problem = f"{type(error).__name__}: {' '.join(text.split())[:SHOWN]}"
        raise DataError(f"{path}: expected {expected}, got one whose files do not fit ({problem}); {advice}") from None
