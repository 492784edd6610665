"""Runs put back from what `nmt.report.records` keeps of them, so that only what is new in a table is trained."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from nmt.config.table import Row
from nmt.plan.plan import Plan
from nmt.report.records import OF_ROW, OF_RUN, attended
from nmt.reproduce.budget import lacks
from nmt.reproduce.runs import Run
from nmt.scoring.score import ENDINGS, compared_with
from nmt.system.files import atomic_directory, read_json, sha256

STANDINGS = ("restored", "there", "other", "lacking", "left out")


def restore(plan: Plan, table: str) -> dict[str, list[str]]:
    """Put back the runs of a table whose records are all that the table needs of them.

    Weights are not kept. References and sources are copied from the corpora.

    Args:
        plan: the settings and tables.
        table: a name.

    Returns:
        The names of the runs by what became of them: ``restored``; ``there`` before, begun or done, and left alone;
        ``other``, kept of another configuration, text or training; ``lacking``, with something not kept that the table
        needs, be it the weights; ``left out``, because a text or features that they need are not there.

    Raises:
        DataError: a record is damaged.
    """
    found: dict[str, list[str]] = {standing: [] for standing in STANDINGS}
    models: list[tuple[str, int | str]] = [*plan.runs(table), *plan.ensembles(table)]
    every = [Run(plan, table, *model) for model in models]
    for system in dict.fromkeys(run.name for run in every):
        runs = {str(run.seed): run for run in every if run.name == system}
        for seed, standing in _standings(runs).items():
            if standing == "restored":
                _put_back(runs[seed])
            found[standing].append(str(runs[seed]))
    return found


def _standings(runs: dict[str, Run]) -> dict[str, str]:
    """What becomes of a system's runs, by seed; an ensemble stands only with its members, and they with it."""
    found = {seed: _standing(run) for seed, run in runs.items()}
    for seed in [seed for seed, run in runs.items() if run.members]:
        members = seed.split("-")
        if found[seed] == "restored" and not all(_as_kept(runs[member], found[member]) for member in members):
            found[seed] = "other"
        if found[seed] not in ("restored", "there"):  # it takes their weights
            found |= {member: "lacking" for member in members if found[member] == "restored"}
    return found


def _standing(run: Run) -> str:
    """What becomes of a run taken alone."""
    if lacks(run):
        return "left out"
    if run.folder.is_dir() and any(path.suffix != ".lock" for path in run.folder.iterdir()):
        return "there"
    if not all(path.is_file() for path in _kept(run).values()) or _needs_more(run):
        return "lacking"
    asked = run.members or run.made(_record(run, run.folder / OF_RUN[0]))
    return "restored" if asked and _of_these_texts(run) else "other"


def _as_kept(run: Run, standing: str) -> bool:
    """Whether a member of an ensemble is, or will be, the training that the records are of."""
    made = run.folder / OF_RUN[0]
    return standing == "restored" or (made.is_file() and sha256(made) == sha256(_record(run, made)))


def _needs_more(run: Run) -> bool:
    """Whether the table has a metric that the records have nothing for."""
    return any(run.unscored(_record(run, folder / "scores.json")) for folder in run.scores())


def _record(run: Run, path: Path) -> Path:
    """Where a file of a run is kept."""
    return run.layout.record(run.table, path)


def _kept(run: Run) -> dict[Path, Path]:
    """The files of a run that are kept, each with its record."""
    trained = [] if run.members else [run.folder / file for file in OF_RUN]
    table, seeds = run.plan.tables[run.table], run.plan.settings.seeds
    drawn = [path for path in attended(run.table, table, run.layout, seeds) if path.parent in run.scores()]
    paths = [*trained, *drawn, *(folder / file for folder in run.scores() for file in OF_ROW)]
    return {path: _record(run, path) for path in paths}


def _compared_with(run: Run, row: Row) -> dict[str, Path]:
    """The texts that the translations of a row are compared with, by the name of their copy beside them."""
    return compared_with(*run.texts(row), run.test(row), *run.system.languages.split("-"))


def _of_these_texts(run: Run) -> bool:
    """Whether the records are of the test sets as they are now; says of each text that is another."""
    same = [_is(text, sha, run) for folder, row in run.scores().items() for text, sha in _texts(run, folder, row)]
    return all(same)


def _texts(run: Run, folder: Path, row: Row) -> Iterator[tuple[Path, str]]:
    """The texts that a row's translations are made from and compared with, each with the checksum in the records."""
    there = _compared_with(run, row)
    for protocol, sha in read_json(_record(run, folder / "scores.json"))["references_sha256"].items():
        yield there[f"references.{ENDINGS[protocol]}"], sha
    source = run.texts(row)[1] / f"{run.test(row)}.{run.system.source}"
    yield source, read_json(_record(run, folder / "decoding.json"))["source_sha256"]


def _is(text: Path, recorded: str, run: Run) -> bool:
    if (got := sha256(text)) != recorded:
        sys.stderr.write(
            f"{run}: {text} is another than the records are of, sha256 {recorded[:12]}…, got {got[:12]}…; the corpus "
            "or its cleaning has changed since, and the run is to be trained again\n"
        )
    return got == recorded


def _put_back(run: Run) -> None:
    with atomic_directory(run.folder) as out:
        copies = [(kept, path) for path, kept in _kept(run).items()]
        for folder, row in run.scores().items():
            copies += [(text, folder / file) for file, text in _compared_with(run, row).items()]
        for text, path in copies:
            copy = out / path.relative_to(run.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(text, copy)
