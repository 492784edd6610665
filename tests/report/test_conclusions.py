"""What docs/conclusions.md says of two systems is what the committed tables say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt.system.files import read_json

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "conclusions.md"
COMPARED = re.compile(r"“([^”]+)” against “([^”]+)” on (\w+): ([+−]\d+\.\d) BLEU, p ([<=]) ([01]\.\d+)")
RIGHT = re.compile(r"“([^”]+)” on (\w+): ([\d.]+) % \[([\d.]+), ([\d.]+)\]")
TABLE = re.compile(r"\(\.\./results/tables/(\w+)\.md\)")


def claims(pattern: re.Pattern[str]) -> Iterator[tuple[str, ...]]:
    """Each claim with the table that its line links to."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        for found in pattern.findall(line):
            (table,) = TABLE.findall(line)
            yield table, *found


def row(table: str, label: str, test: str) -> dict[str, Any]:
    rows = read_json(ROOT / "results" / "tables" / f"{table}.json")["rows"]
    (found,) = [row for row in rows if (row["label"], row["test"]) == (label, test)]
    return dict(found)


@pytest.mark.parametrize(("table", "label", "other", "test", "difference", "sign", "p"), claims(COMPARED))
def test_a_comparison_is_the_one_in_the_table(
    table: str, label: str, other: str, test: str, difference: str, sign: str, p: str
) -> None:
    against = row(table, label, test)["against"]
    assert against["label"] == other
    assert f"{against['difference']:+.1f}".replace("-", "−") == difference
    value, digits = against["p_value"], len(p) - 2
    assert value < float(p) if sign == "<" else round(value, digits) == float(p)


@pytest.mark.parametrize(("table", "label", "test", "share", "low", "high"), claims(RIGHT))
def test_the_share_that_is_right_is_the_one_in_the_table(
    table: str, label: str, test: str, share: str, low: str, high: str
) -> None:
    scores = row(table, label, test)["scores"]["tokenised"]
    right = scores["words"] if "words" in scores else scores["exact"]
    assert [f"{right[key]:.1f}" for key in ("mean", "low", "high")] == [share, low, high]


def test_each_conclusion_is_tested() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if TABLE.search(line) and line[0] == "|"]
    assert len(lines) >= 8
    assert all(COMPARED.search(line) or RIGHT.search(line) for line in lines)
