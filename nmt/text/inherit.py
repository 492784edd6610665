"""Take over the subword models that a parent was trained with."""

import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.data import Subwords
from nmt.system.errors import ConfigError
from nmt.system.files import atomic_directory, read_json, write_text
from nmt.text.subwords import SIDES, load_vocabularies, write_record


def inherit(parent: Path, out: Path, languages: str, dropout: float = 0.0, segmentations: int = 1) -> None:
    """Copy subword models, to encode other text with them; writes the folder ``out`` atomically.

    Args:
        parent: folder of subword models, or a model directory.
        out: folder to write; its content is that of `nmt.text.subwords.learn`.
        languages: source and target of the text, e.g. ``en-de``.
        dropout: BPE-dropout of the text.
        segmentations: with dropout, how often the text is encoded.

    Raises:
        ConfigError: dropout does not fit the kind of subwords.
        DataError: a file of the parent is missing or damaged.
    """
    learned = _learned(parent)
    vocabularies = load_vocabularies(parent, learned["vocab_sha256"])
    try:
        config = Subwords(**learned["subwords"] | {"dropout": dropout, "segmentations": segmentations})
    except ValidationError as error:
        raise ConfigError(f"{parent}, with dropout {dropout}: {error.errors()[0]['msg']}") from None
    with atomic_directory(out, "subwords.json") as folder:
        for side, vocabulary in zip(SIDES, vocabularies, strict=True):
            shutil.copyfile(parent / f"{side}.model", folder / f"{side}.model")
            write_text(folder / f"{side}.vocab", vocabulary.listing())
        write_record(folder, config, learned["vocab_sha256"], languages)


def _learned(parent: Path) -> Any:
    """Return the description of a folder's subwords."""
    path = parent / "subwords.json"
    return read_json(path) if path.is_file() else read_json(parent / "provenance.json")["subwords"]
