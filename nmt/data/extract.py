"""Image features: a folder of pictures and a split's list of names become one memory-mapped array."""

import time
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
from nmt.data.features import channels
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_writable, read_json, read_lines, sha256, write_json

SIDE, GRID = 224, 7  # pixels of a picture as networks see it, regions of it along each side
LISTED = 20  # faulty pictures named in a message
SAVE_EVERY = 20  # batches between two marks of progress


@dataclass
class _Progress:
    """How far an array under way is."""

    made_of: dict[str, Any]
    done: int = 0  # pictures from the first
    faulty: dict[int, str] = field(default_factory=dict)  # rows among them whose pictures could not be read, and why


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
    """Write ``out``, float16 (images, 49, channels), row n for the list's line n, and ``.json`` of how it was made.

    A picture's shorter side is resized to 224 pixels, and the middle square is taken; its 7 by 7 regions come row by
    row. Killed and started again, it goes on where it was; so it does when faulty pictures were mended.

    Args:
        folder: of the pictures.
        names: their names in it, one a line.
        out: the array, ``.npy``.
        backbone: the network.
        weights: a file of its weights, else where `nmt.data.backbones.load` finds them.
        missing: what to do about pictures that are missing or broken: refuse, or leave blank (a row of zeros).
        batch: pictures at a time.
        limit: only the list's first lines.
        device: as `nmt.system.machine.prepare` takes it.
        threads: of the CPU.

    Raises:
        ConfigError: a package is missing, or the GPU asked for, or the array's name ends otherwise.
        DataError: faulty pictures, all in one message; no list, an empty one, or weights that do not fit.
    """
    check_writable(out)
    if out.suffix != ".npy":
        raise ConfigError(f"{out}: expected a name that ends with .npy, for beside it comes one with .json")
    chosen = machine.prepare(device, threads)
    paths = _listed(folder, names, limit, missing)
    network = load(backbone, weights, chosen)
    made_of = {
        "backbone": backbone, "weights_sha256": sha256(network.weights), "images": len(paths),
        "regions": GRID * GRID, "channels": network.channels, "list_sha256": sha256(names),
        "folder": str(folder.resolve()),
    }  # fmt: skip
    started, part = time.perf_counter(), out.with_name(f".{out.name}.part")
    out.parent.mkdir(parents=True, exist_ok=True)
    progress = _run(paths, network, part, made_of, batch, chosen)
    if missing == "refuse":
        _refuse({paths[row]: why for row, why in progress.faulty.items()}, folder, names)
    making = made_of | {
        "list": str(names), "blank": [paths[row].name for row in sorted(progress.faulty)],
        "pictures": f"shorter side {SIDE} pixels, bicubic, middle square", "sha256": sha256(part),
        "seconds": round(time.perf_counter() - started, 1), "hardware": machine.hardware(chosen),
        "versions": machine.versions(), "code_version": machine.code_version(),
    }  # fmt: skip
    write_json(out.with_suffix(".json"), making)
    part.replace(out)
    _mark(part).unlink()


def _listed(folder: Path, names: Path, limit: int | None, missing: str) -> list[Path]:
    """The pictures that a list names; raises DataError if one is missing and must not be."""
    paths = [folder / name for name in list(read_lines(names))[:limit]]
    if not paths:
        raise DataError(f"{names}: expected names of pictures, one a line, got none")
    if missing == "refuse":
        _refuse({path: "no such file" for path in paths if not path.is_file()}, folder, names)
    return paths


def _refuse(faulty: dict[Path, str], folder: Path, names: Path) -> None:
    if faulty:
        shown = "".join(
            f"\n  {path.relative_to(folder) if path.is_relative_to(folder) else path}: {why}"
            for path, why in list(faulty.items())[:LISTED]
        )
        more = f"\n  and {len(faulty) - LISTED:,} more" if len(faulty) > LISTED else ""
        raise DataError(
            f"{folder}: expected every picture that {names} names, but {len(faulty):,} cannot be had:{shown}{more}\n"
            "mend them and run again, or take blank ones instead: --missing blank"
        )


