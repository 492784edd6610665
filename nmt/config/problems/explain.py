"""The lines of a message about settings, from the problems that pydantic found."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from nmt.config.problems.places import origin
from nmt.config.problems.shapes import allowed_at, branch_words, expected_at, fields_at, is_tag, without_branch
from nmt.config.problems.words import expectation, how_to_list, in_words, nearest, shown
from nmt.system.errors import SHOWN

PROBLEMS = 20
"""Most problems that one message lists."""


def explain(model: type[BaseModel], found: Sequence[Any], root: yaml.Node | None, where: str) -> list[str]:
    """Describe the problems of settings, one line each.

    Args:
        model: what the settings were validated against.
        found: the problems, as pydantic lists them.
        root: the YAML of the settings.
        where: the file's name.
    """
    causes = _causes(model, _whole_choices(model, found))
    first = causes[: 10 * PROBLEMS]  # of many systems, each with the fault of its defaults
    lines = list(dict.fromkeys(_line(model, problem, root, where) for problem in first))
    if len(lines) > PROBLEMS or len(causes) > len(first):
        lines[PROBLEMS:] = [f"{where}: and {len(causes) - PROBLEMS:,} more of such problems"]
    return lines


def _line(model: type[BaseModel], problem: Any, root: yaml.Node | None, where: str) -> str:
    """Describe one pydantic problem in one line: file, line, key path, expected, got, nearest."""
    tagged = [part for part in problem["loc"] if part != "[key]"]
    path = [part for part in tagged if not is_tag(part)]
    if problem["type"] == "value_error":
        path += getattr(problem["ctx"]["error"], "place", ())
    path, line = origin(path, root, Path(where).stem)
    place = f"{where}, line {line}: {' '.join('.'.join(map(str, path)).split())[:SHOWN]}" if path else where
    if problem["type"] == "extra_forbidden":
        allowed, below = allowed_at(model, tagged)
        return f"{place}: unknown key{_near_key(model, tagged, allowed, below)}; allowed here: {', '.join(allowed)}"
    if problem["type"] == "missing":
        return f"{place}: required {'value' if isinstance(path[-1], int) else 'key'} is missing; add it"
    got = f"got {shown(problem['input'])}"
    if problem["type"] == "literal_error":
        allowed = problem["ctx"]["expected"].replace("'", "")
        near = nearest(str(problem["input"]), allowed.replace(" or ", ", ").split(", "))
        return f"{place}: expected {allowed}, {got}{near}"
    if problem["type"] == "union_tag_invalid":
        allowed = [tag.strip("<>' ") for tag in problem["ctx"]["expected_tags"].split(",")]
        if not isinstance(problem["input"], dict):
            kind = problem["input"] if problem["input"] in allowed else allowed[0]
            return f"{place}: expected keys and their values, e.g. {{kind: {kind}}}, {got}"
        got = problem["ctx"]["tag"].strip("<>") if problem["input"].get("kind") is not None else ""
        expected = " or ".join(", ".join(allowed).rsplit(", ", 1))
        written = f"'{got}'{nearest(got, allowed)}" if got else "none"
        return f"{place}: kind: expected {expected}, got {written}"
    if problem["type"] == "string_pattern_mismatch":
        return f"{place}: expected {expected_at(model, tagged) or problem['ctx']['pattern']}, {got}"
    if problem["type"] == "string_type":
        words = expected_at(model, tagged) or expectation(problem)
        is_text = type(problem["input"]) in (int, float, bool) and words.startswith(("letters", "text"))
        return f"{place}: expected {words}, {got}{'; put it in quotes' if is_text else ''}"
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        allowed = list(fields_at(model, tagged))
        return f"{place}: expected keys and their values, {got}{'; keys: ' if allowed else ''}{', '.join(allowed)}"
    is_list = problem["type"] in ("list_type", "tuple_type")
    return f"{place}: {in_words(problem)}{how_to_list(problem['input']) if is_list else ''}"


def _near_key(model: type[BaseModel], path: Sequence[Any], allowed: list[str], below: list[str]) -> str:
    """Return what is probably meant by an unknown key."""
    *parent, key = path
    above, _, last = str(key).rpartition(".")
    if above and last in fields_at(model, [*parent, *above.split(".")]):
        return f"; write '{last}' below '{above}', without a dot"
    places = " or ".join(f"'{place}'" for place in below)
    return f"; it belongs below {places}" if below else nearest(str(key), allowed)


def _whole_choices(model: type[BaseModel], problems: Sequence[Any]) -> list[Any]:
    """Join the problems of a value that may have several types: pydantic has one for each."""
    joined = dict[Any, Any]()
    for number, problem in enumerate(problems):
        path = without_branch(model, problem["loc"])
        if path == tuple(problem["loc"]):
            joined[number] = problem
            continue
        is_text = problem["type"].startswith("string")
        words = (branch_words(model, path) if is_text else None) or expectation(problem).replace("'", "")
        first = joined.setdefault(path, problem | {"type": "choice", "loc": path, "ctx": {"expected": words}})
        if words not in first["ctx"]["expected"]:
            first["ctx"]["expected"] += f", or {words}"
    return list(joined.values())


def _causes(model: type[BaseModel], problems: Sequence[Any]) -> list[Any]:
    """Leave out what follows from another problem.

    That is a missing key where an unknown key is meant: the same, misspelt, or one that belongs below it; and a wrong
    value of a key that may not be there.
    """
    wrong = {problem["loc"][:-1] for problem in problems if problem["loc"][-1:] == ("[key]",)}
    problems = [problem for problem in problems if problem["loc"] not in wrong]
    meant = set()
    for problem in problems:
        if problem["type"] == "extra_forbidden":
            *parent, key = problem["loc"]
            allowed, below = allowed_at(model, problem["loc"])
            near = difflib.get_close_matches(str(key), allowed, 1)
            words = [place.partition(".")[0] for place in below] or near
            meant |= {(*parent, word) for word in words}
    without = [("systems",)] if ("defaults",) in meant else []  # they have the keys of the defaults
    return [p for p in problems if p["type"] != "missing" or not (p["loc"] in meant or p["loc"][:1] in without)]
