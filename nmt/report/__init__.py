"""Reports: a table as Markdown, CSV, JSON and one HTML page, with its figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Table
from nmt.files import atomic_directory, read_json, write_text
from nmt.layout import Layout

LEGIBLE = range(8, 17)  # pieces of a sentence that is drawn
REPORTED = 512  # columns of the positional encoding that the paper and reports on it show; wider models show theirs


def report(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> None:
    """Write a table's figures, and then the table itself.

    Args:
        name: of the table.
        table: its systems and rows.
        layout: where results are and where the report goes.
        seeds: of the systems that name none.

    Raises:
        DataError: a result is missing.
    """
    from nmt.report import html, tables

    data = tables.build(name, table, layout, seeds)
    figures = layout.figures(name)
    _draw(name, table, layout, seeds, figures)
    tables.write(data, layout.table(name))
    write_text(layout.table(name).with_name(f"{name}.html"), html.render(data, figures))


def _draw(name: str, table: Table, layout: Layout, seeds: Sequence[int], out: Path) -> None:
    """All figures of a table, in a folder that is whole or as it was."""
    from nmt.report.plots import draw
    from nmt.report.tables import read_log

    systems = dict.fromkeys(row.system for row in table.rows if row.system)
    curves = {
        system: [read_log(layout.run(name, system, seed)) for seed in table.systems[system].seeds or seeds]
        for system in systems
    }
    widths = [table.systems[system].model.width for system in systems]
    with atomic_directory(out) as folder:
        for figure in table.figures:
            if figure == "alignment":
                _draw_alignments(name, table, layout, seeds, folder / figure)
            else:
                draw(figure, curves, max([REPORTED, *widths]), folder / figure)


def _draw_alignments(name: str, table: Table, layout: Layout, seeds: Sequence[int], out: Path) -> None:
    """Where each system looked, by its first row on the first test set: a panel a system that has attention.

    All show one sentence, the first of those kept whose length leaves the figure legible.
    """
    from nmt.report.attention import Panel, draw

    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.rows:
        if row.system and row.system not in found and row.test in (None, table.tests[0]):
            seed = (table.systems[row.system].seeds or seeds)[0]
            found[row.system] = read_json(layout.scores(name, row, table.tests[0], seed) / "alignments.json")
    kept = {system: sentences for system, sentences in found.items() if sentences}
    first = next(iter(kept.values()))
    line = next((s["line"] for s in first if len(s["source"]) in LEGIBLE), first[0]["line"])
    panels = [
        Panel(system, np.array(s["weights"]), s["target"], s["source"])
        for system, sentences in kept.items() for s in sentences if s["line"] == line
    ]  # fmt: skip
    draw(panels, f"Where the decoder looked: sentence {line}, source across, translation down", out)
