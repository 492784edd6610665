"""Long input: lines are split into sentences, and what a model has no positions for into parts; nothing is lost."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import SENTENCES

from nmt.config.decoding import Decoding
from nmt.translation.sentences import Sentences, split, translate_lines
from nmt.translation.translator import Translation, Translator

DEMO = Path(__file__).parent.parent.parent / "demo"
TEXTS = {
    "en": ["Dr. Smith paid $3.5 million.", "He left at 5 p.m. on Monday.", '"Really?" she said.'],
    "fr": ["M. Dupont est là.", "Mme Curie aussi.", "Il part."],
    "deu": ["Am 3. Mai kam Dr. Müller.", "Er ging."],
    "zh_Hant": ["今天天气很好。", "我们去公园吧！"],
    "ja": ["私は学生です。", "彼は？"],
    "my": ["ကျွန်တော် စာလေ့လာသည်။", "သူမ သွားသည်။"],
    "ur": ["وہ بازار گیا۔", "کیا آپ آئیں گے؟", "ہاں۔"],
    "bn": ["আমি গান গাই।", "তুমি কি আসবে?", "হ্যাঁ।"],
    "hy": ["Ես սովորում եմ։", "Դու գալի՞ս ես։"],
    "km": ["ខ្ញុំទៅ។", "តើអ្នកទៅទេ?"],
    "th": ["เขาไปตลาด แล้วซื้อปลา"],
    "es": ["1. Compra pan.", "2. Vuelve a casa.", "Tengo 3.", "Son de 1990."],
    "xx": ["A man reads.", "A dog runs."],
}


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_of_a_line(language: str) -> None:
    space = "" if language[:2] in ("zh", "ja") else " "
    assert split(space.join(TEXTS[language]), language) == TEXTS[language]


WORDS = st.sampled_from([word for sentences in SENTENCES.values() for line in sentences for word in line.split()])
TEXT = st.lists(WORDS | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12), max_size=30).map(" ".join)


@settings(max_examples=80, derandomize=True, deadline=None, database=None)
@given(TEXT, st.sampled_from(["en", "hi", "zh", "th"]), st.integers(1, 30))
def test_parts_have_all_of_the_text_and_fit_the_model(text: str, language: str, limit: int) -> None:
    sentences = Sentences([language, "de"], len, limit)
    parts = sentences.parts(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    for part in parts:
        assert len(part) <= limit or len(part) < 2 or limit < 6  # six: a letter may have several marks
        if limit > 6 and part and len(part) < len(text):
            assert part == text.strip()[: len(part)] or not unicodedata.combining(part[0])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two three four, five six seven eight nine", ["one two three four,", "five six seven eight nine"]),
        ("one two three four five six seven eight", ["one two three four", "five six seven eight"]),
        ("abcdefghijklmnopqrstuvwxyzabcd" * 2, ["abcdefghijklmnopqrstuvwxyzabcd"] * 2),
        ("क्षत्रिय" * 6, ["क्षत्रिय" * 3] * 2),
    ],
)
def test_a_long_sentence_is_divided_at_clauses_then_words_then_letters(text: str, parts: list[str]) -> None:
    sentences = Sentences(["hi", "en"], len, 31)
    assert (sentences.parts(text), sentences.divided) == (parts, 1)


class Echo:
    """Stands for a translator: the translation of a sentence is the sentence in capitals, two of each."""

    languages = ("en", "zh")

    def nbest(self, lines: Sequence[str], decoding: Decoding) -> list[list[Translation]]:
        self.asked = list(lines)
        return [
            [Translation(line.upper() + mark, -len(mark) - 1.0, [len(line)]) for mark in ("", "?")] for line in lines
        ]


def test_translations_are_joined_by_rank_and_equal_sentences_translated_once() -> None:
    echo, lines = Echo(), ["A dog. A cat. A dog.", "", "A dog."]
    sentences = Sentences(echo.languages, len, 100)
    best, empty, one = translate_lines(cast(Translator, echo), sentences, lines, Decoding())
    assert echo.asked == ["A dog.", "A cat.", ""]
    assert best == [Translation("A DOG.A CAT.A DOG.", -1, [6] * 3), Translation("A DOG.?A CAT.?A DOG.?", -2, [6] * 3)]
    assert (empty[0].text, one[0].text) == ("", "A DOG.")
    whole = translate_lines(cast(Translator, echo), None, lines, Decoding())
    assert whole[0][0].text == lines[0].upper()
    forced = SimpleNamespace(prefix="x", sampling=False)
    assert translate_lines(cast(Translator, echo), sentences, lines, cast(Any, forced)) == whole


def test_short_translations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The echo's translations have one piece, and a tenth of the source's pieces is expected."""
    echo, sentences = Echo(), Sentences(("en", "zh"), len, 100, 0.1)
    translate_lines(cast(Translator, echo), sentences, ["A dog.", "A dog and a cat.", "x" * 29], Decoding())
    sentences.report()
    assert capsys.readouterr().err == ""
    translate_lines(cast(Translator, echo), sentences, ["x" * 30, "x" * 30, "x" * 31], Decoding())
    sentences.report()
    assert (
        f"less than half as long as is usual in the training text: 2, the first that of '{'x' * 30} …'"
        in capsys.readouterr().err
    )
    without_growth = Sentences(("en", "zh"), len, 100)
    translate_lines(cast(Translator, echo), without_growth, ["x" * 99], Decoding())
    assert without_growth.short == 0


def test_sentences_that_the_model_does_not_know_as_a_whole_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    sentences = Sentences.of(Translator.load(DEMO, "cpu", 1))
    sentences.check(["A dog.", "東京", "A 東京 dog.", ""], [[Translation("", 0.0, [])]] * 4)
    sentences.report()
    assert "characters that the model does not know: 2, the first '東京'" in capsys.readouterr().err


def test_the_command_translates_every_sentence_of_a_line_and_leaves_empty_lines_empty() -> None:
    single = ["Two small dogs are sitting next to a red ball.", "A man reads.", "The cat sleeps under the table!"]
    alone = run("translate", DEMO, "--threads", 1, text="".join(f"{line}\n" for line in single))[1].splitlines()
    assert all(alone) and len(set(alone)) == 3
    text = f"{' '.join(single)}\n\n\u200d\n{single[1]} {single[1]}\n"
    assert run("translate", DEMO, "--threads", 1, text=text)[1].split("\n") == [
        " ".join(alone), "", "", f"{alone[1]} {alone[1]}", "",
    ]  # fmt: skip


@pytest.mark.integration
def test_a_source_beyond_the_model_is_translated_in_parts_and_that_is_said() -> None:
    line = "a man and " * 200 + "a dog"
    code, output = run("translate", DEMO, "--threads", 1, "--beam", 1, text=f"{line}\n")
    translation, _, said = output.partition("\n")
    assert code == 0 and "were translated in parts: 1;" in said and "more than the model's" in said
    assert translation.count("homme") > 20
    cut = run("translate", DEMO, "--threads", 1, "--beam", 1, "--no-split", text=f"{line}\n")[1]
    assert "were cut to" in cut and len(cut) < len(translation)
