"""The trained model that a training starts from: which of its weights fit, and how they are copied."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config.inherit import ModelFolder, why_unfit
from nmt.config.models import ModelConfig
from nmt.models.base import TranslationModel
from nmt.models.build import build_empty
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256
from nmt.text.subwords import SIDES, Vocabulary, load_vocabularies
from nmt.training.checkpoint import WEIGHTS, load_weights, outline_of, verified_weights
from nmt.training.experiment import Experiment

SIDE_OF = {
    "source_embedding.pieces.weight": "source",
    "target_embedding.pieces.weight": "target",
    "projection.weight": "target",
    "projection.bias": "target",
}
"""The parameters that have a row for each piece of a vocabulary."""
POSITIONS = ("source_embedding.positions", "target_embedding.positions")
"""The parameters that have a row for each position."""
Rows = Tensor | slice
"""Rows of a parameter: their numbers (n,), or a range."""


@dataclass(frozen=True)
class Parent:
    """The model that a training starts from."""

    folder: Path | None  # None: there is none, or it has gone after the training began
    pieces: Mapping[str, tuple[Tensor, Tensor]]  # by side, the ids here and there of the pieces that both have
    facts: Mapping[str, Any]  # checksum of the weights, and counts of what they start and what is new

    def fill(self, model: TranslationModel) -> None:
        """Copy the parent's weights into a model; what the parent lacks keeps its random values."""
        if self.folder is None:
            return
        source, target = load_vocabularies(self.folder, {})
        parent = build_empty(ModelFolder.read(self.folder).model, (len(source), len(target)), source.ids.pad)
        load_weights(parent, verified_weights(self.folder), self.folder)
        with torch.no_grad():
            for ours, rows, theirs, their_rows in _pairs(model, parent, self.pieces):
                ours[rows] = theirs[their_rows].to(ours.device)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What identifies the parent among the inputs of a training; nothing without a parent."""
        return {"initialise": dict(self.facts)} if self.facts else {}

    def check_present(self, update: int) -> None:
        """Raise DataError if the parent has gone, and the training has no update yet to resume from."""
        if self.facts and self.folder is None and not update:
            raise DataError(
                f"expected the model that this training starts from, {self.facts['weights_sha256'][:12]}…, got no such "
                "folder and no checkpoint; put the folder back (--initialise)"
            )

    def show(self) -> None:
        """Write to standard error what is taken, new and left out; nothing without it."""
        lines = []
        for what, counts in self.facts.items():
            if isinstance(counts, dict):
                parts = (f"{count:,} {how.replace('_', ' ')}" for how, count in counts.items() if count)
                lines.append(f"{what.replace('_', ' ')}: {', '.join(parts)}")
        if lines and self.folder:
            checksum = self.facts["weights_sha256"]
            print(f"starts from {self.folder}, weights {checksum[:12]}…; {'; '.join(lines)}", file=sys.stderr)


NO_PARENT = Parent(None, {}, {})


def read_parent(folder: Path | None, encoded: Path, config: Experiment, state: Path) -> tuple[Experiment, Parent]:
    """Read what a training needs to know of its parent.

    Args:
        folder: model directory, if any; it need not exist any more after the training has begun.
        encoded: the encoded corpus of the training.
        config: of the training; without ``model`` it gets the parent's.
        state: folder of the training's state, which names the parent by its checksum.

    Returns:
        The configuration with its model, and the parent.

    Raises:
        ConfigError: there is no such folder, or its model does not fit.
        DataError: a file of the folder is missing or damaged.
    """
    if folder is None:
        return config, NO_PARENT
    if not folder.exists() and (state / "identity.json").is_file():
        begun = read_json(state / "identity.json")
        if facts := begun["identity"].get("initialise"):
            return _with_model(config, begun["config"]["model"]), Parent(None, {}, facts)
    made = ModelFolder.read(folder)
    config = _with_model(config, made.model.model_dump())
    if why := why_unfit(config.model, made.model):
        raise ConfigError(f"{folder}: {why}")
    checksum = _checksum(folder, config.initialise or made.sha256)
    ours, theirs = load_vocabularies(encoded, {}), load_vocabularies(folder, made.vocabularies)
    pieces = {side: _shared(own, other) for side, own, other in zip(SIDES, ours, theirs, strict=True)}
    taken_from = outline_of(folder, made.model, list(map(len, theirs)), theirs[0].ids.pad)
    model = build_empty(config.model, list(map(len, ours)), ours[0].ids.pad, "meta")
    taken = _taken(model, taken_from, pieces)
    depths = {what: (own, _depths(made.model)[what]) for what, own in _depths(config.model).items()}
    facts = {
        "weights_sha256": checksum,
        "parameters": {"taken": taken, "new": sum(parameter.numel() for parameter in model.parameters()) - taken},
        **{what: _divided(own, other, min(own, other)) for what, (own, other) in depths.items()},
        **{f"{side}_pieces": _divided(len(own), len(other), len(pieces[side][0]))
           for side, own, other in zip(SIDES, ours, theirs, strict=True)},
    }  # fmt: skip
    return config, Parent(folder, pieces, facts)


def _with_model(config: Experiment, model: Mapping[str, Any]) -> Experiment:
    """Return a configuration that has a model: its own, or else this one."""
    if "model" in config.model_fields_set:
        return config
    return Experiment.model_validate(config.model_dump(exclude_unset=True) | {"model": model})


def _checksum(folder: Path, expected: str) -> str:
    """Return the checksum of a folder's weights; raise DataError if they are missing or others."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise DataError(f"{path}: no such file; name a whole model directory")
    if (checksum := sha256(path)) != expected:
        raise DataError(f"{path}: expected weights with the checksum {expected[:12]}…, got {checksum[:12]}…; run again")
    return checksum


