"""Extract image features: turn the pictures that a list names into one array."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.choices import Network
from nmt.config.models import BACKBONES, MultimodalConfig
from nmt.data.backbones import Extractor, load
from nmt.data.features import channels, check_array_name
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_writable, read_json, sha256, write_json
from nmt.system.lines import read_lines
from nmt.system.progress import Progress
from nmt.system.warnings import warn

SIDE, GRID = 224, 7  # pixels and regions along each side of a network's input picture
LISTED = 20  # maximum number of faulty pictures in a message
SAVE_EVERY = 20  # batches between two saves of the progress


@dataclass
class _Progress:
    """Progress of an unfinished array."""

    made_of: dict[str, Any]  # facts that must be equal to resume
    done: int = 0  # number of processed pictures
    faulty: dict[int, str] = field(default_factory=dict)  # rows of unreadable pictures among them, and the reason


@machine.returning_memory()
def extract(
    folder: Path,
    names: Path,
    out: Path,
    backbone: Network,
    *,
    weights: Path | None = None,
    missing: Literal["refuse", "blank"] = "refuse",
    batch: int = 32,
    limit: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> None:
    """Write the array ``out``, float16 (images, 49, channels); row n is the picture in line n of the list.

    The shorter side of a picture is resized to 224 pixels and the middle square is cropped. The 7 by 7 regions are in
    row-major order. A ``.json`` file beside the array records how it was made. If the extraction is interrupted, or
    stops because of faulty pictures, the next call resumes it.

    Args:
        folder: folder of the pictures.
        names: list of file names in the folder, one per line.
        out: array to write, ``.npy``.
        backbone: network.
        weights: file of its weights; None takes those that `nmt.data.backbones.load` finds.
        missing: how to treat missing or broken pictures: ``refuse`` raises DataError, ``blank`` writes zeros.
        batch: number of pictures per batch.
        limit: number of lines of the list to use; None for all.
        device: as for `nmt.system.machine.prepare`.
        threads: number of CPU threads.

    Raises:
        ConfigError: a package or the requested GPU is missing, or ``out`` does not end with .npy.
        DataError: the list is missing or empty, pictures are faulty, or the weights do not fit the network.
    """
    check_writable(out)
    check_array_name(out)
    torch_device = machine.prepare(device, threads)
    paths = _listed(folder, names, limit, missing)
    network = load(backbone, weights, torch_device)
    made_of = {
        "backbone": backbone, "weights_sha256": sha256(network.weights), "images": len(paths),
        "regions": GRID * GRID, "channels": network.channels, "list_sha256": sha256(names),
        "folder": str(folder.resolve()),
    }  # fmt: skip
    started, part = time.perf_counter(), out.with_name(f".{out.name}.part")
    out.parent.mkdir(parents=True, exist_ok=True)
    progress = _run(paths, network, part, made_of, batch, torch_device)
    faulty = {paths[row]: reason for row, reason in progress.faulty.items()}
    _check_faulty(faulty, folder, names) if missing == "refuse" else _warn_of_blank(faulty, len(paths), names, out)
    record = made_of | {
        "list": str(names), "blank": [paths[row].name for row in sorted(progress.faulty)],
        "pictures": f"shorter side {SIDE} pixels, bicubic, middle square", "sha256": sha256(part),
        "seconds": round(time.perf_counter() - started, 1), "hardware": machine.hardware(torch_device),
        "versions": machine.versions(), "code_version": machine.code_version(),
    }  # fmt: skip
    write_json(out.with_suffix(".json"), record)
    part.replace(out)
    _progress_file(part).unlink()


def _listed(folder: Path, names: Path, limit: int | None, missing: str) -> list[Path]:
    """Return the paths of the pictures in a list; with ``refuse`` raise DataError if one is missing."""
    paths = [folder / name for name in list(read_lines(names))[:limit]]
    if not paths:
        raise DataError(f"{names}: expected names of pictures, one per line, got none")
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a folder of pictures, got no such folder; paths start at {Path.cwd()}")
    if missing == "refuse":
        _check_faulty({path: _absence(path, folder) for path in paths if not path.is_file()}, folder, names)
    return paths


def _absence(path: Path, folder: Path) -> str:
    """Why a listed picture is no file."""
    if path == folder:
        return "an empty line in the list"
    if path.is_dir():
        return "a folder"
    spaces = "" if path.name == path.name.strip() else "; remove the spaces at the ends of its name"
    return f"no such file{spaces}"


def _warn_of_blank(faulty: dict[Path, str], pictures: int, names: Path, out: Path) -> None:
    if faulty:
        warn(
            "blank pictures", names, len(faulty),
            f"{len(faulty):,} of {pictures:,} pictures cannot be read and are blank",
            f"{out.with_suffix('.json')} names them; repair them, delete {out}, and run again", split=out.stem,
        )  # fmt: skip


def _check_faulty(faulty: dict[Path, str], folder: Path, names: Path) -> None:
    """Raise a DataError that lists faulty pictures, if there are any."""
    if faulty:
        shown = "".join(
            f"\n  {path.relative_to(folder) if path.is_relative_to(folder) else path}: {reason}"
            for path, reason in list(faulty.items())[:LISTED]
        )
        more = f"\n  and {len(faulty) - LISTED:,} more" if len(faulty) > LISTED else ""
        raise DataError(
            f"{folder}: expected every picture that {names} names, but {len(faulty):,} cannot be read:{shown}{more}\n"
            "repair them and run again, or use blank pictures instead: --missing blank"
        )


def _run(
    paths: Sequence[Path], network: Extractor, part: Path, made_of: dict[str, Any], batch: int, device: torch.device
) -> _Progress:
    """Extract the features of the remaining pictures, after those that were faulty before; return the progress."""
    progress, array = _resume(part, made_of)
    retried, progress.faulty = sorted(progress.faulty), {}
    rows = [*retried, *range(progress.done, len(paths))]
    with Progress("features", len(paths), "image", len(paths) - len(rows)) as bar:
        for number, start in enumerate(range(0, len(rows), batch), 1):
            batch_rows = rows[start : start + batch]
            pictures = [_read(paths[row], row, progress.faulty) for row in batch_rows]
            array[batch_rows] = _features(pictures, network, device)
            progress.done = max(progress.done, batch_rows[-1] + 1)
            if number % SAVE_EVERY == 0:
                _save(part, array, progress, retried[number * batch :])
            bar.update(len(batch_rows))
    _save(part, array, progress, [])
    return progress


def _progress_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _resume(part: Path, made_of: dict[str, Any]) -> tuple[_Progress, NDArray[np.float16]]:
    """Open the unfinished array if it was made of the same input, else a new one; return its progress and it."""
    shape = made_of["images"], made_of["regions"], made_of["channels"]
    file = _progress_file(part)
    if part.is_file() and file.is_file() and (saved := read_json(file))["made_of"] == made_of:
        faulty = {int(row): reason for row, reason in saved["faulty"].items()}
        return _Progress(made_of, saved["done"], faulty), np.lib.format.open_memmap(part, "r+")
    file.unlink(missing_ok=True)
    return _Progress(made_of), np.lib.format.open_memmap(part, "w+", np.float16, shape)


def _save(part: Path, array: NDArray[np.float16], progress: _Progress, untried: Sequence[int]) -> None:
    """Flush the array, then save the progress; rows that are still to be retried stay faulty."""
    assert isinstance(array, np.memmap)
    array.flush()
    faulty = dict.fromkeys(untried, "not tried again") | progress.faulty
    write_json(_progress_file(part), {"made_of": progress.made_of, "done": progress.done, "faulty": faulty})


def _read(path: Path, row: int, faulty: dict[int, str]) -> NDArray[np.uint8] | None:
    """Read the middle square of a picture (224, 224, 3); if unreadable, note the reason in ``faulty``, return None."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # twice as many pixels are an error
            with Image.open(path) as image:
                return np.asarray(square(image))
    except FileNotFoundError:
        faulty[row] = "no such file"
    except Image.DecompressionBombError:
        faulty[row] = f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels; make it smaller"
    except (OSError, SyntaxError, ValueError) as error:
        faulty[row] = str(error).replace(str(path), path.name)
    return None


