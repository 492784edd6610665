"""Attention over the regions of a picture, laid over it."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot
from numpy.typing import NDArray

from nmt.report import fonts
from nmt.report.plots import STYLE, save

SIZE = 1.6  # inches: of a panel


@dataclass(frozen=True)
class Panel:
    """One map."""

    title: str
    weights: NDArray[np.floating]  # (regions,), a square grid row by row


def draw(picture: Any, panels: Sequence[Panel], title: str, out: Path, across: int) -> None:
    """Draw the picture, and it again under each map, as ``{out}.png`` and ``{out}.svg``.

    A map's colours go from its least to its largest weight, which its title gives: where it looks, not how much.

    Args:
        picture: a Pillow image, square as the network saw it.
        panels: row by row, after the picture alone.
        title: of the whole.
        out: path without an ending.
        across: panels a row, the picture not counted.
    """
    rows, letters = math.ceil(len(panels) / across), "".join([title, *(panel.title for panel in panels)])
    with pyplot.rc_context({**STYLE, "font.family": fonts.families(letters)}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas = pyplot.figure(figsize=(SIZE * (across + 1), (SIZE + 0.25) * rows + 0.4), layout="constrained")
        canvas.suptitle(title, fontsize=11, parse_math=False)
        grid = canvas.add_gridspec(rows, across + 1)
        _show(canvas.add_subplot(grid[0, 0]), picture, "the picture")
        for number, panel in enumerate(panels):
            axes = canvas.add_subplot(grid[number // across, 1 + number % across])
            _show(axes, picture, f"{panel.title} ≤ {panel.weights.max():.2f}")
            side = math.isqrt(panel.weights.size)
            whole = (-0.5, picture.width - 0.5, picture.height - 0.5, -0.5)
            axes.imshow(panel.weights.reshape(side, side), "inferno", extent=whole, alpha=0.6, interpolation="bilinear")
        save(canvas, out)


def _show(axes: Any, picture: Any, title: str) -> None:
    axes.imshow(np.asarray(picture))
    axes.set_axis_off()
    axes.set_title(title, fontsize=9, pad=3, parse_math=False)
