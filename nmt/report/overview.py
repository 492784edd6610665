"""The front page: of every table the rows with a published BLEU, beside ours, as one Markdown table and one figure."""

import os
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes

from nmt.report.grids import Grid, hardware, published, statistic, training_time
from nmt.report.markdown import table
from nmt.report.plots import COLOURS, STYLE, save
from nmt.system.errors import DataError
from nmt.system.files import read_json, read_lines, write_text

Json = dict[str, Any]

BEGIN, END = "<!-- overview: written by `nmt overview` -->", "<!-- end of the overview -->"
FIGURE = Path("figures", "overview")
UNFINISHED = "not converged"
"""The note of rows whose training was ended to see that it runs: their score says nothing, and is not shown here."""


def overview(results: Path, page: Path) -> None:
    """Write the table into a Markdown page, between its two marks, and the figure into ``results/figures/``.

    Args:
        results: with ``tables/*.json``.
        page: has a line `BEGIN` and, later, a line `END`; what is between them is replaced.

    Raises:
        DataError: there is no table, or no marks.
    """
    rows = compared(results)
    text = "".join(f"{line}\n" for line in read_lines(page))
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise DataError(f"{page}: expected the lines {BEGIN} and {END}, between them the table; got a page without")
    draw(rows, results / FIGURE)
    write_text(page, f"{before}{BEGIN}\n{render(rows, results, page)}\n{END}{after}")


def compared(results: Path) -> list[Json]:
    """The rows of all tables that are trained here and have a published BLEU, on the first test set of their table.

    Raises:
        DataError: the folder has no table, or one that is none.
    """
    files = sorted((results / "tables").glob("*.json"))
    tables = [read_json(file) for file in files]
    for file, data in zip(files, tables, strict=True):
        if not {"name", "limit", "rows", "tests"} <= data.keys():
            raise DataError(f"{file}: expected a table as `nmt report` writes it, got something else; delete it")
    if not tables:
        raise DataError(f"{results}: expected tables/*.json, got none; build a table first: make run")
    return [
        row | {"table": data["name"]}
        for data in tables if not data["limit"]
        for row in data["rows"] if not row["quoted"] and row["note"] != UNFINISHED
        if row["test"] == data["tests"][0] and "bleu" in row["published"]
    ]  # fmt: skip


def render(rows: list[Json], results: Path, page: Path) -> str:
    """The table, each of our figures a link to how it was made, and the figure, as seen from the page."""
    folder = os.path.relpath(results, page.parent)
    header = ["table", "system", "test set", "BLEU, published", "BLEU, ours", "training", "hardware"]
    cells = [
        [
            row["table"], row["label"], row["test"], published(row["published"]["bleu"]),
            f"[{statistic(_bleu(row))}]({folder}/tables/{row['table']}.md)", training_time(row),
            "; ".join(dict.fromkeys(map(hardware, row["hardware"]))),
        ]
        for row in rows
    ]  # fmt: skip
    return f"{table(Grid('overview', '', header, cells))}\n\n![BLEU, published and ours]({folder}/{FIGURE}.png)"


def draw(rows: list[Json], out: Path) -> None:
    """A line a row, below the name of its table: the published figure as a ring, ours as a dot with its interval."""
    lines: list[Json | str] = []
    for name, found in groupby(rows, key=lambda row: row["table"]):
        lines += [name, *found]
    with pyplot.rc_context(STYLE):
        canvas, axes = pyplot.subplots(figsize=(9, 1 + 0.32 * len(lines)), layout="constrained")
        for place, line in enumerate(lines):
            if not isinstance(line, str):
                _line(axes, place, _bleu(line), line["published"]["bleu"])
        axes.set(xlabel="BLEU, tokenised", ylim=(len(lines) - 0.5, -0.5))
        names = [line if isinstance(line, str) else shorten(line["label"], 48, placeholder=" …") for line in lines]
        for tick, line in zip(axes.set_yticks(range(len(lines)), names), lines, strict=True):
            tick.label1.set_fontweight("bold" if isinstance(line, str) else "normal")
        marks = axes.get_legend_handles_labels()[0][:2]
        canvas.legend(handles=marks, loc="outside upper right", ncols=2)
        save(canvas, out)


def _line(axes: Axes, place: int, ours: Json, theirs: float) -> None:
    low, high = _range(ours)
    axes.plot([theirs, ours["mean"]], [place, place], color="#bbbbbb", zorder=1)
    axes.plot([low, high], [place, place], color=COLOURS[0], linewidth=5, alpha=0.35, solid_capstyle="butt")
    axes.plot(theirs, place, "o", color=COLOURS[1], fillstyle="none", label="published")
    axes.plot(ours["mean"], place, "o", color=COLOURS[0], label="ours: 95 % interval, or deviation over seeds")


def _bleu(row: Json) -> Json:
    found: Json = row["scores"]["tokenised"]["bleu"]
    return found


def _range(found: Json) -> tuple[float, float]:
    if found["deviation"] is None:
        return found["low"], found["high"]
    return found["mean"] - found["deviation"], found["mean"] + found["deviation"]
