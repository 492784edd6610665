import csv
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import fakes
import pytest
from markdown_it import MarkdownIt
from pages import Read
from PIL import Image

from nmt.config.system import System
from nmt.config.table import OVERLAYS, Table
from nmt.plan.layout import Layout
from nmt.plan.systems import published_config
from nmt.report import html
from nmt.report.cells import duration, number
from nmt.report.figures.plots import TITLES, draw
from nmt.report.grid import Grid
from nmt.report.grids import figure_notes, making_grids, result_grids
from nmt.report.html import marks
from nmt.report.markdown import escape, render, table
from nmt.report.records import Results, keep, train_nll
from nmt.report.write import report
from nmt.scoring.significance import compare
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json
from nmt.system.warnings import record_of, recorded, warn
from nmt.text.subwords import Vocabulary

pytestmark = pytest.mark.integration  # whole tables with their figures


class Built:
    """A table and its files."""

    def __init__(self, folder: Path, what: Table, seeds: list[int], synthetic: bool = False) -> None:
        self.layout, self.table = Layout(folder / "results"), what
        fakes.write_results(self.layout, "toy", what, seeds, synthetic)
        report("toy", what, self.layout, seeds)

    def text(self, ending: str) -> str:
        return (self.layout.results / "tables" / f"toy.{ending}").read_text(encoding="utf-8")

    @property
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.text("json")))

    def bleu(self, row: int, seed: int) -> float:
        folder = self.layout.scores("toy", self.table.rows[row], "test", seed)
        return float(read_json(folder / "scores.json")["tokenised"]["bleu"]["score"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("one"), fakes.table(), [1])


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("several"), fakes.table(figures=[]), [1, 2], synthetic=True)


def test_warnings_are_notes_of_their_rows_and_long_pairs_are_counted(tmp_path: Path) -> None:
    layout, what = Layout(tmp_path / "results"), fakes.table(figures=[])
    fakes.write_results(layout, "toy", what, [1])
    training = layout.run("toy", "small", 1) / "training.json"
    write_json(training, read_json(training) | {"too_long": 3, "too_long_valid": 5})
    hypotheses = layout.scores("toy", what.rows[0], "test", 1) / "hypotheses.txt"
    for output, told in ((hypotheses, "2 of 8 sources were cut"), (layout.clean(what.systems["small"]), "8 lines")):
        with recorded("stage", output):
            warn("kind", "a.file", 2, told, "mend it")
    with recorded("track", layout.run("toy", "small", 1) / "tracked.json"):
        warn("kind", "a.file", 1, "is not tracked", "try again", scores=False)
    report("toy", what, layout, [1])
    for ending in ("md", "html"):
        page = (layout.results / "tables" / f"toy.{ending}").read_text()
        assert "Warning: 8 lines (a.file)." in page  # both systems share the text
        assert "Small, after 2 epochs: 2 of 8 sources were cut (a.file)." in page and "is not tracked" not in page
        assert "3 too long for small" in page and "5 too long for small" in page
    rows = read_json(layout.results / "tables" / "toy.json")["rows"]
    assert [[w["text"] for w in row.get("warnings", [])] for row in rows] == [
        ["8 lines", "2 of 8 sources were cut"], ["8 lines"], [],
    ]  # fmt: skip
    kept = layout.record("toy", record_of(hypotheses))
    assert read_json(kept, list) == read_json(record_of(hypotheses), list)


def test_a_table_without_warnings_says_nothing_of_them(built: Built) -> None:
    assert "warning" not in built.text("md").lower() and "warnings" not in built.text("json")


def test_rows_keep_the_order_of_the_table_file(built: Built) -> None:
    labels = [row["label"] for row in fakes.TABLE["rows"]]  # type: ignore[attr-defined]
    assert [row["label"] for row in built.data["rows"]] == labels
    assert [row["quoted"] for row in built.data["rows"]] == [False, False, True]
    assert [row["label"] for row in csv.DictReader(built.text("csv").splitlines())] == labels


def test_one_seed_has_an_interval(built: Built) -> None:
    row = built.data["rows"][0]
    bleu = row["scores"]["tokenised"]["bleu"]
    assert bleu["mean"] == built.bleu(0, 1)
    assert bleu["low"] < bleu["mean"] < bleu["high"]
    assert bleu["deviation"] is None
    assert row["difference"]["bleu"] == pytest.approx(bleu["mean"] - 33.3)
    assert set(row["difference"]) == {"bleu", "ter"}


def test_several_seeds_have_a_deviation(several: Built) -> None:
    one, two = several.bleu(0, 1), several.bleu(0, 2)
    found = several.data["rows"][0]["scores"]["tokenised"]["bleu"]
    assert found["mean"] == pytest.approx((one + two) / 2)
    assert found["deviation"] == pytest.approx(abs(one - two) / 2**0.5)
    assert found["values"] == [one, two]
    assert f"{found['mean']:.2f} ± {found['deviation']:.2f}" in several.text("md")