def _run(
    paths: Sequence[Path], network: Extractor, part: Path, made_of: dict[str, Any], batch: int, device: torch.device
) -> _Progress:
    """Fill the array under way from where it stands, first what was faulty before."""
    from tqdm import tqdm

    progress, array = _resume(part, made_of)
    again, progress.faulty = sorted(progress.faulty), {}
    rows = [*again, *range(progress.done, len(paths))]
    with tqdm(total=len(paths), initial=len(paths) - len(rows), unit="image", disable=None) as bar:
        for number, start in enumerate(range(0, len(rows), batch), 1):
            chosen = rows[start : start + batch]
            pictures = [_read(paths[row], row, progress.faulty) for row in chosen]
            array[chosen] = _features(pictures, network, device)
            progress.done = max(progress.done, chosen[-1] + 1)
            if number % SAVE_EVERY == 0:
                _save(part, array, progress, again[number * batch :])
            bar.update(len(chosen))
    _save(part, array, progress, [])
    return progress


def _mark(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _resume(part: Path, made_of: dict[str, Any]) -> tuple[_Progress, NDArray[np.float16]]:
    """The array under way, if it is this one, else a new one."""
    shape = made_of["images"], made_of["regions"], made_of["channels"]
    if part.is_file() and _mark(part).is_file() and (found := read_json(_mark(part)))["made_of"] == made_of:
        faulty = {int(row): why for row, why in found["faulty"].items()}
        return _Progress(made_of, found["done"], faulty), np.lib.format.open_memmap(part, "r+")
    _mark(part).unlink(missing_ok=True)
    return _Progress(made_of), np.lib.format.open_memmap(part, "w+", np.float16, shape)


def _save(part: Path, array: NDArray[np.float16], progress: _Progress, untried: Sequence[int]) -> None:
    """Flush the array, then say how far it is; rows to be tried again stay faulty."""
    assert isinstance(array, np.memmap)
    array.flush()
    faulty = dict.fromkeys(untried, "not tried again") | progress.faulty
    write_json(_mark(part), {"made_of": progress.made_of, "done": progress.done, "faulty": faulty})


def _read(path: Path, row: int, faulty: dict[int, str]) -> NDArray[np.uint8] | None:
    """A picture's middle square (224, 224, 3), or None for one that cannot be read."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(square(image))
    except FileNotFoundError:
        faulty[row] = "no such file"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        faulty[row] = str(error).replace(str(path), path.name)
    return None


def square(image: Any) -> Any:
    """A Pillow image as networks see it: RGB, the shorter side 224 pixels, of the longer one the middle."""
    from PIL import Image, ImageOps

    return ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.BICUBIC)


def of_picture(path: Path, config: MultimodalConfig, device: torch.device) -> tuple[Any, Tensor]:
    """One picture for a model: its middle square, a Pillow image, and its features (1, 49, C).

    Raises:
        ConfigError: a package is missing, or the model looks at descriptions, or ready features, instead of pictures.
        DataError: the picture cannot be read, or the weights not be had.
    """
    if config.backbone == "descriptions":
        raise ConfigError("--image: expected a model that looks at pictures, got one of descriptions; leave it out")
    picture = read_square(path)
    shape, own = (GRID * GRID, BACKBONES[config.backbone]), (config.regions, channels(config))
    if own != shape:
        raise ConfigError(
            f"--image: expected a model of {config.backbone}'s features, {shape[0]} regions of {shape[1]} channels, "
            f"got one of {own[0]} regions of {own[1]}; leave it out"
        )
    features = _features([np.asarray(picture)], load(config.backbone, None, device), device)
    return picture, torch.from_numpy(features)


def read_square(path: Path) -> Any:
    """A picture's middle square, a Pillow image; raises DataError where it cannot be read."""
    from PIL import Image

    faulty: dict[int, str] = {}
    pixels = _read(path, 0, faulty)
    if pixels is None:
        raise DataError(f"{path}: expected a picture, got: {faulty[0]}; give another")
    return Image.fromarray(pixels)


def _features(
    pictures: Sequence[NDArray[np.uint8] | None], network: Extractor, device: torch.device
) -> NDArray[np.float16]:
    """Features (B, 49, C) of pictures; zeros of those that are None."""
    real = [n for n, picture in enumerate(pictures) if picture is not None]
    found = np.zeros((len(pictures), GRID * GRID, network.channels), np.float16)
    if real:
        pixels = torch.from_numpy(np.stack([picture for picture in pictures if picture is not None]))
        found[real] = _forward(pixels.to(device), network).half().cpu().numpy()
    return found


@torch.inference_mode()
def _forward(pixels: Tensor, network: Extractor) -> Tensor:
    """Colours 0 to 255 (B, 224, 224, 3) to features (B, 49, C)."""
    mean, deviation = (pixels.new_tensor(value, dtype=torch.float32) for value in (network.mean, network.deviation))
    normal = (pixels.float() / 255 - mean) / deviation
    return network.features(normal.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
