"""The pictures of a split's sentences, as features: memory-mapped, and the right ones, others, or none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.models import BACKBONES, ModelConfig, MultimodalConfig, Shown
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256
from nmt.system.indices import Indices

SEED = 1  # of the random pictures: for a split they are the same in every training and translation


def load_features(array: Path) -> NDArray[Any]:
    """The array of image features, left on disk; raises DataError where it is none."""
    try:
        found = np.load(array, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{array}: expected image features, got: {error}; run `nmt features`") from None
    if not isinstance(found, np.ndarray) or not np.issubdtype(found.dtype, np.floating):
        raise DataError(f"{array}: expected image features, an array of numbers, got another; run `nmt features`")
    return found


class Images:
    """Image features by sentence."""

    def __init__(self, array: Path, shown: Shown, lines: Indices, total: int, config: MultimodalConfig) -> None:
        """Open an array.

        Args:
            array: ``.npy``, (images, regions, channels), a row for each line of the raw text.
            shown: which picture a sentence gets.
            lines: the line of each sentence, from 0.
            total: lines of the raw text, those that cleaning dropped included.
            config: of the model that looks at them.

        Raises:
            DataError: no such array, or its shape is not what text and model expect.
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
        """Features (B, R, C) of the sentences of these indices, in the array's precision."""
        found = torch.from_numpy(self._array[self._rows[indices]])
        if not found.isfinite().all():
            row = int(self._rows[indices][(~found.isfinite()).flatten(1).any(1)][0])
            raise DataError(f"{self._name}: expected numbers, got nan or inf in row {row} (from 0); make it again")
        return found


Pictures = Callable[[Indices], Tensor | None]
"""From sentences (B,) to the features of their pictures (B, R, C), or None: blank ones, or nobody looks."""
OfSplit = Callable[[str, Indices, int], Pictures]
"""From a split, the raw line of each of its sentences, and how many lines there are, to its pictures."""


def no_pictures(_: Indices) -> Tensor | None:
    """No pictures."""
    return None


def choose(shown: Shown, total: int) -> Indices:
    """The row of the picture that each of ``total`` lines is shown.

    Random ones are never the right ones: lines take their pictures from each other in a circle of random order.
    """
    rows = np.arange(total)
    if shown == "random":
        circle = np.random.default_rng((SEED, total)).permutation(total)
        rows[circle] = np.roll(circle, 1)
    elif shown == "swapped":
        rows = np.minimum(rows ^ 1, total - 1)
    return rows


def channels(config: MultimodalConfig) -> int:
    """Columns of the features that a model looks at."""
    return config.channels or BACKBONES[config.backbone]


def of_split(
    config: ModelConfig, shown: Shown | None, features: Path | None, split: str, lines: Indices, total: int
) -> Pictures:
    """The pictures of a split for a model: `no_pictures` for a model that looks at none, or is shown blank ones.

    Args:
        config: of the model, of any kind.
        shown: which pictures; None for those of its training.
        features: a folder of arrays by split, or one array.
        split: which array of the folder.
        lines: see `Images`.
        total: see `Images`.

    Raises:
        ConfigError: the model looks at pictures and there are none, or looks at none and there are.
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
    """Identify the features that a training looks at: checksums and making by split; empty if it looks at none."""
    if not isinstance(config, MultimodalConfig) or config.images == "blank" or features is None:
        return {}
    return {"images": {split: describe(features / f"{split}.npy") for split in ("train", "valid")}}


def describe(array: Path) -> dict[str, Any]:
    """What an array of features is: its checksum, and how it was made where `nmt features` wrote that beside it."""
    beside = array.with_suffix(".json")
    made = read_json(beside) if beside.is_file() else {}
    keys = ("sha256", "backbone", "weights_sha256", "list_sha256", "blank")
    return {key: made[key] for key in keys} if set(keys) <= set(made) else {"sha256": sha256(array)}
