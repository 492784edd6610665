"""What a table was made of, small enough to be kept beside it when the runs are gone: logs, translations and scores."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.config import Row, System, Table
from nmt.corpora import holding
from nmt.errors import DataError
from nmt.files import atomic_directory, read_json, sha256
from nmt.layout import Layout
from nmt.scoring.score import ENDINGS

OF_RUN = ("training.json", "log.jsonl")
# In the order that they came to be, which the workflow goes by; references are not ours to pass on.
OF_ROW = ("decoding.json", "hypotheses.tok", "hypotheses.detok", "scores.json")


@dataclass
class _Run:
    """A training, or an ensemble of several, with the folders of scores in it that a table asks for."""

    folder: Path
    system: System
    trained: bool
    scores: dict[Path, Row] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """What is kept of it."""
        of_run = [self.folder / file for file in OF_RUN] if self.trained else []
        return [*of_run, *(folder / file for folder in self.scores for file in OF_ROW)]


def keep(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> None:
    """Copy them from a table's runs, to the same places below `Layout.records`, whole or not at all.

    Raises:
        DataError: a file is missing.
    """
    with atomic_directory(layout.records(name)) as out:
        for run in _runs(name, table, layout, seeds):
            for path in run.files:
                if not path.is_file():
                    raise DataError(f"{path}: no such file; delete its folder and run the workflow again")
                _copy(path, out / path.relative_to(layout.runs(name)))


def restore(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> dict[str, list[str]]:
    """Put back as runs what `keep` kept of them, so that a table gets more seeds without training all again.

    Weights are not kept: whatever needs them, such as another search, takes the training again. References and sources
    are copied from the corpora.

    Args:
        name: of the table.
        table: its systems and rows.
        layout: where results are.
        seeds: of the systems that name none.

    Returns:
        The runs, ``SYSTEM/seedN``, by what became of them: ``restored``; ``there`` already, left as they were;
        ``other``, trained with another configuration or text than the table asks for; ``lacking``, not kept whole.

    Raises:
        DataError: encoded text or a corpus is missing, or is not the one that was scored against.
    """
    found: dict[str, list[str]] = {"restored": [], "there": [], "other": [], "lacking": []}
    for run in _runs(name, table, layout, seeds):
        kept = {path: layout.records(name) / path.relative_to(layout.runs(name)) for path in run.files}
        standing = _standing(run, kept, layout)
        if standing == "restored":
            _put_back(run, kept, table, layout)
        found[standing].append(f"{run.folder.parent.name}/{run.folder.name}")
    return found


def _runs(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> list[_Run]:
    runs: dict[Path, _Run] = {}

    def run(system: str, model: int | str) -> _Run:
        folder = layout.run(name, system, model)
        return runs.setdefault(folder, _Run(folder, table.systems[system], isinstance(model, int)))

    for row in table.rows:
        if row.system:
            for seed in table.seeds_of(row.system, seeds):
                run(row.system, seed)
            for model in table.models_of(row, seeds):
                run(row.system, model).scores[layout.scores(name, row, table.test_of(row), model)] = row
    return list(runs.values())


def _standing(run: _Run, kept: dict[Path, Path], layout: Layout) -> str:
    """What becomes of a run, in the words of `restore`."""
    from nmt.runs import as_asked  # brings torch, which a report can do without

    if run.folder.exists():
        return "there"
    if not all(path.is_file() for path in kept.values()):
        return "lacking"
    training = kept.get(run.folder / "training.json")
    return "restored" if training is None or as_asked(training, run.system, layout.encoded(run.system)) else "other"


def _put_back(run: _Run, kept: dict[Path, Path], table: Table, layout: Layout) -> None:
    with atomic_directory(run.folder) as out:
        for path, copy in kept.items():
            _copy(copy, out / path.relative_to(run.folder))
        for folder, row in run.scores.items():
            for path, text in _texts(out / folder.relative_to(run.folder), table.test_of(row), run.system, layout):
                _copy(text, path)


def _texts(folder: Path, test: str, system: System, layout: Layout) -> list[tuple[Path, Path]]:
    """The texts that belong beside a row's translations, each with the corpus's file that it is a copy of."""
    held = holding(system, test)
    raw, clean = layout.texts(held, test)
    references, scored = {"tok": clean, "detok": raw}, read_json(folder / "scores.json")["references_sha256"]
    for protocol, ending in ENDINGS.items():
        text = references[ending] / f"{test}.{held.target}"
        if not text.is_file():
            raise DataError(f"{text}: no such file; make the table's texts first, as docs/reproduce.md says")
        if (got := sha256(text)) != scored[protocol]:
            raise DataError(
                f"{text}: expected the text that the records were scored against, sha256 {scored[protocol]}, got "
                f"{got}; the records are of another version of the corpus or its cleaning"
            )
    pairs = [(f"references.{ending}", base / f"{test}.{held.target}") for ending, base in references.items()]
    return [(folder / file, text) for file, text in [*pairs, ("sources.txt", raw / f"{test}.{held.source}")]]


def _copy(path: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copy)
