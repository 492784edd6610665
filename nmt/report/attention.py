"""Attention weights as heat maps: rows are what looks, columns are what is looked at."""

import math
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib import font_manager, pyplot
from matplotlib.axes import Axes
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from nmt.report.plots import STYLE, save
from nmt.subwords import START

CELL, LETTER, FONT = 0.2, 0.085, 9  # inches a cell; inches a letter of a label, about; its size in points
BASE = "DejaVu Sans"  # comes with matplotlib
CONTINUES = "·"
SPECIAL = {"<s>": "⟨s⟩", "</s>": "⟨/s⟩", "<unk>": "⟨unk⟩", "<pad>": "⟨pad⟩", START: "␣"}


@dataclass(frozen=True)
class Panel:
    """One heat map."""

    title: str
    weights: NDArray[np.floating]  # (rows, columns), 0 to 1
    rows: Sequence[str]  # labels, y axis: the translation
    columns: Sequence[str]  # labels, x axis: the source


def draw(panels: Sequence[Panel], title: str, out: Path, across: int | None = None) -> None:
    """Draw heat maps in a grid, with one colour scale from 0 to 1, as ``{out}.png`` and ``{out}.svg``.

    A label that the panel to the left (rows) or above (columns) has already is not repeated. Labels are pieces or
    words (see `readable`), of any script that an installed font has.

    Args:
        panels: row by row.
        title: of the whole.
        out: path without an ending.
        across: panels a row; about as many as rows when not given.
    """
    across = across or math.ceil(math.sqrt(len(panels)))
    texts = [title, *(text for p in panels for text in (p.title, *readable(p.rows), *readable(p.columns)))]
    with pyplot.rc_context({**STYLE, "font.family": [BASE, *fallbacks("".join(texts))], "axes.grid": False}):
        down = math.ceil(len(panels) / across)
        size = _size(panels, across, down)
        canvas, grid = pyplot.subplots(down, across, figsize=size, layout="compressed", squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number < len(panels):
                image = _panel(axes, panels[number], *_repeats(panels, number, across))
            else:
                axes.set_axis_off()
        canvas.colorbar(image, ax=grid, label="weight", shrink=min(1.0, 3 / size[1]), aspect=20, anchor=(0.0, 1.0))
        heading = textwrap.fill(title, max(20, int(size[0] / LETTER / 1.4)))
        canvas.suptitle(heading, x=0.01, ha="left", fontsize=12, parse_math=False)
        save(canvas, out)


def readable(pieces: Sequence[str]) -> list[str]:
    """Labels of pieces: the mark of a word's start is dropped, and pieces that go on with a word are marked instead.

    BOS and EOS become ⟨s⟩ and ⟨/s⟩. Words, where no label has the mark, stay as they are.
    """
    subwords = any(piece.startswith(START) for piece in pieces)

    def label(piece: str) -> str:
        if piece in SPECIAL:
            return SPECIAL[piece]
        return CONTINUES + piece if subwords and not piece.startswith(START) else piece.removeprefix(START)

    return [label(piece) for piece in pieces]


def fallbacks(text: str) -> list[str]:
    """Installed font families that have the characters of a text that matplotlib's own font has not.

    As few as cover them, chosen greedily; warns, once a call, of characters that none has.
    """
    missing = {ord(c) for c in text if not c.isspace()} - _characters(font_manager.findfont(BASE))
    families: list[str] = []
    while missing:
        family, path = max(_installed(), key=lambda font: len(missing & _characters(font[1])), default=("", ""))
        if not family or not (found := missing & _characters(path)):
            warnings.warn(_no_font(missing), stacklevel=3)
            break
        families.append(family)
        missing -= found
    return families


@cache
def _characters(path: str) -> frozenset[int]:
    """Code points that a font file draws."""
    return frozenset(FT2Font(path).get_charmap())


@cache
def _installed() -> list[tuple[str, str]]:
    """Families and files of the installed fonts, upright and of normal weight."""
    fonts = font_manager.fontManager.ttflist
    regular = (f for f in fonts if f.style == "normal" and f.weight in (400, "normal", "regular"))
    return sorted(
        {(f.name, f.fname) for f in regular if not f.name.startswith("Last Resort")}
    )  # boxes for all there is


def _no_font(missing: Iterable[int]) -> str:
    characters = "".join(map(chr, sorted(missing)))
    scripts = sorted({unicodedata.name(c, "unnamed").split()[0].title() for c in characters})
    return (
        f"no installed font has {characters[:20]} ({', '.join(scripts[:5])}): drawn as boxes; install one, e.g. Debian's "
        f"{'fonts-noto-cjk' if {'Cjk', 'Hiragana', 'Katakana', 'Hangul'} & {*scripts} else 'fonts-noto-core'}"
    )


def _size(panels: Sequence[Panel], across: int, down: int) -> tuple[float, float]:
    """Inches of the figure, so that a cell is about `CELL` wide and high."""
    labels = [max(map(len, readable(side)), default=0) * LETTER for p in panels for side in (p.rows, p.columns)]
    wide = max(len(p.columns) for p in panels) * CELL + 0.3
    high = max(len(p.rows) for p in panels) * CELL + 0.5
    return max(4.5, across * wide + max(labels[::2]) + 1.2), down * high + max(labels[1::2]) + 0.8


def _repeats(panels: Sequence[Panel], number: int, across: int) -> tuple[bool, bool]:
    """Does the panel to the left show these rows already, the panel above these columns?"""
    panel = panels[number]
    left = number % across > 0 and panels[number - 1].rows == panel.rows
    return left, number >= across and panels[number - across].columns == panel.columns


def _panel(axes: Axes, panel: Panel, rows_shown: bool, columns_shown: bool) -> AxesImage:
    rows, columns = readable(panel.rows), readable(panel.columns)
    image = axes.imshow(panel.weights, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(range(len(columns)), [] if columns_shown else columns, rotation=90, fontsize=FONT)
    axes.set_yticks(range(len(rows)), [] if rows_shown else rows, fontsize=FONT)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.6)
    axes.set_title(panel.title, fontsize=10, loc="left", pad=6, parse_math=False)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    return image
