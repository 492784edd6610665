"""A trial does not replace a published table, or trainings of more text."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from nmt.config.table import Table, load_table
from nmt.plan.layout import Layout
from nmt.plan.published import check_replaceable, is_published
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_json

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "workflow" / "tables" / "copy_task.yaml"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a published table and without runs, outside version control."""
    (tmp_path / "tables").mkdir()
    shutil.copy(ROOT / "results" / "tables" / "copy_task.json", tmp_path / "tables")
    return tmp_path


def changed(part: str, **values: Any) -> Table:
    """The table file with other values in a part of each system, or in each row."""
    table = load_table(FILE).model_dump()
    for where in table["rows"] if part == "rows" else [system[part] for system in table["systems"].values()]:
        where |= values
    return Table.model_validate(table)


def test_all_rows_again_replace_a_published_table_with_more_seeds_and_rows_too(results: Path) -> None:
    table = load_table(FILE)
    check_replaceable("copy_task", table, Layout(results), [1])
    more = table.rows[0].model_copy(update={"label": "at the end", "at": "last", "note": "new"})
    check_replaceable("copy_task", table.model_copy(update={"rows": [*table.rows, more]}), Layout(results), [2, 1])


TRIALS: dict[str, tuple[Table, int | None, list[int]]] = {
    "limit: 500, published without": (load_table(FILE), 500, [1]),
    "seeds of copy: 2, published 1": (load_table(FILE), None, [2]),
    r"systems\.copy\.training\.epochs: 2, published 15": (changed("training", epochs=2), None, [1]),
    r"systems\.copy\.training\.on_nan: skip, published stop": (changed("training", on_nan="skip"), None, [1]),
    "row 'lengths as trained': the table file has no such row": (changed("rows", at="last"), None, [1]),
}


@pytest.mark.parametrize("why", TRIALS)
def test_a_trial_is_refused(results: Path, why: str) -> None:
    table, limit, seeds = TRIALS[why]
    with pytest.raises(ConfigError, match=rf"copy_task\.json: this run would replace .*{why}.*add results=trial"):
        check_replaceable("copy_task", table, Layout(results, limit), seeds)
    (results / "runs" / "copy_task").mkdir(parents=True)  # the table was made here
    check_replaceable("copy_task", table, Layout(results), seeds)


def test_a_trial_of_less_text_never_replaces_a_training(results: Path) -> None:
    (results / "runs" / "copy_task").mkdir(parents=True)
    table, file = load_table(FILE), results / "tables" / "copy_task.json"
    with pytest.raises(ConfigError, match=r"trainings by those of less text: limit: 500, before without\. .*results="):
        check_replaceable("copy_task", table, Layout(results, 500), [1])
    write_json(file, read_json(file) | {"limit": 200})
    check_replaceable("copy_task", table, Layout(results, 500), [1])
    with pytest.raises(ConfigError, match="limit: 100, before 200"):
        check_replaceable("copy_task", table, Layout(results, 100), [1])


def test_version_control_says_what_is_published(tmp_path: Path) -> None:
    tables = ROOT / "results" / "tables"
    if (ROOT / ".git").exists():
        assert is_published(tables / "copy_task.json", ROOT)
        assert not is_published(tables / "scenes.json", tmp_path / "none") or (tables / "scenes.json").exists()
    assert not is_published(tmp_path / "none.json", tmp_path / "none")


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "tables").glob("*.json")), ids=lambda path: path.stem)
def test_a_fresh_clone_may_build_every_published_table_again(path: Path) -> None:
    if (file := ROOT / "workflow" / "tables" / f"{path.stem}.yaml").exists():
        check_replaceable(path.stem, load_table(file), Layout(ROOT / "results"), [1])
