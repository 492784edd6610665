"""Records: copies of the small files of a table's runs, which remain when the runs are deleted.

Records are logs, translations and scores, and the attention that a figure shows.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config.table import Row, Table
from nmt.plan.layout import Layout
from nmt.system.errors import DataError, fitting
from nmt.system.files import Json, atomic_directory
from nmt.system.lines import read_lines
from nmt.system.warnings import record_of

OF_RUN = ("training.json", "log.jsonl")
# In the order in which a run writes them; the workflow relies on it. References may not be redistributed.
OF_ROW = ("decoding.json", "hypotheses.tok", "hypotheses.detok", "scores.json")
OF_OUTPUT = OF_ROW[1:]  # of translations given as a file
# Only outputs that are degraded have these.
WARNINGS_OF_RUN = (record_of(Path("training.json")).name,)
WARNINGS_OF_ROW = tuple(record_of(Path(file)).name for file in ("hypotheses.txt", "scores.json"))
ALIGNMENTS = "alignments.json"


@dataclass
class Results:
    """The results of one table: its trainings, translations and scores, and where they are."""

    name: str
    table: Table
    layout: Layout
    seeds: Sequence[int]  # of systems that name none

    def seeds_of(self, system: str) -> Sequence[int]:
        """The seeds of a system's trainings."""
        return self.table.seeds_of(system, self.seeds)

    def run(self, system: str, seed: int | str) -> Path:
        """The folder of a training."""
        return self.layout.run(self.name, system, seed)

    def folders(self, row: Row) -> dict[int | str, Path]:
        """The folders of a row's translations and scores, by the seeds of the models."""
        test, models = self.table.test_of(row), self.table.models_of(row, self.seeds)
        return {model: self.layout.scores(self.name, row, test, model) for model in models}

    def attended(self) -> list[Path]:
        """The files with the data of the attention figures."""
        return [
            self.folders(row)[seed] / ALIGNMENTS
            for figure in self.table.figures for row, seed in self.table.attention_rows(figure, self.seeds)
        ]  # fmt: skip


def keep(results: Results) -> None:
    """Copy the records of a table's runs to the same places below `Layout.records`, either all or none.

    Raises:
        DataError: a file is missing.
    """
    paths, warnings = dict.fromkeys(results.attended()), list[Path]()
    for row in (row for row in results.table.rows if row.is_scored):
        runs = [results.run(row.system, seed) for seed in results.seeds_of(row.system)] if row.system else []
        scores = results.folders(row).values()
        paths |= dict.fromkeys([run / file for run in runs for file in OF_RUN])
        paths |= dict.fromkeys([folder / file for folder in scores for file in (OF_ROW if row.system else OF_OUTPUT)])
        warnings += [run / file for run in runs for file in WARNINGS_OF_RUN]
        warnings += [folder / file for folder in scores for file in WARNINGS_OF_ROW]
    paths |= dict.fromkeys(path for path in warnings if path.is_file())
    with atomic_directory(results.layout.records(results.name)) as out:
        for path in paths:
            if not path.is_file():
                raise DataError(f"{path}: no such file; delete its folder and run the workflow again")
            copy = out / path.relative_to(results.layout.runs(results.name))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def read_log(run: Path) -> list[Json]:
    """Read the records of a training's log; raises DataError."""
    with fitting(run / "log.jsonl", "the log of a training", "run the training again"):
        log = [json.loads(line) for line in read_lines(run / "log.jsonl")]
    if not log:
        raise DataError(
            f"{run / 'log.jsonl'}: expected the log of a training, got none; delete it and run the workflow again"
        )
    return log


def train_nll(log: Sequence[Json], update: int, epoch: float) -> float | None:
    """Return the mean negative log-likelihood of the training text over the epoch before an update, in nats per piece.

    The value comes from the training itself: with dropout, without label smoothing, while the weights change. A record
    stands for the updates since the previous record. If no record falls into the epoch, the last record counts. None if
    there is no record.

    Args:
        log: the records of a training's log.
        update: the update at the end of the epoch.
        epoch: the number of epochs up to this update.
    """
    trained = [record for record in log if record["event"] == "train" and record["update"] <= update]
    since = [0, *(record["update"] for record in trained)]
    losses = [(r["epoch"], r["loss"], r["update"] - before) for r, before in zip(trained, since, strict=False)]
    recent = [loss for loss in losses if loss[0] > epoch - 1] or losses[-1:]
    weight = sum(updates for *_, updates in recent)
    return sum(loss * updates for _, loss, updates in recent) / weight if weight else None
