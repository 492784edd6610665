"""What each released version wrote still loads: a model folder, records and results, kept in tests/releases/VERSION.

Each folder was made by that version, from its table file there: ``snakemake table_copy_task --config limit=1000``. The
first 20 lines of its test set and their greedy translations lie beside it.
"""

import shutil
from pathlib import Path

import pytest
import yaml
from commands import run

from nmt.config.decoding import Decoding
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.reproduce.restore import restore
from nmt.system.files import read_json
from nmt.translation.translator import Translator

RELEASES = sorted(Path(__file__).with_name("releases").iterdir())


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_model_folder_translates_as_it_did(release: Path) -> None:
    lines = (release / "source.txt").read_text(encoding="utf-8").splitlines()
    expected = (release / "translations.txt").read_text(encoding="utf-8").splitlines()
    assert len(set(expected)) == 20
    assert Translator.load(release / "model", "cpu").translate(lines, Decoding(beam=1)) == expected


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_model_folder_is_shown_and_exported(release: Path, tmp_path: Path) -> None:
    code, card = run("card", release / "model")
    assert code == 0 and "copy" in card
    assert run("export", release / "model", tmp_path / "half", "--format", "half")[0] == 0
    assert Translator.load(tmp_path / "half", "cpu").translate(["1 2 3 4"], Decoding(beam=1)) == ["1 2 3 4"]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_results_are_shown_on_one_page_and_read_for_the_overview(release: Path, tmp_path: Path) -> None:
    results = shutil.copytree(release / "results", tmp_path / "results")
    assert run("page", results, tmp_path / "report.html") == (0, f"wrote {tmp_path / 'report.html'}\n")
    assert "Transformer on the copy task" in (tmp_path / "report.html").read_text(encoding="utf-8")
    page = shutil.copy(Path(__file__).parents[1] / "results" / "README.md", tmp_path)
    code, output = run("overview", results, page)
    assert code == 1 and "expected a table with published BLEU, got none" in output  # so it has read the table


@pytest.mark.integration
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_records_stand_for_the_training_and_give_the_same_table(release: Path, tmp_path: Path) -> None:
    """The inputs are built by today's stages, and must be those of that version: the records name their checksums."""
    results = shutil.copytree(release / "results", tmp_path / "results")
    before = read_json(results / "tables" / "copy_task.json")
    table = Table.model_validate(yaml.safe_load((release / "copy_task.yaml").read_text(encoding="utf-8")))
    layout, system = Layout(results, limit=1000), table.systems["copy"]
    raw, clean, pieces = layout.raw(system), layout.clean(system), layout.subwords(system)
    named = ("--languages", "src-tgt")
    for words in (
        ("download", "copy", "src-tgt", raw, "--limit", 1000),
        ("clean", raw, clean, *named, "--config", system.cleaning.model_dump_json(), "--jobs", 1),
        ("subwords", clean, pieces, *named, "--config", system.subwords.model_dump_json()),
        ("encode", clean, pieces, layout.encoded(system), *named),
    ):
        code, output = run(*words)
        assert code == 0, output
    plan = Plan(Workflow(tables=["copy_task"], results=results, limit=1000), {"copy_task": table})
    assert restore(plan, "copy_task")["restored"] == ["copy_task/copy seed 1"]
    settings = {"tables": ["copy_task"], "results": str(results), "limit": 1000}
    code, output = run("report", release / "copy_task.yaml", "--config", yaml.safe_dump(settings))
    assert code == 0, output
    after = read_json(results / "tables" / "copy_task.json")
    assert after["rows"][0]["scores"] == before["rows"][0]["scores"]
