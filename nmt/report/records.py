"""Records: the small files of a table's runs that are kept beside it when the runs are gone.

They are logs, translations and scores, and the attention that a figure shows.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.system.errors import DataError
from nmt.system.files import Json, atomic_directory, read_lines

OF_RUN = ("training.json", "log.jsonl")
# In the order in which they are written, which the workflow relies on. References may not be redistributed.
OF_ROW = ("decoding.json", "hypotheses.tok", "hypotheses.detok", "scores.json")
ALIGNMENTS = "alignments.json"


def attended(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> list[Path]:
    """The files from which a table's figures of attention are drawn."""
    return [
        layout.scores(name, row, table.tests[0], seed) / ALIGNMENTS
        for figure in table.figures for row, seed in table.attended(figure, seeds)
    ]  # fmt: skip


def keep(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> None:
    """Copy the records of a table's runs to the same places below `Layout.records`, all or none.

    Raises:
        DataError: a file is missing.
    """
    wanted = dict.fromkeys(attended(name, table, layout, seeds))
    for row in table.rows:
        if row.system:
            runs = [layout.run(name, row.system, seed) for seed in table.seeds_of(row.system, seeds)]
            scores = [layout.scores(name, row, table.test_of(row), model) for model in table.models_of(row, seeds)]
            wanted |= dict.fromkeys([run / file for run in runs for file in OF_RUN])
            wanted |= dict.fromkeys([folder / file for folder in scores for file in OF_ROW])
    with atomic_directory(layout.records(name)) as out:
        for path in wanted:
            if not path.is_file():
                raise DataError(f"{path}: no such file; delete its folder and run the workflow again")
            copy = out / path.relative_to(layout.runs(name))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def read_log(run: Path) -> list[Json]:
    """The records of a training's log."""
    return [json.loads(line) for line in read_lines(run / "log.jsonl")]


def train_nll(log: Sequence[Json], update: int, epoch: float) -> float | None:
    """Mean negative log-likelihood of the training text over the epoch that ends at an update, nats a piece.

    It is the training's own figure: with dropout, without label smoothing, by weights that changed meanwhile. A record
    stands for the updates since the one before. If no record ended in that epoch, the last one counts.
    """
    trained = [record for record in log if record["event"] == "train" and record["update"] <= update]
    since = [0, *(record["update"] for record in trained)]
    losses = [(r["epoch"], r["loss"], r["update"] - before) for r, before in zip(trained, since, strict=False)]
    part = [loss for loss in losses if loss[0] > epoch - 1] or losses[-1:]
    weight = sum(updates for *_, updates in part)
    return sum(loss * updates for _, loss, updates in part) / weight if weight else None
