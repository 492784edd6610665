"""Devanagari in Latin letters: examples by scheme, the way back, and its place in cleaning, translating and scoring."""

import gzip
import os
import random
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from nmt.config.data import Cleaning
from nmt.scoring.score import commands, score_lines
from nmt.text import transliterate as module
from nmt.text.cleaner import clean_line, restore
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
    assert commands("detokenised", True, True, {}).endswith(
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


def _sample() -> list[list[str]]:
    """Words and their Harvard-Kyoto, IAST and ITRANS forms, as Aksharamukha 2.3 writes them."""
    lines = Path(__file__).with_name("aksharamukha.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sample_of_words_is_what_aksharamukha_writes(scheme: Scheme) -> None:
    column = list(SCHEMES).index(scheme) + 1
    for row in _sample():
        assert to_latin(row[0], scheme) == row[column], row[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_way_back_is_the_word_or_nothing(scheme: Scheme) -> None:
    """Joiners are lost, and 20 words contain signs or spellings that cannot come back."""
    words = [unicodedata.normalize("NFC", row[0]) for row in _sample()]
    latin = [to_latin(word, scheme) for word in words]
    back = [to_devanagari(word, scheme) for word in latin]
    assert sum(word == other for word, other in zip(words, back, strict=True)) >= len(words) - 20
    assert all(to_latin(script, scheme) == word for script, word in zip(back, latin, strict=True))


def _syllables(count: int) -> list[str]:
    """Words of random syllables: up to three consonants, nuktas, all vowel signs, finals and independent vowels."""
    draw = random.Random(56)
    consonants = [chr(c) for c in range(0x915, 0x93A)] + [chr(c) for c in range(0x958, 0x960)]
    signs = ["", "", *(chr(c) for c in range(0x93E, 0x94D)), "्", "ॢ", "ॣ"]
    independent = [chr(c) for c in range(0x905, 0x915)] + ["ॠ", "ॡ", "ॲ"]
    finals = ["", "", "", "", "ं", "ँ", "ः", "ऽ"]

    def syllable() -> str:
        if draw.random() < 0.15:
            return draw.choice(independent) + draw.choice(finals)
        cluster = "्".join(draw.choice(consonants) for _ in range(draw.choice([1, 1, 1, 2, 2, 3])))
        return cluster + ("़" if draw.random() < 0.05 else "") + draw.choice(signs) + draw.choice(finals)

    return ["".join(syllable() for _ in range(draw.randint(1, 5))) for _ in range(count)]


def _hindi_words() -> list[str]:
    """All distinct words in Devanagari of the mirror's Hindi corpora; none without a mirror."""
    if "NMT_MIRROR" not in os.environ:
        return []
    found: set[str] = set()
    for pattern in ("*/hvg.*.tsv", "flores200/*/hin_*", "*/*.hi.gz", "*/*/*.hi.gz", "tatoeba*/hin*.txt"):
        for path in Path(os.environ["NMT_MIRROR"]).glob(pattern):
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found.update(re.findall("[\u0900-\u097f][\u0900-\u097f\u200c\u200d]*", data.decode("utf-8")))
    return sorted(found)


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hundred_thousand_words_are_what_aksharamukha_writes(scheme: Scheme) -> None:
    """The reference is optional, because of its licence: ``python3 envs/install.py run transliteration``."""
    process = pytest.importorskip("aksharamukha.transliterate").process
    words = _hindi_words()
    words += _syllables(100_000 - len(words))
    name = {"hk": "HK", "iast": "IAST", "itrans": "ITRANS"}[scheme]
    expected = process("Devanagari", name, "\n".join(words)).split("\n")
    assert to_latin("\n".join(words), scheme).split("\n") == expected
    latin = sorted({word for word in expected if module._WORDS[scheme].fullmatch(word)})
    scripts = process(name, "Devanagari", "\n".join(latin)).split("\n")
    scripts = [unicodedata.normalize("NFC", script).replace("\u200c", "") for script in scripts]
    again = process("Devanagari", name, "\n".join(scripts)).split("\n")
    original = {(to_latin(word, scheme), unicodedata.normalize("NFC", word)) for word in words}
    different = 0
    for word, script, same in zip(latin, scripts, again, strict=True):
        reference = script if module._LETTERS.fullmatch(script) and same == word else word
        got = to_devanagari(word, scheme)
        # Ours may give the word back where the reference gives none, or one of two spellings of random letters.
        different += got != reference and (word, got) not in original
        assert got == reference or to_latin(got, scheme) == word, (word, got, reference)
    assert different < 0.001 * len(latin)


@pytest.mark.integration
def test_no_package_is_needed() -> None:
    code = (
        "import sys, nmt.text.transliterate as t; t.to_latin('\u0915', 'hk');"
        "print({'aksharamukha', 'indic_transliteration'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
