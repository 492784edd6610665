"""What holds for any text, tried on drawn examples: no line and no visible character is lost to a model and back.

A character is visible here unless it is white space, a control, format or private-use character, or one that draws
nothing (`nmt.text.characters.is_blank`).
"""

import math
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from copytask import write_clean
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw import write_raw

from nmt.config.data import Cleaning, Subwords
from nmt.data.encode import encode_corpus
from nmt.scoring.score import score_lines
from nmt.system.files import DROPPED
from nmt.system.lines import read_lines
from nmt.text.characters import is_blank
from nmt.text.clean import clean
from nmt.text.cleaner import Cleaner, restore
from nmt.text.subwords import Vocabulary, learn

LANGUAGES = ["en", "fr", "cs", "it", "de", "fi", "ga", "tr", "ru", "hi", "zh", "ja", "ko", "xx"]
TRAPS = [
    "&amp;", "&#124;", "&bar;", "&quot", "<", ">", "(", "]", "{", "|", "%", "@-@", "$1", "10-20", "a@b.de", "http://x.y/z",
    "▁", "▅", "<s>", "</s>", "<unk>", "<pad>", "DOTMULTI", "DOTDOTMULTI", "THISISPROTECTED000", "_ELLIPSIS_", "-LRB-",
    ".", "..", "...", "....", "U.S.", "no.", "Mr.", "'", '"', "''", "``", "`", "'s", "n't", "l'homme", "«", "»", "-",
    "x'-li", "x' - li", "'s - mail", "५०", "क्", "ष", "।", "İ", "I", "ς", "Σ", "ﬁ", "e\u0301", "J\u030c", "\u1100\u1161",
    "👩", "🏴", "\ufe0f", "\u200c", "\u200d", "\u06dd", "\u0600", "\u3164", "\u2800", "\u00ad", "\ufeff",
    "\ue000", "\U0010fffb", "\U0010fffd", " ", "  ", "\u00a0", "10\u00a0000", "\u3000", "\u2028", "\x85", "\t", "\r",
    "\0",
]  # fmt: skip
"""Pieces of text that mean something to Moses, to sentencepiece, to XML or to Unicode."""
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
LINES = st.lists(st.text(CHARACTERS, max_size=4) | st.sampled_from(TRAPS), max_size=8).map("".join)
FORMS = st.sampled_from(["none", "NFC", "NFKC"])

few_and_many = pytest.mark.parametrize("examples", [25, pytest.param(4000, marks=pytest.mark.long)])
"""The first number is for every run: the same examples each time. The second draws new ones."""