def test_later_rows_are_compared_with_the_first(built: Built) -> None:
    rows = built.data["rows"]
    assert rows[0]["against"] is None
    assert 0 < rows[1]["against"]["p_value"] <= 1
    assert "against" not in rows[2]
    assert f"{rows[1]['against']['p_value']:.3f}" in built.text("md")


def test_models_of_one_seed_are_compared(several: Built) -> None:
    found = several.data["rows"][1]["against"]
    small, large = several.table.rows[:2]
    for pair, seed in zip(found["pairs"], (1, 2), strict=True):
        folders = [several.layout.scores("toy", row, "test", seed) for row in (small, large)]
        alone = compare(*folders)["detokenised"]["bleu"]
        assert pair == {"seeds": [seed, seed], "difference": alone["difference"], "p_value": alone["p_value"]}
    one, two = found["pairs"]
    assert one["difference"] < 0 > two["difference"], "the larger has more wrong in the fakes"
    assert found["difference"] == pytest.approx((one["difference"] + two["difference"]) / 2)
    assert found["p_value"] == max(one["p_value"], two["p_value"])
    assert f"{one['difference']:+.2f} ({one['p_value']:.3f})".replace("-", "−") in several.text("md")


def test_seeds_that_disagree_tell_nothing(tmp_path: Path) -> None:
    built = Built(tmp_path, fakes.table(figures=[]), [1, 2])
    row = built.table.rows[1]
    fakes.write_scores(built.layout, "toy", row, built.table.systems["large"], 2, wrong=0)  # better than the other's
    report("toy", built.table, built.layout, [1, 2])
    found = built.data["rows"][1]["against"]
    one, two = (pair["difference"] for pair in found["pairs"])
    assert one < 0 < two and found["difference"] == pytest.approx((one + two) / 2)
    assert found["p_value"] == 1


def test_an_ensemble_is_compared_with_each_model(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"label": "each", "system": "deep"}]
    rows += [{"label": "together", "system": "deep", "ensemble": True}]
    built = Built(tmp_path, fakes.table(systems={"deep": MIXED["deep"]}, rows=rows, figures=[]), [1, 2, 3])
    _, found = (row["against"] for row in built.data["rows"])
    assert [pair["seeds"] for pair in found["pairs"]] == [[1, "1-2-3"], [2, "1-2-3"], [3, "1-2-3"]]


def test_provenance_leads_to_the_scores(built: Built) -> None:
    tables = built.layout.results / "tables"
    for row in built.data["rows"][:2]:
        assert all((tables / path).is_file() for path in row["provenance"])
        assert (row["parameters"], row["training_seconds"]) == (3_022_848, 20)
    assert "../records/toy/small/seed1/epoch-2/test/" in built.text("md")


def test_what_others_took_to_write_the_training_text_is_told(tmp_path: Path) -> None:
    built = Built(tmp_path, fakes.table(figures=[]), [1])
    assert {row["text_seconds"] for row in built.data["rows"][:2]} == {None}
    where = built.layout.raw(built.table.systems["small"]) / "corpus.json"
    made = {"seconds": 20.0, "provenance": {"training_seconds": 3600.0}}
    sources = [
        {"url": "u"},
        {"url": "u", "forward_translation": made},
        {"url": "u", "back_translation": made | {"seconds": 60.0}},
    ]
    where.write_text(json.dumps(json.loads(where.read_text()) | {"sources": {"train": sources}}))
    report("toy", built.table, built.layout, [1])
    assert built.data["rows"][0][
        "text_seconds"
    ] == 7280.0 and "| 20.0 s, after 2 h 01 min for its text |" in built.text("md")


def test_records_are_enough_to_check_a_score(built: Built) -> None:
    records, runs = built.layout.records("toy"), built.layout.runs("toy")
    for row in built.data["rows"][:2]:
        scores = (records.parent.parent / "tables" / row["provenance"][0]).resolve()
        references = (runs / scores.relative_to(records)).parent / "references.tok"
        command = [sys.executable, "-m", "sacrebleu", references, "-i", scores.with_name("hypotheses.tok")]
        options = ["-m", "bleu", "--tokenize", "none", "--force", "--score-only", "--width", "10"]
        said = subprocess.run([*command, *options], capture_output=True, text=True, check=True).stdout
        assert float(said) == pytest.approx(row["scores"]["tokenised"]["bleu"]["mean"], abs=1e-9)
    kept = {path.relative_to(records) for path in records.rglob("*") if path.is_file()}
    assert Path("small/seed1/training.json") in kept and Path("small/seed1/log.jsonl") in kept
    assert all((records / path).read_bytes() == (runs / path).read_bytes() for path in kept)


