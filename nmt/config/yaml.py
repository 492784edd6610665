"""Strict reading of YAML; errors name file, line, key, what is allowed, and the nearest allowed word."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from nmt.config.schema.shapes import allowed_at, branch_words, expected_at, fields_at, is_tag, without_branch
from nmt.system.errors import SHOWN, ConfigError, printable

Model = TypeVar("Model", bound=BaseModel)


CHARACTERS = 2**20
"""Most characters of a YAML text."""
VALUES = 20_000
"""Most values in it, each use of an anchor counted anew. The reader takes some seconds for so many."""
DEPTH = 50
"""Most values inside each other."""
DIGITS = 100
"""Most characters of an integer."""
PROBLEMS = 20
"""Most problems that one message lists."""


def parse(model: type[Model], text: str, where: str) -> Model:
    """Validate YAML, or JSON, against a model.

    Args:
        model: the pydantic model that the text must match.
        text: YAML.
        where: the file's name, for messages.

    Raises:
        ConfigError: names file, line, key path, the value got, what is allowed, and the nearest allowed word.
    """
    return validate(model, load_yaml(text, where), text, where)


def validate(model: type[Model], value: Any, text: str, where: str) -> Model:
    """Validate a value that was read from YAML ``text``, which gives the line numbers; raises as `parse` does."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        root = _compose(text)
        causes = _causes(model, _whole_choices(model, error.errors()))
        first = causes[: 10 * PROBLEMS]  # of many systems, each with the fault of its defaults
        problems = list(dict.fromkeys(_explain(model, problem, root, where) for problem in first))
        if len(problems) > PROBLEMS or len(causes) > len(first):
            problems[PROBLEMS:] = [f"{where}: and {len(causes) - PROBLEMS:,} more of such problems"]
        raise ConfigError("\n".join(problems)) from None


def load(model: type[Model], path: Path) -> Model:
    """Validate a YAML file against a model; raises ConfigError as `parse` does."""
    return parse(model, read_config(path), str(path))


