"""Runs put back from records: what counts as done, what does not, and that the table is the same again."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fakes
import pytest

from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.report.write import report
from nmt.reproduce.restore import restore
from nmt.system.files import read_json, sha256, write_json
from nmt.system.warnings import recorded, warn

pytestmark = pytest.mark.integration  # whole tables with their figures

SYSTEMS = fakes.TABLE["systems"]
ROWS = [{"label": name, "system": name} for name in SYSTEMS]
TOGETHER = {"label": "together", "system": "large", "ensemble": True}


class Kept:
    """A table whose runs are gone, and its records."""

    def __init__(self, folder: Path, seeds: Sequence[int], **changes: Any) -> None:
        self.layout, self.table = (
            Layout(folder / "results"),
            fakes.table(**{"figures": ["loss"], "rows": ROWS} | changes),
        )
        fakes.write_results(self.layout, "toy", self.table, list(seeds))
        with recorded("train", self.layout.run("toy", "large", 1) / "training.json"):
            warn("kind", "text", 2, "2 of 8 pairs are too long", "mend it")
        report("toy", self.table, self.layout, seeds)
        for system, config in self.table.systems.items():  # text that the trainings say they were of
            meta = self.layout.encoded(config) / "meta.json"
            made = read_json(self.layout.run("toy", system, 1) / "training.json")
            write_json(meta, read_json(meta) | {"splits": made["data"], "subwords": made["subwords"]})
        self.runs = self.layout.runs("toy")
        shutil.rmtree(self.runs)

    def restore(self, seeds: Sequence[int], table: Table | None = None, **settings: Any) -> dict[str, list[str]]:
        settings = {"tables": ["toy"], "seeds": list(seeds), "results": self.layout.results} | settings
        found = restore(Plan(Workflow(**settings), {"toy": table or self.table}), "toy")
        return {
            standing: [name.removeprefix("toy/").replace(" seed ", "") for name in names]
            for standing, names in found.items() if names
        }  # fmt: skip

    def changed(self, **changes: Any) -> Table:
        return fakes.table(**{"figures": ["loss"], "rows": ROWS} | changes)

    @property
    def tables(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.layout.table("toy").parent.iterdir()}


def test_a_table_is_written_again_from_its_records(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2], rows=[*ROWS, TOGETHER])
    before = kept.tables
    assert b"large, together: 2 of 8 pairs are too long" in before["toy.md"]
    assert kept.restore([1, 2]) == {"restored": ["small1", "small2", "large1", "large2", "large1-2"]}
    report("toy", kept.table, kept.layout, [1, 2])
    assert kept.tables == before
    assert kept.restore([1, 2]) == {"there": ["small1", "small2", "large1", "large2", "large1-2"]}


def test_only_new_seeds_are_lacking(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2])
    assert kept.restore([2, 3]) == {"restored": ["small2", "large2"], "lacking": ["small3", "large3"]}
    assert kept.restore([1]) == {"restored": ["small1", "large1"]}


def test_an_ensemble_of_more_seeds_takes_the_weights_of_all(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2], rows=[*ROWS, TOGETHER])
    lacking = ["small3", "large1", "large2", "large3", "large1-2-3"]
    assert kept.restore([1, 2, 3]) == {"restored": ["small1", "small2"], "lacking": lacking}


def test_an_ensemble_of_models_trained_anew_is_another(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2], rows=[*ROWS, TOGETHER])
    fakes.write_run(kept.layout.run("toy", "large", 2), kept.table.systems["large"], 2, updates=300)
    found = kept.restore([1, 2])
    assert (found["there"], found["other"], found["lacking"]) == (["large2"], ["large1-2"], ["large1"])


def test_records_of_another_training_are_not_restored(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2])
    longer = {**SYSTEMS, "small": {**SYSTEMS["small"], "training": {"epochs": 5}}}
    assert kept.restore([1], kept.changed(systems=longer)) == {"other": ["small1"], "restored": ["large1"]}
    meta = kept.layout.encoded(kept.table.systems["small"]) / "meta.json"
    made = read_json(meta)
    write_json(meta, made | {"splits": {}})
    assert kept.restore([2]) == {"other": ["small2", "large2"]}, "on other text"
    write_json(meta, read_json(meta) | {"splits": made["splits"], "subwords": {}})
    assert kept.restore([2]) == {"other": ["small2", "large2"]}, "in other pieces"


def test_records_of_a_training_from_other_word_vectors_are_not_restored(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1])
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 2\n", encoding="utf-8")
    starting = kept.changed(systems={**SYSTEMS, "small": {**SYSTEMS["small"], "word_vectors": {"source": "glove"}}})
    assert kept.restore([1], starting, word_vectors={"glove": vectors}) == {"other": ["small1"], "restored": ["large1"]}
    shutil.rmtree(kept.runs)
    record = kept.layout.records("toy") / "small" / "seed1" / "training.json"
    write_json(record, read_json(record) | {"word_vectors": {"source": {"sha256": sha256(vectors), "found": 1}}})
    assert kept.restore([1]) == {"other": ["small1"], "restored": ["large1"]}, "the table asks for none"
    shutil.rmtree(kept.runs)
    assert kept.restore([1], starting, word_vectors={"glove": vectors}) == {"restored": ["small1", "large1"]}


def test_a_parent_and_its_children_are_restored_together(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1])
    child = {**SYSTEMS["large"], "initialise": {"system": "toy/small"}}
    tuned = kept.changed(systems={**SYSTEMS, "large": child})
    assert kept.restore([1], tuned) == {"lacking": ["small1"], "other": ["large1"]}, "its weights are needed"
    record = kept.layout.records("toy") / "large" / "seed1" / "training.json"
    write_json(record, read_json(record) | {"initialise": {"weights_sha256": "a" * 64}})
    assert kept.restore([1], tuned) == {"restored": ["small1", "large1"]}
    shutil.rmtree(kept.runs)
    assert kept.restore([1]) == {"restored": ["small1"], "other": ["large1"]}, "the table names no parent"
    shutil.rmtree(kept.runs)
    longer = {**SYSTEMS["small"], "training": {"epochs": 5}}
    other = kept.changed(systems={"small": longer, "large": child})
    assert kept.restore([1], other) == {"other": ["small1"], "lacking": ["large1"]}, "of another parent"


def test_what_a_table_needs_besides_is_lacking(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2])
    assert kept.restore([1], kept.changed(metrics=["bleu", "bleu1"])) == {"lacking": ["small1", "large1"]}
    drawn = kept.changed(figures=["alignment"])  # of the first seed
    assert kept.restore([1, 2], drawn) == {"lacking": ["small1", "large1"], "restored": ["small2", "large2"]}


def test_a_figure_of_attention_is_drawn_again_from_the_records(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1, 2], figures=["alignment"])
    figures = {path: path.read_bytes() for path in kept.layout.figures("toy").iterdir()}
    assert len(figures) == 2 and kept.layout.figures("toy") / "alignment.png" in figures
    assert kept.restore([1, 2], kept.table) == {"restored": ["small1", "small2", "large1", "large2"]}
    report("toy", kept.table, kept.layout, [1, 2])
    assert {path: path.read_bytes() for path in figures} == figures


def test_a_run_that_has_begun_is_left_alone(tmp_path: Path) -> None:
    kept = Kept(tmp_path, [1])
    small, large = (kept.layout.run("toy", name, 1) for name in ("small", "large"))
    write_json(small / "state" / "identity.json", {})
    large.mkdir(parents=True)
    (large / "reproduce.lock").touch()
    assert kept.restore([1]) == {"there": ["small1"], "restored": ["large1"]}
    assert [path.name for path in small.iterdir()] == ["state"]


def test_without_its_text_a_run_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept(tmp_path, [1])
    encoded = kept.layout.encoded(kept.table.systems["small"])
    encoded.rename(encoded.with_name("elsewhere"))
    assert kept.restore([1])["left out"][0] == "small1"
    assert f"toy/small seed 1: left out, inputs are missing: {encoded}" in capsys.readouterr().err


@pytest.mark.parametrize("which", ["references", "source"])
def test_records_of_another_test_set_are_not_put_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    kept = Kept(tmp_path, [1])
    raw, clean = (place(kept.table.systems["small"]) for place in (kept.layout.raw, kept.layout.clean))
    text = raw / "test.de" if which == "references" else clean / "test.en"
    text.write_text("Etwas anderes.\n", encoding="utf-8")
    assert kept.restore([1]) == {"other": ["small1", "large1"]}
    assert f"toy/small seed 1: {text} differs from the text of the records" in capsys.readouterr().err
    assert not any(kept.runs.rglob("*.json"))