def test_a_record_that_is_missing_is_named_and_the_old_ones_stay(tmp_path: Path) -> None:
    built = Built(tmp_path, fakes.table(figures=[]), [1])
    before = sorted(built.layout.records("toy").rglob("*"))
    gone = built.layout.scores("toy", built.table.rows[0], "test", 1) / "hypotheses.detok"
    gone.unlink()
    with pytest.raises(DataError, match=re.escape(str(gone))):
        keep(Results("toy", built.table, built.layout, [1]))
    assert sorted(built.layout.records("toy").rglob("*")) == before


def test_an_emptied_log_is_named(tmp_path: Path) -> None:
    built = Built(tmp_path, fakes.table(figures=["loss"]), [1])
    log = built.layout.run("toy", "small", 1) / "log.jsonl"
    log.write_text("")
    with pytest.raises(DataError, match="expected the log of a training, got none"):
        report("toy", built.table, built.layout, [1])


@pytest.mark.parametrize(
    "said",
    [
        "Somebody's \\<system> (quoted)",
        "+62.73",
        "95 % bootstrap interval",
        "Large: not in the report.",
        "![Learning rate](../figures/toy/learning-rate.png)",
        "reference: Ein Hund rennt über das Gras.",
        "Small, after 2 epochs: *ein hund rennt über das gras. ja*",
        "tokenised bleu: nrefs:1|bs:1000|seed:12345|",
        "sacrebleu references.tok -i hypotheses.tok -m bleu chrf ter --tokenize none",
        "| model.layers",
        "beam 5, length penalty 1",
        "Abacus, 2 threads",
        "| toy    | small, large | train |",
    ],
)
def test_markdown(built: Built, said: str) -> None:
    assert said in built.text("md")


def test_markdown_tables_are_whole(built: Built) -> None:
    blocks = re.findall(r"(?:^\|.*\|\n)+", built.text("md"), re.MULTILINE)
    assert len(blocks) == 8
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_a_synthetic_corpus_is_called_so(several: Built, built: Built) -> None:
    assert "Synthetic corpus" in several.text("md")
    assert "synthetic corpus" in several.text("html")
    assert "ynthetic" not in built.text("html")


def test_the_page_needs_nothing_else(built: Built) -> None:
    page = Read(built.layout.results / "tables/toy.html")  # its elements are closed in order
    addresses = [*page.links, *page.images]
    assert len(addresses) == len(fakes.TABLE["figures"])  # type: ignore[arg-type]
    assert all(address.startswith("data:image/svg+xml;base64,") for address in addresses)
    for said in ("Somebody's <system>", "A girl's red ball", "Hyper-parameters", "sacrebleu references.detok"):
        assert said in page.text


def test_figures(built: Built) -> None:
    folder = built.layout.figures("toy")
    names = sorted(f"{figure}.{ending}" for figure in fakes.TABLE["figures"] for ending in ("png", "svg"))
    assert sorted(file.name for file in folder.iterdir()) == names
    for file in folder.glob("*.png"):
        with Image.open(file) as image:
            assert image.width > (600 if file.stem == "alignment" else 1000)
            assert len(image.convert("RGB").getcolors(1 << 20) or []) > 5


def test_figures_are_the_same_each_time(built: Built, tmp_path: Path) -> None:
    curves = {name: [fakes.records(400)] for name in ("small", "large")}
    for figure in TITLES.keys() - {"alignment", *OVERLAYS, "bleu-by-length", "accuracy-by-frequency"}:
        draw(figure, curves, 512, tmp_path / figure)
        for ending in ("png", "svg"):
            drawn = (built.layout.figures("toy") / f"{figure}.{ending}").read_bytes()
            assert (tmp_path / f"{figure}.{ending}").read_bytes() == drawn


def test_the_loss_of_each_system_is_drawn_in_the_tables_unit(built: Built, tmp_path: Path) -> None:
    curves = {name: [fakes.records(400)] for name in ("small", "large", "third")}
    draw("loss-by-system", curves, 512, tmp_path / "loss", unit="bits")
    drawn, plain = ((folder / name).read_text() for folder, name in (
        (tmp_path, "loss.svg"), (built.layout.figures("toy"), "loss-by-system.svg")
    ))  # fmt: skip
    assert drawn.count("<!-- bits per piece -->") == 3 and plain.count("<!-- nats per piece -->") == 2


def test_the_reports_own_curve_is_drawn_beside_ours(built: Built, tmp_path: Path) -> None:
    curves = {name: [fakes.records(400)] for name in ("small", "large", "third")}
    draw("learning-curves", curves, 512, tmp_path / "curves", {"large": [(100, 2.5), (300, 12.2)], "third": [(9, 1)]})
    drawn, plain = ((folder / name).read_text() for folder, name in (
        (tmp_path, "curves.svg"), (built.layout.figures("toy"), "learning-curves.svg")
    ))  # fmt: skip
    assert "in the report" in drawn and "in the report" not in plain
    assert "<!-- third -->" in drawn and "<!-- small -->" not in drawn and "<!-- small -->" in plain
    with pytest.raises(ValueError, match="no system 'larg'"):
        fakes.table(published_curves={"larg": [[100, 2.5]]})


