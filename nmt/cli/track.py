"""Commands that feed MLflow."""

from pathlib import Path

import click

from nmt.cli.group import CommandGroup
from nmt.cli.options import OUTPUT, PATH, check_run_name, config_option, load_settings
from nmt.system.errors import ConfigError

tracking_option = click.option("--tracking", type=PATH, required=True, help="tracking.json of `nmt track prepare`.")
name_option = click.option(
    "--name", required=True, metavar="TABLE/SYSTEM", callback=check_run_name, help="Name of the run."
)


out_option = click.option(
    "--out", type=PATH, required=True, help="File that is written last: what was published where."
)


@click.command()
@config_option
@click.option(
    "--tables", multiple=True, type=PATH, show_default="none", help="A table file. Can be given several times."
)
@click.option("--out", type=OUTPUT, required=True, help="The file to write; its name is tracking.json.")
@click.option(
    "--later", is_flag=True, help="Jobs run on other machines: only `nmt track publish` writes to a store in a file."
)
def prepare(settings: str, tables: tuple[Path, ...], out: Path, later: bool) -> None:
    """Say where MLflow keeps runs, and what the tables are, in the file that the other commands take."""
    from nmt.config.table import load_table
    from nmt.config.workflow import Workflow
    from nmt.tracking.prepare import prepare as prepare_store

    if out.name != "tracking.json":
        raise ConfigError(f"--out: expected tracking.json in some folder, got {out}")
    workflow = load_settings(Workflow, settings)
    captions = {path.stem: load_table(path).caption for path in tables}
    prepare_store(workflow.tracking.uri, out.parent, captions, later)


@click.command()
@click.argument("run", type=PATH)
@tracking_option
@name_option
@click.option("--seed", type=int, required=True, help="Seed of the training.")
@click.option("--pid", type=int, required=True, help="Process id of the training.")
def follow(run: Path, tracking: Path, name: str, seed: int, pid: int) -> None:
    """Feed MLflow from the log of the training RUN while it runs."""
    from nmt.tracking.follow import follow as follow_training

    table, _, system = name.partition("/")
    follow_training(run, tracking, table, system, seed, pid)


@click.command()
@click.argument("run", type=PATH)
@tracking_option
@name_option
@click.option("--seed", type=int, required=True, help="Seed of the training.")
@out_option
def publish(run: Path, tracking: Path, name: str, seed: int, out: Path) -> None:
    """Complete the finished training RUN in MLflow, without doubles."""
    from nmt.system.files import write_json
    from nmt.system.warnings import recorded
    from nmt.tracking.publish import publish as publish_training

    table, _, system = name.partition("/")
    with recorded("track", out):
        write_json(out, publish_training(run, tracking, table, system, seed))


@click.command()
@click.argument("file", type=PATH)
@tracking_option
@click.option("--no-models", is_flag=True, help="Keep no copies of the rows' models, only their places and scores.")
@click.option(
    "--register",
    metavar="NAME",
    show_default="no model",
    help="Registered model that the best row's model becomes a version of.",
)
@out_option
def table(file: Path, tracking: Path, no_models: bool, register: str | None, out: Path) -> None:
    """Complete the runs of the built table FILE, results/tables/TABLE.json, in MLflow: one run per row."""
    from nmt.system.files import write_json
    from nmt.system.warnings import recorded
    from nmt.tracking.models import Models
    from nmt.tracking.table import publish_table
    from nmt.translation.pyfunc import write_pyfunc

    with recorded("track_table", out):
        write_json(out, publish_table(file, tracking, out, Models(write_pyfunc, not no_models, register)))


@click.group(cls=CommandGroup, sections={"Commands": [prepare, follow, publish, table]})
def track() -> None:
    """Feed MLflow: say where it is, follow a training, publish a finished run or table."""
