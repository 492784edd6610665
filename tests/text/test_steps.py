"""The rewriting steps of cleaning: tables of language, text, and what becomes of it."""

import unicodedata

import pytest

from nmt.config.data import Cleaning
from nmt.text.cleaner import clean_line
from nmt.text.steps import devanagari, hyphens, ranges, symbols


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "$1, £1 or €1", "1 dollar, 1 pound or 1 euro"),
        ("en", "It cost £5.50 (₹500).", "It cost 5.50 pounds (500 rupees)."),
        ("en", "$1.00 $10 $1,000", "1.00 dollars 10 dollars 1,000 dollars"),
        ("en", "$3 million, $1 billion", "3 million dollars, 1 billion dollars"),
        ("en", "5€ and 5 €, 1€", "5 euros and 5 euros, 1 euro"),
        ("en", "a $5bn deal, $5 millionaires", "a 5 dollars bn deal, 5 dollars millionaires"),
        ("en", "many $ in US$ or US$5", "many dollars in US dollars or US 5 dollars"),
        ("en", "Q&A, A & B, R&D", "Q and A, A and B, R and D"),
        ("en", "&lt;b&gt; &#39; &", "&lt;b&gt; &#39; and"),
        ("hi", "$5 & £1", "$5 & £1"),
        ("en", "", ""),
    ],
)
def test_symbols(language: str, text: str, expected: str) -> None:
    assert symbols(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "10-20 people", "10 to 20 people"),
        ("hi", "10-20 लोग, १०-२० लोग", "10 तक 20 लोग, १० तक २० लोग"),
        ("en", "1990–1995, 5 - 6", "1990 to 1995, 5 to 6"),
        ("en", "10:00-12:30, 1.5-2.5 5%-10%", "10:00 to 12:30, 1.5 to 2.5 5% to 10%"),
        ("en", "$5-$10 (1-2).", "$5 to $10 (1 to 2)."),
        ("en", "2014-05-03 555-123-4567", "2014-05-03 555-123-4567"),
        ("en", "-5 a-5 5-a B2-3", "-5 a-5 5-a B2-3"),
        ("de", "10-20", "10-20"),
    ],
)
def test_ranges(language: str, text: str, expected: str) -> None:
    assert ranges(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "a well-known twenty-two-year-old", "a well known twenty two year old"),
        ("hi", "बड़ी-बड़ी धीरे-धीरे", "बड़ी बड़ी धीरे धीरे"),
        ("en", "covid-19 10-20 - a -b c- --x", "covid-19 10-20 - a -b c- --x"),
        ("de", "U-Bahn, Über\u2011ich", "U Bahn, Über ich"),
    ],
)
def test_hyphens(language: str, text: str, expected: str) -> None:
    assert hyphens(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("hi", "१२३ ४५६ ७८९०", "123 456 7890"),
        ("hi", "वह गया | वह आया|", "वह गया। वह आया।"),
        ("hi", "a | b, कख|ग", "a | b, कख|ग"),
        ("mr", "क्\u200dष क्\u200cष", "क्ष क्ष"),
        ("hi", "फै\u093cसले", "फ\u093cैसले"),
        ("hi", "ड\u093c\u093cका", "ड\u093cका"),
        ("hi", "हा\u0945ट अ\u093eप", "हॉट आप"),
        ("en", "१ क्\u200dष", "१ क्\u200dष"),
    ],
)
def test_devanagari(language: str, text: str, expected: str) -> None:
    assert devanagari(text, language) == expected
    assert devanagari(expected, language) == expected


def test_composed_nuktas_are_one_spelling_with_normal_form_c() -> None:
    recipe = Cleaning(devanagari=True)
    assert clean_line("\u095cका", "hi", recipe) == clean_line("ड\u093cका", "hi", recipe)


def test_all_steps_in_order() -> None:
    recipe = Cleaning(devanagari=True, ranges=True, symbols=True, hyphens=True)
    assert clean_line("A well-known $5–$10 R&D", "en", recipe) == "a well known 5 dollars to 10 dollars r and d"
    assert clean_line("धीरे-धीरे १०-२०", "hi", recipe) == "धीरे धीरे 10 तक 20"
    assert clean_line("वह १०-२० था|", "hi", recipe) == "वह 10 तक 20 था ।"
    assert unicodedata.is_normalized("NFC", clean_line("फै\u093cसले", "hi", recipe))


@pytest.mark.parametrize("step", ["devanagari", "ranges", "symbols", "hyphens"])
def test_each_is_off_unless_asked_for_and_changes_what_it_says_alone(step: str) -> None:
    lines = [("en", "well-known 10-20 & $5"), ("hi", "धीरे-धीरे 10-20 १")]
    plain = [clean_line(line, language, Cleaning()) for language, line in lines]
    changed = [clean_line(line, language, Cleaning.model_validate({step: True})) for language, line in lines]
    assert plain != changed
    assert [a != b for a, b in zip(plain, changed, strict=True)] == {
        "devanagari": [False, True], "ranges": [True, True], "symbols": [True, False], "hyphens": [True, True],
    }[step]  # fmt: skip
