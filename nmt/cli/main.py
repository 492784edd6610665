"""The command line: one command for each stage of the pipeline, and the tools that people use by hand.

Each command imports what it needs only when it runs, so that `nmt --help` is fast.
"""

import os
from typing import Any

import click

from nmt.cli import alignment, data, pictures, scoring, tables, tools, track, training, translation
from nmt.cli.errors import explain
from nmt.cli.group import CommandGroup
from nmt.system.errors import ConfigError, printable
from nmt.system.interrupt import Interrupted
from nmt.system.platforms.supported import refusal, use_utf8

SPINS = "5000"
"""Rounds that a thread of PyTorch waits actively for the others before it sleeps.

On a busy machine, GCC's default of 300,000 takes the cores that the others need.
"""

SECTIONS = {
    "Data": [
        data.download,
        data.mix,
        data.score_pairs,
        data.clean,
        data.sample,
        data.subwords,
        data.inherit_subwords,
        data.encode,
        data.word_vectors,
    ],
    "Pictures": [pictures.draw, pictures.features, pictures.neighbours, pictures.lsa, pictures.pseudo_regions],
    "Training": [training.train, training.average, training.ensemble, training.keep_state],
    "Translation": [
        translation.decode,
        translation.translate_text,
        translation.translate,
        translation.logprob,
        alignment.align,
        alignment.attention,
    ],
    "Scoring": [scoring.score, scoring.compare, scoring.comet, scoring.comet_environment],
    "Tables": [tables.new, tables.check, tables.report, tables.page, tables.overview, tables.restore, tables.reproduce],
    "Tools": [track.track, tools.serve, tools.import_model, tools.export, tools.card, tools.schemas, tools.doctor],
}


class Main(CommandGroup):
    """Shows an error that the user can fix as one message, and ends with a non-zero exit code."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments; raises ConfigError if it does not work on this system."""
        name, command, rest = super().resolve_command(ctx, args)
        if problem := refusal(name or ""):
            raise ConfigError(problem)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        use_utf8()
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when PyTorch is imported
        try:
            return super().invoke(ctx)
        except Interrupted as interruption:
            click.echo(f"nmt: {interruption}; run the same command again to resume", err=True)
            raise SystemExit(interruption.exit_code) from None
        except Exception as error:
            if (message := explain(error)) is None:
                raise
            click.echo(f"nmt: {printable(message)}", err=True)
            raise SystemExit(1) from None


VERSION_HELP = "Show version and commit, and exit."


def show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print version and commit if they are asked for, and end."""
    if asked:
        from nmt.system.platforms.version import long_version

        click.echo(long_version())
        ctx.exit()


@click.group(
    cls=Main,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help=VERSION_HELP)
def main() -> None:
    """Neural machine translation, one command for each stage of the pipeline.

    A stage reads and writes the files that its arguments name.

    The options of one command: nmt COMMAND --help
    """