def _shared(ours: Vocabulary, theirs: Vocabulary) -> tuple[Tensor, Tensor]:
    """Return the ids of the pieces that two vocabularies have, in the first and in the second (n,)."""
    known = {piece: i for i, piece in reversed([*enumerate(theirs.pieces(range(len(theirs))))])}
    pairs = [(i, known[piece]) for i, piece in enumerate(ours.pieces(range(len(ours)))) if piece in known]
    return tuple(torch.tensor(pairs).reshape(-1, 2).unbind(1))  # type: ignore[return-value]


def _pairs(
    model: TranslationModel, parent: TranslationModel, pieces: Mapping[str, tuple[Tensor, Tensor]]
) -> Iterator[tuple[Tensor, Rows, Tensor, Rows]]:
    """Yield the parameters that a parent starts: rows of the model's parameter, and those of the parent's."""
    known = dict(parent.named_parameters(remove_duplicate=False))
    for name, ours in model.named_parameters():
        if name in SIDE_OF:
            rows, their_rows = pieces[SIDE_OF[name]]
            yield ours, rows, known[name], their_rows
        elif name in known:
            rows_of = list(map(torch.atleast_1d, (ours, known[name])))  # views, as a single number has no rows
            both = slice(min(map(len, rows_of)))  # they differ in the number of positions alone
            yield rows_of[0], both, rows_of[1], both


def _taken(model: TranslationModel, parent: TranslationModel, pieces: Mapping[str, tuple[Tensor, Tensor]]) -> int:
    """Count the parameters of a model that its parent starts."""
    pairs = _pairs(model, parent, pieces)
    rows = ((ours, len(ours[rows]) if isinstance(rows, slice) else len(rows)) for ours, rows, *_ in pairs)
    return sum(count * ours[:1].numel() for ours, count in rows)


def _depths(config: ModelConfig) -> dict[str, int]:
    """Return the numbers of encoder and decoder layers, if a model has layers."""
    if (layers := getattr(config, "layers", None)) is None:
        return {}
    return {"encoder_layers": layers, "decoder_layers": getattr(config, "decoder_layers", None) or layers}


def _divided(ours: int, theirs: int, both: int) -> dict[str, int]:
    return {"taken": both, "new": ours - both, "left_out": theirs - both}
