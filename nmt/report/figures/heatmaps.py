"""Draw attention as heat maps: between words (rows attend to columns), and over a picture."""

import html
import math
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from nmt.report.figures.plots import STYLE, save
from nmt.system.warnings import warn
from nmt.text.subwords import START

CELL, LINE = 0.2, 0.2  # inches: a cell, a line of the title
GAP, MARGIN, PAD = 0.15, 0.12, 0.07  # inches: between panels, around the figure, between labels and cells
LABEL, TITLE = 9, 11  # font sizes in points
BASE = "DejaVu Sans"  # matplotlib contains it
CJK = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
PICTURE = 1.6  # inches: a panel with a picture
BAR = (0.14, 2.0, 0.7)  # inches: the colour bar's width, its greatest height, and the space for it
CONTINUES = "·"  # marks a piece that continues a word
SPECIAL = {"<s>": "⟨s⟩", "</s>": "⟨/s⟩", "<unk>": "⟨unk⟩", "<pad>": "⟨pad⟩", START: "␣"}


@dataclass(frozen=True)
class Panel:
    """A heat map with its title and labels."""

    title: str
    weights: NDArray[np.floating]  # (rows, columns), 0 to 1
    rows: Sequence[str]  # labels of the y axis: the translation
    columns: Sequence[str]  # labels of the x axis: the source


@dataclass(frozen=True)
class Place:
    """The place of a panel in inches from the left and the top of the grid, and which labels it shows."""

    left: float
    top: float
    rows: bool
    columns: bool


def draw(panels: Sequence[Panel], title: str, out: Path, across: int | None = None) -> None:
    """Draw heat maps in a grid, with one colour scale from 0 to 1, as ``{out}.png`` and ``{out}.svg``.

    Labels are pieces or words (see `readable`), in any script that an installed font has. A panel does not repeat the
    row labels of the panel to its left or the column labels of the panel above it. Cells have a fixed size, so the
    figure grows with the number of labels and panels.

    Args:
        panels: row by row.
        title: of the figure.
        out: path without an ending.
        across: panels per row; by default about as many as there are rows.
    """
    maps = [Panel(p.title, p.weights, readable(p.rows), readable(p.columns)) for p in panels]
    letters = "".join([title, *(text for p in maps for text in (p.title, *p.rows, *p.columns))])
    with style(letters):
        canvas = pyplot.figure()
        places, width, height = _places(maps, across or math.ceil(math.sqrt(len(maps))), _ruler(canvas))
        above = _head(canvas, title, max(width + BAR[2], 4.0), height)
        for panel, place in zip(maps, places, strict=True):
            size = len(panel.columns) * CELL, len(panel.rows) * CELL
            image = _heat_map(_axes(canvas, place.left, above + place.top, *size), panel, place)
        top = places[0].top
        _bar(_axes(canvas, width, above + top, BAR[0], min(BAR[1], height - top - MARGIN)), image)
        save(canvas, out)


def readable(pieces: Sequence[str]) -> list[str]:
    """Turn pieces into labels: mark the pieces that continue a word, not those that begin one.

    BOS and EOS become ⟨s⟩ and ⟨/s⟩. Escapes of the Moses tokeniser (``&apos;``) are undone. If no piece has the mark of
    a word's start, the pieces are words and no label is marked.
    """
    subwords = any(piece.startswith(START) for piece in pieces)

    def label(piece: str) -> str:
        continues = subwords and piece not in SPECIAL and not piece.startswith(START)
        return SPECIAL.get(piece, CONTINUES * continues + html.unescape(piece.removeprefix(START)))

    return [label(piece) for piece in pieces]


def _ruler(canvas: Figure) -> Callable[[Sequence[str]], float]:
    """Return a function that measures the width of the longest of several labels, in inches."""

    def longest(labels: Sequence[str]) -> float:
        texts = [canvas.text(0, 0, label, fontsize=LABEL, parse_math=False) for label in labels]
        widths = [text.get_window_extent().width for text in texts]
        for text in texts:
            text.remove()
        return float(max(widths, default=0.0)) / canvas.dpi

    return longest


