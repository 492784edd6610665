"""Plain words for what a setting expects and what it got."""

import difflib
import json
import re
from typing import Any

from nmt.system.errors import SHOWN

_TYPES = {
    "int": "a whole number, in digits alone", "float": "a number, without a comma", "bool": "true or false",
    "list": "a list", "tuple": "a list", "path": "a path", "string": "text",
    "model": "keys and their values",
}  # fmt: skip
"""What is expected where pydantic found another type, or empty text."""
_EXPECTED = {
    "greater_than_equal": "{ge:,.16g} or more", "greater_than": "more than {gt:,.16g}",
    "less_than_equal": "{le:,.16g} or less", "less_than": "less than {lt:,.16g}", "finite_number": "a finite number",
    "too_short": "a list of at least {min_length}", "too_long": "a list of at most {max_length}",
    "string_too_long": "at most {max_length} characters", "literal_error": "{expected}",
    "extra_forbidden": "no such key", "choice": "{expected}",
}  # fmt: skip
"""What is expected where pydantic found a value beyond a bound, or none of some; the names in braces are its own."""


def in_words(problem: Any) -> str:
    """Return in plain words what one pydantic problem expects and got."""
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"expected {expectation(problem)}, got {shown(problem['input'])}"


def expectation(problem: Any) -> str:
    """Return in plain words what one pydantic problem expects of its value, e.g. ``1 or more``."""
    kind = problem["type"]
    words = _EXPECTED.get(kind, "").format_map(problem.get("ctx", {})) or _TYPES.get(kind.partition("_")[0])
    return words or f"another value ({problem['msg']})"


def how_to_list(value: Any) -> str:
    """Return how to write a value as the list that it should be."""
    if isinstance(value, dict):
        return "; begin each of its parts with a dash"
    values = re.split(r"[,\s]+", value.strip()) if isinstance(value, str) else [value]
    return "" if value is None else f"; put its values in brackets: [{', '.join(map(str, values))}]"


def shown(value: Any) -> str:
    """Return the beginning of a value, as it was written."""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)[:SHOWN]
    except (ValueError, TypeError, RecursionError):  # e.g. a number of thousands of digits, or a date as key
        return f"a {type(value).__name__}"


def nearest(word: str, allowed: list[str]) -> str:
    """Return ``; did you mean 'WORD'?`` with the most similar allowed word, or an empty string."""
    close = difflib.get_close_matches(word, allowed, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