def hold(examples: int, check: Callable[..., None], *drawn: st.SearchStrategy[Any]) -> None:
    """Call a check with so many drawn arguments."""
    chosen = settings(
        max_examples=examples, derandomize=examples < 100, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    chosen(given(*drawn)(check))()


def visible(text: str) -> str:
    return "".join(c for c in text if not is_blank(c) and unicodedata.category(c) != "Co")


def normal(text: str, form: Any) -> str:
    return text if form == "none" else unicodedata.normalize(form, text)


def folded(text: str, form: Any = "NFC") -> str:
    """A text without case; "ı" is Turkish, and whether a sigma is final depends on what stands beside it."""
    lower = text.replace("İ", "i").lower().replace("ı", "i").replace("ς", "σ")
    return normal(lower, form)


def some_language(examples: int) -> st.SearchStrategy[str]:
    """Few languages for few examples: the rules of each one take time to load."""
    return st.sampled_from(LANGUAGES[: 3 if examples < 100 else None])


@few_and_many
def test_tokens_come_back_with_every_visible_character(examples: int) -> None:
    def check(text: str, language: str, form: Any, lowercase: bool) -> None:
        recipe = Cleaning(unicode=form, lowercase=lowercase, punctuation=False)
        cleaned = Cleaner(recipe, language)(text)
        assert cleaned == " ".join(cleaned.split()) and len(cleaned.splitlines()) <= 1
        expected, back = visible(normal(visible(text), form)), visible(restore(cleaned, language, recipe))
        assert (folded(back, form) == folded(expected, form)) if lowercase else (back == expected)

    hold(examples, check, LINES, some_language(examples), FORMS, st.booleans())


@few_and_many
def test_the_default_recipe_keeps_letters_marks_and_digits(examples: int) -> None:
    """Moses' normalisation rewrites punctuation by design, and adds some: « becomes a quotation mark."""

    def words(text: str) -> str:
        return "".join(
            c for c in folded(unicodedata.normalize("NFC", visible(text))) if unicodedata.category(c)[0] in "LMN"
        )

    def check(text: str, language: str) -> None:
        recipe = Cleaning()
        assert words(restore(Cleaner(recipe, language)(text), language, recipe)) == words(text)

    hold(examples, check, LINES, some_language(examples))


@few_and_many
def test_cleaned_text_has_one_form(examples: int) -> None:
    def check(text: str, language: str, form: Any, lowercase: bool, characters: Any) -> None:
        steps = {"lowercase": lowercase, "characters": characters}
        cleaner = Cleaner(Cleaning(unicode=form, punctuation=False, tokenize="none", **steps), language)
        cleaned = cleaner(text)
        assert form == "none" or unicodedata.is_normalized(form, cleaned)
        assert cleaner(cleaned) == cleaned
        assert bool(cleaned) or characters == "latin" or not visible(text)

    arguments = (LINES, some_language(examples), FORMS, st.booleans(), st.sampled_from(["any", "latin"]))
    hold(examples, check, *arguments)


ENTITIES = {"&bar;": "|", "&bra;": "[", "&ket;": "]", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
ENTITIES |= {"&#124;": "|", "&#91;": "[", "&#93;": "]", "&amp;": "&", "@-@": "-"}


@few_and_many
def test_any_output_of_a_model_can_be_restored(examples: int) -> None:
    """Moses undoes its own escapes, and a hyphen that it has split off."""

    def undone(text: str) -> str:
        for escaped, character in ENTITIES.items():
            text = text.replace(escaped, character)
        return visible(text)

    def check(words: list[str], language: str) -> None:
        output = " ".join(" ".join(words).split())
        assert undone(restore(output, language, Cleaning())) == undone(output)

    words = st.lists(st.sampled_from([*TRAPS, *ENTITIES]) | st.text(CHARACTERS, max_size=3), max_size=8)
    hold(examples, check, words, some_language(examples))


LEARNED = ["the red ball ▁ ▅ <s> </s> <unk> <pad> lies ; in snow 0123456789", "ein roter Ball é ß भारत 犬 . , !"] * 3
ALPHABET = sorted(set("".join(LEARNED)) - {" "})
WORDS = sorted({word for line in LEARNED for word in line.split()})


@pytest.fixture(scope="module")
def vocabularies() -> Iterator[dict[str, Vocabulary]]:
    """A vocabulary of each kind of the same text."""
    with TemporaryDirectory() as folder:
        text = write_clean(Path(folder, "clean"), {"train": LEARNED})
        kinds = [Subwords(kind="bpe", size=90), Subwords(kind="bbpe", size=300), Subwords(kind="words", size=100)]
        for config in kinds:
            learn(text, Path(folder, config.kind), "en-de", config)
        yield {config.kind: Vocabulary(Path(folder, config.kind, "source.model")) for config in kinds}


@few_and_many
def test_known_text_comes_back_from_ids(examples: int, vocabularies: dict[str, Vocabulary]) -> None:
    known = {
        "bpe": st.lists(st.text(ALPHABET, min_size=1) | st.sampled_from(WORDS), max_size=8).map(" ".join),
        "words": st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
        "bbpe": LINES,
    }

    def check(kind: str, data: st.DataObject) -> None:
        lines = data.draw(st.lists(known[kind], max_size=3))
        vocabulary = vocabularies[kind]
        rows = vocabulary.encode(lines)
        assert vocabulary.decode(rows) == lines
        assert set(vocabulary.ids.model_dump().values()).isdisjoint({i for row in rows for i in row})

    hold(examples, check, st.sampled_from(sorted(known)), st.data())


@few_and_many
def test_unknown_text_is_unknown_where_it_stands(examples: int, vocabularies: dict[str, Vocabulary]) -> None:
    """A word or a run of characters that the training text lacks becomes `<unk>`; the words around it come back."""

    def check(kind: str, text: str) -> None:
        cleaned = Cleaner(Cleaning(), "en")(text)
        line = f"red {cleaned} ball" if cleaned else "red ball"
        back = vocabularies[kind].decode(vocabularies[kind].encode([line]))[0].split(" ")
        pairs = zip(line.split(" "), back, strict=True)
        assert all(word == original or "<unk>" in word for original, word in pairs), (line, back)

    hold(examples, check, st.sampled_from(["bpe", "words"]), LINES)


@pytest.mark.parametrize("examples", [3, pytest.param(300, marks=pytest.mark.long)])
def test_no_line_of_a_corpus_is_lost(examples: int, vocabularies: dict[str, Vocabulary]) -> None:
    """Training pairs are kept or listed as dropped; the other splits keep every line at its place."""

    def check(train: list[tuple[str, str]], valid: list[tuple[str, str]]) -> None:
        splits = {"train": [*train, ("a dog", "ein hund")], "valid": [("a cat", "eine katze"), *valid]}
        with TemporaryDirectory() as folder:
            raw, cleaned = write_raw(Path(folder, "raw"), **splits), Path(folder, "clean")
            clean(raw, cleaned, Cleaning(), "en-de")
            texts = {
                (split, code): list(read_lines(cleaned / f"{split}.{code}"))
                for split in splits
                for code in ("en", "de")
            }
            dropped = list(map(int, read_lines(cleaned / DROPPED)))
            learn(cleaned, Path(folder, "subwords"), "en-de", Subwords(kind="words", size=100))
            encode_corpus(cleaned, Path(folder, "subwords"), Path(folder, "encoded"), "en-de")
        for side, code in enumerate(("en", "de")):
            cleaner = Cleaner(Cleaning(), code)
            assert texts["valid", code] == [cleaner(pair[side]) for pair in splits["valid"]]
            kept = [pair for number, pair in enumerate(splits["train"], 1) if number not in dropped]
            assert texts["train", code] == [cleaner(pair[side]) for pair in kept]

    pairs = st.lists(st.tuples(LINES, LINES), max_size=4)
    hold(examples, check, pairs, pairs)


@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.long)])
def test_any_lines_have_scores(examples: int) -> None:
    def check(pairs: list[tuple[str, str]], protocol: Any) -> None:
        scores = score_lines(
            [pair[0] for pair in pairs], [pair[1] for pair in pairs], protocol, also=["bleu1", "bleu2"]
        )
        numbers = [measured[key] for measured in scores.values() for key in ("score", "low", "high")]
        assert all(math.isfinite(number) and number >= 0 for number in numbers)

    lines = st.lists(st.sampled_from(["", "a", "a b c d e"]) | LINES, max_size=3).map(" ".join)
    pairs = st.lists(st.tuples(lines, lines), min_size=1, max_size=4)
    hold(examples, check, pairs, st.sampled_from(["tokenised", "detokenised"]))
