"""The committed reference is what the code says now, and says it of everything."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from pydantic import BaseModel

from nmt.cli.main import main
from nmt.config.cluster import Cluster
from nmt.config.system import System
from nmt.config.table import TableFile
from nmt.config.workflow import Workflow

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["configuration", "commands"])
def test_committed_page_is_up_to_date(page: str, generate: ModuleType) -> None:
    committed = (REFERENCE / f"{page}.md").read_text(encoding="utf-8")
    assert committed == getattr(generate, page)(), "run: make reference"


def groups() -> Iterator[type[BaseModel]]:
    """Every model of the configuration that a user's file can reach, found by the types alone."""
    waiting: list[type[BaseModel]] = [Workflow, TableFile, System, Cluster]
    known = set(waiting)
    while waiting:
        model = waiting.pop()
        yield model
        types = str([field.annotation for field in model.model_fields.values()])
        for name in re.findall(r"nmt\.config\.(?:\w+\.)+(\w+)", types):
            inner = next((each for each in subclasses(BaseModel) if each.__name__ == name), None)
            if inner and inner not in known:
                known.add(inner)
                waiting.append(inner)


def subclasses(model: type) -> Iterator[type]:
    for each in model.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_key_has_a_row_and_a_description() -> None:
    text = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| (.+) \|$", text, re.MULTILINE)
    found = list(groups())
    assert len(found) > 20
    assert sorted(key for key, _ in rows) == sorted(key for model in found for key in model.model_fields)
    assert [key for key, meaning in rows if len(meaning) < 3] == []


def test_every_command_and_option_has_a_section_and_a_description() -> None:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `nmt(.*?)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    found = dict(commands(main, ""))
    assert sections.keys() == found.keys()
    for name, command in found.items():
        assert command.help and len(command.help) > 10, name
        rows = re.findall(r"^\| (.+?) \| .* \| .* \| (.*) \|$", sections[name], re.MULTILINE)[2:]
        options = [each for each in command.params if isinstance(each, click.Option)]
        names = [", ".join(f"`{opt}`" for opt in each.opts + each.secondary_opts) for each in options]
        assert [row[0] for row in rows] == names, name
        assert all(meaning for _, meaning in rows), name


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{name} {inner}")
