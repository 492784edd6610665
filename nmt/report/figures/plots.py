"""Draw figures as PNG and SVG: training curves, positional encoding, causal mask. Equal data gives equal files."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nmt.config.table import Figure
from nmt.system.files import atomic_path

Records = Sequence[Mapping[str, Any]]
Curves = Mapping[str, Sequence[Records]]
"""The logs of each system, one per seed."""
Points = Sequence[tuple[int, float]]

TITLES: dict[Figure, str] = {
    "loss": "Loss on training and validation text",
    "loss-by-system": "Negative log-likelihood (NLL) of each system",
    "accuracy": "Accuracy on training and validation text",
    "bleu": "BLEU of greedy translations of the validation text",
    "learning-curves": "Learning curves: loss and BLEU against batches",
    "learning-rate": "Learning rate",
    "positions": "Sinusoidal positional encoding",
    "positions-across": "Sinusoidal positional encoding",
    "mask": "Causal mask of the decoder",
    "alignment": "Attention of the decoder over the source",
    "picture": "Attention of the decoder over the picture",
    "picture-words": "Attention of the decoder over the picture, word by word",
    "bleu-by-length": "BLEU by the length of the sentence",
    "accuracy-by-frequency": "Words translated right, by their frequency in the training text",
}

POSITIONS, MASKED = 50, 12  # positions shown in the figures of the positional encoding and of the mask
INSIDE, SHORT = 8, 40  # most entries of a legend within the axes, and most characters of one
PUBLISHED: dict[str, Any] = {"linestyle": ":", "marker": "D", "markerfacecolor": "white", "linewidth": 2.2}
MOST_PIXELS = 1e8  # of a PNG; larger figures get a lower resolution, only their SVG has full detail
# The colours of Okabe and Ito, which colour-blind readers can distinguish; yellow is too faint for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "nmt", "font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.titlesize": 12, "axes.titlelocation": "left",
    "axes.titlepad": 12, "legend.frameon": False, "lines.linewidth": 1.6, "axes.axisbelow": True,
}  # fmt: skip


def draw(
    figure: Figure,
    curves: Curves,
    width: int,
    out: Path,
    published: Mapping[str, Points] = MappingProxyType({}),
    unit: Literal["nats", "bits"] = "nats",
) -> None:
    """Draw a figure as ``{out}.png`` and ``{out}.svg``.

    Args:
        figure: the name of the figure.
        curves: the logs of the systems.
        width: the model's width, for the positional encoding.
        out: path without an ending.
        published: updates and BLEU on validation text that a report prints, by system; for the learning curves.
        unit: of the negative log-likelihood, in the panels of the systems.
    """
    with pyplot.rc_context(STYLE):
        if figure == "learning-curves":
            return _learning_curves(curves, out, published)
        if figure == "loss-by-system":
            return _losses_by_system(curves, out, unit)
        canvas, axes = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
        axes.set_title(TITLES[figure])
        if figure in ("positions", "positions-across"):
            _positions(canvas, axes, width, across=figure == "positions-across")
        elif figure == "mask":
            _mask(axes)
        else:
            _curves(figure, axes, curves)
        save(canvas, out)


def save(canvas: Canvas, out: Path, dpi: float = 160.0) -> None:
    """Write a figure as ``{out}.png`` and ``{out}.svg``, without dates, so that equal figures give equal files."""
    width, height = canvas.get_size_inches()
    dpi = min(dpi, math.sqrt(MOST_PIXELS / (width * height)))
    for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        with atomic_path(out.with_name(f"{out.name}.{ending}")) as part:
            canvas.savefig(part, format=ending, dpi=dpi, metadata=metadata)
    pyplot.close(canvas)


def _curves(figure: Figure, axes: Axes, curves: Curves) -> None:
    """Draw one quantity against epochs, or the learning rate against updates."""
    {"loss": _loss, "accuracy": _accuracy, "bleu": _bleu, "learning-rate": _learning_rate}[figure](axes, curves)
    if not axes.lines:
        axes.text(0.5, 0.5, "not measured in these trainings", ha="center", va="center", transform=axes.transAxes)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(curves) > 1 or figure in ("loss", "accuracy"):
        _legend(axes, curves, both=figure in ("loss", "accuracy"))


def _learning_curves(curves: Curves, out: Path, published: Mapping[str, Points]) -> None:
    """Draw loss and BLEU against batches in two panels: training text dashed, validation text solid, reports dotted.

    Where a report prints curves, only the systems that have one are drawn.
    """
    if published:
        curves = {system: logs for system, logs in curves.items() if system in published}
    canvas, (loss, bleu) = pyplot.subplots(2, 1, figsize=(7.2, 7.2), layout="constrained", sharex=True)
    loss.set_title(TITLES["learning-curves"])
    for axes, event, trained, validated in ((loss, "train", "loss", "loss"), (bleu, "valid", "train_bleu", "bleu")):
        _lines(axes, curves, _against_updates(event, trained), linestyle="--", alpha=0.75)
        _lines(axes, curves, _against_updates("valid", validated), marker=".")
    loss.set(ylabel="loss (nats per target piece)")
    bleu.set(ylabel="BLEU of greedy translations (0 to 100)", xlabel="update (batches seen)", xlim=(0, None))
    _legend(loss, curves, both=True, training="training")
    for number, system in enumerate(curves):
        if points := published.get(system):
            bleu.plot(*zip(*points, strict=True), **_style(number) | PUBLISHED)
    named = not canvas.legends  # otherwise the legend beside both panels names the systems
    _legend(bleu, curves, True, "sample of the training text", bool(published), named)
    save(canvas, out)


def _losses_by_system(curves: Curves, out: Path, unit: Literal["nats", "bits"]) -> None:
    """Draw the loss of each system in a panel of its own: losses per piece of two vocabularies do not compare."""
    nats = math.log(2) if unit == "bits" else 1.0
    rows = max(1, math.ceil(len(curves) / 2))
    size = (7.2, 0.5 + 2.6 * rows)
    canvas, panels = pyplot.subplots(rows, min(2, len(curves) or 1), figsize=size, layout="constrained", squeeze=False)
    canvas.suptitle(TITLES["loss-by-system"], x=0.01, ha="left", fontsize=12)
    for axes in panels.flat[len(curves) :]:
        axes.remove()
    for axes, (system, logs) in zip(panels.flat, curves.items(), strict=False):
        _both(axes, {system: logs}, lambda record: record["loss"] / nats)
        axes.set_title(system, fontsize=11, pad=6)
        axes.set(xlabel="epoch", ylabel=f"{unit} per piece", xlim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(panels.flat[0], {}, both=True)
    save(canvas, out)


def _against_updates(event: str, key: str) -> Callable[[Records], list[tuple[float, float]]]:
    return lambda records: _points(records, event, "update", lambda record: record.get(key))


def _loss(axes: Axes, curves: Curves) -> None:
    _both(axes, curves, lambda record: record["loss"])
    axes.set(xlabel="epoch", ylabel="loss (nats per target piece)")


def _accuracy(axes: Axes, curves: Curves) -> None:
    _both(axes, curves, lambda record: 100 * record["accuracy"])
    axes.set(xlabel="epoch", ylabel="target pieces predicted right (%)")


def _bleu(axes: Axes, curves: Curves) -> None:
    _lines(axes, curves, lambda records: _points(records, "valid", "epoch", lambda record: record["bleu"]), marker=".")
    axes.set(xlabel="epoch", ylabel="BLEU (0 to 100)")


def _learning_rate(axes: Axes, curves: Curves) -> None:
    _lines(axes, curves, lambda records: _points(records, "train", "update", lambda record: record["learning_rate"]))
    axes.set(xlabel="update", ylabel="learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3), useMathText=True)


def _both(axes: Axes, curves: Curves, value: Callable[[Mapping[str, Any]], float]) -> None:
    """Draw training values, averaged over each epoch, dashed, and validation values solid."""
    _lines(axes, curves, lambda records: _epochs(records, value), linestyle="--", marker=".", markersize=4, alpha=0.75)
    _lines(axes, curves, lambda records: _points(records, "valid", "epoch", value), marker=".")


def _lines(
    axes: Axes, curves: Curves, points: Callable[[Records], Iterable[tuple[float, float]]], **style: Any
) -> None:
    """Draw one line per log. All seeds of a system have the same style."""
    for number, logs in enumerate(curves.values()):
        for records in logs:
            line = list(points(records))
            if line:
                axes.plot(*zip(*line, strict=True), **(style | _style(number)))


def _style(number: int) -> dict[str, Any]:
    """The style of a system's lines: its colour, and markers if there are more systems than colours."""
    colour = {"color": COLOURS[number % len(COLOURS)]}
    markers = {"marker": "s^D"[number // len(COLOURS) % 3 - 1], "markerfacecolor": "white", "markersize": 4.5}
    return colour | (markers | {"markevery": 0.05} if number >= len(COLOURS) else {})


def _points(
    records: Records, event: str, x_key: str, value: Callable[[Mapping[str, Any]], float | None]
) -> list[tuple[float, float]]:
    points = [(record[x_key], value(record)) for record in records if record["event"] == event]
    return [(x, y) for x, y in points if y is not None]


def _epochs(records: Records, value: Callable[[Mapping[str, Any]], float]) -> list[tuple[float, float]]:
    """Return the mean of each epoch's training records, placed at the end of the epoch or of the log."""
    epochs: dict[int, list[tuple[float, float]]] = {}
    for point in _points(records, "train", "epoch", value):
        epochs.setdefault(math.ceil(point[0]), []).append(point)
    last = max(epochs, default=0)
    return [
        (points[-1][0] if epoch == last else epoch, sum(y for _, y in points) / len(points))
        for epoch, points in epochs.items()
    ]


def _legend(
    axes: Axes,
    curves: Curves,
    both: bool,
    training: str = "training, mean over the epoch",
    published: bool = False,
    named: bool = True,
) -> None:
    """Add a legend: the systems if `named`, and, with ``both``, the line styles of training, validation and report."""
    several = len(curves) > 1
    handles = [Line2D([], [], label=name, **_style(n)) for n, name in enumerate(curves) if named and several]
    grey = "#666666" if several else COLOURS[0]
    if both:
        handles.append(Line2D([], [], color=grey, linestyle="--", label=training))
        handles.append(Line2D([], [], color=grey, marker=".", label="validation"))
    if published:
        handles.append(Line2D([], [], label="validation, in the report", **{"color": grey} | PUBLISHED))
    legend(axes, handles)


def legend(axes: Axes, handles: Sequence[Line2D]) -> None:
    """Add a legend; many or long entries stand beside the panels, and the figure grows by their size."""
    if len(handles) <= INSIDE and all(len(str(handle.get_label())) <= SHORT for handle in handles):
        axes.legend(handles=handles)
        return
    canvas = axes.figure
    assert isinstance(canvas, Canvas)
    box = canvas.legend(handles=handles, loc="outside right upper").get_window_extent()
    (width, height), dpi = canvas.get_size_inches(), canvas.dpi
    canvas.set_size_inches(width + box.width / dpi, max(height, box.height / dpi + 0.3))


def _positions(canvas: Canvas, axes: Axes, width: int, across: bool) -> None:
    """Draw the encoding of each position as a row, or, with ``across``, as a column."""
    values, labels = sinusoidal(POSITIONS, width), {"xlabel": "dimension", "ylabel": "position in the sentence"}
    if across:
        values, labels = values.T, {"xlabel": labels["ylabel"], "ylabel": labels["xlabel"]}
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set(**labels)
    axes.grid(visible=False)
    canvas.colorbar(image, ax=axes, label="value")


def sinusoidal(length: int, width: int) -> NDArray[np.float64]:
    """Compute the table (length, width) of `nmt.models.embedding.sinusoidal`, without the seconds to import torch."""
    angle = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width)


def _mask(axes: Axes) -> None:
    """Draw which positions each position of a decoder attends to: itself and earlier ones."""
    hidden, visible = "#e6e6e6", COLOURS[0]
    axes.imshow(np.tri(MASKED), cmap=ListedColormap([hidden, visible]), interpolation="nearest")
    axes.set(xlabel="attended position", ylabel="attending position")
    axes.set_xticks([x - 0.5 for x in range(1, MASKED)], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, MASKED)], minor=True)
    axes.grid(visible=False)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    patches = [Patch(color=visible, label="visible"), Patch(color=hidden, label="hidden")]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1, 1))
