"""The built-in copy task: its splits, its files, and the share of lines copied without a fault."""

import json
from pathlib import Path

import pytest

from nmt.config.table import Published, Table, load_table
from nmt.corpora.catalogue import fetch, names
from nmt.corpora.catalogue import test_sets as sets_of
from nmt.corpora.copy_task import LENGTHS, LONGER, splits
from nmt.report.grids import result_grids
from nmt.scoring.score import exact
from nmt.system.errors import ConfigError


def test_no_sequence_comes_twice_and_lengths_are_as_said() -> None:
    found = splits()
    lines = [line for split in found.values() for line in split]
    assert len(lines) == len(set(lines)) == 11_500
    lengths = {split: {len(line.split()) for line in sequences} for split, sequences in found.items()}
    assert lengths["train"] == lengths["valid"] == lengths["test"] == set(LENGTHS)
    assert lengths["test_longer"] == set(LONGER) and max(LENGTHS) < min(LONGER)
    assert {number for line in lines for number in line.split()} == {str(n) for n in range(1, 11)}
    assert found == splits()


def test_it_is_a_corpus_like_others_with_equal_sides(tmp_path: Path) -> None:
    assert "copy" in names() and sets_of("copy", "src-tgt") == ["test", "test_longer"]
    fetch("copy", "src-tgt", tmp_path / "raw", limit=20)
    for split in ("train", "valid", "test", "test_longer"):
        texts = [(tmp_path / f"raw/{split}.{side}").read_text() for side in ("src", "tgt")]
        assert texts[0] == texts[1] and texts[0].count("\n") == 20
    assert json.loads((tmp_path / "raw/corpus.json").read_text())["synthetic"] is True
    with pytest.raises(ConfigError, match="unknown language of corpus 'copy': 'de'"):
        fetch("copy", "src-de", tmp_path / "other")


@pytest.mark.parametrize(
    ("hypotheses", "score", "interval"),
    [
        (["1 2", "3", "4 5"], 100, (100, 100)),
        (["1 2 ", "3", "5 4"], 200 / 3, (0, 100)),
        (["", "x", "5 4"], 0, (0, 0)),
    ],
)
def test_exact_match(hypotheses: list[str], score: float, interval: tuple[float, float]) -> None:
    found = exact(hypotheses, ["1 2", "3", "4 5"])
    assert found["score"] == pytest.approx(score)
    assert (found["low"], found["high"]) == pytest.approx(interval)


def test_the_interval_of_many_lines_is_the_normal_one() -> None:
    found = exact(["a"] * 300 + ["b"] * 700, ["a"] * 1000)
    assert (found["low"], found["high"]) == pytest.approx((30 - 2.84, 30 + 2.84), abs=0.35)


def test_a_table_shows_it_where_asked_for(tmp_path: Path) -> None:
    table = load_table(Path(__file__).parents[2] / "workflow/tables/copy_task.yaml")
    assert "exact" in table.metrics and "exact" not in Table.model_fields["metrics"].default
    row = {
        "label": "r",
        "quoted": True,
        "note": None,
        "test": "test",
        "published": Published(exact=99).model_dump(exclude_none=True),
    }
    data = {"rows": [row], "systems": {}, "synthetic": True, "limit": None}
    assert "exact match, published" in result_grids(data | {"metrics": table.metrics})[0].header
    assert not any("exact" in cell for cell in result_grids(data)[0].header)
