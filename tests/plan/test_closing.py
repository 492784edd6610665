"""The last words: which warnings belong to a table, which store they point to, what is tried again."""

import sqlite3
from pathlib import Path

import pytest

from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.closing import check_strict, closing_words, forget_failed, requested_warnings
from nmt.plan.plan import Plan
from nmt.plan.warned import row_warnings
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json
from nmt.system.warnings import recorded, warn

SYSTEM = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 1}}
WRITTEN = {"model": "one/reverse", "text": "scenes", "seed": 1}
TABLE = {
    "caption": "c",
    "tests": ["test", "test_ambiguous"],
    "systems": {"small": {**SYSTEM, "back_translation": WRITTEN}, "reverse": {**SYSTEM, "languages": "de-en"}},
    "rows": [{"label": "a", "system": "small"}, {"label": "b", "system": "small", "test": "test_ambiguous"}],
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    settings = Workflow.model_validate({"tables": ["one"], "seeds": [1], "results": tmp_path})
    return Plan(settings, {"one": Table.model_validate(TABLE)})


def degrade(output: Path, kind: str, split: str = "", scores: bool = True) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with recorded("stage", output):
        warn(kind, output, 1, "one line is wrong", "mend it", split=split, scores=scores)


def test_warnings_of_all_that_a_table_is_made_from(plan: Plan) -> None:
    layout, table = plan.layout, plan.table("one")
    small, reverse = (plan.system("one", name) for name in ("small", "reverse"))
    degrade(layout.clean(small), "of no test set here", "other_test")
    degrade(layout.raw(small.without_added()), "of one test set", "test")
    degrade(layout.encoded(reverse), "of the translator's text", "train")
    degrade(layout.run("one", "reverse", 1) / "training.json", "of the translator", "valid")
    degrade(layout.translations(small) / "translations.txt", "of the translations", "train")
    degrade(layout.scores("one", table.rows[1], "test_ambiguous", 1) / "hypotheses.txt", "of one row")
    degrade(layout.figures("one"), "of figures", scores=False)
    kinds = {w.kind for w in requested_warnings(plan, ["table_one"])}
    in_rows = [{w.kind for w in row_warnings("one", table, row, layout, [1])} for row in table.rows]
    of_both = {"of the translator", "of the translations"}
    assert in_rows == [{"of one test set", *of_both}, {"of one row", *of_both}]
    assert kinds == {"of the translator's text", "of figures"}.union(*in_rows)
    with pytest.raises(DataError, match="strict: true: expected results without warnings, got the 6 above"):
        found = requested_warnings(plan, [])
        check_strict(plan.settings.model_copy(update={"strict": True}), found)
    check_strict(plan.settings, found)


def test_a_fault_of_text_that_several_pairs_of_languages_have_is_told_once(tmp_path: Path) -> None:
    systems = {pair: {**SYSTEM, "languages": pair} for pair in ("en-de", "de-en")}
    systems["other"] = {**SYSTEM, "corpus": "copy"}
    rows = [{"label": name, "system": name} for name in systems]
    table = Table.model_validate(TABLE | {"tests": ["test"], "systems": systems, "rows": rows})
    plan = Plan(Workflow.model_validate({"tables": ["one"], "results": tmp_path}), {"one": table})
    for system in table.systems.values():
        clean, raw = plan.layout.clean(system), plan.layout.raw(system)
        with recorded("clean", clean):
            warn("tokenised text", raw / "test.de", 1, "one line is wrong", "mend it", split="test")
    found = [warning.file for warning in requested_warnings(plan, [])]
    assert found == [f"{tmp_path}/corpora/{name}/en-de/raw/test.de" for name in ("scenes", "copy")]


def test_warnings_of_a_parent_and_of_another_systems_translations(tmp_path: Path) -> None:
    child = {**SYSTEM, "initialise": {"system": "one/parent", "at": "last"}}
    rows = [{"label": "a", "system": "child"}, {"label": "b", "hypotheses": "theirs.de", "text_of": "child"}]
    table = Table.model_validate(
        TABLE | {"tests": ["test"], "systems": {"child": child, "parent": SYSTEM}, "rows": rows}
    )
    settings = Workflow.model_validate({"tables": ["one"], "seeds": [7], "results": tmp_path})
    plan = Plan(settings, {"one": table})
    layout = plan.layout
    degrade(layout.run("one", "parent", 7) / "training.json", "of the parent")
    degrade(layout.selected("one", "parent", 7, "last"), "of the parent's model")
    degrade(layout.clean(table.systems["child"]), "of the references", "test")
    degrade(layout.scores("one", table.rows[1], "test", "file") / "scores.json", "of their scores")
    found = [{w.kind for w in row_warnings("one", table, row, layout, [7])} for row in table.rows]
    assert found == [
        {"of the parent", "of the parent's model", "of the references"}, {"of the references", "of their scores"},
    ]  # fmt: skip
    assert {w.kind for w in requested_warnings(plan, [])} == set().union(*found)


def test_a_store_is_pointed_to_only_if_it_has_a_run_of_the_tables(plan: Plan, tmp_path: Path) -> None:
    [marker, _], store = map(Path, plan.markers("one")), tmp_path / "mlflow.db"
    published = {"status": "published", "uri": f"sqlite:///{store}", "experiment": "1", "run": "abc"}
    write_json(marker, published)
    assert "MLflow" not in closing_words(plan, [], tmp_path)  # there is no such file
    with sqlite3.connect(store) as database:
        database.execute("CREATE TABLE runs (run_uuid TEXT, lifecycle_stage TEXT)")
        database.execute("INSERT INTO runs VALUES ('other', 'active'), ('abc', 'deleted')")
    assert "MLflow" not in closing_words(plan, [], tmp_path)
    with sqlite3.connect(store) as database:
        database.execute("UPDATE runs SET lifecycle_stage = 'active'")
    database.close()
    assert f"MLflow   sqlite:///{store}" in closing_words(plan, [], tmp_path)
    assert "/#/experiments/1/runs?workflowType=machine_learning" in closing_words(plan, [], tmp_path)
    write_json(marker, published | {"uri": "sqlite:////before/it/moved/mlflow.db"})
    assert f"MLflow   sqlite:///{store}" in closing_words(plan, [], tmp_path)
    write_json(marker, published | {"uri": "http://host:5000"})
    assert "MLflow   http://host:5000\n         http://host:5000/#/exp" in closing_words(plan, [], tmp_path)
    write_json(marker, published)
    forget_failed(plan, [])
    assert read_json(marker) == published
    write_json(marker, {"status": "failed", "uri": "http://127.0.0.1:9"})
    assert "MLflow" not in closing_words(plan, [], tmp_path)
    forget_failed(plan, [])
    assert not marker.exists()
