"""The last words of a workflow: the tables just built, where to look at everything, and all warnings."""

import re
import shlex
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from nmt.config.workflow import Workflow
from nmt.plan.plan import Plan
from nmt.plan.warned import table_warnings
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json, sqlite_file
from nmt.system.warnings import StageWarning


def requested_tables(settings: Workflow, targets: Iterable[str], kinds: Sequence[str] = ("table",)) -> list[str]:
    """The tables of the targets ``KIND_NAME`` of some kinds; those of the settings, if no target names a table.

    ``table_NAME`` builds a table, ``comet_NAME`` makes only the scores of its rows, and ``inputs_NAME`` only what these
    are made from.
    """
    named = [(kind, name) for kind, _, name in (target.partition("_") for target in targets) if name]
    return [name for kind, name in named if kind in kinds] if named else settings.tables


def closing_words(plan: Plan, targets: Iterable[str], here: Path) -> str:
    """The tables just built, and where to look at figures, MLflow and a report.

    Args:
        plan: of the workflow.
        targets: of the command line.
        here: the folder that Snakemake was started in, from which paths are given.
    """
    tables, results = requested_tables(plan.settings, targets), seen_from(here, plan.settings.results)
    lines = [line for table in tables for line in _of_table(plan, table, here)]
    lines += _of_stores(plan, tables, here)
    if any(plan.settings.results.glob("tables/*.json")):  # after inputs_NAME there may be none yet
        lines.append(f"report   nmt page {results} report.html   writes all tables and figures on one page")
    return "\n".join(lines)


def requested_warnings(plan: Plan, targets: Sequence[str]) -> list[StageWarning]:
    """The distinct warnings of everything that the requested tables, or their inputs, are made from.

    A fault of one corpus is in its raw text for each pair of languages; only the first of such warnings is returned.
    """
    tables = [target.partition("_")[2] for target in targets] or plan.settings.tables
    first = dict[StageWarning, StageWarning]()
    for warning in (warning for table in tables for warning in table_warnings(plan, table)):
        first.setdefault(replace(warning, file=_without_pair(warning.file)), warning)
    return list(first.values())


def _without_pair(file: str) -> str:
    """The path of a file of raw text, ``corpora/NAME/en-de/raw/FILE``, without its pair of languages."""
    return re.sub(r"(/corpora/[^/]+/)[^/]+(/raw/[^/]+)$", r"\1\2", f"/{file}")


def warning_lines(warnings: Iterable[StageWarning]) -> list[str]:
    """One line for each warning: file, count, and what to do."""
    return [f"warning  {warning}" for warning in warnings]


def check_strict(settings: Workflow, warnings: Sequence[StageWarning]) -> None:
    """Raise DataError if there are warnings and the settings forbid them."""
    if settings.strict and warnings:
        raise DataError(
            f"strict: true: expected results without warnings, got the {len(warnings)} above; do what they say and run "
            "again, or accept them with strict: false"
        )


def forget_failed(plan: Plan, targets: Iterable[str]) -> None:
    """Delete the markers of runs that could not be published, so that the next workflow tries again."""
    for table in requested_tables(plan.settings, targets):
        for marker in map(Path, plan.markers(table)):
            if _status(marker).get("status") == "failed":
                marker.unlink()


def seen_from(here: Path, path: Path) -> str:
    """A path as a shell in a folder understands it: relative if it is below the folder."""
    there = path.absolute()
    return shlex.quote(str(there.relative_to(here) if there.is_relative_to(here) else there))


def _of_table(plan: Plan, table: str, here: Path) -> list[str]:
    page = plan.layout.table(table)
    markdown = Path(f"{page}.md")
    if not markdown.is_file():
        return []
    return [
        markdown.read_text(encoding="utf-8").split("\n## ")[0],  # without the sections on how it was made
        f"table    {seen_from(here, Path(f'{page}.html'))}   for a browser; .md, .csv and .json lie beside it",
        f"figures  {seen_from(here, plan.layout.figures(table))}",
    ]


def _of_stores(plan: Plan, tables: Iterable[str], here: Path) -> list[str]:
    """One line for each MLflow store that has runs of the tables, and one for each experiment there."""
    markers = (Path(plan.layout.run(table, *run), "tracked.json") for table in tables for run in plan.runs(table))
    records = (_in_place(_status(marker), plan.settings.results) for marker in markers)
    published = [record for record in records if _is_published(record)]
    lines = []
    for uri in dict.fromkeys(record["uri"] for record in published):
        is_server = uri.startswith("http")
        look = "" if is_server else f"   look at it with: {_viewer(plan.settings.results, uri, here)}"
        lines.append(f"MLflow   {uri}{look}")
        server = uri.rstrip("/") if is_server else "http://127.0.0.1:5000"
        experiments = dict.fromkeys(str(record["experiment"]) for record in published if record["uri"] == uri)
        lines += [f"         {server}/#/experiments/{e}/runs?workflowType=machine_learning" for e in experiments]
    return lines


def _viewer(results: Path, uri: str, here: Path) -> str:
    """The command that shows a store; `make ui` shows the one that the results folder names."""
    folder, makefile = seen_from(here, results), here / "Makefile"
    place = "" if folder == str(Workflow.model_fields["results"].default) else f" RESULTS={folder}"
    has_target = makefile.is_file() and "\nui:" in makefile.read_text(encoding="utf-8", errors="replace")
    is_current = _status(results / "tracking.json").get("uri") == uri
    return f"make ui{place}" if is_current and has_target else f"mlflow ui --backend-store-uri {shlex.quote(uri)}"


def _in_place(record: Json, results: Path) -> Json:
    """A marker with the place of its store now, if the store has moved with the results folder."""
    store = sqlite_file(str(record.get("uri")))
    if store is None or store.exists() or not (moved := results.absolute() / store.name).is_file():
        return record
    return record | {"uri": f"sqlite:///{moved}"}


def _is_published(record: Json) -> bool:
    """Whether a marker says that a run was published, and its store, if it is a file, still has the run."""
    store = sqlite_file(str(record.get("uri")))
    if record.get("status") != "published" or store is None:
        return record.get("status") == "published"
    uri = store.absolute().as_uri()
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{uri}?mode=ro", uri=True)) as database:
        query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
        return database.execute(query, [record["run"]]).fetchone() is not None
    return False


def _status(file: Path) -> Json:
    """What a marker of a run or ``tracking.json`` says; empty if there is none."""
    return dict(read_json(file)) if file.is_file() else {}