def test_a_table_can_choose_the_lines_that_it_shows(tmp_path: Path) -> None:
    lines = Built(tmp_path, fakes.table(sample_lines=[6, 2], figures=["alignment"]), [1])
    assert [sentence["line"] for sentence in lines.data["samples"]] == ["6", "2"]
    assert "sentence 6" in (lines.layout.figures("toy") / "alignment.svg").read_text()


def test_curves_that_were_not_measured(tmp_path: Path) -> None:
    log = [record | {"bleu": None} if record["event"] == "valid" else record for record in fakes.records(100)]
    draw("bleu", {"small": [log]}, 8, tmp_path / "bleu")
    draw("loss", {"small": [[]]}, 8, tmp_path / "loss")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bleu.png", "bleu.svg", "loss.png", "loss.svg"]


def test_all_machines_of_a_training_are_told(tmp_path: Path) -> None:
    layout, table = Layout(tmp_path), fakes.table(figures=[])
    fakes.write_results(layout, "toy", table, [1])
    path = next(tmp_path.rglob("training.json"))
    machines = [None, {"processor": "Abacus", "threads": 1}, {"processor": "Quipu", "cores": 2, "processes": 2}]
    starts = [{"update": i, "hardware": one, "code_version": f"{i % 2}"} for i, one in enumerate(machines)]
    write_json(path, read_json(path) | {"starts": starts})
    report("toy", table, layout, [1])
    text = " ".join((tmp_path / "tables/toy.md").read_text().split())
    assert "| –; Abacus, 1 thread; 2 × Quipu, 2 threads | 0, 1 |" in text


def test_a_table_of_quotations(tmp_path: Path) -> None:
    rows = [{"label": "theirs", "published": {"bleu": 30.0, "meteor": 50.0}}]
    built = Built(tmp_path, fakes.table(rows=rows, systems={}, figures=["mask"]), [1])
    assert "| theirs (quoted) |" in built.text("md")
    assert "METEOR, published" in built.text("md")
    assert built.data["samples"] == []


@pytest.mark.parametrize(
    ("update", "epoch", "nll"),
    [
        (200, 2.0, 5.125),  # records at 150 and 200 of 5.25 and 5
        (250, 2.5, 4.875),  # at 200 and 250
        (50, 0.5, 5.75),
        (270, 9.0, 4.75),  # no record in that epoch: the last before
        (20, 0.2, None),
    ],
)
def test_nll_of_the_training_text_over_an_epoch(update: int, epoch: float, nll: float | None) -> None:
    assert train_nll(fakes.records(400), update, epoch) == (nll and pytest.approx(nll))


def test_a_record_counts_by_its_updates() -> None:
    log = [{"event": "train", "update": u, "epoch": u / 100, "loss": v} for u, v in ((50, 4.0), (60, 1.0))]
    assert train_nll(log, 60, 0.6) == pytest.approx((50 * 4 + 10 * 1) / 60)


def test_columns_that_a_table_asks_for(tmp_path: Path) -> None:
    rows = [
        {"label": "a", "system": "small", "published": {"bleu1": 46.93, "bleu": 24.29, "nll_train": 2.901}},
        {"label": "b", "system": "large", "at": "average 2"},
    ]
    asked = ["bleu1", "bleu", "nll_train", "nll_valid"]
    built = Built(tmp_path, fakes.table(rows=rows, metrics=asked, figures=[]), [1])
    header, _, first, *_ = built.text("md").split("\n\n")[1].splitlines()
    names = [cell.strip() for cell in header.split("|")[2:-1]]
    assert names == [
        "BLEU-1, published", "BLEU-1, ours", "Δ BLEU-1", "BLEU, published", "BLEU, ours", "Δ BLEU",
        "NLL, training, published", "NLL, training, ours", "NLL, validation, ours", "BLEU, detokenised",
    ]  # fmt: skip
    cells = dict(zip(names, (cell.strip() for cell in first.split("|")[2:-1]), strict=True))
    assert (cells["NLL, training, published"], cells["NLL, training, ours"]) == ("2.901", "5.125")
    assert cells["NLL, validation, ours"] == "4.200"
    assert "in nats per piece" in built.text("md") and "BLEU alone is BLEU-4" in built.text("md")
    row, _ = built.data["rows"]
    assert row["difference"]["bleu1"] == pytest.approx(row["scores"]["tokenised"]["bleu1"]["mean"] - 46.93)
    assert "order:1" in built.text("md")
    (line, _) = csv.DictReader(built.text("csv").splitlines())
    assert (line["published_bleu1"], line["training_nll_train"]) == ("46.93", "5.125")


