"""Where the key paths of settings stand in their YAML."""

from collections.abc import Iterator
from typing import Any

import yaml

INHERITED = ("cleaning", "subwords", "model")
"""The keys that a system takes from its parent, key by key."""


def origin(path: list[Any], root: yaml.Node | None, table: str) -> tuple[list[Any], int]:
    """Return the key path of a part where it is written, and the line, from 1, of what exists of it.

    Args:
        path: where the part is after merging.
        root: the YAML.
        table: name of the table, by which its own systems may name their parents.
    """
    written = max(_sources(path, root, table), key=lambda place: descend(root, place)[0] + (place[:1] == ["defaults"]))
    return written, descend(root, written)[1]


def _sources(path: list[Any], root: yaml.Node | None, table: str) -> list[list[Any]]:
    """Return where a part may be written: at its path; of a system also below ``defaults``, or in its parents."""
    if len(path) < 3 or path[0] != "systems":
        return [path]
    places, name = list[list[Any]](), path[1]
    while name and (own := ["systems", name, *path[2:]]) not in places:
        places += [own, ["defaults", *path[2:]]]
        name = _parent(name, root, table) if path[2] in INHERITED else None
    return places


def _parent(name: str, root: yaml.Node | None, table: str) -> str | None:
    """Return the system of the same table that a system starts from, or None."""
    for above in (["systems", name], ["defaults"]):
        path = [*above, "initialise", "system"]
        depth, _, node = descend(root, path)
        if depth == len(path) and isinstance(node, yaml.ScalarNode):
            other, _, parent = node.value.rpartition("/")
            return parent if other in ("", table) else None
    return None


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield keys and values of a mapping, then those of the mappings that its key ``<<`` merges into it."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    yield from pairs
    for value in (value for key, value in pairs if key.value == "<<"):
        for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            yield from _pairs(each)


def descend(node: Any, path: list[Any]) -> tuple[int, int, Any]:
    """Return how many parts of the path exist, and the line and the value of the last one."""
    line = 1 if node is None else node.start_mark.line + 1
    for depth, part in enumerate(path):
        if isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in _pairs(node) if key.value == str(part)]
            if not matches:
                return depth, line, node
            line, node = matches[0][0].start_mark.line + 1, matches[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return depth, line, node
    return len(path), line, node
