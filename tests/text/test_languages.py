"""Tags of languages, and text of many scripts that comes back from cleaning as it was written."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses.corpus import NonbreakingPrefixes
from sentences import SENTENCES

from nmt.config.choices import LANGUAGE, PAIR, joined_subtags
from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Cleaning
from nmt.config.system import System
from nmt.text.cleaner import Cleaner, clean_line, restore
from nmt.text.languages import LISTED, SPACELESS, base, has_rules

CASED = Cleaning(lowercase=False)


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_come_back_as_they_were_written(language: str) -> None:
    for sentence in SENTENCES[language]:
        cleaned = clean_line(sentence, language, CASED)
        assert restore(cleaned, language, CASED) == sentence, cleaned


@pytest.mark.parametrize(
    ("language", "raw", "cleaned"),
    [
        ("fa", "او نمی\u200cخواهد برود.", "او نمی\u200cخواهد برود ."),
        ("si", "ශ්\u200dරේණිය අලුත් ය.", "ශ්\u200dරේණිය අලුත් ය ."),
        ("hi", "क्\u200dया है?", "क्\u200dया है ?"),
        ("en", "Our 👩\u200d👩\u200d👧 at the sea 🏖\ufe0f.", "Our 👩\u200d👩\u200d👧 at the sea 🏖\ufe0f ."),
        ("en", "one \u200d two", "one two"),
        ("ar", "متى وصلت، وأين كنت؟", "متى وصلت ، وأين كنت ؟"),
        ("hi", "यह घर बड़ा है।", "यह घर बड़ा है ।"),
        ("hy", "Ինչպե՞ս ես։", "Ինչպե՞ս ես ։"),
        ("vi", "unicode e\u0323\u0300!", "unicode ẹ̀ !"),
    ],
)
def test_joiners_and_marks_stay_inside_words(language: str, raw: str, cleaned: str) -> None:
    assert clean_line(raw, language, CASED) == cleaned
    assert restore(cleaned, language, CASED) == clean_line(raw, language, Cleaning(lowercase=False, tokenize="none"))


@pytest.mark.parametrize(
    ("language", "segmented", "written"),
    [
        ("zh", "孩子 们 在 公园 里 玩 。", "孩子们在公园里玩。"),
        ("ja", "「 明日 は 雨 」 と 言っ た 。", "「明日は雨」と言った。"),
        ("zh", "他 说 ： “ 我 用 Python 。 ”", "他说：“我用 Python 。”"),
        ("zho_Hant", "在 2008 年，北京", "在 2008 年，北京"),
        ("th", "เด็ก ๆ เล่น", "เด็ก ๆ เล่น"),
    ],
)
def test_text_that_was_segmented_comes_back_as_people_write_it(language: str, segmented: str, written: str) -> None:
    assert restore(clean_line(segmented, language, CASED), language, CASED) == written


WORDS = {
    language: sorted(
        {word.strip("“”‘’«»„()[]\"'.,!?;:،؛؟۔।։፣") for sentence in SENTENCES[language] for word in sentence.split()}
    )
    for language in ("ar", "bn", "fa", "he", "hi", "hy", "ko", "si", "ta", "ur", "am", "ne")
}
STOPS = {
    "ar": "،؛؟.!",
    "ur": "،؛؟۔!",
    "fa": "،؛؟.!",
    "hi": "।,?!;",
    "bn": "।,?!;",
    "ne": "।,?!",
    "hy": "։,՝",
    "am": "።፣፤?!",
}


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_any_sentence_of_words_and_stops_comes_back(data: st.DataObject) -> None:
    language = data.draw(st.sampled_from(sorted(WORDS)))
    words = st.sampled_from([word for word in WORDS[language] if any(map(str.isalpha, word))])
    stop = st.sampled_from(["", "", *STOPS.get(language, ".,?!;")])
    forms = st.sampled_from(["{}", "{}", "({})", "“{}”", "«{}»" if language != "hi" else "{}", "[{}]", "50% {}"])
    parts = st.builds(lambda form, word, mark: form.format(word) + mark, forms, words, stop)
    sentence = " ".join(data.draw(st.lists(parts, min_size=1, max_size=6)))
    recipe = Cleaning(lowercase=False, punctuation=False)
    assert restore(clean_line(sentence, language, recipe), language, recipe) == sentence


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("en", "en"), ("eng", "en"), ("fra", "fr"), ("fre", "fr"), ("deu", "de"), ("ger", "de"), ("hin", "hi"),
        ("kor", "ko"), ("zho", "zh"), ("chi", "zh"), ("cmn", "zh"), ("jpn", "ja"), ("zh_Hant", "zh"), ("pt_BR", "pt"),
        ("eng_Latn", "en"), ("zho_Hans_CN", "zh"), ("pes_Arab", "fa"), ("mya", "my"), ("bur", "my"), ("khm", "km"),
        ("hye", "hy"), ("src", "src"),
    ],
)  # fmt: skip
def test_a_tag_means_a_language(tag: str, code: str) -> None:
    assert base(tag) == code
    assert re.fullmatch(LANGUAGE, tag)


@pytest.mark.parametrize(("two", "three"), [("en", "eng"), ("fr", "fra_Latn"), ("de", "ger"), ("ko", "kor")])
def test_three_letters_give_the_text_of_two(two: str, three: str) -> None:
    recipe = Cleaning()
    for sentence in SENTENCES[two]:
        cleaned = Cleaner(recipe, two)(sentence)
        assert Cleaner(recipe, three)(sentence) == cleaned
        assert restore(cleaned, three, recipe) == restore(cleaned, two, recipe)
    hindi = Cleaning(transliterate="hk")
    assert Cleaner(hindi, "hin_Deva")("भारत") == Cleaner(hindi, "hi")("भारत") == "bhArata"


def test_the_languages_of_moses_are_listed() -> None:
    assert set(NonbreakingPrefixes().available_langs.values()) - SPACELESS - {"yue"} == LISTED
    assert has_rules("yue") and not has_rules("swa") and not has_rules("xx")


@pytest.mark.parametrize(
    ("written", "pair"),
    [
        ("en-zh_Hant", "en-zh_Hant"), ("en-zh-Hant", "en-zh_Hant"), ("pt-BR-en-US", "pt_BR-en_US"), ("en-de", "en-de"),
        ("es-419-eng_Latn", "es_419-eng_Latn"),
    ],
)  # fmt: skip
def test_subtags_are_joined_by_underscores(written: str, pair: str) -> None:
    assert joined_subtags(written) == pair and re.fullmatch(PAIR, pair)
    assert System.model_validate({"corpus": "c", "languages": written, "training": {"epochs": 1}}).languages == pair


def test_the_files_of_a_corpus_have_tags_too() -> None:
    corpus = CustomCorpus.model_validate({"train": {"en": "x", "zh-Hant": "y"}, "tests": {"t": {"pt_BR": "z"}}})
    assert list(corpus.train) == ["en", "zh_Hant"] and list(corpus.tests["t"]) == ["pt_BR"]


@pytest.mark.parametrize("pair", ["en", "en-", "EN-de", "en-zh_hant", "english-de", "en_us-de", "en-de-fr", "en/x-de"])
def test_other_words_are_no_pair(pair: str) -> None:
    assert not re.fullmatch(PAIR, joined_subtags(pair))


@pytest.mark.parametrize(("punctuation", "apostrophe"), [(True, "'"), (False, "’")])
def test_a_typographic_apostrophe_stays_inside_words_of_languages_that_moses_does_not_know(
    punctuation: bool, apostrophe: str
) -> None:
    recipe = Cleaning(punctuation=punctuation)
    for language, word in [("uk", "п’ять"), ("be", "сям’я"), ("sw", "ng’ombe")]:
        cleaned = Cleaner(recipe, language)(word)
        assert cleaned == restore(cleaned, language, recipe) == word.replace("’", apostrophe)
