"""Published tables: which they are, and which runs may replace them."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.config.decoding import Decoding
from nmt.config.system import System
from nmt.config.table import Row, Table
from nmt.plan.layout import Layout
from nmt.plan.systems import flatten, published_config
from nmt.system.errors import ConfigError
from nmt.system.files import read_json

SHOWN = 3
"""Differences that the message names."""


def check_replaceable(name: str, table: Table, layout: Layout, seeds: Sequence[int]) -> None:
    """Reject a trial that would replace a published table, or the trainings of a table of more text.

    A run may replace a published table if it makes all its rows again: the same systems, selections, decodings and test
    sets, on all lines, with at least the same seeds. It may have more rows. Other tables may only not be cut.

    Args:
        name: of the table.
        table: the table file.
        layout: of the results folder.
        seeds: of systems that name none.

    Raises:
        ConfigError: the run is a trial; the message says why, and what to do.
    """
    file = Path(f"{layout.table(name)}.json")
    if not file.is_file():
        return
    built = read_json(file)
    if is_published(file, layout.runs(name)):
        what, differences = "a published table by other results", list(_differences(table, layout, seeds, built))
    else:
        what, differences = "a table and its trainings by those of less text", list(_cut(layout, built))
    if differences:
        more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise ConfigError(
            f"{file}: this run would replace {what}: {'; '.join(differences[:SHOWN])}{more}. Write them to another "
            "folder: add results=trial to --config, or change results: in the settings. To replace the table after "
            f"all, delete {file}"
        )


def is_published(file: Path, runs: Path) -> bool:
    """Whether version control has a table; without version control, whether its runs are not here.

    Args:
        file: the table's JSON.
        runs: the folder of its runs.
    """
    if not file.is_file():
        return False
    command = ["git", "-C", str(file.parent), "ls-files", "--error-unmatch", file.name]
    try:
        code = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        code = 128
    return code == 0 if code in (0, 1) else not runs.exists()


def _cut(layout: Layout, built: dict[str, Any]) -> Iterator[str]:
    """Say that a run reads fewer lines than a table was made from."""
    before = built.get("limit")
    if layout.limit and (before is None or layout.limit < before):
        yield f"limit: {layout.limit}, before {before or 'without'}"


def _differences(table: Table, layout: Layout, seeds: Sequence[int], published: dict[str, Any]) -> Iterator[str]:
    """Say in which ways a run falls short of a published table's JSON."""
    if layout.limit and layout.limit != published.get("limit"):
        yield f"limit: {layout.limit}, published {published.get('limit') or 'without'}"
    for row in published.get("rows", []):
        if not row["quoted"] and not any(_is_same(row, other, table) for other in table.rows):
            yield f"row '{row['label']}': the table file has no such row"
    for name, built in published.get("systems", {}).items():
        if name in table.systems:
            given, before = table.seeds_of(name, seeds), [training["seed"] for training in built["trainings"]]
            if not set(before) <= set(given):
                yield f"seeds of {name}: {_listed(given)}, published {_listed(before)}"
            yield from (f"systems.{name}.{change}" for change in _changes(table.systems[name], built["config"]))


def _is_same(published: dict[str, Any], row: Row, table: Table) -> bool:
    """Whether a row makes what a published row shows."""
    file = str(row.hypotheses) if row.hypotheses else None
    same = (row.system, file, table.test_of(row))
    if same != (published["system"], published.get("hypotheses"), published["test"]):
        return False
    if file:  # of another system, so nothing is known of its making
        return True
    if (row.at, row.ensemble) != (published["at"], published.get("ensemble", False)):
        return False
    return row.decoding == Decoding.model_validate(published["decoding"])


def _changes(system: System, published: dict[str, str]) -> Iterator[str]:
    """Say which keys of a system have other values than a published configuration, which may lack newer keys."""
    given, chosen = published_config(system), flatten(system.non_defaults())
    for key, value in given.items():
        if (key in published or key in chosen) and published.get(key) != value:
            yield f"{key}: {value}, published {published.get(key, 'without')}"
    for key, value in published.items():
        if any(given.get(key.rsplit(".", depth)[0]) == "null" for depth in range(1, key.count(".") + 1)):
            yield f"{key}: without, published {value}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
