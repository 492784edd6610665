"""Questions about one system that its configuration alone answers."""

import json
from typing import Any

from nmt.config.models import MultimodalConfig, Shown
from nmt.config.system import System
from nmt.config.types import Strict
from nmt.corpora.catalogue import declared


def experiment(system: System) -> str:
    """The part of a system that ``nmt train`` reads, as JSON; of a parent's folder the checksum, not the path."""
    parts = {"model": system.model.non_defaults(), "training": system.training.non_defaults()}
    checksum = system.initialise.sha256 if system.initialise else None
    return json.dumps(parts | ({"initialise": checksum} if checksum else {}))


def as_json(model: Strict) -> str:
    """A model's fields that differ from the defaults, as JSON: for a command line, and for Snakemake to compare."""
    return json.dumps(model.non_defaults(), ensure_ascii=False)


def sees_pictures(system: System, shown: Shown | None = None) -> bool:
    """Whether a system is shown pictures that are not blank.

    Args:
        system: any.
        shown: the pictures that a decoding names; not given: those of the training.
    """
    return isinstance(system.model, MultimodalConfig) and (shown or system.model.images) != "blank"


def reads_descriptions(system: System) -> bool:
    """Whether a system sees pseudo-regions, which are made of other English descriptions, instead of pictures."""
    described = isinstance(system.model, MultimodalConfig) and system.model.backbone == "descriptions"
    return described and description_corpus(system) is not None


def description_corpus(system: System) -> str | None:
    """The corpus with other descriptions of the same images, if there is one."""
    corpus = declared().get(system.corpus)
    return corpus.descriptions if corpus else None


def with_descriptions(system: System) -> tuple[System, System]:
    """Two systems for the folders of raw text: the English sentences, and their other descriptions."""
    text = system.without_added(languages="en-de")
    return text, text.model_copy(update={"corpus": description_corpus(system)})


def published_config(system: System) -> dict[str, str]:
    """A system's configuration as its table shows it; the folder of a parent has its checksum instead of its path."""
    return flatten(system.model_dump(mode="json", exclude={"seeds": True, "initialise": {"folder"}}))


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Flatten nested mappings, keys joined by dots: ``{"a": {"b": 1}}`` → ``{"a.b": "1"}``. Other values as JSON."""
    if isinstance(value, dict):
        parts = (flatten(part, f"{prefix}.{key}" if prefix else str(key)) for key, part in value.items())
        return {key: text for part in parts for key, text in part.items()}
    return {prefix: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
