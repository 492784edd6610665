"""The demo model that comes with the project: its size, its card, and the French of the report's ten sentences."""

import re
from pathlib import Path

import pytest

from nmt.translation.translator import Translator

ROOT = Path(__file__).parent.parent.parent
DEMO, ACCEPTED = ROOT / "demo", Path(__file__).with_name("demo_sentences.tsv")
RIGHT = 7  # of ten, as docs/results/report-e.md says


def plain(text: str) -> str:
    """A sentence without case, spaces before punctuation and its last punctuation mark."""
    return re.sub(r"\s+([?!.,;:])", r"\1", text.strip().lower()).rstrip(".!?… ")


def test_the_demo_translates_the_reports_sentences() -> None:
    rows = [line.split("\t") for line in ACCEPTED.read_text(encoding="utf-8").splitlines()[1:]]
    translations = Translator.load(DEMO, "cpu", 1).translate([english for english, _ in rows])
    answers = [[plain(answer) for answer in accepted.split("|")] for _, accepted in rows]
    assert sum(plain(t) in right for t, right in zip(translations, answers, strict=True)) == RIGHT


def test_the_demo_is_small_and_names_its_data() -> None:
    assert (DEMO / "weights.safetensors").stat().st_size <= 16e6
    card = (DEMO / "README.md").read_text(encoding="utf-8")
    assert "Flickr30K" in card and "CC BY 2.0" in card and "test_tatoeba" in card


def test_one_string_is_no_list_of_lines() -> None:
    with pytest.raises(TypeError, match=r"a list of lines, got the string 'A red ball\.'"):
        Translator.load(DEMO, "cpu", 1).translate("A red ball.")
