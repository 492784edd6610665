"""Write the overview of all tables: the rows with a published BLEU, grouped by report, as Markdown and as a figure."""

import os
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from matplotlib import pyplot
from matplotlib.axes import Axes

from nmt.report.cells import bounds, hardware, published, statistic, training_time
from nmt.report.figures.heatmaps import style
from nmt.report.figures.plots import COLOURS, save
from nmt.report.grid import Grid
from nmt.report.markdown import Markdown, table
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json, write_text
from nmt.system.lines import read_lines

Groups = dict[str, list[Json]]

BEGIN, END = "<!-- overview: written by `nmt overview` -->", "<!-- end of the overview -->"
FIGURE = Path("figures", "overview")
UNFINISHED = "not converged"
"""The note of rows whose training was too short to converge. The overview omits these rows."""
OTHER = "Other tables"
INCOMPARABLE = (
    "These systems are trained or tested on other text than the published ones.\nTheir scores do not compare."
)
LABEL = 80  # characters of a system's name in the figure
LINE, MARGIN = 0.18, 0.75  # inches of height: a row, and the title and axis of a panel


def overview(results: Path, page: Path) -> None:
    """Write the overview into a Markdown page, between two marks, and its figure into ``results/figures/``.

    Args:
        results: folder with ``tables/*.json``.
        page: has a line `BEGIN` and a later line `END`; the text between them is replaced.

    Raises:
        DataError: there is no table, or the page lacks a mark.
    """
    groups = by_report(results)
    text = "".join(f"{line}\n" for line in read_lines(page))
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise DataError(f"{page}: expected the lines {BEGIN} and {END}, and between them the table; got a page without")
    draw(groups, results / FIGURE)
    write_text(page, f"{before}{BEGIN}\n{render(groups, results, page)}\n{END}{after}")


def by_report(results: Path) -> Groups:
    """Return the trained rows that have a published BLEU on the first test set of their table, by report.

    Raises:
        DataError: the folder has no table, no table has a published BLEU, or a file is not a table.
    """
    files = sorted((results / "tables").glob("*.json"))
    tables = [read_json(file) for file in files]
    for file, data in zip(files, tables, strict=True):
        if not {"name", "limit", "rows", "tests"} <= data.keys():
            raise DataError(f"{file}: expected a table as `nmt report` writes it, got something else; delete it")
    if not tables:
        raise DataError(f"{results}: expected tables/*.json, got none; build a table first: make run")
    rows = [
        row | {"table": data["name"], "report": data.get("report") or OTHER, "comparable": data.get("comparable", True)}
        for data in tables if not data["limit"]
        for row in data["rows"] if not row["quoted"] and row["note"] != UNFINISHED
        if row["test"] == data["tests"][0] and "bleu" in row["published"]
    ]  # fmt: skip
    if not rows:
        raise DataError(f"{results}: expected a table with published BLEU, got none; build one, e.g. multi30k_best")
    rows.sort(key=lambda row: str(row["report"]))
    return {report: list(group) for report, group in groupby(rows, key=lambda row: str(row["report"]))}


def render(groups: Groups, results: Path, page: Path) -> str:
    """Return the figure and one section per report, as Markdown. Links are relative to the page."""
    folder = quote(os.path.relpath(results, page.parent))
    parts = [f"![BLEU, published and ours]({folder}/{FIGURE}.png)"]
    for report, rows in groups.items():
        grid = Grid(report, "", HEADER, [_cells(row, folder) for row in rows])
        notes = [] if all(row["comparable"] for row in rows) else [INCOMPARABLE]
        parts += [f"## {report}", *notes, table(grid)]
    return "\n\n".join(parts)


HEADER = ["table", "system", "test set", "BLEU, published", "BLEU, ours", "training", "hardware"]


def _cells(row: Json, folder: str) -> list[str]:
    return [
        row["table"], row["label"], row["test"], published(row["published"]["bleu"]),
        Markdown(f"[{statistic(row['scores']['tokenised']['bleu'])}]({folder}/tables/{row['table']}.md)"),
        training_time(row),
        "; ".join(dict.fromkeys(map(hardware, row["hardware"]))),
    ]  # fmt: skip


def draw(groups: Groups, out: Path) -> None:
    """Draw one panel per report, in two columns. In a row, a ring is the published figure and a dot is ours.

    Rows whose published figure is of other text have no place in it, unless there are no others.
    """
    comparable = {report: [row for row in rows if row["comparable"]] for report, rows in groups.items()}
    groups = {report: rows for report, rows in comparable.items() if rows} or groups
    columns = _columns(groups)
    heights = [[MARGIN + LINE * len(groups[report]) for report in column] for column in columns]
    letters = "".join(report + "".join(row["label"] for row in rows) for report, rows in groups.items())
    small = {"font.size": 8, "axes.titlesize": 9, "axes.titlepad": 4, "ytick.major.size": 0}
    with style(letters, **small):
        size = (8.5 * len(columns), 0.3 + max(map(sum, heights)))
        canvas = pyplot.figure(figsize=size, dpi=100, layout="constrained")
        parts = canvas.subfigures(1, len(columns), squeeze=False)[0]
        for part, column, ratios in zip(parts, columns, heights, strict=True):
            grid = part.subplots(len(column), 1, squeeze=False, height_ratios=ratios)[:, 0]
            for axes, report in zip(grid, column, strict=True):
                _panel(axes, report, groups[report])
        legends = [axes.get_legend_handles_labels() for axes in canvas.axes]
        legend = {name: mark for marks, names in legends for mark, name in zip(marks, names, strict=True)}
        canvas.legend(list(legend.values()), list(legend), loc="outside upper right", ncols=2)
        save(canvas, out, dpi=100)


def _columns(groups: Groups) -> list[list[str]]:
    """Split the reports, in order, into two columns of nearly the same height."""
    reports = list(groups)
    heights = [MARGIN + LINE * len(groups[report]) for report in reports]
    cut = min(range(1, len(reports) + 1), key=lambda cut: max(sum(heights[:cut]), sum(heights[cut:])))
    return [column for column in (reports[:cut], reports[cut:]) if column]


def _panel(axes: Axes, report: str, rows: list[Json]) -> None:
    for place, row in enumerate(rows):
        ours, theirs = row["scores"]["tokenised"]["bleu"], row["published"]["bleu"]
        if row["comparable"]:
            axes.plot([theirs, ours["mean"]], [place, place], color="#bbbbbb", zorder=1)
            axes.plot(theirs, place, "o", color=COLOURS[1], fillstyle="none", markersize=4, label="published")
        axes.plot(bounds(ours), [place, place], color=COLOURS[0], linewidth=4, alpha=0.35, solid_capstyle="butt")
        label = "ours: 95 % interval, or deviation over seeds"
        axes.plot(ours["mean"], place, "o", color=COLOURS[0], markersize=4, label=label)
    axes.set_title(report, parse_math=False)
    axes.set(xlabel="BLEU, tokenised", ylim=(len(rows) - 0.4, -0.6))
    labels = [row["label"] for row in rows]
    names = [
        label if labels.count(label) == 1 else f"{label} ({row['table']})"
        for label, row in zip(labels, rows, strict=True)
    ]
    axes.set_yticks(range(len(rows)), list(map(_short, names)), parse_math=False)


def _short(name: str) -> str:
    """A name in one line, cut at a space if it is long; in the middle of a word if it has no space."""
    name = " ".join(name.split())
    if len(name) <= LABEL:
        return name
    start = name[: LABEL - 1]
    return f"{(start.rpartition(' ')[0] or start).rstrip()} …"
