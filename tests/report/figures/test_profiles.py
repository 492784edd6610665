"""Profiles of errors, against values counted by hand."""

from collections import Counter
from pathlib import Path

import fakes
import pytest
from PIL import Image

from nmt.config.table import Figure
from nmt.plan.layout import Layout
from nmt.report.figures.plots import draw
from nmt.report.figures.profiles import Texts, accuracy_by_frequency, bleu_by_length, divided, draw_profile
from nmt.report.write import report

TEXTS = Texts(
    ["a b c d e", "a a x", "r r r r r r"],
    ["a b c d e", "a rare x", "r s r s r s"],
    Counter({"a": 10, "b": 1, "c": 9, "d": 100, "e": 1000, "r": 20000, "x": 1}),
)


def test_accuracy_by_frequency() -> None:
    assert accuracy_by_frequency(TEXTS) == {
        0: (0.0, 4),  # "rare", and "s" three times
        1: (100.0, 3), 2: (100.0, 2), 3: (100.0, 1), 4: (100.0, 1), 5: (100.0, 3),
    }  # fmt: skip


def test_bleu_by_length() -> None:
    short, long = bleu_by_length(TEXTS).values()
    assert short[1] == 2 and 0 < short[0] < 100 and long[1] == 1
    assert bleu_by_length(Texts(TEXTS.references, TEXTS.references, {}))[0] == (pytest.approx(100), 2)


def test_languages_without_spaces_are_divided_as_bleu_divides_them() -> None:
    lines = [
        "两 只 狗 看 见 一 只 猫 。",
        "一 只 猫 睡 觉 。",
        "狗 在 公 园 里 看 见 三 只 猫 。",
    ]  # a character is a word
    ours, theirs = [lines[0], "一 只 狗 睡 觉 。", lines[2]], lines
    joined = [["".join(line.split()) for line in side] for side in (ours, theirs)]
    zh = Texts(*(list(divided(side, "zh_Hans")) for side in joined), Counter(divided(joined[1], "zh")))
    assert bleu_by_length(zh) == bleu_by_length(Texts(ours, theirs, {})) and len(bleu_by_length(zh)) == 2
    assert list(divided(["A dog, here."], "de")) == ["A dog, here."]


@pytest.mark.filterwarnings("error::UserWarning")  # matplotlib finds no place for the axes
@pytest.mark.parametrize("figure", ["loss", "learning-curves", "bleu-by-length"])
def test_a_figure_grows_by_the_legend_of_many_systems(tmp_path: Path, figure: Figure) -> None:
    sizes = []
    for count in (2, 30):
        names = [f"a-system-with-a-name-{number}" for number in range(count)]
        if figure == "bleu-by-length":
            draw_profile(figure, dict.fromkeys(names, TEXTS), tmp_path / figure)
        else:
            draw(figure, {name: [fakes.records(400)] for name in names}, 8, tmp_path / figure)
        sizes.append(Image.open(tmp_path / f"{figure}.png").size)
        drawn = (tmp_path / f"{figure}.svg").read_text()
        assert all(drawn.count(f"<!-- {name} -->") == 1 for name in names[8:])
    (width, _), (wider, higher) = sizes
    assert wider > width + 300 and higher > 30 * 30


def test_a_profile_of_too_few_sentences_says_so(tmp_path: Path) -> None:
    for texts, said in ((TEXTS, 1), (Texts(TEXTS.translations * 5, TEXTS.references * 5, {}), 0)):
        draw_profile("bleu-by-length", {"small": texts}, tmp_path / "drawn")
        assert (tmp_path / "drawn.svg").read_text().count("the test set is too small -->") == said


@pytest.mark.integration
def test_a_table_draws_the_profiles_that_it_names(tmp_path: Path) -> None:
    layout, figures = Layout(tmp_path / "results"), ["bleu-by-length", "accuracy-by-frequency"]
    table = fakes.table(figures=figures)
    fakes.write_results(layout, "toy", table, [1])
    report("toy", table, layout, [1])
    drawn = {file.name for file in layout.figures("toy").iterdir()}
    assert drawn == {f"{figure}.{kind}" for figure in figures for kind in ("png", "svg")}
    assert "BLEU by the length of the sentence" in (tmp_path / "results/tables/toy.html").read_text()
