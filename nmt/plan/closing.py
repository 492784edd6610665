"""The last words of a workflow: the tables just built, and where to look at everything."""

from collections.abc import Iterable
from pathlib import Path

from nmt.config.workflow import Workflow
from nmt.plan.plan import Plan
from nmt.system.files import read_json


def requested_tables(settings: Workflow, targets: Iterable[str]) -> list[str]:
    """The tables that a run builds: those of the targets, else those of the settings; none for ``inputs_NAME``."""
    targets = list(targets)
    named = [name.removeprefix("table_") for name in targets if name.startswith("table_")]
    return named if named or any(name.startswith("inputs_") for name in targets) else settings.tables


def closing_words(plan: Plan, targets: Iterable[str]) -> str:
    """The tables just built, and where to look at figures, MLflow and a report."""
    results = plan.settings.results
    lines = [line for table in requested_tables(plan.settings, targets) for line in _of_table(plan, table)]
    lines += _of_store(results / "tracking.json")
    lines.append(f"report   nmt page {results} report.html   writes all tables and figures on one page")
    return "\n".join(lines)


def _of_table(plan: Plan, table: str) -> list[str]:
    page = plan.layout.table(table)
    markdown = Path(f"{page}.md")
    if not markdown.is_file():
        return []
    return [
        markdown.read_text(encoding="utf-8").split("\n## ")[0],  # without the sections on how it was made
        f"table    {page}.html   for a browser; .md, .csv and .json lie beside it",
        f"figures  {plan.layout.figures(table)}/",
    ]


def _of_store(tracking: Path) -> list[str]:
    if not tracking.is_file():
        return []
    results, uri = tracking.parent, read_json(tracking).get("uri")
    place = "" if results == Workflow.model_fields["results"].default else f" RESULTS={results}"
    command = f"make ui{place}" if Path("Makefile").is_file() else f"mlflow ui --backend-store-uri {uri}"
    return [f"MLflow   {uri}   look at it with: {command}"]
