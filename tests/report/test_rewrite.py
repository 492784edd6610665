"""`nmt report --rewrite`: new words, old numbers."""

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fakes
import pytest
from commands import run

from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.report.rewrite import rewrite
from nmt.report.write import report
from nmt.system.errors import DataError

ENDINGS = ("json", "csv", "md", "html")
ROWS: list[dict[str, Any]] = [
    *fakes.TABLE["rows"],  # type: ignore[misc]
    {"label": "Greedy", "system": "large", "decoding": {"beam": 1}, "against": "Large", "published": {"bleu": 20.0}},
]
TABLE: dict[str, Any] = {**fakes.TABLE, "rows": ROWS, "figures": ["loss"]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("built") / "results"
    table = Table.model_validate(TABLE)
    fakes.write_results(Layout(results), "toy", table, [1])
    report("toy", table, Layout(results), [1])
    return results


@pytest.fixture
def layout(built: Path, tmp_path: Path) -> Layout:
    """A table and its figures, without the runs."""
    for folder in ("tables", "figures"):
        shutil.copytree(built / folder, tmp_path / folder)
    return Layout(tmp_path)


def pages(layout: Layout) -> dict[str, str]:
    return {ending: (layout.results / f"tables/toy.{ending}").read_text(encoding="utf-8") for ending in ENDINGS}


def changed(change: Callable[[dict[str, Any]], object]) -> Table:
    table = copy.deepcopy(TABLE)
    change(table)
    return Table.model_validate(table)


def numbers(value: Any) -> list[Any]:
    """All values of a JSON but for its strings."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [] if isinstance(value, str) else [value]


@pytest.mark.integration
def test_the_words_of_an_unchanged_file_change_nothing(layout: Layout) -> None:
    before = pages(layout)
    rewrite("toy", Table.model_validate(TABLE), layout)
    assert pages(layout) == before


def test_new_words_are_everywhere_and_numbers_stay(layout: Layout) -> None:
    before = pages(layout)

    def change(table: dict[str, Any]) -> None:
        table |= {"caption": "A new title. Two systems.", "report": "A report"}
        table["rows"][0]["label"] = "Tiny"
        table["rows"][1] |= {"label": "Huge", "note": "a new note"}
        table["rows"][3]["against"] = "Huge"

    rewrite("toy", changed(change), layout)
    after = pages(layout)
    for ending, text in after.items():
        assert "Tiny" in text and "Huge" in text and "a new note" in text
        assert not re.search("A table of tests|Small, after|Large|not in the report", text), ending
    assert after["md"].startswith("# A new title\n\nTwo systems.\n\n|")
    assert "<h1>A new title</h1>" in after["html"] and ">Two systems.</p>" in after["html"]
    old, new = json.loads(before["json"]), json.loads(after["json"])
    assert [n for n in numbers(new) if n is not None] == [n for n in numbers(old) if n is not None]
    assert [row["against"]["label"] for row in new["rows"] if row.get("against")] == ["Tiny", "Huge"]
    assert [t["label"] for t in new["samples"][0]["translations"]] == ["Tiny", "Huge", "Greedy"]


def test_the_figure_of_the_filters_keeps_its_title(layout: Layout) -> None:
    data, figures = json.loads(pages(layout)["json"]), layout.figures("toy")
    data["figures"].append({"name": "filters", "title": "Pairs that each filter dropped"})
    (layout.results / "tables/toy.json").write_text(json.dumps(data))
    for kind in ("png", "svg"):
        shutil.copy(figures / f"loss.{kind}", figures / f"filters.{kind}")
    rewrite("toy", Table.model_validate(TABLE), layout)
    assert all("Pairs that each filter dropped" in text for ending, text in pages(layout).items() if ending != "csv")


def test_a_table_that_is_not_comparable_loses_its_differences(layout: Layout) -> None:
    before = pages(layout)
    assert "| Δ BLEU |" in before["md"] and "ours minus published" in before["md"]
    rewrite("toy", changed(lambda table: table.update(comparable=False)), layout)
    data = json.loads(pages(layout)["json"])
    assert [row["difference"] for row in data["rows"] if not row["quoted"]] == [{}, {}, {}]
    for text in pages(layout).values():
        assert not re.search(r"Δ (BLEU |TER|chrF)|ours minus published|difference_", text)
    rewrite("toy", Table.model_validate(TABLE), layout)
    assert pages(layout) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(2), "expected 3 rows, as in the table file, got 4"),
        (lambda rows: rows[3].update(decoding={"beam": 2}), "'Greedy': the table file gives another decoding"),
        (lambda rows: rows[0].update(at="epoch 3"), "'Small, after 2 epochs': the table file gives another at"),
        (lambda rows: rows[2].update(published={"bleu": 34.3}), "'Somebody's <system>': .* another published"),
        (lambda rows: rows.insert(0, rows.pop(1)), "'Large': .* another system, published, at"),
        (lambda rows: rows[3].pop("against"), "'Greedy': the table file compares it with another row"),
    ],
)
def test_other_rows_are_refused(layout: Layout, change: Callable[[list[Any]], object], message: str) -> None:
    before = pages(layout)
    with pytest.raises(DataError, match=rf"toy\.json: .*{message}.*build the table again"):
        rewrite("toy", changed(lambda table: change(table["rows"])), layout)
    assert pages(layout) == before


def test_the_command(layout: Layout, tmp_path: Path) -> None:
    before, file = pages(layout), tmp_path / "toy.yaml"
    file.write_text(json.dumps(TABLE | {"caption": "New"}), encoding="utf-8")
    command = ["report", file, "--rewrite", "--config", json.dumps({"tables": ["toy"], "results": str(tmp_path)})]
    code, output = run(*command)
    assert code == 0, output
    assert pages(layout)["md"] == before["md"].replace("# A table of tests", "# New")
    (tmp_path / "tables" / "toy.json").unlink()
    code, output = run(*command)
    assert code == 1 and "toy.json: no such file" in output
