"""A sheet of pictures with those whose features are nearest: do the features tell what is on them?"""

import json
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.data.extract import read_square
from nmt.data.features import load_features
from nmt.system.errors import DataError
from nmt.system.files import read_lines, write_text
from nmt.system.indices import Indices, evenly

SIZE = 1.5  # inches: of a picture


def nearest(features: NDArray[np.floating], rows: Indices, count: int) -> tuple[Indices, NDArray[np.float32]]:
    """The nearest other images of some, by the cosine of their mean regions.

    Args:
        features: (images, regions, channels).
        rows: the images asked about (q,).
        count: neighbours of each.

    Returns:
        Their rows (q, count), nearest first, and their cosines (q, count).
    """
    means = np.stack([image.mean(0, dtype=np.float32) for image in features])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines = means[rows] @ means.T
    cosines[np.arange(len(rows)), rows] = -np.inf
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(cosines, order, 1)


def draw(array: Path, folder: Path, names: Path, out: Path, queries: int, count: int) -> None:
    """Draw a sheet: on each line a picture, then its nearest neighbours with their cosines; and ``.json`` of them.

    Args:
        array: image features, ``.npy``.
        folder: of the pictures.
        names: their names in it, one a line, a line a row of the array.
        out: path without an ending, of the ``.png``, ``.svg`` and ``.json``.
        queries: pictures, spread evenly over the list.
        count: neighbours of each.

    Raises:
        DataError: an array or picture is missing or broken, or the array has not a row a name.
    """
    listed = list(read_lines(names))
    features = load_features(array)
    if features.ndim != 3 or len(features) != len(listed) or len(listed) <= count:
        raise DataError(
            f"{array}: expected features of the {len(listed):,} pictures that {names} lists, and more of them than "
            f"neighbours ({count}), got an array of {features.shape}"
        )
    rows = evenly(len(listed), queries)
    found, cosines = nearest(features, rows, count)
    sheet = [
        [(listed[row], None), *((listed[n], float(cosine)) for n, cosine in zip(near, values, strict=True))]
        for row, near, values in zip(rows, found, cosines, strict=True)
    ]
    _draw(sheet, folder, out)
    write_text(out.with_name(f"{out.name}.json"), json.dumps(sheet) + "\n")


def _draw(sheet: list[list[tuple[str, float | None]]], folder: Path, out: Path) -> None:
    from matplotlib import pyplot

    from nmt.report.plots import STYLE, save

    lines, across = len(sheet), len(sheet[0])
    with pyplot.rc_context(STYLE), warnings.catch_warnings():
        canvas, axes = pyplot.subplots(
            lines, across, figsize=(SIZE * across, (SIZE + 0.2) * lines), layout="constrained", squeeze=False
        )
        for line, panels in zip(sheet, axes, strict=True):
            for (name, cosine), panel in zip(line, panels, strict=True):
                panel.imshow(np.asarray(read_square(folder / name)))
                panel.set_axis_off()
                panel.set_title(name if cosine is None else f"{cosine:.2f}", fontsize=7, pad=2, parse_math=False)
        save(canvas, out)
