"""A table with a row of another system's translations, given as a file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fakes
import pytest

from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.checks import check_table_files
from nmt.plan.plan import Plan
from nmt.plan.published import check_replaceable
from nmt.report.rewrite import rewrite
from nmt.report.write import report
from nmt.reproduce.runs import scoring_of_outputs
from nmt.scoring.files import score_output
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, write_text

THEIRS = [german if number else "Ein Hund rennt." for number, (_, german) in enumerate(fakes.PAIRS)]
ROWS = [*fakes.TABLE["rows"], {"label": "Theirs", "hypotheses": "theirs.de", "against": "Large"}]  # type: ignore[misc]


def make_plan(folder: Path) -> Plan:
    table = Table.model_validate(fakes.TABLE | {"rows": ROWS, "figures": ["loss"]})
    return Plan(
        Workflow.model_validate({"tables": ["toy"], "results": folder / "results", "seeds": [1]}), {"toy": table}
    )


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The trained rows are made; the translations are there."""
    monkeypatch.chdir(tmp_path)
    Path("theirs.de").write_text("".join(f"{line}\n" for line in THEIRS), encoding="utf-8")
    made = make_plan(tmp_path)
    fakes.write_results(made.layout, "toy", fakes.table(), [1])
    return made


def score(plan: Plan) -> None:
    [output] = plan.outputs("toy")
    source, target = output.languages.split("-")
    score_output(output.hypotheses, output.clean, output.raw, output.test, source, target, output.folder)


@pytest.mark.integration
def test_it_stands_beside_the_others(plan: Plan) -> None:
    score(plan)
    table, layout = plan.tables["toy"], plan.layout
    report("toy", table, layout, [1])
    data = json.loads(layout.table("toy").with_suffix(".json").read_text())
    *_, large, _, theirs = data["rows"]
    assert theirs["against"]["label"] == "Large" and theirs["against"]["pairs"][0]["seeds"] == [1, "file"]
    assert theirs["against"]["difference"] == pytest.approx(
        theirs["scores"]["detokenised"]["bleu"]["mean"] - large["scores"]["detokenised"]["bleu"]["mean"]
    )
    assert theirs["references_sha256"] == large["references_sha256"]
    assert data["samples"][0]["translations"][-1] == {"label": "Theirs", "text": "Ein Hund rennt."}
    page = layout.table("toy").with_suffix(".md").read_text()
    assert "translations of another system, read from theirs.de (sha256" in page
    folder = layout.record("toy", plan.outputs("toy")[0].folder)
    assert {file.name for file in folder.iterdir()} == {"scores.json", "hypotheses.tok", "hypotheses.detok"}
    assert (folder / "hypotheses.detok").read_text().splitlines() == THEIRS
    assert (folder / "hypotheses.tok").read_text().splitlines()[3] == "auf einem schild steht &quot; stop &quot; ."
    shutil.rmtree(layout.runs("toy"))
    rewrite("toy", table, layout)
    assert layout.table("toy").with_suffix(".md").read_text() == page


def test_a_published_table_with_the_same_file_may_be_built_again(plan: Plan) -> None:
    score(plan)
    table, layout = plan.tables["toy"], plan.layout
    report("toy", table, layout, [1])
    shutil.rmtree(layout.runs("toy"))  # as in a fresh clone
    check_replaceable("toy", table, layout, [1])
    others = [row.model_copy(update={"hypotheses": row.hypotheses and Path("others.de")}) for row in table.rows]
    with pytest.raises(ConfigError, match="row 'Theirs': the table file has no such row"):
        check_replaceable("toy", table.model_copy(update={"rows": others}), layout, [1])


@pytest.mark.integration
def test_a_system_may_only_say_whose_text_they_are_scored_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs.de").write_text("".join(f"{line}\n" for line in THEIRS), encoding="utf-8")
    rows = [{"label": "Theirs", "hypotheses": "theirs.de", "text_of": "small"}]
    table = fakes.table(rows=rows, figures=["loss", "learning-curves", "positions-across"])
    plan = Plan(Workflow.model_validate({"tables": ["toy"], "results": "results"}), {"toy": table})
    fakes.write_results(plan.layout, "toy", table, [1])
    score(plan)
    report("toy", table, plan.layout, [1])
    [corpus] = read_json(plan.layout.table("toy").with_suffix(".json"))["data"]
    assert corpus["systems"] == ["small"] and list(corpus["splits"]) == ["test"], "no training text was used"
    assert {file.stem for file in plan.layout.figures("toy").iterdir()} == {*table.figures}


def change_text(_: Plan) -> None:
    Path("theirs.de").write_text(Path("theirs.de").read_text().replace("rennt", "geht"))
    os.utime("theirs.de", (10**9, 10**9))  # older than the scores


def change_references(plan: Plan) -> None:
    [output] = plan.outputs("toy")
    (output.raw / "test.de").write_text("Etwas anderes.\n" * len(THEIRS))


@pytest.mark.parametrize(
    ("change", "again"), [(lambda _: os.utime("theirs.de"), False), (change_text, True), (change_references, True)]
)
def test_content_alone_decides_whether_it_is_scored_again(
    plan: Plan, change: Callable[[Plan], None], again: bool
) -> None:
    [command] = scoring_of_outputs(plan, "toy")
    assert command[:3] == ["nmt", "score", "theirs.de"] and "--model" not in command
    score(plan)
    assert list(scoring_of_outputs(plan, "toy")) == []
    change(plan)
    assert bool(list(scoring_of_outputs(plan, "toy"))) == again


def test_translations_that_are_not_as_many_as_the_references(plan: Plan) -> None:
    Path("theirs.de").write_text("eins\nzwei\n")
    with pytest.raises(DataError, match=r"theirs\.de has 2, .*test\.de has 8"):
        score(plan)
    assert not (plan.outputs("toy")[0].folder / "scores.json").exists()


def test_a_missing_file_is_named_before_any_work(plan: Plan) -> None:
    check_table_files("toy", plan.tables["toy"])
    Path("theirs.de").unlink()
    rows = [row.model_dump(mode="json", include={"label", "hypotheses"}) for row in plan.tables["toy"].rows]
    write_text(Path("workflow/tables/toy.yaml"), json.dumps({"rows": rows}, indent=0))
    with pytest.raises(
        ConfigError, match=r"toy\.yaml, line \d+: rows\.\d\.hypotheses: theirs\.de: expected a file, got no such file"
    ):
        check_table_files("toy", plan.tables["toy"])


def test_what_a_table_needs_on_another_machine(plan: Plan) -> None:
    assert "theirs.de" in plan.inputs("toy") and "theirs.de" not in plan.inputs("toy", "small")
    score(plan)
    assert read_json(Path(plan.scores("toy")[-1]))["provenance"]["hypotheses"] == "theirs.de"
