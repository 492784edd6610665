"""Draw pictures next to the pictures with the most similar features, to check what the features represent."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.data.extract import read_square
from nmt.data.features import load_features
from nmt.system.arrays import Indices, evenly
from nmt.system.errors import DataError
from nmt.system.files import write_text
from nmt.system.lines import read_lines

SIZE = 1.5  # inches: the side of a picture


def nearest(features: NDArray[np.floating], rows: Indices, count: int) -> tuple[Indices, NDArray[np.float32]]:
    """Find the nearest neighbours of some images, by the cosine of the means over regions.

    Args:
        features: of all images (images, regions, channels).
        rows: the rows of the query images (q,).
        count: neighbours per query.

    Returns:
        The rows of the neighbours (q, count), nearest first, and their cosines (q, count).
    """
    means = np.stack([image.mean(0, dtype=np.float32) for image in features])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines = means[rows] @ means.T
    cosines[np.arange(len(rows)), rows] = -np.inf
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(cosines, order, 1)


def draw(array: Path, folder: Path, names: Path, out: Path, queries: int, count: int) -> None:
    """Draw one line per query picture: the picture, then its nearest neighbours with their cosines.

    Args:
        array: image features, ``.npy``, one row per picture.
        folder: of the pictures.
        names: text file with the names of the pictures in the folder, one per line, in the order of the rows.
        out: path of the ``.png``, ``.svg`` and ``.json``, without the ending.
        queries: number of query pictures; they are spread evenly over the list.
        count: neighbours per query.

    Raises:
        DataError: the array or a picture is missing or damaged, or the array does not have one row per name.
    """
    listed = list(read_lines(names))
    features = load_features(array)
    if features.ndim != 3 or len(features) != len(listed) or len(listed) <= count:
        raise DataError(
            f"{array}: expected features of the {len(listed):,} pictures that {names} lists, and more pictures than "
            f"neighbours ({count}), got an array of {features.shape}"
        )
    rows = evenly(len(listed), queries)
    neighbours, cosines = nearest(features, rows, count)
    sheet = [
        [(listed[row], None), *((listed[n], float(cosine)) for n, cosine in zip(near, values, strict=True))]
        for row, near, values in zip(rows, neighbours, cosines, strict=True)
    ]
    _draw(sheet, folder, out)
    write_text(out.with_name(f"{out.name}.json"), json.dumps(sheet) + "\n")


def _draw(sheet: list[list[tuple[str, float | None]]], folder: Path, out: Path) -> None:
    from matplotlib import pyplot

    from nmt.report.figures.plots import STYLE, save

    lines, across = len(sheet), len(sheet[0])
    with pyplot.rc_context(STYLE):
        canvas, axes = pyplot.subplots(
            lines, across, figsize=(SIZE * across, (SIZE + 0.2) * lines), layout="constrained", squeeze=False
        )
        for line, panels in zip(sheet, axes, strict=True):
            for (name, cosine), panel in zip(line, panels, strict=True):
                panel.imshow(np.asarray(read_square(folder / name)))
                panel.set_axis_off()
                panel.set_title(name if cosine is None else f"{cosine:.2f}", fontsize=7, pad=2, parse_math=False)
        save(canvas, out)
