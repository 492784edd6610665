"""Devanagari in Latin letters: examples by scheme, the way back, and its place in cleaning, translating and scoring."""

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from nmt.config.data import Cleaning
from nmt.scoring.score import command, score_lines
from nmt.text import transliterate as module
from nmt.text.clean import clean_line, restore
from nmt.text.transliterate import Scheme, to_devanagari, to_latin

SENTENCE = "उत्तर भारत कम अशांत नहीं था।"
SCHEMES: dict[Scheme, str] = {
    "hk": "uttara bhArata kama azAMta nahIM thA.",
    "iast": "uttara bhārata kama aśāṃta nahīṃ thā.",
    "itrans": "uttara bhArata kama ashAMta nahIM thA.",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_published_example_there_and_back(scheme: Scheme) -> None:
    assert to_latin(SENTENCE, scheme) == SCHEMES[scheme]
    assert to_devanagari(SCHEMES[scheme], scheme) == SENTENCE


@pytest.mark.parametrize(
    ("text", "latin", "back"),
    [
        ("PDF फ़ाइल, 3.5 MB!", "PDF fAila, 3.5 MB!", "PDF फ़ाइल, 3.5 MB!"),
        ("लड़का खड़ा है ॥", "lar3akA khar3A hai ..", "लड़का खड़ा है ॥"),
        ("हाँ , लॉगइन (दुःख)", "hA~ , laOga_ina (duHkha)", "हाँ , लॉगइन (दुःख)"),
        ("क &apos; ख &quot;", "ka &apos; kha &quot;", "क &apos; ख &quot;"),
        ("café 犬 ж", "café 犬 ж", "café 犬 ж"),
        ("", "", ""),
        # What does not come back: Devanagari digits, joiners, full stops after words, Latin words that could be Hindi.
        ("१२ साल, 15वीं", "12 sAla, 15vIM", "12 साल, 15वीं"),
        ("क्\u200dष क्\u200cष", "kSa kSa", "क्ष क्ष"),
        ("है.", "hai.", "है।"),
        ("tara तर A4", "tara tara A4", "तर तर A4"),
    ],
)
def test_only_devanagari_is_written_anew(text: str, latin: str, back: str) -> None:
    assert to_latin(text, "hk") == latin
    assert to_devanagari(latin, "hk") == unicodedata.normalize("NFC", back)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_syllables_of_every_letter_and_vowel_come_back(scheme: Scheme) -> None:
    consonants = [chr(c) for c in range(0x915, 0x93A) if chr(c) not in "ऩऱऴ"] + ["ड़", "ढ़", "ज़", "फ़", "क़", "ख़", "ग़"]
    vowels = ["", "ा", "ि", "ी", "ु", "ू", "ृ", "े", "ै", "ॉ", "ो", "ौ", "्", "ं", "ँ", "ः"]
    words = [unicodedata.normalize("NFC", f"म{c}{v}") for c in consonants for v in vowels]
    words = [word for word in words if scheme != "hk" or word != "मलृ"]  # Harvard-Kyoto's lR is the vowel ऌ too
    assert to_devanagari(to_latin(" ".join(words), scheme), scheme).split() == words
    assert all(to_latin(word, scheme).isascii() for word in words) or scheme == "iast"


RECIPE = Cleaning(transliterate="hk")


def test_a_step_of_cleaning_after_lowercasing_and_tokenising_in_languages_written_in_devanagari() -> None:
    assert clean_line("PDF फ़ाइल अशांत है।", "hi", RECIPE) == "pdf fAila azAMta hai ."
    assert clean_line("आँकड़ा, लड़का", "mr", RECIPE) == "A~kar3A , lar3akA"  # ~ stays in its word
    assert clean_line("The word हिन्दी.", "en", RECIPE) == "the word हिन्दी ."
    assert clean_line(SENTENCE, "hi", Cleaning()) == "उत्तर भारत कम अशांत नहीं था ।"
    latin = Cleaning(transliterate="hk", characters="latin")
    assert clean_line(f"{SENTENCE} 犬", "hi", latin) == "uttara bhArata kama azAMta nahIM thA ."


def test_what_a_model_writes_comes_back_in_script() -> None:
    line = 'उत्तर भारत (कम) "अशांत" नहीं था।'
    cleaned = clean_line(line, "hi", RECIPE)
    assert cleaned == "uttara bhArata ( kama ) &quot; azAMta &quot; nahIM thA ."
    assert restore(cleaned, "hi", RECIPE) == restore(clean_line(line, "hi", Cleaning()), "hi", Cleaning())
    assert restore("tara &amp; s .", "en", RECIPE) == "tara & s."
    assert restore("nahIM thA.", "hi", Cleaning(transliterate="hk", tokenize="none")) == "नहीं था।"


def test_case_is_never_ignored_where_it_spells() -> None:
    """HK ``tAla`` (ताल) and ``Tala`` (टल) are other words."""
    for protocol in ("tokenised", "detokenised"):
        found = score_lines(["tAla kI bAta"], ["Tala kI bAta"], protocol, lowercase=True, case_sensitive=True)  # type: ignore[arg-type]
        assert found["ter"]["score"] == pytest.approx(100 / 3)
        assert found["chrf"]["score"] < 100
    assert score_lines(["tAla"], ["Tala"], "tokenised")["ter"]["score"] == 0
    assert command("detokenised", True, True).endswith(
        "-m bleu chrf ter --tokenize 13a --force --ter-case-sensitive --confidence --width 2"
    )


def test_real_text_comes_back() -> None:
    """Of the words in Devanagari alone, all but those spelt with stray signs."""
    mirror = os.environ.get("NMT_MIRROR") or pytest.skip("NMT_MIRROR is not set")
    lines = Path(mirror, "flores200/devtest/hin_Deva.devtest").read_text(encoding="utf-8").splitlines()
    words = [unicodedata.normalize("NFC", word) for line in lines for word in line.split()]
    words = [word for word in words if all("\u0900" <= c <= "\u0963" or "\u0970" <= c <= "\u097f" for c in word)]
    back = to_devanagari(to_latin("\n".join(words), "hk"), "hk").split("\n")
    wrong = [word for word, other in zip(words, back, strict=True) if word != other]
    assert len(words) == 22_712 and len(wrong) <= 5, wrong


@pytest.mark.parametrize("scheme", SCHEMES)
def test_words_converted_together_are_what_each_is_alone(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    from aksharamukha.transliterate import process

    words = [
        "नहीं",
        "था।",
        "आँकड़ा",
        "लॉगइन",
        "दुःख",
        "क्ष",
        "ज्ञान",
        "१२",
        "ॐ",
        "हिन्दी",
        "फ़िल्टर",
        "एक",
        "ऑन",
        "ऽ",
        "लड़का",
        "॥",
    ]
    monkeypatch.setattr(module, "_KNOWN", {})
    monkeypatch.setattr(module, "CACHED", 3)  # forgotten over and over
    alone = [process("Devanagari", module.NAMES[scheme], word) for word in words]
    assert to_latin("\n".join(words), scheme).split("\n") == alone
    assert [to_latin(word, scheme) for word in words] == alone


@pytest.mark.integration
def test_a_recipe_without_it_needs_no_aksharamukha() -> None:
    code = "import sys, nmt.text.clean, nmt.scoring.score; print('aksharamukha' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
