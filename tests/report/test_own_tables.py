"""A user's own table says nothing of published figures, and only the best figures are bold."""

import re
from pathlib import Path
from typing import Any

import pytest

from nmt.report import html, markdown
from nmt.report.cells import is_own
from nmt.report.corpora.chart import draw_filters, is_filtered
from nmt.report.grids import making_grids, result_grids
from nmt.system.files import read_json

ROOT = Path(__file__).parent.parent.parent


def built(name: str) -> dict[str, Any]:
    data: dict[str, Any] = read_json(ROOT / "results" / "tables" / f"{name}.json")
    return data


@pytest.mark.parametrize(("name", "own"), [("fine_tune", True), ("multi30k_transformer", False)])
def test_only_tables_of_reports_speak_of_published_figures(name: str, own: bool) -> None:
    data = built(name)
    page, text = html.fill("table.html.j2", figures=[], **html.parts(data)), markdown.render(data)
    assert is_own(data) == own
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL) + text
    found = [word for word in ("published", "Published", "Rebuilt", "rebuilt", "Δ") if word in body]
    assert bool(found) != own, found


def test_the_best_of_each_test_set_is_bold() -> None:
    data = built("fine_tune")
    scores = result_grids(data)[0]
    column = len(scores.header) - 1
    figures: dict[str, list[float]] = {}
    for row in data["rows"]:
        figures.setdefault(row["test"], []).append(row["scores"]["detokenised"]["bleu"]["mean"])
    expected = {
        (place, column) for place, row in enumerate(data["rows"])
        if len(figures[row["test"]]) > 1 and row["scores"]["detokenised"]["bleu"]["mean"] == max(figures[row["test"]])
    }  # fmt: skip
    assert expected and {cell for cell in scores.best if cell[1] == column} == expected
    page = html.fill("table.html.j2", figures=[], **html.parts(data))
    assert page.count(' ours"') == len(scores.best) < len(data["rows"]) * (len(scores.header) - 2)


def test_the_best_is_among_scores_against_the_same_references() -> None:
    data = built("multi30k_local_attention")  # lower-cased systems, and a cased one, whose BLEU counts the case
    scores = result_grids(data)[0]
    cased = {place for place, row in enumerate(data["rows"]) if "cased" in row["label"]}
    for column in (scores.header.index("BLEU, ours"), len(scores.header) - 1):
        best = {place for place, cell in scores.best if cell == column}
        assert len(cased) > 1 and len(best & cased) == len(best - cased) == 1


def test_a_note_ends_with_one_full_stop() -> None:
    data = built("fine_tune")
    for note in ("two\nlines", "two lines."):
        data["rows"][0] |= {"label": "one", "note": note}
        assert "one: two lines." in result_grids(data)[0].notes


def test_nll_of_different_vocabularies_has_no_best() -> None:
    data = built("hindi_english")
    scores = result_grids(data)[0]
    nll = {column for column, heading in enumerate(scores.header) if heading.startswith("NLL")}
    assert nll and scores.best and not nll & {column for _, column in scores.best}
    data["subwords"] = data["subwords"][:1]
    scores = result_grids(data)[0]
    assert nll & {column for _, column in scores.best}


def test_what_filters_dropped_is_a_grid_and_a_chart(tmp_path: Path) -> None:
    data = built("fine_tune")
    assert not is_filtered(data["data"]) and "filters" not in {grid.name for grid in making_grids(data)}
    pairs = [[f"source {number} {'x' * 99}", f"target {number}"] for number in range(10)]
    train = data["data"][0]["splits"]["train"]
    train["filters"] = [
        {"kind": "equal", "name": "equal", "dropped": 40, "examples": pairs},
        {"kind": "numbers", "name": "numbers", "dropped": 0, "examples": []},
    ]
    train["dropped"] |= {"equal": 40, "numbers": 0}
    [grid] = [grid for grid in making_grids(data) if grid.name == "filters"]
    kept = train["kept"]
    assert [row[3:6] for row in grid.rows] == [["equal", f"{kept + 40:,}", "40"], ["numbers", f"{kept:,}", "0"]]
    assert grid.rows[0][7].count("→") == 3 and "target 2" in grid.rows[0][7] and grid.rows[1][7] == "none"
    data["data"][0]["splits"]["valid"]["near_training"] = 12
    assert "12 of " in markdown.render(data) and "nearly equals one of the" in str(making_grids(data))
    draw_filters(data["data"], tmp_path / "filters")
    assert (tmp_path / "filters.png").stat().st_size > 5000
    assert "40 equal" in markdown.render(data)
