"""The types at key paths of a model: what is allowed there, and the words for it."""

from collections.abc import Iterable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo


def is_tag(part: Any) -> bool:
    """Return whether a part of a path is not a key but the tag of one of several models, e.g. ``<recurrent>``."""
    return isinstance(part, str) and part.startswith("<")


def fields_at(model: Any, path: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of the model at a path of keys below ``model``, or of all models that may stand there."""
    return {name: field for each in _models(_type_at(model, path)) for name, field in each.model_fields.items()}


def _type_at(model: Any, path: Sequence[Any]) -> Any:
    """Return the type of the value at ``path``, a path of keys below ``model``; None for an unknown key."""
    for part in path:
        if is_tag(part):
            model = next(kind for kind in get_args(model) if Tag(part) in get_args(kind))
        elif models := _models(model):
            model = next((each.model_fields[part].annotation for each in models if part in each.model_fields), None)
        else:  # a container; the last argument is the type of its elements
            model = get_args(model)[-1] if get_args(model) else None
        model = _unwrap(model)
    return model


def _models(kind: Any) -> list[type[BaseModel]]:
    """Return the model that a type is, or all models of a choice."""
    kinds = map(_unwrap, get_args(kind)) if _is_choice(kind) else [kind]
    return [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]


def _unwrap(kind: Any) -> Any:
    """Return the type in an optional or annotated type; leave a choice between several as it is."""
    while get_origin(kind) in (Annotated, Union, UnionType) and not _is_choice(kind):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return kind


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and len([p for p in get_args(kind) if p is not NoneType]) > 1


def without_branch(model: type[BaseModel], path: Sequence[Any]) -> tuple[Any, ...]:
    """Cut a path of pydantic's where it names one of several types of a value, which is no key."""
    parts = [(n, part) for n, part in enumerate(path) if not is_tag(part) and part != "[key]"]
    ends = (n for n, _ in parts if _is_choice(_type_at(model, path[:n])))
    return tuple(path[: next(ends, len(path))])


def branch_words(model: type[BaseModel], path: Sequence[Any]) -> str | None:
    """Return the words for the pattern of a string that is one of several types at a path."""
    return _pattern_words(_inside(_type_at(model, path)))


def expected_at(model: type[BaseModel], path: list[Any]) -> str | None:
    """Return the words for the pattern of the string at a path, or None if it has no pattern."""
    parts = [part for part in path if isinstance(part, str)]
    field = fields_at(model, path[:-1]).get(parts[-1]) if parts else None
    if field is None:
        return _expected_keys_at(model, path) or "letters, digits, _ . -"
    return _pattern_words([field, *_inside(field.annotation)])


def _expected_keys_at(model: type[BaseModel], path: list[Any]) -> str | None:
    """Return the words for the pattern of the keys of the mapping at the end of a path."""
    kind = _type_at(model, path[:-1])
    keys = get_args(kind)[0] if get_origin(kind) is dict else None
    return _pattern_words(info for info in getattr(keys, "__metadata__", ()) if isinstance(info, FieldInfo))


def _pattern_words(infos: Iterable[FieldInfo]) -> str | None:
    extras = (info.json_schema_extra for info in infos)
    return next((str(extra["patternErrorMessage"]) for extra in extras if isinstance(extra, dict)), None)


def _inside(kind: Any) -> Iterator[FieldInfo]:
    """Yield the field information of the types inside a type, e.g. of a list's items or an optional value."""
    for part in get_args(kind):
        yield from (info for info in getattr(part, "__metadata__", ()) if isinstance(info, FieldInfo))
        yield from _inside(part)


def allowed_at(model: type[BaseModel], path: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return the keys that are allowed where an unknown key stands, and the parts that have a key of its name.

    The parts are one level below, or else two, and lists of the settings, such as ``rows``.
    """
    *parent, key = path
    allowed = list(fields_at(model, parent))
    parts = [[each] for each in allowed]
    parts += [[*each, part] for each in parts for part in fields_at(model, [*parent, *each])]
    below = [part for part in parts if key in fields_at(model, [*parent, *part])]
    lists = [name for name in fields_at(model, []) if name != path[0] and key in fields_at(model, [name, 0])]
    return allowed, [".".join(part) for part in below if len(part) == len(below[0])] + lists
