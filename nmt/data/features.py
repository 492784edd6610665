"""Memory-mapped image features of the sentences of a split: the matching pictures, other pictures, or none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.models import BACKBONES, ModelConfig, MultimodalConfig, Shown
from nmt.data.encoded import map_array
from nmt.system.arrays import Indices
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256

SEED = 1  # of the random pictures, so that every training and translation shows the same ones


def load_features(array: Path) -> NDArray[Any]:
    """Memory-map an array of image features; raise DataError if the file is missing or not such an array."""
    features = map_array(array, "image features", "nmt features")
    if not np.issubdtype(features.dtype, np.floating):
        raise DataError(
            f"{array}: expected image features, an array of floating-point numbers, got other data; run `nmt features`"
        )
    return features


class Images:
    """Image features of sentences, by sentence index."""

    def __init__(self, array: Path, shown: Shown, lines: Indices, total: int, config: MultimodalConfig) -> None:
        """Open an array of features.

        Args:
            array: ``.npy`` file, (images, regions, channels), with one row per line of the raw text.
            shown: which picture each sentence gets.
            lines: raw line number of each sentence, from 0.
            total: number of lines of the raw text, including those that cleaning dropped.
            config: configuration of the model.

        Raises:
            DataError: the array is missing, or its shape does not fit the text and the model.
        """
        self._rows, self._name = choose(shown, total)[lines], array
        self._array = load_features(array)
        expected = (total, config.regions, channels(config))
        if self._array.shape != expected:
            raise DataError(
                f"{array}: expected an array of {expected} (lines of the text, model.regions, model.channels), got "
                f"{self._array.shape}"
            )

    def __call__(self, indices: Indices) -> Tensor:
        """Return the features (B, R, C) of these sentences (B,), in the precision of the array."""
        features = torch.from_numpy(self._array[self._rows[indices]])
        if not features.isfinite().all():
            row = int(self._rows[indices][(~features.isfinite()).flatten(1).any(1)][0])
            raise DataError(f"{self._name}: expected numbers, got nan or inf in row {row} (from 0); make it again")
        return features


Pictures = Callable[[Indices], Tensor | None]
"""Maps sentence indices (B,) to features (B, R, C), or to None for blank pictures and text-only models."""
PictureLoader = Callable[[str, Indices, int], Pictures]
"""Maps a split, the raw line number of each of its sentences and the number of raw lines to its pictures."""


def no_pictures(_: Indices) -> Tensor | None:
    """Return None: blank pictures, or the model is text-only."""
    return None


def choose(shown: Shown, total: int) -> Indices:
    """Return the row of the picture for each of ``total`` lines, (total,).

    A random picture is never the line's own: each line takes the picture of the previous line in a random cycle.
    """
    rows = np.arange(total)
    if shown == "random":
        cycle = np.random.default_rng((SEED, total)).permutation(total)
        rows[cycle] = np.roll(cycle, 1)
    elif shown == "swapped":
        rows = np.minimum(rows ^ 1, total - 1)
    return rows


def channels(config: MultimodalConfig) -> int:
    """Return the number of channels of a model's image features."""
    return config.channels or BACKBONES[config.backbone]


def pictures_of_split(
    config: ModelConfig, shown: Shown | None, features: Path | None, split: str, lines: Indices, total: int
) -> Pictures:
    """Return the pictures of a split for a model: `no_pictures` for a text-only model or blank pictures.

    Args:
        config: configuration of the model, of any kind.
        shown: which picture each sentence gets; None for the setting of the training.
        features: folder with one array per split, or one array.
        split: name of the array in the folder.
        lines: see `Images`.
        total: see `Images`.

    Raises:
        ConfigError: a multimodal model has no features, or a text-only model has some.
        DataError: see `Images`.
    """
    if not isinstance(config, MultimodalConfig):
        if shown or features:
            given = "--images" if features else "images"
            raise ConfigError(f"{given}: expected a multimodal model, got {config.kind}; leave {given} out")
        return no_pictures
    if (shown := shown or config.images) == "blank":
        return no_pictures
    if features is None:
        raise ConfigError(
            "--images: expected image features for a multimodal model, got none; see docs/how-to/images.md"
        )
    return Images(features / f"{split}.npy" if features.is_dir() else features, shown, lines, total, config)


def feature_fingerprint(config: ModelConfig, features: Path | None) -> dict[str, Any]:
    """Identify the features of a training: checksums and origin by split; empty for blank pictures or none.

    Raises:
        DataError: ``features`` is no folder.
    """
    if not isinstance(config, MultimodalConfig) or config.images == "blank" or features is None:
        return {}
    if not features.is_dir():
        got = "a file" if features.exists() else "which is missing"
        raise DataError(
            f"--images: expected a folder with train.npy and valid.npy, got {features}, {got}; name another"
        )
    return {"images": {split: describe(features / f"{split}.npy") for split in ("train", "valid")}}


def describe(array: Path) -> dict[str, Any]:
    """Return the checksum of an array of features and, if `nmt features` recorded it, how the array was made."""
    path = array.with_suffix(".json")
    record = read_json(path) if path.is_file() else {}
    keys = ("sha256", "backbone", "weights_sha256", "list_sha256", "blank")
    return {key: record[key] for key in keys} if set(keys) <= set(record) else {"sha256": sha256(array)}


def check_array_name(out: Path) -> None:
    """Raise ConfigError unless a name ends with .npy; the record beside it then differs in the ending alone."""
    if out.suffix != ".npy":
        raise ConfigError(f"{out}: expected a name that ends with .npy, because a .json file is written beside it")