def test_csv_has_our_nll_in_the_unit_of_the_published(tmp_path: Path) -> None:
    rows: list[Any] = [{"label": "a", "system": "small", "published": {"nll_train": 2.901}}]
    built = Built(tmp_path, fakes.table(rows=rows, metrics=["nll_train"], nll_unit="bits", figures=[]), [1])
    (line,) = csv.DictReader(built.text("csv").splitlines())
    assert (line["published_nll_train"], round(float(line["training_nll_train"]), 3)) == ("2.901", 7.394)  # 5.125 nats
    assert "7.394" in built.text("md") and line["training_nll_train_deviation"] == ""
    assert "Ours: BLEU of the detokenised output" in built.text("md")  # no score of tokenised text is shown


def test_a_table_that_is_not_comparable_has_no_differences(tmp_path: Path) -> None:
    built = Built(tmp_path, fakes.table(comparable=False, figures=[]), [1])
    assert [row["difference"] for row in built.data["rows"][:2]] == [{}, {}]
    header = built.text("md").splitlines()[2]
    assert "BLEU, published" in header and "BLEU, ours" in header and "Δ" not in header
    assert "ours minus published" not in built.text("md") and "difference" not in built.text("csv")


def test_the_mean_of_several_checkpoints_has_no_nll(tmp_path: Path) -> None:
    layout, what = Layout(tmp_path), fakes.table(figures=[], metrics=["bleu", "nll_train", "nll_valid"])
    fakes.write_results(layout, "toy", what, [1])
    path = layout.scores("toy", what.rows[1], "test", 1) / "scores.json"
    scores = read_json(path)
    scores["provenance"] |= {"checkpoints": ["update-00000100", "update-00000200"], "valid_loss": None}
    write_json(path, scores)
    report("toy", what, layout, [1])
    rows = read_json(tmp_path / "tables" / "toy.json")["rows"]
    assert [list(row["scores"]["training"]) for row in rows[:2]] == [["nll_valid", "nll_train"], []]


def test_scores_without_what_the_table_asks_for_are_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    fakes.write_results(layout, "toy", fakes.table(figures=[]), [1])
    with pytest.raises(DataError, match=r"scores\.json: expected scores by bleu2, which the table asks for"):
        report("toy", fakes.table(figures=[], metrics=["bleu2"]), layout, [1])


def test_meteor_without_paraphrases_is_called_so() -> None:
    def row(label: str, modules: str, reduced: bool) -> dict[str, Any]:
        found = {"mean": 50.0, "deviation": None, "low": 49.0, "high": 51.0}
        head = {"label": label, "quoted": False, "note": None, "test": "t", "published": {}, "seeds": [1]}
        scores = {"tokenised": {"meteor": found}}
        return head | {"scores": scores, "meteor": {"modules": modules, "reduced": reduced}}

    data = {"systems": {}, "synthetic": False, "limit": None, "metrics": ["meteor"]}
    full = row("en", "exact stem synonym paraphrase", False)
    less = row("de", "exact stem", True)
    assert result_grids(data | {"rows": [full]})[0].header[1] == "METEOR, ours"
    found = result_grids(data | {"rows": [less]})[0]
    assert found.header[1] == "METEOR (exact stem), ours"
    assert any("without the paraphrase table" in note for note in found.notes)


def test_several_test_sets(tmp_path: Path) -> None:
    rows = [
        {"label": str(i), "system": "small", "at": "best", "test": name} for i, name in enumerate(("test", "valid"))
    ]
    layout, what = Layout(tmp_path), fakes.table(tests=["test"], rows=rows[:1], figures=[])
    fakes.write_results(layout, "toy", what, [1])
    what = fakes.table(tests=["test", "valid"], rows=rows, figures=[])
    first, second = (layout.scores("toy", row, row.test or "", 1) for row in what.rows)
    second.parent.mkdir(parents=True)
    second.symlink_to(first)
    report("toy", what, layout, [1])
    text = (tmp_path / "tables" / "toy.md").read_text()
    assert "| test set |" in text
    assert [row["against"] for row in read_json(tmp_path / "tables" / "toy.json")["rows"]] == [None, None]


