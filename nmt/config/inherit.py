"""What a system takes from its parent, the trained model that ``initialise`` names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from nmt.config.data import Cleaning, InheritedSubwords, Subwords
from nmt.config.models import ModelConfig, TransformerConfig, fitting_model, stored_model
from nmt.config.problems.places import INHERITED
from nmt.config.problems.words import nearest, shown
from nmt.config.system import Initialise, System
from nmt.config.types import Strict
from nmt.config.yaml import VALUES, load_yaml, place, read_config, validate
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import digest, read_json, sha256

LEARNED = ("kind", "size", "joint", "ids")
"""The keys of subwords that decide what is learned; the others decide how training text is encoded with them."""
TYINGS = ("none", "decoder", "all")
"""The choices of ``tied``; each ties what the choice before it ties, and more."""
FREE = {
    "layers", "decoder_layers", "max_positions", "tied", "dropout", "teacher_forcing", "teacher_forcing_draw", "images",
    "image_dropout", "regions",
}  # fmt: skip
"""The keys of a model in which a system and its parent may differ. The others decide what the weights mean."""


class _Systems(Strict):
    """The systems of a table, without the rest of it."""

    systems: dict[str, System]


@dataclass(frozen=True)
class ModelFolder:
    """What the JSON files of a model directory say about its model."""

    model: ModelConfig
    cleaning: Cleaning
    subwords: Subwords
    languages: str
    vocabularies: dict[str, str]  # checksums of the pieces, by side
    sha256: str  # of the weights

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a model directory, without its weights.

        Raises:
            ConfigError: there is no such folder, or it holds an ensemble.
            DataError: a file is missing, or another version wrote it.
        """
        if not folder.is_dir():
            raise ConfigError(f"{folder}: expected a model directory, got no such folder; paths start at {Path.cwd()}")
        config, recipe, made = (read_json(folder / f"{name}.json") for name in ("config", "cleaning", "provenance"))
        if "members" in config:
            raise ConfigError(f"{folder}: expected a model, got an ensemble; name one of its models")
        with fitting_model(folder):
            model = stored_model(config["model"], folder)
            learned = made["subwords"]
            return cls(
                model,
                Cleaning(**recipe["cleaning"]),
                Subwords(**learned["subwords"]),
                str(recipe["languages"]),
                dict(learned["vocab_sha256"]),
                str(made.get("weights_sha256") or sha256(folder / "weights.safetensors")),
            )

    @property
    def origin(self) -> str:
        """A digest of its vocabularies."""
        return digest(self.vocabularies)


def merge(base: Any, over: Any, key: str = "") -> Any:
    """Merge ``over`` into ``base``: mappings key by key; any other value replaces the old one.

    An empty mapping replaces too, and so does a model of another kind, because its keys differ.
    """
    if not isinstance(base, dict) or not isinstance(over, dict) or not over:
        return over
    if key == "model" and over.get("kind") not in (None, base.get("kind", TransformerConfig().kind)):
        return over
    return base | {name: merge(base[name], value, name) if name in base else value for name, value in over.items()}


def read_systems(path: Path, value: Any) -> dict[str, Any]:
    """Return the systems of a table as YAML has them, with ``defaults`` and parents merged in.

    Args:
        path: the table file; its folder holds the other tables.
        value: its content; ``defaults`` is removed.

    Raises:
        ConfigError: ``defaults`` is wrong, or a parent does not exist or descends from its own child.
    """
    systems = _with_defaults(path, value)
    return {name: _with_parent(path, name, systems, ()) for name in systems}


def _with_defaults(path: Path, value: Any) -> dict[str, Any]:
    defaults = value.pop("defaults", None) or {}
    if not isinstance(defaults, dict):
        raise ConfigError(f"{place(str(path), ['defaults'])}: expected keys and their values, got {shown(defaults)}")
    if len(value["systems"]) * _count(defaults) > 20 * VALUES:
        raise ConfigError(f"{path}: expected fewer systems or smaller defaults, got too many values to merge")
    return {name: merge(defaults, system) if system else defaults for name, system in value["systems"].items()}


def _count(value: Any) -> int:
    """Count the values in a value."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, parts))


def _with_parent(path: Path, name: str, systems: Mapping[str, Any], children: tuple[str, ...]) -> Any:
    """Merge a system over its parent, which is first merged over its own parent."""
    system = systems[name]
    try:
        initialise = Initialise.model_validate(system["initialise"])
    except (TypeError, LookupError, ValidationError):  # it has none; or the check of the whole system names the fault
        return system
    child = f"{path.stem}/{name}"
    if child in children:
        raise ConfigError(
            f"{_place(path, name)}: expected a parent that does without its children, got a circle: "
            f"{' from '.join((*children[children.index(child) :], child))}; name another"
        )
    if initialise.folder:
        parent, facts = _of_folder(path, name, initialise)
    else:
        parent, facts = _of_system(path, name, str(initialise.system), systems, (*children, child))
    taken = {
        key: merge(_handed_down(parent, key), system[key], key) if key in system else _handed_down(parent, key)
        for key in INHERITED
        if key in parent
    }
    return system | taken | {"initialise": system["initialise"] | facts}


def _handed_down(parent: Mapping[str, Any], key: str) -> Any:
    """A parent's value of an inherited key; noise is of the parent's own training text."""
    value = parent[key]
    if key == "cleaning" and isinstance(value, dict):
        return {name: setting for name, setting in value.items() if name != "noise"}
    return value


def _place(path: Path, name: str, *keys: str) -> str:
    """Return ``FILE, line N: KEY`` of a system's ``initialise``, or of one of its keys."""
    return place(str(path), *([*above, "initialise", *keys] for above in (["systems", name], ["defaults"])))


