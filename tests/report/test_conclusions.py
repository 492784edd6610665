"""What docs/results/ says of a system, or of two, is what the committed tables say."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from nmt.report.cells import hardware, published, statistic, training_time
from nmt.system.files import read_json

Json = dict[str, Any]
ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "results"
PAGE = PAGES / "conclusions.md"
CLAIMS = ["claim", "verdict", "effect"]
VERDICTS = ("holds", "in part", "does not hold", "undecided")
SURE = 0.025  # one-sided: a difference with a smaller p is told from chance, and set in bold
NUMBER = r"[+−]\d+\.\d"
LINK = re.compile(r" \(\[table\]\(\.\./\.\./results/tables/(\w+)\.md\)\)$")
PAIR = re.compile(r"^([a-z]{2}-[a-z]{2}): ")
COMPARED = re.compile(r"“([^”]+)” − “([^”]+)”: (.+)")
DIFFERENCE = re.compile(rf"(\w+) (\*\*)?({NUMBER})(?:\*\*)?(?: \(by seed ({NUMBER}(?:, {NUMBER})*)\))?")
LEVELS = re.compile(r"“([^”]+)”: (.+)")
LEVEL = re.compile(r"(\w+) (\d+\.\d\d(?: ± \d+\.\d\d| \[\d+\.\d, \d+\.\d\]))(?: \(published ([\d.]+)\))?")
SHARE = re.compile(r"(\w+) (\d+\.\d) % \[(\d+\.\d), (\d+\.\d)\]")
SYSTEM = re.compile(r'\[(.+)\]\(\.\./\.\./results/tables/(\w+)\.md(?: "([^"]+)")?\)')
QUOTED = re.compile(r"\[best published: .+\]\(\.\./reference/bibliography\.md#[\w-]+\)")
METRIC = {"BLEU-1": "bleu1", "TER": "ter", "METEOR": "meteor", "exact match": "exact", "right (%)": "words"}


class Grid(NamedTuple):
    """A Markdown table of a page."""

    page: Path
    header: list[str]
    rows: list[list[str]]


class Effect(NamedTuple):
    """One line of an effect: what is said of a system, or of two, in one table."""

    table: str
    text: str
    languages: str = ""


def grids(page: Path) -> Iterator[Grid]:
    for block in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        yield Grid(page, header, rows)


def claims() -> list[list[str]]:
    return [row for grid in grids(PAGE) if grid.header == CLAIMS for row in grid.rows]


def effects(cell: str) -> list[Effect]:
    lines = cell.split("<br>")
    return [
        Effect(LINK.findall(line)[0], PAIR.sub("", LINK.sub("", line)), "".join(PAIR.findall(line))) for line in lines
    ]


def row(table: str, label: str, test: str | None = None) -> Json:
    data = read_json(ROOT / "results" / "tables" / f"{table}.json")
    wanted = (label, test or data["tests"][0])
    quoted = [row for row in data["rows"] if row["quoted"] and row["label"] == label]
    (match,) = quoted or [row for row in data["rows"] if (row["label"], row["test"]) == wanted]
    return dict(match)


def in_bits(nll: Json) -> Json:
    """A likelihood in nats, in bits."""
    return nll | {key: nll[key] and nll[key] / math.log(2) for key in ("mean", "deviation")}


def signed(value: float, digits: int = 1) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def listed(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]]:
    """The items of a list that has nothing but such items."""
    matches = list(pattern.finditer(text))
    assert ", ".join(match[0] for match in matches) == text
    return [match.groups(default="") for match in matches]


ALL = [effect for _, _, cell in claims() for effect in effects(cell)]


@pytest.mark.parametrize("effect", [effect for effect in ALL if " − “" in effect.text], ids=str)
def test_a_comparison_is_the_one_in_the_table(effect: Effect) -> None:
    match = COMPARED.fullmatch(effect.text)
    assert match
    label, other, text = match.groups()
    for test, bold, difference, by_seed in listed(DIFFERENCE, text):
        against = row(effect.table, label, test)["against"]
        assert against["label"] == other
        assert signed(against["difference"]) == difference
        assert bool(bold) == (against["p_value"] < SURE)
        if by_seed:
            assert by_seed == ", ".join(signed(pair["difference"]) for pair in against["pairs"])


@pytest.mark.parametrize("effect", [effect for effect in ALL if " − “" not in effect.text], ids=str)
def test_a_level_is_the_one_in_the_table(effect: Effect) -> None:
    match = LEVELS.fullmatch(effect.text)
    assert match
    label, text = match.groups()
    if "%" in text:
        for test, *share in listed(SHARE, text):
            tokenised = row(effect.table, label, test)["scores"]["tokenised"]
            right = tokenised["words"] if "words" in tokenised else tokenised["exact"]
            assert [f"{right[key]:.1f}" for key in ("mean", "low", "high")] == share
    else:
        for test, level, figure in listed(LEVEL, text):
            ours = row(effect.table, label, test)
            assert statistic(ours["scores"]["tokenised"]["bleu"]) == level
            assert not figure or published(ours["published"]["bleu"]) == figure


def test_each_conclusion_has_an_effect_and_a_verdict_that_goes_with_it() -> None:
    found = claims()
    assert len(found) >= 30
    for _, verdict, cell in found:
        assert verdict.startswith(VERDICTS)
        assert effects(cell)
        if " − “" in cell:  # undecided where no difference is told from chance, and there alone
            assert ("**" not in cell) == verdict.startswith("undecided"), cell
        elif "(published" not in cell and "%" not in cell:
            assert verdict.startswith("undecided"), cell


def test_effects_in_two_language_pairs_say_which() -> None:
    for _, _, cell in claims():
        found = effects(cell)
        pairs = [read_json(ROOT / "results" / "tables" / f"{effect.table}.json")["rows"] for effect in found]
        languages = [next(row["languages"] for row in rows if not row["quoted"]) for rows in pairs]
        assert [effect.languages for effect in found] == (languages if len(set(languages)) > 1 else [""] * len(found))


def cell(header: str, ours: Json, table: str) -> str:
    """What a page should have under a heading."""
    scores = ours.get("scores", {}).get("tokenised", {})
    if header.startswith("test_"):
        return statistic(row(table, ours["label"], header)["scores"]["tokenised"]["bleu"])
    metric, _, whose = header.rpartition(", ")
    if metric in METRIC:
        figure = METRIC[metric]
        return statistic(scores.get(figure)) if whose == "ours" else published(ours["published"].get(figure))
    seeds = ours.get("seeds", [])
    plain: dict[str, Callable[[], str]] = {
        "test set": lambda: str(ours["test"]),
        "published": lambda: published(ours["published"].get("bleu")),
        "best published": lambda: published(ours["published"].get("bleu")),
        "ours": lambda: statistic(scores.get("bleu")),
        "difference": lambda: signed(ours["difference"]["bleu"], 2) if "bleu" in ours.get("difference", {}) else "–",
        "by seed": lambda: ", ".join(f"{value:.1f}" for value in scores["bleu"]["values"]),
        "NLL, validation, bits": lambda: statistic(in_bits(ours["scores"]["training"]["nll_valid"]), 3),
        "seeds": lambda: f"{len(seeds)} together" if ours.get("ensemble") else str(len(seeds)) if seeds else "–",
        "time": lambda: training_time(ours) if seeds else "–",
        "hardware": lambda: "; ".join(dict.fromkeys(map(hardware, ours["hardware"]))) if seeds else "–",
    }
    return plain[header]()


def of_paper(grid: Grid, theirs: list[str], ours: list[str]) -> None:
    """Check a first row of published figures: those beside the system of the second."""
    match = SYSTEM.fullmatch(ours[0])
    assert match
    text, table, label = match.groups()
    for header, figure in zip(grid.header[1:], theirs[1:], strict=True):
        wanted = "–"
        if header.startswith("test_"):
            wanted = published(row(table, label or text, header)["published"]["bleu"])
        assert figure == wanted, header


FIGURES = [grid for page in sorted(PAGES.glob("*.md")) for grid in grids(page) if grid.header[0] == "system"]


@pytest.mark.parametrize("grid", FIGURES, ids=lambda grid: f"{grid.page.stem}: {grid.header}")
def test_a_table_of_figures_has_those_of_the_committed_tables(grid: Grid) -> None:
    if QUOTED.fullmatch(grid.rows[0][0]):
        of_paper(grid, *grid.rows[:2])
    for cells in grid.rows[1:] if QUOTED.fullmatch(grid.rows[0][0]) else grid.rows:
        match = SYSTEM.fullmatch(cells[0])
        assert match, cells[0]
        text, table, label = match.groups()
        said = dict(zip(grid.header, cells, strict=True))
        ours = row(table, label or text, said.get("test set"))
        for header in grid.header[1:]:
            assert said[header] == cell(header, ours, table), (cells[0], header)


def test_what_report_c_says_of_more_training_is_what_the_logs_say() -> None:
    """Figures, the training's length, the slope of validation BLEU with its standard error, and the lowest loss."""
    (grid,) = [grid for grid in grids(PAGES / "report-c.md") if grid.header[:3] == ["published", "ours", "short by"]]
    names = {"transformer": "Transformer", "multimodal": "Multimodal Transformer"}
    names |= {"multimodal_back": "Multimodal Transformer with back-translations"}
    names |= {f"{name}_dropout": f"{label}, dropout 0.3" for name, label in names.items()}
    for (name, label), (bar, *figures, slope, lowest) in zip(names.items(), grid.rows, strict=True):
        ours = row("multi30k_images_full", label)
        folder = ROOT / "results" / "records" / "multi30k_images_full" / name / "seed1"
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        valid = [event for event in log if event["event"] == "valid"]
        end = valid[-1]
        said, first, last = re.fullmatch(r"(.+), epochs (\d+) to (\d+)", slope).groups()  # type: ignore[union-attr]
        late = [event for event in valid if event["epoch"] >= int(first)]
        fit, covariance = np.polyfit([e["epoch"] for e in late], [e["bleu"] for e in late], 1, cov=True)
        assert f"{signed(fit[0], 2)} ± {covariance[0, 0] ** 0.5:.2f}" == said and end["epoch"] == int(last)
        assert float(bar.rpartition(" ")[2]) == ours["published"]["bleu"]
        bleu = ours["scores"]["tokenised"]["bleu"]
        training = f"{end['update']:,} updates, {end['epoch']:.0f} epochs"
        assert figures == [statistic(bleu), f"{-ours['difference']['bleu']:.1f}", training]
        assert lowest == f"epoch {min(valid, key=lambda event: event['loss'])['epoch']:.0f}"


def test_the_index_leads_to_every_table() -> None:
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    tables = sorted(page.stem for page in (ROOT / "results" / "tables").glob("*.md"))
    missing = [table for table in tables if f"../../results/tables/{table}.md" not in index]
    assert missing in ([], ["scenes"])  # which `make run` writes


def test_each_report_has_a_table_of_figures() -> None:
    assert {grid.page.stem for grid in FIGURES} >= {"best", *(f"report-{letter}" for letter in "abcde")}


def test_the_page_of_languages_has_the_scores_of_its_table() -> None:
    (grid,) = [grid for grid in grids(PAGES / "languages.md") if grid.header[0] == "pair"]
    labels = ("One pair", "All twelve pairs", "Ten pairs")
    rows = read_json(ROOT / "results" / "tables" / "multi30k_languages.json")["rows"]
    for pair, *figures in grid.rows:
        for label, figure in zip(labels, figures, strict=True):
            (match,) = [row for row in rows if row["languages"] == pair and row["label"].startswith(label)]
            assert figure.split()[0] == f"{match['scores']['tokenised']['bleu']['mean']:.2f}"
            assert ("zero-shot" in figure) == ("zero-shot" in match["label"])
    assert len(grid.rows) == 12
