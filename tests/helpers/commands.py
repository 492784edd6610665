"""The command line, run in this process."""

import click
from click.testing import CliRunner

from nmt.cli.main import main


def run(*arguments: object, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=text)
    return result.exit_code, result.output


def parse(words: list[str]) -> None:
    """Have click read a command's words, without running it."""
    group: click.Command = main
    with click.Context(main) as context:
        while isinstance(group, click.Group):
            name = words.pop(0)
            chosen = group.get_command(context, name)
            assert chosen, f"nmt {name}: no such command"
            group = chosen
        if not {"--help", "-h"} & set(words):
            group.make_context(group.name, words)