def read_config(path: Path) -> str:
    """Read a YAML file as text; raises ConfigError, which names a similar file if this one does not exist."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: expected a file of settings, got a device or pipe; name another")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: expected UTF-8, got other bytes; save it as UTF-8") from None
    except FileNotFoundError:
        names = sorted(p.stem for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        near = nearest(path.stem, names)
        raise ConfigError(f"{path}: no such file; here are: {', '.join(names) or 'none'}{near}") from None
    except OSError as error:
        raise ConfigError(f"{path}: expected a file of settings, got: {error.strerror}; name another") from None


def load_yaml(text: str, where: str) -> Any:
    """Parse YAML safely; raises ConfigError, which names file and line."""
    if len(text) > CHARACTERS:
        raise ConfigError(f"{where}: expected at most {CHARACTERS:,} characters, got {len(text):,}; divide it")
    try:
        return yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        fault = next((words for part, words in _FAULTS.items() if part in (error.problem or "")), error.problem)
        raise ConfigError(f"{where}, line {line}: expected YAML, got {fault}") from None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        # e.g. a control character, an impossible date, or a value that its tag does not allow
        raise ConfigError(f"{where}: expected YAML, got {' '.join(str(error).split())[:SHOWN]}") from None


def _problem(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_FAULTS = {
    "<block mapping start>": "a line with another indentation than its neighbours; indent them alike, by spaces",
    "'\\t'": "a tab; indent by spaces",
    "<block sequence start>": "a line with a dash among keys; all parts of a list begin with a dash, and no key does",
    "mapping values are not allowed here": "a colon in a value, or a line indented too far; put the value in quotes, "
    "or indent the line as its neighbours; in the line before, write a space after the colon or the dash",
    "could not find expected ':'": "a line without a colon here or just before; write one after each key",
    "but got '<stream end>'": "the end of the file inside brackets; close them",
    "but got ':'": "a colon inside brackets, whose end may be missing before; close them",
    "unexpected end of stream": "the end of the file inside quotes; close them where the value ends",
    "unknown escape character": "a backslash in double quotes; use single quotes",
    "cannot start any token": "a value that begins with a special character; put the value in quotes",
    "found undefined alias": "a value that begins with *; put the value in quotes",
    "found '<scalar>'": "text after a closing quote; in text in single quotes write '' for an apostrophe",
}
"""What common problems of the YAML reader mean."""
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
_NOT_WORDS = {
    "bool": "true or false", "int": "a number", "float": "a number", "null": "nothing", "timestamp": "a date",
}  # fmt: skip
"""Types of keys that look like words."""


class _UniqueKeys(yaml.SafeLoader):
    """A safe loader that rejects what a file of somebody else must not do.

    It rejects repeated keys, of which YAML would silently keep the last; numbers as keys and octal numbers, which YAML
    reads otherwise than people; control characters, which a terminal would obey; and too many values. Each use of an
    anchor counts as all the values that it repeats, because a few lines can stand for billions of them.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count, self._depth, self._sizes = 0, 0, dict[int, int]()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        before, is_alias = self._count, self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > DEPTH:
            raise _problem(f"more than {DEPTH} values inside each other", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise _problem("a value that contains itself", mark)
        self._count += self._sizes[id(node)] if is_alias else 1
        self._sizes.setdefault(id(node), self._count - before)
        if self._count > VALUES:
            raise _problem(f"more than {VALUES:,} values", mark)
        if isinstance(node, yaml.ScalarNode) and not node.value.isprintable() and printable(node.value) != node.value:
            raise _problem("a control character in a value", mark)
        return node

    def construct_number(self, node: yaml.ScalarNode) -> int:
        """Construct an integer.

        Python takes minutes for the powers of 60 in a number of many digits. YAML reads some numbers otherwise than
        people: 010 is eight, 1:30 is ninety.
        """
        if len(node.value) > DIGITS:
            raise _problem(f"a number of more than {DIGITS} characters", node.start_mark)
        value = int(self.construct_yaml_int(node))
        if not re.fullmatch(r"[-+]?(0|[1-9][\d_]*|0[xb][\da-fA-F_]+)", node.value):
            problem = f"{node.value}, which YAML reads as {value}; write it without zeros in front and without colons"
            raise _problem(problem, node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("a key that is not one word", key.start_mark)
            if re.fullmatch(r"0|[1-9]\d*", key.value):  # the same word for YAML and people
                key.tag = "tag:yaml.org,2002:str"
            if kind := _NOT_WORDS.get(key.tag.rpartition(":")[2]):  # e.g. the language code no, Norwegian
                problem = f'the key {key.value}, which YAML reads as {kind}; put it in quotes: "{key.value}"'
                raise _problem(problem, key.start_mark)
            if key.value in seen and key.value != "<<":
                raise _problem(f"key '{key.value}' twice; rename or delete one", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_UniqueKeys.add_constructor("tag:yaml.org,2002:int", _UniqueKeys.construct_number)


def _explain(model: type[BaseModel], problem: Any, root: yaml.Node | None, where: str) -> str:
    """Describe one pydantic problem in one line: file, line, key path, expected, got, nearest."""
    tagged = [part for part in problem["loc"] if part != "[key]"]
    path = [part for part in tagged if not is_tag(part)]
    if problem["type"] == "value_error":
        path += getattr(problem["ctx"]["error"], "place", ())
    path, line = _origin(path, root)
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
    return f"{place}: {in_words(problem)}{_how_to_list(problem['input']) if is_list else ''}"


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
    """Leave out a missing key where an unknown key is meant: the same, misspelt, or one that belongs below it."""
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


def _how_to_list(value: Any) -> str:
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


def _compose(text: str) -> yaml.Node | None:
    """Return the tree of a YAML text, which knows the lines; None if it is not YAML."""
    try:
        return _UniqueKeys(text).get_single_node()
    except yaml.YAMLError:
        return None


def located(where: str, *paths: list[Any]) -> str:
    """Return ``FILE, line N: `` of the first of some key paths that the YAML file ``where`` has; empty without one."""
    root = _compose(read_config(Path(where)))
    lines = [line for path in paths for depth, line in [_descend(root, path)] if depth == len(path)]
    return f"{where}, line {lines[0]}: " if lines else ""


def _origin(path: list[Any], root: yaml.Node | None) -> tuple[list[Any], int]:
    """Return the key path of a part, below ``defaults`` if it stands there, and the line, from 1, of what exists."""
    depth, line = _descend(root, path)
    if len(path) > 2 and path[0] == "systems" and depth < len(path):
        default = ["defaults", *path[2:]]
        default_depth, default_line = _descend(root, default)
        if default_depth + 1 > depth:
            return default, default_line
    return path, line


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield keys and values of a mapping, then those of the mappings that its key ``<<`` merges into it."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    yield from pairs
    for value in (value for key, value in pairs if key.value == "<<"):
        for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            yield from _pairs(each)


def _descend(node: Any, path: list[Any]) -> tuple[int, int]:
    """Return how many parts of the path exist, and the line of the last one."""
    line = 1 if node is None else node.start_mark.line + 1
    for depth, part in enumerate(path):
        if isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in _pairs(node) if key.value == str(part)]
            if not matches:
                return depth, line
            line, node = matches[0][0].start_mark.line + 1, matches[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return depth, line
    return len(path), line