def square(image: Any) -> Any:
    """Convert a Pillow image to the networks' input: upright, RGB, shorter side 224 pixels, middle square.

    Raises:
        ValueError: the pixels have more than 8 bits per channel, which conversion to RGB would cut off.
    """
    from PIL import Image, ImageOps

    if image.mode.startswith(("I", "F")):
        raise ValueError(f"pixels of type {image.mode}; save it with 8 bits per channel")
    return ImageOps.fit(ImageOps.exif_transpose(image).convert("RGB"), (SIDE, SIDE), Image.Resampling.BICUBIC)


def features_of_picture(path: Path, config: MultimodalConfig, device: torch.device) -> tuple[Any, Tensor]:
    """Read one picture for a model; return its middle square, a Pillow image, and its features (1, 49, C).

    Raises:
        ConfigError: a package is missing, or the model does not use features that this module extracts.
        DataError: the picture or the weights cannot be read.
    """
    if config.backbone == "descriptions":
        raise ConfigError("--image: expected a model that looks at pictures, got one of descriptions; leave it out")
    picture = read_square(path)
    expected, own = (GRID * GRID, BACKBONES[config.backbone]), (config.regions, channels(config))
    if own != expected:
        raise ConfigError(
            f"--image: expected a model of {config.backbone}'s features, {expected[0]} regions of {expected[1]} "
            f"channels, got one of {own[0]} regions of {own[1]} channels; leave it out"
        )
    features = _features([np.asarray(picture)], load(config.backbone, None, device), device)
    return picture, torch.from_numpy(features)


def read_square(path: Path) -> Any:
    """Read the middle square of a picture as a Pillow image; raise DataError if it cannot be read."""
    from PIL import Image

    faulty: dict[int, str] = {}
    pixels = _read(path, 0, faulty)
    if pixels is None:
        raise DataError(f"{path}: expected a picture, got: {faulty[0]}; choose another file")
    return Image.fromarray(pixels)


def _features(
    pictures: Sequence[NDArray[np.uint8] | None], network: Extractor, device: torch.device
) -> NDArray[np.float16]:
    """Compute the features (B, 49, C) of pictures; zeros for each None."""
    readable = [n for n, picture in enumerate(pictures) if picture is not None]
    features = np.zeros((len(pictures), GRID * GRID, network.channels), np.float16)
    if readable:
        pixels = torch.from_numpy(np.stack([picture for picture in pictures if picture is not None]))
        features[readable] = _forward(pixels.to(device), network).half().cpu().numpy()
    return features


@torch.inference_mode()
def _forward(pixels: Tensor, network: Extractor) -> Tensor:
    """Compute features (B, 49, C) of pixels 0 to 255 (B, 224, 224, 3)."""
    mean, deviation = (pixels.new_tensor(value, dtype=torch.float32) for value in (network.mean, network.deviation))
    normalised = (pixels.float() / 255 - mean) / deviation
    return network.features(normalised.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
