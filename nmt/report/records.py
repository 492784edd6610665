"""What a table was made of, small enough to be kept beside it when the runs are gone.

Logs, translations and scores, and where the models that a figure shows looked.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.system.errors import DataError
from nmt.system.files import atomic_directory

OF_RUN = ("training.json", "log.jsonl")
# In the order that they came to be, which the workflow goes by; references are not ours to pass on.
OF_ROW = ("decoding.json", "hypotheses.tok", "hypotheses.detok", "scores.json")
ALIGNMENTS = "alignments.json"


def attended(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> list[Path]:
    """The files of a table's runs that its figures of attention are drawn from."""
    return [
        layout.scores(name, row, table.tests[0], seed) / ALIGNMENTS
        for figure in table.figures for row, seed in table.attended(figure, seeds)
    ]  # fmt: skip


def keep(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> None:
    """Copy them from a table's runs, to the same places below `Layout.records`, whole or not at all.

    Raises:
        DataError: a file is missing.
    """
    wanted = dict.fromkeys(attended(name, table, layout, seeds))
    for row in table.rows:
        if row.system:
            runs = [layout.run(name, row.system, seed) for seed in table.seeds_of(row.system, seeds)]
            scores = [layout.scores(name, row, table.test_of(row), one) for one in table.models_of(row, seeds)]
            wanted |= dict.fromkeys([run / file for run in runs for file in OF_RUN])
            wanted |= dict.fromkeys([folder / file for folder in scores for file in OF_ROW])
    with atomic_directory(layout.records(name)) as out:
        for path in wanted:
            if not path.is_file():
                raise DataError(f"{path}: no such file; delete its folder and run the workflow again")
            copy = out / path.relative_to(layout.runs(name))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
