"""Restore runs from the records that `nmt.report.records` keeps, so that only new systems of a table are trained."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from nmt.config.table import Row
from nmt.plan.plan import Plan
from nmt.report.records import OF_ROW, OF_RUN, WARNINGS_OF_ROW, WARNINGS_OF_RUN, Results
from nmt.reproduce.runs import Run, lacks_inputs, say
from nmt.scoring.score import ENDINGS, compared_with
from nmt.system.files import atomic_directory, read_json, sha256

STANDINGS = ("restored", "there", "other", "lacking", "left out")


def restore(plan: Plan, table: str) -> dict[str, list[str]]:
    """Restore the runs of a table whose records hold everything that the table needs.

    Records hold no weights. References and sources are copied from the corpora.

    Args:
        plan: the settings and tables.
        table: a name.

    Returns:
        The names of the runs by their standing: ``restored``; ``there``: already begun or done, and not touched;
        ``other``: the records are of another configuration, text or training; ``lacking``: the records lack something
        that the table needs, such as the weights; ``left out``: a text or features that the run needs are missing.

    Raises:
        DataError: a record is damaged.
    """
    outcome: dict[str, list[str]] = {standing: [] for standing in STANDINGS}
    models: list[tuple[str, int | str]] = [*plan.runs(table), *plan.ensembles(table)]
    runs = [Run(plan, table, *model) for model in models]
    standings: dict[Run, str] = {}
    for system in dict.fromkeys(run.name for run in runs):
        by_seed = {str(run.seed): run for run in runs if run.name == system}
        standings |= {by_seed[seed]: standing for seed, standing in _standings(by_seed).items()}
    _keep_parents(standings)
    for run, standing in standings.items():
        if standing == "restored":
            _restore_run(run)
        outcome[standing].append(str(run))
    return outcome


def _keep_parents(standings: dict[Run, str]) -> None:
    """Restore a training and those that start from it together or not at all, because those need its weights."""
    by_name, present = {str(run): run for run in standings}, ("restored", "there")
    families = [(run, by_name[str(run.parent)]) for run in standings if run.parent and str(run.parent) in by_name]
    changed = True
    while changed:
        changed = False
        for pair in families:
            if not all(standings[run] in present for run in pair):
                lost = [run for run in pair if standings[run] == "restored"]
                standings |= dict.fromkeys(lost, "lacking")
                changed = changed or bool(lost)


def _standings(runs: dict[str, Run]) -> dict[str, str]:
    """The standings of a system's runs, by seed; an ensemble and its members are restored together or not at all."""
    standings = {seed: _standing(run) for seed, run in runs.items()}
    for seed in [seed for seed, run in runs.items() if run.members]:
        members = seed.split("-")
        if standings[seed] == "restored" and not all(
            _matches_record(runs[member], standings[member]) for member in members
        ):
            standings[seed] = "other"
        if standings[seed] not in ("restored", "there"):  # it needs the weights of its members
            standings |= {member: "lacking" for member in members if standings[member] == "restored"}
    return standings


def _standing(run: Run) -> str:
    """The standing of one run, whatever ensemble it is in."""
    if lacks_inputs(run):
        return "left out"
    if run.folder.is_dir() and any(path.suffix != ".lock" for path in run.folder.iterdir()):
        return "there"
    if not all(path.is_file() for path in _records(run).values()) or _lacks_metrics(run):
        return "lacking"
    same_training = run.members or run.matches(_record(run, run.folder / OF_RUN[0]))
    return "restored" if same_training and _has_same_texts(run) else "other"


def _matches_record(run: Run, standing: str) -> bool:
    """Whether a member of an ensemble is, or will be, the training of the records."""
    training = run.folder / OF_RUN[0]
    return standing == "restored" or (training.is_file() and sha256(training) == sha256(_record(run, training)))


def _lacks_metrics(run: Run) -> bool:
    """Whether the table has a metric that the records lack."""
    return any(run.lacks_metrics(_record(run, folder / "scores.json")) for folder in run.score_folders())


def _record(run: Run, path: Path) -> Path:
    """The record of a file of a run."""
    return run.layout.record(run.table, path)


def _records(run: Run) -> dict[Path, Path]:
    """The files of a run that have records, each with its record."""
    folders, table, seeds = run.score_folders(), run.plan.table(run.table), run.plan.settings.seeds
    training = [] if run.members else [run.folder / file for file in OF_RUN]
    attention = [path for path in Results(run.table, table, run.layout, seeds).attended() if path.parent in folders]
    rows = [folder / file for folder in folders for file in OF_ROW]
    return {path: _record(run, path) for path in (*training, *attention, *rows)}


def _warnings(run: Run) -> dict[Path, Path]:
    """The warnings of a run that have records, each with its record."""
    paths = [] if run.members else [run.folder / file for file in WARNINGS_OF_RUN]
    paths += [folder / file for folder in run.score_folders() for file in WARNINGS_OF_ROW]
    return {path: _record(run, path) for path in paths if _record(run, path).is_file()}


def _references(run: Run, row: Row) -> dict[str, Path]:
    """The texts that a row's translations are compared with, by the name of their copy in the score folder."""
    return compared_with(*run.texts(row), run.test(row), *run.tested(row).languages.split("-"))


def _has_same_texts(run: Run) -> bool:
    """Whether the test sets are still those of the records; names each text that differs on standard error."""
    texts = [text for folder, row in run.score_folders().items() for text in _recorded_texts(run, folder, row)]
    return not [text for text, sha in texts if not _is_same(run, text, sha)]


def _recorded_texts(run: Run, folder: Path, row: Row) -> Iterator[tuple[Path, str]]:
    """The texts that a row is made from or compared with, each with the checksum in the records."""
    references = _references(run, row)
    for protocol, sha in read_json(_record(run, folder / "scores.json"))["references_sha256"].items():
        yield references[f"references.{ENDINGS[protocol]}"], sha
    source = run.texts(row)[1] / f"{run.test(row)}.{run.tested(row).source}"
    yield source, read_json(_record(run, folder / "decoding.json"))["source_sha256"]


def _is_same(run: Run, text: Path, recorded: str) -> bool:
    if (checksum := sha256(text)) != recorded:
        say(
            f"{run}: {text} differs from the text of the records: sha256 {checksum[:12]}…, recorded {recorded[:12]}…; "
            "the corpus or its cleaning has changed, so train this run again"
        )
    return checksum == recorded


def _restore_run(run: Run) -> None:
    """Copy the records of a run and the texts of its rows to its folder, all or nothing."""
    with atomic_directory(run.folder) as out:
        copies = [(record, path) for path, record in (_records(run) | _warnings(run)).items()]
        for folder, row in run.score_folders().items():
            copies += [(text, folder / file) for file, text in _references(run, row).items()]
        for source, path in copies:
            copy = out / path.relative_to(run.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