DATA = {"corpus": "toy", "languages": "en-de", "training": {"epochs": 4}}
MIXED: dict[str, dict[str, Any]] = {
    "plain": DATA,
    "cased": DATA | {"cleaning": {"lowercase": False}},
    "drawn": DATA | {"corpus": "drawn"},
    "back": DATA | {"languages": "de-en"},
    "deep": DATA | {"model": {"layers": 8}},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Rows of two corpora, two directions and two cleanings."""
    rows = [{"label": f"the {name}", "system": name} for name in (*MIXED, "drawn")]
    rows[-1] |= {"label": "the drawn, greedy", "decoding": {"beam": 1}}
    what = fakes.table(systems=MIXED, rows=rows, figures=[], samples=9)
    return Built(tmp_path_factory.mktemp("mixed"), what, [1])


@pytest.mark.parametrize(
    ("search", "called"),
    [
        ({}, "greedy"),
        ({"sampling": True}, "sampling"),
        ({"sampling": True, "top_p": 0.9, "samples": 9}, "sampling, top p 0.9, samples 9"),
        ({"min_length": 3}, "greedy, min length 3"),
    ],
)
def test_a_search_that_draws_is_not_called_greedy(mixed: Built, search: dict[str, Any], called: str) -> None:
    (row,) = [row for row in mixed.data["rows"] if row["label"] == "the drawn, greedy"]
    found = making_grids(mixed.data | {"rows": [row | {"decoding": row["decoding"] | search}]})
    (making,) = [grid for grid in found if grid.name == "making"]
    assert making.rows[0][making.header.index("search")] == called


def test_a_row_is_compared_with_the_first_that_has_its_references(mixed: Built) -> None:
    found = {row["label"]: row["against"] for row in mixed.data["rows"]}
    baselines = {label: against and against["label"] for label, against in found.items()}
    assert baselines == {
        "the plain": None,
        "the cased": "the plain",  # the same raw references, cleaned otherwise
        "the drawn": None,
        "the back": None,
        "the deep": "the plain",
        "the drawn, greedy": "the drawn",
    }
    assert "cleaned differently" in mixed.text("md")


def test_a_row_is_compared_with_the_one_it_names(tmp_path: Path) -> None:
    rows = [
        {"label": label, "system": "deep", "decoding": {"beam": beam}, "against": against}
        for label, beam, against in (("first", 1, None), ("second", 2, None), ("third", 3, "second"))
    ]
    built = Built(tmp_path, fakes.table(systems={"deep": MIXED["deep"]}, rows=rows, figures=[]), [1])
    found = [row["against"] and row["against"]["label"] for row in built.data["rows"]]
    assert found == [None, "first", "second"]
    section = built.text("md").split("## Comparisons")[1].split("##")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in section.splitlines() if line.startswith("|")]
    assert cells[2:] == [["second", "first"], ["third", "second"]]


def test_each_split_names_the_systems_that_use_it(mixed: Built) -> None:
    used = {
        (corpus["corpus"], corpus["languages"], corpus["systems"][0]): corpus["splits"] for corpus in mixed.data["data"]
    }
    assert [key[:2] for key in used] == [("toy", "en-de"), ("toy", "en-de"), ("drawn", "en-de"), ("toy", "de-en")]
    plain = used["toy", "en-de", "plain"]
    assert list(plain) == ["train", "valid", "test"]
    assert all(found["systems"] == ["plain", "deep"] for found in plain.values())


def test_subwords_of_each_split(mixed: Built) -> None:
    assert [(made["corpus"], made["systems"]) for made in mixed.data["subwords"]] == [
        ("toy", ["plain", "deep"]), ("toy", ["cased"]), ("drawn", ["drawn"]), ("toy", ["back"])
    ]  # fmt: skip
    made = mixed.data["subwords"][0]
    system = mixed.table.systems["plain"]
    vocabulary = Vocabulary(mixed.layout.encoded(system) / "target.model")
    german = (mixed.layout.clean(system) / "test.de").read_text(encoding="utf-8").splitlines()
    expected = sum(len(vocabulary.encode([line])[0]) for line in german) / len(german)
    assert {split: sides["de"]["a_sentence"] for split, sides in made["splits"].items()} == dict.fromkeys(
        ("train", "valid", "test"), pytest.approx(expected)
    )
    assert "## Subwords" in mixed.text("md") and "bpe 8,192" in mixed.text("md")


def test_a_test_set_of_another_corpus_is_used_by_those_who_are_scored_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(system: System, split: str) -> System:
        return system.model_copy(update={"corpus": "toy"}) if split == "test" else system

    systems = {"own": DATA, "guest": DATA | {"corpus": "guest"}}
    what = fakes.table(systems=systems, rows=[{"label": name, "system": name} for name in systems], figures=[])
    layout = Layout(tmp_path)
    fakes.write_results(layout, "toy", what, [1])
    row, guest = what.rows[1], other(what.systems["guest"], "test")
    fakes.write_scores(layout, "toy", row, guest, 1, wrong=2)
    for folder in (layout.raw(what.systems["guest"]), layout.clean(what.systems["guest"])):
        for file in folder.glob("test.*"):
            file.unlink()
    monkeypatch.setattr("nmt.report.tables.with_corpus_of", other)
    report("toy", what, layout, [1])
    built = read_json(tmp_path / "tables" / "toy.json")
    assert [row["against"] and row["against"]["label"] for row in built["rows"]] == [None, "own"]
    used = {corpus["corpus"]: {s: f["systems"] for s, f in corpus["splits"].items()} for corpus in built["data"]}
    assert used == {
        "toy": {"train": ["own"], "valid": ["own"], "test": ["own", "guest"]},
        "guest": {"train": ["guest"], "valid": ["guest"]},
    }


def test_samples_stand_beside_their_own_source_and_reference(mixed: Built) -> None:
    found: dict[str, set[tuple[str, ...]]] = {}
    for sentence in mixed.data["samples"]:
        labels = tuple(one["label"] for one in sentence["translations"])
        found.setdefault(sentence["languages"], set()).add(labels)
        pair = (sentence["source"], sentence["reference"])
        assert (pair if sentence["languages"] == "en-de" else pair[::-1]) in fakes.PAIRS
    assert len(mixed.data["samples"]) == 9
    assert found == {
        "en-de": {("the plain", "the cased", "the deep"), ("the drawn", "the drawn, greedy")},
        "de-en": {("the back",)},
    }


def test_languages_and_synthetic_rows_are_told_apart(mixed: Built) -> None:
    text = mixed.text("md")
    header, _, *rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")][:8]
    assert [cell.strip() for cell in header] == ["system", "languages"]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert ["the back", "de-en"] in cells and ["the drawn (synthetic)", "en-de"] in cells
    assert "Synthetic corpus (the marked rows)" in text
    assert "source words per sentence" in text and re.search(r"\| toy +\| de-en", text)
    assert [row["synthetic"] for row in csv.DictReader(mixed.text("csv").splitlines())].count("True") == 2


def test_a_trial_is_called_so(tmp_path: Path) -> None:
    layout, what = Layout(tmp_path, limit=300), fakes.table(figures=[])
    fakes.write_results(layout, "toy", what, [1])
    report("toy", what, layout, [1])
    assert "cut to its first 300 lines" in (tmp_path / "tables" / "toy.md").read_text()


def test_missing_scores_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; run the stage"):
        report("toy", fakes.table(), Layout(tmp_path), [1])
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (9.46, "9.5 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min 00 s"),
        (432, "7 min 12 s"),
        (3600, "1 h 00 min"),
        (7325, "2 h 02 min"),
    ],
)
def test_durations(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_numbers_and_escapes() -> None:
    assert (number(None, 1), number(1234.56, 1), number(29000, 0)) == ("–", "1,234.6", "29,000")
    assert escape("a|b *c* <d>\ne") == "a\\|b \\*c\\* \\<d> e"
    grid = Grid("g", "G", ["name", "n"], [["a|b", "1.5"], ["c", "–"]])
    assert table(grid).splitlines()[1:] == ["| ---- | --: |", "| a\\|b | 1.5 |", "| c    |   – |"]


def test_marks_share_a_scale() -> None:
    ours = {"tokenised": {"bleu": {"mean": 34.0, "deviation": None, "low": 32.0, "high": 36.0}}}
    rows = [
        {"label": "a", "quoted": False, "published": {"bleu": 33.0}, "scores": ours},
        {"label": "b", "quoted": True, "published": {"bleu": 40.0}},
    ]
    found = marks(rows)
    assert found is not None
    assert [label for label, _ in found.ticks] == ["32", "33", "34", "35", "36", "37", "38", "39", "40"]
    assert (found.rows[0].low, found.rows[0].published, found.rows[0].ours, found.rows[1].published) == (
        0,
        12.5,
        25,
        100,
    )
    assert marks([{"label": "c", "quoted": True, "published": {"ter": 50.0}}]) is None


def test_what_reports_import_stays_out_of_the_way() -> None:
    code = "import sys, nmt.report; print('matplotlib' in sys.modules); "
    code += "import nmt.report.write, nmt.report.overview, nmt.translation.augment; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\nFalse\n"


def test_curves_of_several_vocabularies_say_that_they_do_not_compare(built: Built) -> None:
    assert figure_notes(built.data) == [] and "different vocabularies" not in built.text("md") + built.text("html")
    [made], drawn = built.data["subwords"], [{"source": "", "title": ""}]
    one, other = (made | {"vocab_sha256": {"source": sums, "target": sums}} for sums in "12")
    assert figure_notes(built.data | {"subwords": [one, one]}) == []  # of text that was cleaned in two ways
    both = built.data | {"subwords": [one, other]}
    [note] = figure_notes(both)
    assert note in render(both) and note in html.fill("table.html.j2", figures=drawn, **html.parts(both))
    assert figure_notes(both | {"figures": [{"name": "bleu", "title": ""}]}) == []


def test_a_figure_with_a_picture_that_may_not_be_passed_on_is_on_no_page(built: Built) -> None:
    figures = [{"name": "picture", "title": "Looks", "withheld": True}]
    data = built.data | {"figures": [*built.data["figures"], *figures]}  # the page would need the figure's file
    pages = [render(data), html.render(data, built.layout.figures("toy"))]
    for page in pages:
        assert "Not on this page: picture.png" in page and "Looks" not in page
    assert len(re.findall("data:image", pages[1])) == len(built.data["figures"])


def test_ablations_show_the_settings_that_differ(built: Built) -> None:
    [grid] = [grid for grid in result_grids(built.data) if grid.name == "ablations"]
    assert grid.header == ["system", "model.layers", "checkpoint", "BLEU, ours"]
    assert [row[:3] for row in grid.rows] == [["Small, after 2 epochs", "6", "epoch 2"], ["Large", "8", "best"]]
    same = built.data | {"systems": dict.fromkeys(built.data["systems"], built.data["systems"]["small"])}
    assert "ablations" not in [grid.name for grid in result_grids(same)]


def test_ablations_have_one_row_for_all_test_sets_of_a_system(built: Built) -> None:
    rows = built.data["rows"]
    other = [row | {"test": "other"} for row in rows if row["label"] == "Large"]
    [grid] = [grid for grid in result_grids(built.data | {"rows": [*rows, *other]}) if grid.name == "ablations"]
    assert grid.header == ["system", "model.layers", "checkpoint", "BLEU, test", "BLEU, other"]
    [small, large] = grid.rows
    assert small[0] == "Small, after 2 epochs" and small[-1] == "–" and large[-2] == large[-1] != "–"


def test_ablations_leave_out_the_defaults_of_a_part_that_some_systems_lack(built: Built) -> None:
    added = {"model": "toy/back", "text": "toy", "decoding": {"beam": 1, "sampling": True}}
    for part, shown in (
        ({"back_translation": added}, ["model", "text", "decoding.sampling"]),
        ({"training": {"epochs": 4, "consistency": {}}}, ["weight", "last"]),  # all of it is the default
    ):
        given = built.table.systems["small"].model_dump(mode="json") | part
        config = published_config(System.model_validate(given))
        systems = built.data["systems"] | {"large": {"config": config, "trainings": []}}
        [grid] = [grid for grid in result_grids(built.data | {"systems": systems}) if grid.name == "ablations"]
        where = "back_translation" if "back_translation" in part else "training.consistency"
        assert grid.header == ["system", *(f"{where}.{key}" for key in shown), "checkpoint", "BLEU, ours"]
        assert grid.rows[0][1] == "–" and "" not in grid.rows[1]


def test_seeds_that_disagree_have_no_p(built: Built) -> None:
    [row] = [row for row in built.data["rows"] if row.get("against")]
    pairs = [{"seeds": [1, 1], "difference": d, "p_value": 0.01} for d in (1.5, -0.5)]
    for differences, said in ((pairs, "seeds disagree"), (pairs[:1], "0.010")):
        against = row["against"] | {"pairs": differences, "p_value": differences[0]["p_value"]}
        changed = built.data | {"rows": [row | {"against": against}]}
        [grid] = [grid for grid in result_grids(changed) if grid.name == "comparisons"]
        assert grid.rows[0][grid.header.index("p")] == said and grid.numeric(grid.header.index("p")) == (said[0] == "0")


HOSTILE = [
    "_a_ *b* `c` <d> ~~e~~", "[a](b) [c][d] [e]: f", "# a", "> a", "- a", "1. a", "12) a", "---", "&amp; &#35; R&D",
    "a_b_c test_2016", "back\\slash | pipe", "[3.7, 5.6]", "3.5 a", "-1",
    "2017. a", ">a", "#", "-", "5.",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_text_as_it_is(text: str) -> None:
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(escape(text))
    assert unescape(shown.strip()) == f"<p>{text}</p>"


@pytest.mark.parametrize("text", ["see [1], [2] and [3]", "4 [a] of 5 [b]", "a [b", "41.02 [39.3, 42.7]"])
def test_html_shows_brackets_as_they_are(built: Built, text: str) -> None:
    grid = Grid("filters", "Filters", ["filter", "examples"], [["script", text]])
    page = html.fill("table.html.j2", figures=[], **html.parts(built.data) | {"compared": [grid]})
    cell = re.findall("<td.*?</td>", page.partition('aria-label="Filters"')[2])[0]
    assert unescape(re.sub("<.*?>", "", cell.replace("<small>", " "))) == text


def test_an_empty_translation_is_said(built: Built) -> None:
    sample = built.data["samples"][0]
    data = built.data | {"samples": [sample | {"translations": [{"label": "Large", "text": ""}]}]}
    assert "<dt>Large</dt><dd>(empty)</dd>" in html.fill("table.html.j2", figures=[], **html.parts(data))
    assert "Large: (empty)" in render(data)


def test_words_of_a_sample_that_differ_are_marked() -> None:
    assert html.marked("ein roter Hut .", "ein Ball .") == [
        ("ein ", False), ("roter ", True), ("Hut ", True), (". ", False),
    ]  # fmt: skip
    assert html.marked("赤い傘", "赤い帽") == [("赤", False), ("い", False), ("傘", True)]
    assert html.marked("", "ein Ball") == []
    assert html.marked("我 在 UN 工作", "我在UN吃", "en-zh") == [
        ("我 ", False), ("在 ", False), ("U", False), ("N ", False), ("工", True), ("作", True),
    ]  # fmt: skip