def _places(
    maps: Sequence[Panel], across: int, longest: Callable[[Sequence[str]], float]
) -> tuple[list[Place], float, float]:
    """Return one place per panel, and the width and height of the grid with its margin."""
    numbers = range(len(maps))
    rows = [n % across == 0 or maps[n - 1].rows != maps[n].rows for n in numbers]
    columns = [n < across or maps[n - across].columns != maps[n].columns for n in numbers]
    before = [longest(p.rows) + PAD if own else 0.0 for p, own in zip(maps, rows, strict=True)]
    above = [LINE + (longest(p.columns) + PAD if own else 0.0) for p, own in zip(maps, columns, strict=True)]
    widths = [max(len(p.columns) * CELL, longest([p.title])) for p in maps]
    heights = [len(p.rows) * CELL for p in maps]
    lefts, width = _starts([(max(before[n::across]), max(widths[n::across])) for n in numbers[:across]])
    lines = [slice(n, n + across) for n in numbers[::across]]
    tops, height = _starts([(max(above[line]), max(heights[line])) for line in lines])
    places = [Place(lefts[n % across], tops[n // across], rows[n], columns[n]) for n in numbers]
    return places, width, height


def _starts(sizes: Sequence[tuple[float, float]]) -> tuple[list[float], float]:
    """Return where the cells of each line of panels start, and where the grid ends.

    Args:
        sizes: for each line, the sizes of its labels and of its cells.
    """
    ends = list(accumulate((labels + cells + GAP for labels, cells in sizes), initial=MARGIN))
    return [end + labels for end, (labels, _) in zip(ends, sizes, strict=False)], ends[-1] - GAP + MARGIN


def _head(canvas: Figure, title: str, width: float, height: float) -> float:
    """Set the size of the figure and write the title above the grid; return the height of the title in inches."""
    lines = textwrap.wrap(html.unescape(title), int(width * 11))
    above = MARGIN + LINE * len(lines)
    canvas.set_size_inches(width, above + height)
    x, y = MARGIN / width, 1 - MARGIN / (above + height)
    canvas.text(x, y, "\n".join(lines), va="top", fontsize=TITLE, parse_math=False)
    return above


def _axes(canvas: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches from the top left."""
    wide, high = canvas.get_size_inches()
    return canvas.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def _heat_map(axes: Axes, panel: Panel, place: Place) -> AxesImage:
    image = axes.imshow(panel.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(panel.columns)), panel.columns if place.columns else [], rotation=90, fontsize=LABEL)
    axes.set_yticks(range(len(panel.rows)), panel.rows if place.rows else [], fontsize=LABEL)
    axes.xaxis.tick_top()
    axes.set_xticks([x - 0.5 for x in range(1, len(panel.columns))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(panel.rows))], minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(visible=False)
    axes.grid(which="minor", color="#f0f0f0", linewidth=0.5)  # helps the eye to follow long rows
    axes.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.6)
    axes.set_title(panel.title, fontsize=LABEL, pad=6, parse_math=False)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
    return image


def _bar(axes: Axes, image: AxesImage) -> None:
    axes.tick_params(labelsize=LABEL)
    axes.figure.colorbar(image, cax=axes, ticks=[0, 0.5, 1]).set_label("weight", fontsize=LABEL)


@dataclass(frozen=True)
class Overlay:
    """An attention map that is drawn over a picture."""

    title: str
    weights: NDArray[np.floating]  # (regions,): a square grid, row by row


def draw_over(picture: Any, panels: Sequence[Overlay], title: str, out: Path, across: int, about: str) -> None:
    """Draw a picture, and the picture under each map, as ``{out}.png`` and ``{out}.svg``.

    The colours of a map go from its smallest to its largest weight. They show where the model attends, not how
    strongly. The title of the map gives the largest weight.

    Args:
        picture: a Pillow image, square as the network sees it.
        panels: the maps, row by row; they follow the picture without a map.
        title: of the figure.
        out: path without an ending.
        across: panels per row, without the picture.
        about: the model that attends, and what it attends to.
    """
    rows, letters = math.ceil(len(panels) / across), "".join([title, about, *(panel.title for panel in panels)])
    with style(letters):
        width = PICTURE * (across + 1)
        head = [line for text in (html.unescape(title), about) for line in textwrap.wrap(text, int(width * 11))]
        size = width, (PICTURE + 0.25) * rows + 0.2 + LINE * len(head)
        canvas = pyplot.figure(figsize=size, layout="constrained")
        canvas.suptitle("\n".join(head), fontsize=TITLE, parse_math=False)
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


@contextmanager
def style(letters: str, **more: Any) -> Iterator[None]:
    """Draw in the style of the project, with fonts that have these letters; more settings of matplotlib may follow."""
    with pyplot.rc_context(STYLE | {"font.family": font_families(letters)} | more), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `font_families` has already warned
        yield


def font_families(text: str) -> list[str]:
    """Choose font families that together cover a text, for matplotlib's ``font.family``.

    matplotlib's own font comes first. Installed fonts are then added greedily. One warning per call names the
    characters that no font covers.
    """
    missing = {ord(c) for c in text if not c.isspace()} - _characters(font_manager.findfont(BASE))
    chosen = [BASE]
    while missing:
        family, path = max(_installed(), key=lambda font: len(missing & _characters(font[1])))
        if not (covered := missing & _characters(path)):
            _warn_of_boxes(missing)
            break
        chosen.append(family)
        missing -= covered
    return chosen


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points of a font file."""
    return frozenset(FT2Font(path).get_charmap())


@cache
def _installed() -> list[tuple[str, str]]:
    """Family and file of each installed regular font; fonts of last resort draw only boxes and are left out."""
    regular = (f for f in font_manager.fontManager.ttflist if f.style == "normal" and f.weight == 400)
    return sorted({(f.name, f.fname) for f in regular if not f.name.startswith("Last Resort")})


def _warn_of_boxes(missing: Iterable[int]) -> None:
    """Warn with the names of the missing characters and the packages with fonts for them."""
    characters = "".join(map(chr, sorted(missing)))
    scripts = sorted({unicodedata.name(c, "unnamed").split()[0] for c in characters})
    packages = {"fonts-noto-cjk" if script in CJK else "fonts-noto-core" for script in scripts}
    warn(
        "letters without a font", "figures", len(characters),
        f"no installed font has {characters[:20]} ({', '.join(scripts[:5])}), so they are drawn as boxes",
        f"install a font and draw again, e.g. apt install {' '.join(sorted(packages))}", scores=False,
    )  # fmt: skip
