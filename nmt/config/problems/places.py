"""Where the key paths of settings stand in their YAML."""

from collections.abc import Iterator
from typing import Any

import yaml


def origin(path: list[Any], root: yaml.Node | None) -> tuple[list[Any], int]:
    """Return the key path of a part, below ``defaults`` if it stands there, and the line, from 1, of what exists."""
    depth, line = descend(root, path)
    if len(path) > 2 and path[0] == "systems" and depth < len(path):
        default = ["defaults", *path[2:]]
        default_depth, default_line = descend(root, default)
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


def descend(node: Any, path: list[Any]) -> tuple[int, int]:
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