def _of_folder(path: Path, name: str, initialise: Initialise) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a model directory hands down, and the checksum of its weights."""
    assert initialise.folder
    try:
        parent = ModelFolder.read(initialise.folder)
    except (ConfigError, DataError) as error:
        raise ConfigError(f"{_place(path, name, 'folder')}: {error}") from None
    if initialise.sha256 not in (None, parent.sha256):
        raise ConfigError(
            f"{_place(path, name, 'sha256')}: expected {initialise.sha256}, got weights with {parent.sha256} in "
            f"{initialise.folder}; name the folder of that model, or correct the checksum"
        )
    return {key: getattr(parent, key).non_defaults() for key in INHERITED}, {"sha256": parent.sha256}


def _of_system(
    path: Path, child: str, parent: str, systems: Mapping[str, Any], children: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a system of a table, merged over its own parent, and its name with that of its table."""
    table, _, name = parent.rpartition("/")
    other = path.with_name(f"{table}.yaml") if table else path
    text = ""
    if other != path:
        try:
            text = read_config(other)
        except ConfigError as error:
            raise ConfigError(f"{_place(path, child, 'system')}: {error}") from None
        value = load_yaml(text, str(other))
        has_systems = isinstance(value, dict) and isinstance(value.get("systems"), dict)
        systems = _with_defaults(other, value) if has_systems else {}
    if name not in systems:
        raise ConfigError(
            f"{_place(path, child, 'system')}: {other} has no system '{name}'{nearest(name, list(systems))}; "
            f"expected one of: {', '.join(systems) or '(none exists)'}"
        )
    found = _with_parent(other, name, systems, children)
    if text:  # nobody else tells what is wrong there; of the same table, the check of all systems tells it
        validate(_Systems, {"systems": {name: found}}, text, str(other))
    return (found if isinstance(found, dict) else {}), {"system": f"{other.stem}/{name}"}


def with_subwords_of_parents(
    path: Path, systems: Mapping[str, System], load: Callable[[Path], Mapping[str, System]]
) -> dict[str, System]:
    """Return the systems of a table; those that encode with their parent's subwords have `InheritedSubwords`.

    Args:
        path: the table file.
        systems: its systems, as `read_systems` merged them.
        load: returns the systems of another table file, before this function.
    """
    return {name: _with_subwords(path, name, systems, load) for name in systems}


def _with_subwords(
    path: Path, name: str, systems: Mapping[str, System], load: Callable[[Path], Mapping[str, System]]
) -> System:
    system = systems[name]
    initialise = system.initialise
    if initialise is None or initialise.own_subwords:
        return system
    if initialise.folder:
        folder = ModelFolder.read(initialise.folder)
        learned, origin = folder.subwords, folder.origin
    else:
        table, parent = initialise.parent
        other = path.with_name(f"{table}.yaml")
        known = _with_subwords(other, parent, systems if other == path else load(other), load)
        learned, origin = known.subwords, _origin(known)
    if any(getattr(learned, key) != getattr(system.subwords, key) for key in LEARNED) or origin == _origin(system):
        return system
    inherited = InheritedSubwords(**system.subwords.model_dump(), origin=origin)
    return system.model_copy(update={"subwords": inherited})


def _origin(system: System) -> str:
    """Return a digest of what a system's subwords are learned from."""
    if isinstance(system.subwords, InheritedSubwords):
        return system.subwords.origin
    text = {"corpus", "languages", "back_translation", "forward_translation", "cleaning"}
    learned = system.subwords.model_dump(mode="json", include=set(LEARNED), exclude_defaults=True)
    return digest([system.model_dump(mode="json", include=text, exclude_defaults=True), learned])


def why_unfit(model: ModelConfig, parent: ModelConfig) -> str | None:
    """Return why a model cannot start from the weights of its parent, or None if it can.

    Layers may be added or left out, and weights that the parent shares may become separate.
    """
    if model.kind != parent.kind:
        return f"expected a parent of kind {model.kind}, got {parent.kind}; name another, or change model.kind"
    ours, theirs = model.model_dump(mode="json"), parent.model_dump(mode="json")
    for key in (key for key in ours if key not in FREE and ours[key] != theirs[key]):
        return f"expected model.{key}: {theirs[key]}, as the parent has it, got {ours[key]}; leave it out"
    if TYINGS.index(model.tied) > TYINGS.index(parent.tied):
        return f"expected model.tied: {parent.tied}, as the parent has it, or less, got {model.tied}; leave it out"
    return None
