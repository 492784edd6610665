"""The help: every command below a heading, every option with its default, and no slow import."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from commands import run

from nmt.cli.group import CommandGroup, summary
from nmt.cli.main import SECTIONS, main


def contexts(parent: click.Context) -> Iterator[click.Context]:
    """The contexts of a group, its commands and theirs."""
    yield parent
    if isinstance(parent.command, click.Group):
        for name, command in parent.command.commands.items():
            yield from contexts(click.Context(command, parent, name))


CONTEXTS = list(contexts(click.Context(main, None, "nmt", **main.context_settings)))
each_command = pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)


def test_headings_follow_the_pipeline() -> None:
    assert list(SECTIONS) == ["Data", "Pictures", "Training", "Translation", "Scoring", "Tables", "Tools"]
    lines = run("--help")[1].splitlines()
    places = [lines.index(f"{heading}:") for heading in SECTIONS]
    assert places == sorted(places)


@each_command
def test_every_command_is_listed_once_with_its_whole_description(context: click.Context) -> None:
    if not isinstance(context.command, CommandGroup):
        return
    listed = [command for commands in context.command.sections.values() for command in commands]
    assert listed == list(context.command.commands.values())
    text = " ".join(context.get_help().split())
    assert all(f"{command.name} {summary(command)}" in text for command in listed) and "..." not in text[200:]


@each_command
def test_every_command_says_what_it_does_with_its_arguments(context: click.Context) -> None:
    assert summary(context.command).endswith(".")
    for argument in context.command.params:
        if isinstance(argument, click.Argument):
            assert argument.make_metavar(context).strip("[].") in (context.command.help or "")


@each_command
def test_every_option_has_help_and_shows_its_default(context: click.Context) -> None:
    for option in context.command.get_params(context):
        if isinstance(option, click.Option):
            assert option.help, option.name
            _, text = option.get_help_record(context) or ("", "")
            assert option.required or option.is_flag or "[default: " in text, option.name


@pytest.mark.integration
@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_help_waits_for_no_library(arguments: list[str]) -> None:
    code = (
        f"import atexit, sys; sys.argv = ['nmt', *{arguments}]; from nmt.cli.main import main\n"
        "slow = ('pydantic', 'yaml', 'torch', 'numpy', 'mlflow', 'matplotlib')\n"
        "atexit.register(lambda: print([name for name in slow if name in sys.modules]))\n"
        "main()"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("Usage: ") and output.endswith("\n[]\n")
