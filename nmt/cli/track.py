"""Commands that feed MLflow."""

import re
from pathlib import Path

import click

from nmt.cli.group import CommandGroup
from nmt.cli.options import PATH, check_run_name, config_option, load_settings
from nmt.system.errors import ConfigError

tracking_option = click.option("--tracking", type=PATH, required=True, help="tracking.json of `nmt track prepare`.")
name_option = click.option(
    "--name", required=True, metavar="TABLE/SYSTEM", callback=check_run_name, help="Name of the run."
)


def check_seeds(_: click.Context, __: click.Parameter, value: str) -> str:
    """Check the seed of a training, or those of an ensemble; raises ConfigError."""
    if not re.fullmatch(r"\d+(-\d+)*", value):
        raise ConfigError(f"--seed: expected a seed, or those of an ensemble, e.g. 1-2-3, got '{value}'")
    return value


@click.command()
@config_option
@click.option(
    "--tables", multiple=True, type=PATH, show_default="none", help="A table file. Can be given several times."
)
@click.option("--out", type=PATH, required=True, help="The file to write; its name is tracking.json.")
@click.option(
    "--later", is_flag=True, help="Jobs run on other machines: only `nmt track publish` writes to a store in a file."
)
def prepare(settings: str, tables: tuple[Path, ...], out: Path, later: bool) -> None:
    """Create the store and one experiment per table, before several jobs run at the same time."""
    from nmt.config.table import load_table
    from nmt.config.workflow import Workflow
    from nmt.tracking.prepare import prepare as prepare_store

    if out.name != "tracking.json":
        raise ConfigError(f"--out: expected tracking.json in some folder, got {out}")
    workflow = load_settings(Workflow, settings)
    experiments = {path.stem: load_table(path) for path in tables}
    prepare_store(workflow.tracking.uri, out.parent, experiments, workflow.seeds, later)


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
@click.argument("scores", type=PATH, nargs=-1)
@tracking_option
@name_option
@click.option(
    "--seed", required=True, metavar="1", callback=check_seeds, help="Seed; all seeds of an ensemble, e.g. 1-2-3."
)
@click.option(
    "--figures",
    type=PATH,
    show_default="no figures",
    help="Folder of the table's figures, which are kept with the run of a training.",
)
@click.option("--out", type=PATH, required=True, help="File that is written last: what was published where.")
def publish(
    run: Path, scores: tuple[Path, ...], tracking: Path, name: str, seed: str, figures: Path | None, out: Path
) -> None:
    """Complete the finished training or ensemble RUN in MLflow, without doubles; SCORES are its score folders."""
    from nmt.system.files import write_json
    from nmt.system.warnings import recorded
    from nmt.tracking.publish import publish as publish_training
    from nmt.tracking.publish import publish_ensemble

    table, _, system = name.partition("/")
    with recorded("track", out):
        if "-" in seed:
            published = publish_ensemble(run, tracking, table, system, seed, list(scores))
        else:
            images = sorted(figures.glob("*.png")) if figures else []
            published = publish_training(run, tracking, table, system, int(seed), list(scores), images)
        write_json(out, published)


@click.group(cls=CommandGroup, sections={"Commands": [prepare, follow, publish]})
def track() -> None:
    """Feed MLflow: create the store, follow a training, publish a finished run."""
