"""Commands that write and complete the tables of results."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.options import COUNT, DEVICE, PATH, SEED, PositiveNumber, check_languages, load_settings
from nmt.system.errors import ConfigError

if TYPE_CHECKING:
    from nmt.plan.plan import Plan

tables_argument = click.argument("tables", nargs=-1, required=True)
config_file_option = click.option(
    "--config", "settings", type=PATH, default="config.yaml", help="File of the workflow's settings."
)
seeds_option = click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=SEED,
    show_default="the seeds of the settings",
    help="Seed of tables that name none themselves. Can be given several times.",
)


@click.command()
@click.argument("table", type=PATH)
@click.option(
    "--config",
    "settings",
    default="config.yaml",
    help="Settings of the workflow: YAML or JSON text, or a .yaml, .yml or .json file.",
)
@click.option(
    "--rewrite",
    "words_only",
    is_flag=True,
    help="Write the pages again from the table's JSON, with the caption, labels and notes of the table file. Reads no "
    "runs.",
)
def report(table: Path, settings: str, words_only: bool) -> None:
    """Write the results of the table file TABLE as Markdown, CSV, HTML and JSON, with figures."""
    from nmt.config.table import load_table
    from nmt.config.workflow import Workflow
    from nmt.plan.layout import Layout
    from nmt.plan.published import check_replaceable
    from nmt.report.rewrite import rewrite
    from nmt.report.write import report as write_report
    from nmt.system.locks import exclusive
    from nmt.system.warnings import recorded

    workflow = load_settings(Workflow, settings)
    layout = Layout(workflow.results, workflow.limit)
    page = layout.table(table.stem)
    with exclusive(page.with_name(f".{page.name}.lock"), page, keep=False):
        if words_only:
            return rewrite(table.stem, load_table(table), layout)
        check_replaceable(table.stem, load_table(table), layout, workflow.seeds)
        with recorded("report", layout.figures(table.stem)):
            write_report(table.stem, load_table(table), layout, workflow.seeds, workflow.images)


@click.command()
@click.argument("results", type=PATH)
@click.argument("out", type=PATH)
def page(results: Path, out: Path) -> None:
    """Write all tables and figures of the folder RESULTS: OUT is the folder of a site, or one page if it ends in .html.

    Both begin with a summary that can be searched, and need no network.
    """
    from nmt.report.pages import page as write_page

    write_page(results, out)
    click.echo(f"wrote {out if out.suffix == '.html' else out / 'index.html'}")


@click.command()
@click.argument("results", type=PATH)
@click.argument("page", type=PATH)
def overview(results: Path, page: Path) -> None:
    """Write published and own BLEU of all tables in the folder RESULTS between the marks of PAGE, a Markdown file."""
    from nmt.report.overview import overview as write_overview

    write_overview(results, page)


def _load_plan(
    tables: Sequence[str], settings: Path, seeds: Sequence[int], own_files: bool = False, **overrides: Any
) -> "Plan":
    """Load the plan of the named tables in workflow/tables; overrides that are set replace values of the settings."""
    from nmt.config import yaml
    from nmt.plan.load import check_readable
    from nmt.plan.plan import Plan

    check_readable(str(settings))
    if paths := [table for table in tables if Path(table).name != table or table.endswith(".yaml")]:
        name = Path(paths[0]).stem
        raise ConfigError(f"TABLE: expected the name of a table, such as {name}, got the path {paths[0]}")
    values = yaml.load_yaml(yaml.read_config(settings), str(settings)) | {"tables": list(dict.fromkeys(tables))}
    overrides["seeds"] = list(dict.fromkeys(seeds))
    values |= {key: value for key, value in overrides.items() if value}
    return Plan.load(values, str(settings), [f"table_{name}" for name in values["tables"]], own_files)


def _print_outcome(outcome: Mapping[str, Sequence[str]]) -> None:
    """Print one line for each kind of outcome: its name, and the runs."""
    width = max(map(len, outcome))
    for kind, runs in outcome.items():
        click.echo(f"{kind:<{width}}  {', '.join(runs) or '-'}")


@click.command()
@click.argument("table")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--languages", required=True, metavar="en-de", callback=check_languages, help="Source and target language."
)
@click.option("--valid", multiple=True, metavar="FILE", show_default="a part of FILES", help="Validation text.")
@click.option("--test", multiple=True, metavar="FILE", show_default="a part of FILES", help="Test text.")
@config_file_option
def new(
    table: str, files: tuple[str, ...], languages: str, valid: tuple[str, ...], test: tuple[str, ...], settings: Path
) -> None:
    """Look at your parallel text FILES, and write a first table TABLE with a corpus of this name.

    FILES is one file or address with both languages (.tsv, .csv, .tmx, .xlf, .jsonl, .parquet, .zip of Moses), or two
    files, source first; --valid and --test likewise, each given once or twice. The table goes to workflow/tables/, the
    corpus into the settings.
    """
    from nmt.plan.new_table import new_table

    for line in new_table(table, languages, files, valid, test, settings):
        click.echo(line)


@click.command()
@click.argument("table")
@config_file_option
@seeds_option
@click.option("--cores", type=COUNT, show_default="all", help="Cores of the build, as in snakemake --cores.")
def check(table: str, settings: Path, seeds: tuple[int, ...], cores: int | None) -> None:
    """Say what building TABLE would do, what is missing, and how long it may take.

    It prepares a sample of the text in a temporary folder and makes some updates of each training, for less than a
    minute each. The time is of this machine with nothing else running.
    """
    from nmt.plan.checks import check_tools
    from nmt.reproduce.check import check as check_table
    from nmt.system.warnings import recorded

    plan = _load_plan([table], settings, seeds, own_files=True)
    check_tools([plan.table(table)])
    with recorded("check", None):  # systems that share text say its faults once
        for line in check_table(plan, table, cores):
            click.echo(line)


@click.command()
@tables_argument
@config_file_option
@seeds_option
def restore(tables: tuple[str, ...], settings: Path, seeds: tuple[int, ...]) -> None:
    """Restore the runs of TABLES from results/records, so that only new systems are trained.

    The records hold logs, translations and scores, but no weights.
    """
    from nmt.reproduce.restore import STANDINGS
    from nmt.reproduce.restore import restore as restore_table

    plan = _load_plan(tables, settings, seeds)
    outcomes = [restore_table(plan, name) for name in plan.settings.tables]
    _print_outcome({kind: [run for outcome in outcomes for run in outcome[kind]] for kind in STANDINGS})


@click.command()
@tables_argument
@config_file_option
@click.option(
    "--minutes", type=PositiveNumber(), default=math.inf, show_default="no limit", help="Time budget in minutes."
)
@click.option("--at-once", type=COUNT, default=1, help="Trainings side by side; they share the cores and GPUs.")
@seeds_option
@click.option("--device", type=DEVICE, show_default="the device of the settings", help="Device of the trainings.")
def reproduce(
    tables: tuple[str, ...], settings: Path, minutes: float, at_once: int, seeds: tuple[int, ...], device: str | None
) -> None:
    """Train the missing systems of TABLES within a time budget and write the tables, without Snakemake.

    The cheapest training comes first. Run again, it resumes. The workflow takes the finished trainings as done.
    """
    from nmt.plan.checks import check_tools
    from nmt.plan.closing import requested_warnings, warning_lines
    from nmt.reproduce.budget import reproduce as reproduce_tables
    from nmt.reproduce.overlay import link_shared

    plan = _load_plan(tables, settings, seeds, device=device)
    check_tools(plan.tables[name] for name in plan.settings.tables)
    link_shared(plan, plan.settings.tables)
    outcome = reproduce_tables(plan, plan.settings.tables, minutes, at_once)
    _print_outcome(outcome)
    click.echo("".join(f"{line}\n" for line in warning_lines(requested_warnings(plan, []))), err=True, nl=False)
    if outcome["failed"]:
        raise SystemExit(1)
