"""A click group whose help lists its commands under headings."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import click


class CommandGroup(click.Group):
    """A group whose help shows the whole first paragraph of each command's help, under headings.

    Args:
        sections: the commands under each heading, both in the order of the help.
        attributes: passed to `click.Group`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[click.Command]], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.sections = sections
        for commands in sections.values():
            for command in commands:
                self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading."""
        width = max(map(len, self.commands))
        for heading, commands in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{command.name:{width}}", summary(command)) for command in commands])


def summary(command: click.Command) -> str:
    """The first paragraph of a command's help, as one line."""
    return " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
