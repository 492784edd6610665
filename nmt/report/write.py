"""Reports: a table as Markdown, CSV, JSON and one HTML page, with its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.data import Images
from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.report.records import ALIGNMENTS
from nmt.system.errors import DataError
from nmt.system.files import atomic_directory, read_json, read_lines, write_text

LEGIBLE = range(8, 17)  # pieces of a sentence that is drawn
REPORTED = 512  # columns of the positional encoding that the paper and reports on it show; wider models show theirs


def report(
    name: str, table: Table, layout: Layout, seeds: Sequence[int], images: Mapping[str, Images] | None = None
) -> None:
    """Write a table's figures, keep what it was made of (`nmt.report.records`), and then write the table itself.

    Args:
        name: of the table.
        table: its systems and rows.
        layout: where results are and where the report goes.
        seeds: of the systems that name none.
        images: the user's pictures, by corpus.

    Raises:
        DataError: a result is missing.
    """
    from nmt.report import html, records, tables

    data = tables.build(name, table, layout, seeds)
    figures = layout.figures(name)
    _draw(name, table, layout, seeds, figures, images or {})
    records.keep(name, table, layout, seeds)
    tables.write(data, layout.table(name))
    write_text(layout.table(name).with_name(f"{name}.html"), html.render(data, figures))


def _draw(
    name: str, table: Table, layout: Layout, seeds: Sequence[int], out: Path, images: Mapping[str, Images]
) -> None:
    """All figures of a table, in a folder that is whole or as it was."""
    from nmt.report.plots import draw
    from nmt.report.tables import read_log

    systems = dict.fromkeys(row.system for row in table.rows if row.system)
    curves = {
        system: [read_log(layout.run(name, system, seed)) for seed in table.seeds_of(system, seeds)]
        for system in systems
    }
    widths = [table.systems[system].model.width for system in systems]
    with atomic_directory(out) as folder:
        for figure in table.figures:
            if figure == "alignment":
                _draw_alignments(name, table, layout, seeds, folder / figure)
            elif figure == "picture":
                _draw_picture(name, table, layout, seeds, folder / figure, images)
            else:
                draw(figure, curves, max([REPORTED, *widths]), folder / figure)


def _draw_alignments(name: str, table: Table, layout: Layout, seeds: Sequence[int], out: Path) -> None:
    """Where each system looked, by its first row on the first test set: a panel a system that has attention.

    All show one sentence, the first of those kept whose length leaves the figure legible.
    """
    from nmt.report.heatmaps import Panel, draw

    found = {
        str(row.system): read_json(layout.scores(name, row, table.tests[0], seed) / ALIGNMENTS, list)
        for row, seed in table.attended("alignment", seeds)
    }
    kept = {system: sentences for system, sentences in found.items() if sentences}
    line = _legible(next(iter(kept.values())))["line"]
    panels = [
        Panel(system, np.array(s["weights"]), s["target"], s["source"])
        for system, sentences in kept.items() for s in sentences if s["line"] == line
    ]  # fmt: skip
    draw(panels, f"Where the decoder looked: sentence {line}, source across, translation down", out)


def _legible(sentences: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first of the sentences kept whose length leaves a figure legible, else the first."""
    return next((sentence for sentence in sentences if len(sentence["source"]) in LEGIBLE), sentences[0])


def _draw_picture(
    name: str, table: Table, layout: Layout, seeds: Sequence[int], out: Path, images: Mapping[str, Images]
) -> None:
    """Where each layer and head looked on the picture of a sentence, by the table's first row that looks at one."""
    from nmt.data.extract import read_square
    from nmt.report.pictures import Panel, draw

    [(row, seed)] = table.attended("picture", seeds)
    system, test = table.systems[row.system or ""], table.tests[0]
    folder = layout.scores(name, row, test, seed)
    sentence = _legible(read_json(folder / ALIGNMENTS, list))
    if "image" not in sentence:
        raise DataError(f"{folder / ALIGNMENTS}: expected where it looked on pictures; delete it and run again")
    line = sentence["line"]
    source, target = (list(read_lines(folder / file))[line - 1] for file in ("sources.txt", "hypotheses.detok"))
    weights = np.array(sentence["image"])  # (layers, heads, regions)
    panels = [
        Panel(f"layer {n}, head {h}", found)
        for n, heads in enumerate(weights, 1) for h, found in enumerate(heads, 1)
    ]  # fmt: skip
    picture = read_square(picture_of(layout, images, system.corpus, test, line))
    draw(picture, panels, f"{source} → {target}", out, across=weights.shape[1])


def picture_of(layout: Layout, images: Mapping[str, Images], corpus: str, test: str, line: int) -> Path:
    """The file of the picture of a test set's line, counted from 1: the user's, else one that is drawn."""
    given, drawn = images.get(corpus), layout.pictures(corpus)
    folder, names = (given.folder, given.lists[test]) if given and given.folder else (drawn, drawn / f"{test}.txt")
    return folder / list(read_lines(names))[line - 1]
