"""The overview: results/README.md and the committed tables say the same."""

import json
from pathlib import Path

import pytest
from commands import run

from nmt.report.overview import BEGIN, END, FIGURE, by_report, render

ROOT = Path(__file__).parent.parent.parent


def test_the_overview_shows_the_committed_results() -> None:
    results, page = ROOT / "results", ROOT / "results" / "README.md"
    shown = page.read_text().partition(BEGIN)[2].partition(END)[0]
    groups = by_report(results)
    assert shown == f"\n{render(groups, results, page)}\n", "make overview"
    assert (results / FIGURE).with_suffix(".png").is_file()
    for report, rows in groups.items():
        section = shown.partition(f"## {report}\n")[2].partition("\n## ")[0]
        assert all(f"[{row['scores']['tokenised']['bleu']['mean']:.2f} " in section for row in rows)
        assert ("do not compare" in section) != all(row["comparable"] for row in rows)


def test_the_figure_of_the_committed_results_fits_a_screen() -> None:
    with (ROOT / "results" / FIGURE).with_suffix(".png").open("rb") as file:
        header = file.read(24)
    assert int.from_bytes(header[20:24], "big") < 900  # pixels of height


def made(folder: Path, name: str, **row: object) -> None:
    bleu = {"mean": 40.126, "deviation": 0.5, "low": None, "high": None}
    whole = {
        "label": "ours", "quoted": False, "note": None, "test": "first", "published": {"bleu": 41.3},
        "training_seconds": 61.0, "hardware": [{"processor": "CPU", "threads": 1}],
        "scores": {"tokenised": {"bleu": bleu}},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    data = {"name": name, "tests": ["first", "second"], "limit": None, "rows": [whole | row]}
    (folder / f"{name}.json").write_text(json.dumps(data))


def test_rows_with_a_published_bleu_are_shown_once(tmp_path: Path) -> None:
    results, page = tmp_path / "my out" / "results", tmp_path / "README.md"
    made(results / "tables", "a")
    made(results / "tables", "b", test="second")
    made(results / "tables", "c", published={})
    made(results / "tables", "d", quoted=True)
    made(results / "tables", "e", note="not converged")
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        assert run("overview", results, page)[0] == 0
        text = page.read_text()
        assert text.startswith(f"before\n{BEGIN}\n![BLEU") and text.endswith(f"\n{END}\nafter\n")
        lines = [line for line in text.splitlines() if "| ours" in line]
        cells = ["a", "ours", "first", "41.3", "[40.13 ± 0.50](my%20out/results/tables/a.md)"]
        cells += ["1 min 01 s", "CPU, 1 thread"]
        assert [[cell.strip() for cell in line.strip("|").split("|")] for line in lines] == [cells]
    assert (results / "figures" / "overview.svg").is_file() and "old" not in text


def test_what_others_took_to_write_the_training_text_is_told_beside_the_training(tmp_path: Path) -> None:
    made(tmp_path / "tables", "a", text_seconds=10_854.0)
    page = tmp_path / "README.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    assert run("overview", tmp_path, page)[0] == 0
    assert "| 1 min 01 s, after 3 h 00 min for its text |" in page.read_text()


def test_a_label_is_text_of_any_script_and_no_formula(tmp_path: Path) -> None:
    report, long = r"Report $\foo$", "long-" * 40
    for name, label in (("a", r"with $\foo$"), ("b", "\U0001f9ff"), ("c", long)):  # no font has the second
        made(tmp_path / "tables", name, label=label)
        data = json.loads((tmp_path / "tables" / f"{name}.json").read_text())
        (tmp_path / "tables" / f"{name}.json").write_text(json.dumps(data | {"report": report}))
    (tmp_path / "page.md").write_text(f"{BEGIN}\n{END}\n")
    code, output = run("overview", tmp_path, tmp_path / "page.md")
    assert code == 0 and "no installed font has \U0001f9ff" in output and "missing from font" not in output
    drawn = (tmp_path / "figures" / "overview.svg").read_text()
    assert all(f"<!-- {text} -->" in drawn for text in (report, "long-" * 15 + "long …"))


@pytest.mark.parametrize("text", ["", f"{END}\n{BEGIN}\n", f"{BEGIN}\n"])
def test_a_page_without_marks_stays_as_it_is(tmp_path: Path, text: str) -> None:
    made(tmp_path / "tables", "a")
    (tmp_path / "page.md").write_text(text)
    code, output = run("overview", tmp_path, tmp_path / "page.md")
    assert code == 1 and "between them the table" in output and (tmp_path / "page.md").read_text() == text
    assert not (tmp_path / "figures").exists()


def test_no_tables(tmp_path: Path) -> None:
    code, output = run("overview", tmp_path, tmp_path / "README.md")
    assert code == 1 and "expected tables/*.json, got none" in output
