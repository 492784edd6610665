"""What building a table would do: what is there, what is missing, and how long it may take (``nmt check``)."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config.system import System
from nmt.corpora.catalogue import TRAIN_SAMPLE, fetch
from nmt.corpora.own import custom_parts
from nmt.plan.commands import CHECKSUMS
from nmt.plan.layout import SAMPLE, table_path
from nmt.plan.plan import Plan
from nmt.plan.systems import sees_pictures
from nmt.reproduce.estimate import Estimate, decoding, estimate, job_seconds, spoken
from nmt.reproduce.runs import Run
from nmt.system.errors import DataError
from nmt.system.lines import count_lines, read_lines
from nmt.system.workers import available_cores

START = 4.0
"""Seconds of Snakemake itself."""
OF_ROW, OF_TRAINING, OF_TABLE = 7, 5, 5
"""What is not estimated by itself, in starts of a job: a row's model, translation and scores with their bootstrap; a
training and its publishing; the table and its figures."""


def check(plan: Plan, table: str, cores: int | None = None) -> Iterator[str]:
    """Yield lines about a table.

    Args:
        plan: checked, with the table.
        table: its name.
        cores: those that the workflow will use; None: all.

    Raises:
        ConfigError, DataError: text or other systems' translations that the table needs are missing or faulty.
    """
    cores = cores or available_cores()
    runs = [Run(plan, table, *run) for run in plan.runs(table)]
    yield f"{table_path(table)}: {_count(len(plan.table(table).rows), 'row')}, {_count(len(runs), 'training')}"
    yield from _check_outputs(plan, table)
    estimates, unknown, total, starts = dict[str, Estimate](), list[str](), START, OF_TABLE
    for name in dict.fromkeys(run.name for run in runs):
        system = plan.system(table, name)
        if reason := _why_unknown(system):
            yield f"{name}: {reason}, so its time is not estimated"
            unknown.append(name)
            continue
        yield f"{name}: measuring a sample of its text and some updates takes less than a minute on a quiet machine …"
        found = estimates[name] = estimate(plan, system, cores)
        yield from _of_text(table, name, system, found)
        layout, pairs = plan.layout, system.by_pair
        stages = {"raw": list(map(layout.raw, pairs)), "cleaned": list(map(layout.clean, pairs)),
                  "subwords": [layout.subwords(system)], "encoded": [layout.encoded(system)]}  # fmt: skip
        missing = [stage for stage, folders in stages.items() if not all(Path(folder).exists() for folder in folders)]
        yield f"  to make: {', '.join(missing) or 'no text, all is there'}"
        total += found.text if missing else 0
        starts += len(missing)
    for run in runs:
        if run.name in estimates:
            seconds, rows, line = _run(run, estimates[run.name])
            total, starts = total + seconds, starts + rows * OF_ROW + OF_TRAINING
            yield line
    rest = starts * job_seconds()
    yield f"  starts of jobs, scoring, report and tracking: {spoken(rest)}"
    whole = f"without {', '.join(unknown)}" if unknown else "in all"
    yield f"{whole}: about {spoken(total + rest)} on {cores} of the cores here, if nothing else runs here"


def _why_unknown(system: System) -> str | None:
    """Return why the time of a system cannot be estimated from a sample of its text; None if it can."""
    if system.mixtures:
        return "it learns from translated text, which another model must write first"
    return "it sees pictures, whose features are not there yet" if sees_pictures(system) else None


def _check_outputs(plan: Plan, table: str) -> Iterator[str]:
    """Yield a line about each file of another system's translations; raises DataError if its lines are too many or few.

    Those of a sample of the training text are not counted, as the sample is drawn from cleaned text.
    """
    chosen = plan.table(table)
    for row in chosen.rows:
        test = chosen.test_of(row)
        if row.hypotheses and test != TRAIN_SAMPLE:
            system = plan.tested(table, chosen.text_system(row) or "", test, row.pair)
            lines, raw = sum(1 for _ in read_lines(row.hypotheses)), plan.layout.raw(system)
            made = raw / f"{test}.{system.target}"
            if not made.exists() or count_lines(made) != lines:  # an earlier run may have had another limit
                wanted = _lines_of(plan, system, test)
                if lines != wanted:
                    raise DataError(
                        f"{row.hypotheses}: expected a line for each of {wanted:,} sentences of {test} of "
                        f"{system.corpus}, got {lines:,}; line n must translate line n of the test set"
                    )
            yield f"row '{row.label}': {row.hypotheses} has {lines:,} lines, as many as {test}"


def _lines_of(plan: Plan, system: System, test: str) -> int:
    """The sentences of a test set, read from where its corpus comes from."""
    settings, custom = plan.settings, plan.settings.corpora.get(system.corpus)
    if custom and test != "valid":  # validation text may lose pairs to test text
        parts = custom_parts(system.corpus, custom, system.languages, settings.mirror, CHECKSUMS)[test]
        return sum(1 for _ in islice(chain.from_iterable(part.lines() for part in parts), settings.limit))
    with TemporaryDirectory() as scratch:
        raw, limit = Path(scratch, "raw"), settings.limit
        fetch(
            system.corpus, system.languages, raw, mirror=settings.mirror, limit=limit, custom=custom,
            checksums=CHECKSUMS,
        )  # fmt: skip
        return count_lines(raw / f"{test}.{system.target}")


def _of_text(table: str, name: str, system: System, found: Estimate) -> Iterator[str]:
    """Yield the sizes of a system's text, whether its vocabulary may be too large for it, and what is not counted."""
    sizes = ", ".join(f"{split} {count:,}" for split, count in found.pairs.items())
    yield f"{name}: {system.corpus}, {system.languages}: pairs: {sizes}; cleaning keeps about {found.kept:,}"
    if found.pieces < system.subwords.size:
        yield (
            f"  subwords.size: {system.subwords.size:,} pieces are too many for a sample of the text, and perhaps for "
            f"all of it; if the run says so, choose a smaller size: {found.pieces:,} fit the sample"
        )
    if system.alignments:
        yield "  its loss on the alignments is not counted"
    for model in dict.fromkeys("/".join(key) for scores in system.cleaning.scores for key in scores.scorers):
        yield f"  its text is scored by {model}, whose training is not counted"
    if system.initialise and system.initialise.system and system.initialise.parent[0] != table:
        yield f"  it starts from {system.initialise.system}, whose training is not counted"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _run(run: Run, found: Estimate) -> tuple[float, int, str]:
    """Return the seconds of a training and its rows, the number of rows to make, and a line about it."""
    trained = run.encoded.exists() and run.is_trained()
    rows = [row for folder, row in run.score_folders().items() if not (trained and (folder / "scores.json").exists())]
    translation = sum(decoding(found, _sentences(run, row.test or "", found), row.decoding.beam) for row in rows)
    training = 0.0 if trained else found.seconds["train"]
    about = "" if found.updates == run.system.training.updates else "about "
    what = "is trained" if trained else f"{about}{found.updates:,} updates at most, {spoken(training)}"
    line = (
        f"  {run.name} seed {run.seed}: {what}; {_count(len(rows), 'row')} to make, translations {spoken(translation)}"
    )
    return training + translation, len(rows), line


def _sentences(run: Run, test: str, found: Estimate) -> int:
    """The sentences of a row's test set; of another corpus's, as many as of validation text."""
    named = test or run.plan.table(run.table).tests[0]
    return SAMPLE if named == TRAIN_SAMPLE else found.pairs.get(named, found.pairs.get("valid", SAMPLE))
