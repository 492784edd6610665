"""Strict reading of YAML; errors name file, line, key, what is allowed, and the nearest allowed word."""

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from nmt.config.problems.explain import explain
from nmt.config.problems.places import descend
from nmt.config.problems.words import nearest
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
        raise ConfigError("\n".join(explain(model, error.errors(), _compose(text), where))) from None


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
                raise _problem(f"key '{key.value}' twice; join both under one, or rename one", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_UniqueKeys.add_constructor("tag:yaml.org,2002:int", _UniqueKeys.construct_number)


def _compose(text: str) -> yaml.Node | None:
    """Return the tree of a YAML text, which knows the lines; None if it is not YAML."""
    try:
        return _UniqueKeys(text).get_single_node()
    except yaml.YAMLError:
        return None


def place(where: str, *paths: list[Any]) -> str:
    """Return ``FILE, line N: KEY`` of the first of some key paths that a YAML file has; of none, ``FILE: KEY``."""
    root = _compose(read_config(Path(where)))
    for path in paths:
        depth, line, _ = descend(root, path)
        if depth == len(path):
            return f"{where}, line {line}: {'.'.join(map(str, path))}"
    return f"{where}: {'.'.join(map(str, paths[0]))}"
