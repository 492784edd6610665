import gzip
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from commands import run
from raw import Lines, write_raw

from nmt.config.data import Cleaning
from nmt.system.arrays import evenly
from nmt.system.errors import DataError
from nmt.system.warnings import read_warnings
from nmt.text import clean as module
from nmt.text.clean import clean
from nmt.text.cleaner import Cleaner, clean_line, restore
from nmt.text.sample import sample
from nmt.text.tokenize import detokenize, tokenize

RECIPE = Cleaning()
NOTHING = Cleaning(unicode="none", lowercase=False, punctuation=False, tokenize="none")


def with_only(**steps: object) -> Cleaning:
    """A recipe of these steps alone."""
    return Cleaning.model_validate(NOTHING.model_dump() | steps)


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


# One line


@pytest.mark.parametrize(
    ("language", "raw", "cleaned"),
    [  # the right-hand sides are what the Moses Perl scripts print
        ("en", "A man's hat isn't 1990's.", "a man &apos;s hat isn &apos;t 1990 &apos;s ."),
        ("en", 'He says "hi", then leaves.', "he says &quot; hi , &quot; then leaves ."),
        (
            "en",
            "Shoppers at A&W [indoors] | <b>",
            "shoppers at a &amp; w &#91; indoors &#93; &#124; &lt; b &gt;",
        ),
        ("en", "Twenty-two well-dressed men.", "twenty-two well-dressed men ."),
        (
            "en",
            "A sign (in red) : 50 % off; 10,000 people ...",
            "a sign ( in red ) : 50 % off ; 10,000 people ...",
        ),
        ("en", "the U.S. army, no. 5", "the u.s. army , no . 5"),
        ("en", "  two\t spaces \u3000 ", "two spaces"),
        ("en", "it ’ s ‘ odd ’", "it &quot; s &quot; odd &quot;"),
        ("de", "Ein „Café“ – in Köln.", "ein &quot; café &quot; - in köln ."),
        ("de", "Er liest „Komm bald.“", "er liest &quot; komm bald &quot; ."),
        ("de", "Er sagt „hallo“, und geht’s?", "er sagt &quot; hallo &quot; , und geht &apos; s ?"),
        ("de", "10\u00a0000 Leute", "10,000 leute"),
        ("fr", "L'homme s’appelle « Luc » !", "l&apos; homme s&apos; appelle &quot; luc &quot; !"),
        ("fr", 'Un café "32 De Neude."', "un café &quot; 32 de neude &quot; ."),
        ("fr", "aujourd'hui", "aujourd&apos; hui"),
        ("cs", 'nápis "Ano", sedí.', "nápis &quot; ano &quot; , sedí ."),
        ("xx", "no such language.", "no such language ."),
        ("tr", "İYİ IŞIK", "iyi ışık"),
        ("en", "İstanbul", "istanbul"),
        ("en", "", ""),
    ],
)
def test_lines_as_moses_cleans_them(language: str, raw: str, cleaned: str) -> None:
    assert clean_line(raw, language, RECIPE) == cleaned


def test_hindi_conjuncts_stay_whole() -> None:
    """Older Perl scripts split them at the virama."""
    assert clean_line("उत्तर भारत कम अशांत नहीं था।", "hi", RECIPE) == "उत्तर भारत कम अशांत नहीं था ।"


@pytest.mark.parametrize(
    ("recipe", "raw", "cleaned", "removed"),
    [
        (NOTHING, "A  „Café“!", "A „Café“!", 0),
        (NOTHING, "\ufeffa\u0000b\u200bc\u00add\x07", "abcd", 5),
        (NOTHING, "a\u2028b\x85c\u00a0d\re\x0bf", "a b c d e f", 0),
        (NOTHING, "क्\u200dष", "क्\u200dष", 0),
        (with_only(unicode="NFC"), "Cafe\u0301 ﬁne", "Café ﬁne", 0),
        (with_only(unicode="NFKC"), "Cafe\u0301 ﬁne ５", "Café fine 5", 0),
        (with_only(lowercase=True), "ÄÖÜ SS", "äöü ss", 0),
        (with_only(punctuation=True), "„Ja“ – nein", '"Ja" - nein', 0),
        (with_only(tokenize="moses"), "„Ja“.", "„ Ja “ .", 0),
        (
            with_only(characters="latin"),
            "Größe œuvre Łódź 42 – «ja», ¿no?",
            "Größe œuvre Łódź 42 – «ja», ¿no?",
            0,
        ),
        (with_only(characters="latin"), "a 犬 dog ☃ भ Привет 5€ $", "a dog 5 $", 11 - 1),
        (with_only(characters="latin"), "e\u0301", "e\u0301", 0),
        (with_only(characters="latin", tokenize="moses"), "犬 & dog's", "&amp; dog &apos;s", 1),
    ],
)
def test_each_step_alone(recipe: Cleaning, raw: str, cleaned: str, removed: int) -> None:
    assert Cleaner(recipe, "en").counted(raw) == (cleaned, removed)


@pytest.mark.integration
def test_upstream_parity() -> None:
    """Equal to Multi30K's own lowercased, normalised, tokenised files, but for seven lines."""
    mirror = os.environ.get("NMT_MIRROR") or pytest.skip("NMT_MIRROR is not set")
    folder = Path(mirror, "multi30k/data/task1")
    different, total = set(), 0
    for path in sorted((folder / "tok").glob("*.lc.norm.tok.*")):
        split, language = path.name.split(".lc.norm.tok.")
        if language == "cs":
            continue
        cleaner = Cleaner(RECIPE, language)
        raw = gzip.decompress((folder / "raw" / f"{split}.{language}.gz").read_bytes()).decode().split("\n")
        upstream = path.read_text(encoding="utf-8").split("\n")
        assert len(raw) == len(upstream)
        total += len(raw) - 1
        lines = enumerate(zip(raw, upstream, strict=True), 1)
        different |= {f"{split}.{language}:{n}" for n, (line, other) in lines if cleaner(line) != other}
    lines_by_file = {"en": (33, 204, 807), "de": (33, 1034), "fr": (1032, 1047)}
    assert different == {f"test_2018_flickr.{code}:{n}" for code, found in lines_by_file.items() for n in found}
    assert total == 13638
    assert 1 - len(different) / total > 0.999


@pytest.mark.integration
@pytest.mark.parametrize(
    ("steps", "digest"),
    [  # the recipes of the tables; a step that changes their text needs a version in the recipe
        ({"lowercase": False, "punctuation": False, "tokenize": "none"}, "44938cb564f1c23c"),
        ({}, "6688f828304e3e24"),
        ({"lowercase": False}, "7d56395222cba26e"),
        ({"lowercase": False, "transliterate": "hk"}, "27f5ca91a00c2279"),
        ({"devanagari": True, "ranges": True, "symbols": True, "hyphens": True}, "9c3ff898aaba7a0b"),
        ({"characters": "latin"}, "fced00ffc4c5da9e"),
    ],
)
def test_the_text_of_the_tables_stays_the_same(steps: dict[str, Any], digest: str) -> None:
    mirror = os.environ.get("NMT_MIRROR") or pytest.skip("NMT_MIRROR is not set")
    cleaned = []
    for language, file in {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "hi": "hin_Deva"}.items():
        lines = Path(mirror, f"flores200/devtest/{file}.devtest").read_text(encoding="utf-8").split("\n")[:200]
        cleaned += [clean_line(line, language, Cleaning(**steps)) for line in lines]
    assert sha256("".join(f"{line}\n" for line in cleaned).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "a man's \"hat\" (red), isn't it? yes: 5 % of the u.s."),
        ("de", 'ein mann sagt: "ja" [laut] & geht.'),
        ("fr", "l'homme s'appelle luc, n'est-ce pas."),
    ],
)
def test_detokenize_undoes_tokenize(language: str, text: str) -> None:
    tokens = tokenize(text, language)
    assert tokens != text
    assert detokenize(tokens, language).replace(" %", " %") == text.replace(" %", "%" if language == "en" else " %")


@pytest.mark.parametrize(
    ("language", "recipe", "raw", "cleaned", "restored"),
    [  # each was a fault that tests/text/test_text_properties.py found
        ("en", with_only(tokenize="moses"), "DOTMULTI is no dot...", "DOTMULTI is no dot ...", "DOTMULTI is no dot..."),
        ("ar", NOTHING, "\u06dd\u0600\u200b١", "\u06dd\u0600١", "\u06dd\u0600١"),  # these signs are drawn
        ("en", with_only(unicode="NFC"), "Cafe\u200b\u0301", "Café", "Café"),
        ("en", with_only(unicode="NFC", lowercase=True), "J\u030c", "ǰ", "ǰ"),
        ("en", with_only(unicode="NFC", characters="latin"), "e犬\u0301", "é", "é"),
        ("en", NOTHING, "\u200d \ufe0f\u3164", "", ""),
        ("en", RECIPE, " \u200c", "", ""),
    ],
)
def test_what_is_seen_stays_and_what_is_not_is_empty(
    language: str, recipe: Cleaning, raw: str, cleaned: str, restored: str
) -> None:
    assert clean_line(raw, language, recipe) == cleaned
    assert restore(cleaned, language, recipe) == restored


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ca", "L'home d'avui no s'hi troba: dona'm l'aigua, digues-li 'hola' i vés-te'n."),
        ("ga", "B'fhéidir go bhfuil m'athair anseo, a d'ith an t-arán."),
        ("fi", "EU:n ja USA:ssa, eu:hunkin 20:een: hän tulee."),
        ("sv", "EU:s och tv:n: nu kommer den."),
    ],
)
def test_marks_inside_words_come_back(language: str, text: str) -> None:
    tokens = tokenize(text, language)
    assert detokenize(tokens, language) == text, tokens


@pytest.mark.parametrize("tail", ["- li", "– Li", "- mailem"])
def test_czech_dashes_are_joined_as_in_perl(tail: str) -> None:
    assert detokenize(f"chce&apos; {tail} .", "cs") == f"chce'{tail.replace(' ', '')}."


# A corpus

TRAIN = [
    ("A dog.", "Ein Hund."),
    ("A dog.", "Ein Hund."),
    ("A dog.", "Ein Hündchen."),
    ("\u200b", "Leer."),
    ("one two three four five six seven", "zu lang"),
    ("yes", "ja , ja , ja , ja"),
]
TEST = [("\u0000", "Leer."), *TRAIN]


def test_report_counts_what_is_dropped_and_why(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TEST, test=TEST)
    recipe = Cleaning(max_words=6, max_ratio=3, deduplicate=True)
    clean(raw, tmp_path / "clean", recipe, "en-de")
    report = json.loads((tmp_path / "clean/report.json").read_text())
    assert report["cleaning"] == recipe.model_dump(mode="json")
    assert (report["corpus"], report["languages"]) == ("own", "en-de")
    assert report["splits"]["train"] == {
        "read": 6,
        "kept": 2,
        "dropped": {"empty": 1, "long": 2, "ratio": 0, "duplicate": 1},
        "characters_removed": 1,
        "words": {"en": 6, "de": 6},
    }
    assert read(tmp_path / "clean/train.en") == ["a dog .", "a dog ."]
    assert read(tmp_path / "clean/train.de") == ["ein hund .", "ein hündchen ."]


@pytest.mark.parametrize(
    ("recipe", "dropped"),
    [
        ({}, {"empty": 1, "long": 0, "ratio": 0, "duplicate": 0}),
        ({"deduplicate": True}, {"empty": 1, "long": 0, "ratio": 0, "duplicate": 1}),
        ({"max_words": 7}, {"empty": 1, "long": 0, "ratio": 0, "duplicate": 0}),
        ({"max_words": 6}, {"empty": 1, "long": 2, "ratio": 0, "duplicate": 0}),
        ({"max_ratio": 3.5}, {"empty": 1, "long": 0, "ratio": 1, "duplicate": 0}),
        ({"max_ratio": 3.4}, {"empty": 1, "long": 0, "ratio": 2, "duplicate": 0}),
    ],
)
def test_rules_for_training_pairs(tmp_path: Path, recipe: dict[str, object], dropped: dict[str, int]) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TRAIN)
    clean(raw, tmp_path / "clean", Cleaning.model_validate(recipe), "en-de")
    report = json.loads((tmp_path / "clean/report.json").read_text())["splits"]["train"]
    assert report["dropped"] == dropped
    assert report["kept"] == len(TRAIN) - sum(dropped.values())


def test_only_training_pairs_are_dropped(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TEST, test=TEST)
    clean(raw, tmp_path / "clean", Cleaning(max_words=3, max_ratio=1, deduplicate=True), "en-de")
    for split in ("valid", "test"):
        for side, language in enumerate(("en", "de")):
            expected = [clean_line(pair[side], language, RECIPE) for pair in TEST]
            assert read(tmp_path / f"clean/{split}.{language}") == expected
    assert read(tmp_path / "clean/test.en")[0] == ""


@pytest.mark.parametrize("recipe", [{}, {"deduplicate": True, "max_words": 6}, {"noise": {"typos": 1}}])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_sample_of_the_training_text_has_its_raw_lines(tmp_path: Path, recipe: dict[str, Any], count: int) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TEST)
    clean(raw, tmp_path / "clean", Cleaning(**recipe), "en-de")
    sample(raw, tmp_path / "clean", tmp_path / "out", "en-de", count)
    kept = read(tmp_path / "clean/train.en")
    expected = [kept[i] for i in evenly(len(kept), count)]
    for side, language in enumerate(("en", "de")):
        raw_lines = read(tmp_path / f"out/raw/train_sample.{language}")
        cleaned = read(tmp_path / f"out/clean/train_sample.{language}")
        assert [clean_line(line, language, Cleaning(**recipe)) for line in raw_lines] == cleaned
        assert (set(raw_lines) <= {pair[side] for pair in TRAIN}) == ("noise" not in recipe or language == "de")
    assert read(tmp_path / "out/clean/train_sample.en") == expected and len(expected) == min(count, len(kept))


def test_a_sample_of_text_that_was_not_cleaned_so_is_refused(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TEST)
    clean(raw, tmp_path / "clean", RECIPE, "en-de")
    other = write_raw(tmp_path / "other", train=[("x", "y")], valid=TEST)
    with pytest.raises(DataError, match=r"expected the cleaned pairs of .*other, got other pairs"):
        sample(other, tmp_path / "clean", tmp_path / "out", "en-de", 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.integration
@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    pairs = [(f"The {n % 12} dogs, “barking”.", f"Die {n % 12} Hunde bellen „laut“." * (n % 3)) for n in range(100)]
    raw = write_raw(tmp_path / "raw", train=pairs, valid=pairs[:7])
    recipe = Cleaning(deduplicate=True)
    clean(raw, tmp_path / "one", recipe, "en-de", jobs=1)
    clean(raw, tmp_path / "many", recipe, "en-de", jobs=jobs)
    files = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "many").iterdir()}
    assert json.loads(files["report.json"])["splits"]["train"]["dropped"]["duplicate"] > 0
    assert set(files) == {"report.json", "train.en", "train.de", "train.dropped.txt", "valid.en", "valid.de"}


@pytest.mark.parametrize(
    ("recipe", "pairs", "parts"),
    [
        (
            {"max_words": 1},
            [("a dog .", "ein hund ."), ("", "x")],
            ["left of 2", "1 by", "1 by max_words (1)"],
        ),
        (
            {"characters": "latin"},
            [("犬", "犬")],
            ["1 by an empty side", "2 characters were removed", "latin"],
        ),
        ({"max_ratio": 1}, [("a b", "c")], ["1 by max_ratio (1.0)"]),
    ],
)
def test_nothing_left_says_which_rule_dropped_it(
    tmp_path: Path, recipe: dict[str, object], pairs: Lines, parts: list[str]
) -> None:
    raw = write_raw(tmp_path / "raw", train=pairs, valid=TEST)
    with pytest.raises(DataError) as error:
        clean(raw, tmp_path / "clean", Cleaning.model_validate(recipe), "en-de")
    assert all(part in str(error.value) for part in [str(raw), *parts]), error.value
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]


def warned_of(raw: Path, languages: str, **recipe: Any) -> list[tuple[str, str, int, str]]:
    """Kind, file, count and split of the warnings that cleaning records."""
    out = raw.with_name("clean")
    assert run("clean", raw, out, "--languages", languages, "--config", json.dumps(recipe))[0] == 0
    return [(w.kind, Path(w.file).name, w.count, w.split) for w in read_warnings(out)]


def with_target(raw: Path, language: str) -> Path:
    """Rename the German side of a raw corpus."""
    for file in raw.glob("*.de"):
        file.rename(file.with_suffix(f".{language}"))
    return raw


def test_text_without_spaces_is_limited_by_characters(tmp_path: Path) -> None:
    lines = [("A dog runs in the park.", "一只狗在公园里跑。"), ("Two men.", "两 个 男人 。"), ("Long.", "长" * 41)]
    raw = with_target(write_raw(tmp_path / "raw", train=lines, valid=lines[1:]), "zho_Hans")
    assert warned_of(raw, "en-zho_Hans", max_characters=40) == []
    train = json.loads((tmp_path / "clean/report.json").read_text())["splits"]["train"]
    assert (train["kept"], train["dropped"]["long"], train["words"]) == (2, 1, {"en": 10, "zho_Hans": 14})
    assert read(tmp_path / "clean/train.zho_Hans") == ["一只狗在公园里跑。", "两 个 男人 。"]


@pytest.mark.parametrize(("target", "rated"), [("zh", "ratio"), ("de", "kept")])
def test_the_ratio_is_of_characters_if_a_side_has_no_spaces(tmp_path: Path, target: str, rated: str) -> None:
    pair = ("extraordinarily incomprehensible", "难")  # two words or 31 characters, and one of either
    raw = with_target(write_raw(tmp_path / "raw", train=[pair, ("a dog", "一只狗")], valid=[pair]), target)
    clean(raw, tmp_path / "clean", RECIPE, f"en-{target}")
    train = json.loads((tmp_path / "clean/report.json").read_text())["splits"]["train"]
    assert (train["dropped"]["ratio"], train["kept"]) == ((1, 1) if rated == "ratio" else (0, 2))


@pytest.mark.parametrize(("language", "warned"), [("swa", True), ("eng_Latn", False), ("th", False), ("urd", False)])
def test_a_language_without_rules_is_warned_of(tmp_path: Path, language: str, warned: bool) -> None:
    raw = with_target(write_raw(tmp_path / "raw", train=[("a", "b")], valid=[("a", "b")]), language)
    kinds = [(kind, file) for kind, file, *_ in warned_of(raw, f"en-{language}")]
    assert kinds == [("language without rules", f"train.{language}")] * warned
    assert warned_of(raw, f"en-{language}", tokenize="none") == []


@pytest.mark.parametrize(("corpus", "cleaned"), [("mine", "क्\u200dया ?"), ("hi-en-open", "क् \u200d या ?")])
def test_joiners_of_published_tables_stay_words_of_their_own(tmp_path: Path, corpus: str, cleaned: str) -> None:
    raw = with_target(write_raw(tmp_path / "raw", train=[("what?", "क्\u200dया?")], valid=[("what?", "क्या?")]), "hi")
    record = json.loads((raw / "corpus.json").read_text()) | {"corpus": corpus}
    (raw / "corpus.json").write_text(json.dumps(record))
    clean(raw, tmp_path / "clean", RECIPE, "en-hi")
    assert read(tmp_path / "clean/train.hi") == [cleaned]


def test_text_that_is_tokenised_already_is_warned_of(tmp_path: Path) -> None:
    tokenised = [("It is n't a dog &apos;s .", "Das ist kein Hund ."), ("a well @-@ known man", "ein bekannter Mann")]
    raw = write_raw(tmp_path / "raw", train=[*TRAIN, *tokenised], valid=TRAIN)
    assert warned_of(raw, "en-de") == [("tokenised text", "train.en", 2, "train")]
    assert warned_of(raw, "en-de", tokenize="none") == []  # and the record of the first time is gone
    assert not (tmp_path / "clean.warnings.json").exists()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("The men&#39;s shoes", "HTML entities"),
        ("AT&amp;T sells black &amp; more.", "HTML entities"),
        ("He said, &quot;yes&quot;.", "HTML entities"),
        ("1 &lt; 2&nbsp;kg", "HTML entities"),
        ("don&apos;t", "HTML entities"),
        ("He said : &quot; yes &quot;", "tokenised text"),
        ("AT &amp; T sells it .", "tokenised text"),
        ("l&apos; homme", "tokenised text"),
        ("&#91; sic &#93;", "tokenised text"),
    ],
)
def test_entities_of_html_are_told_from_marks_of_a_tokeniser(tmp_path: Path, line: str, kind: str) -> None:
    raw = write_raw(tmp_path / "raw", train=[*TRAIN, (line, "eins")], valid=TRAIN)
    assert warned_of(raw, "en-de") == [(kind, "train.en", 1, "train")]
    [warning] = read_warnings(tmp_path / "clean")
    assert ("html.unescape" in warning.remedy) == (kind == "HTML entities")


def test_text_with_both_is_of_the_kind_of_most_lines(tmp_path: Path) -> None:
    moses, html = ("It &apos;s here .", "eins"), ("black &amp; more", "zwei")  # html may be Moses' too
    for lines, kind in (([moses, moses, html], "tokenised text"), ([moses, html, html], "HTML entities")):
        raw = write_raw(tmp_path / kind, train=[*TRAIN, *lines], valid=TRAIN)
        assert warned_of(raw, "en-de") == [(kind, "train.en", 3, "train")]


def test_a_split_without_a_word_is_refused(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=[("a", ""), ("b", " ")])
    with pytest.raises(DataError, match=r"valid\.de: expected sentences, got 2 lines without a word"):
        clean(raw, tmp_path / "clean", Cleaning(), "en-de")
    assert not (tmp_path / "clean").exists()


@pytest.mark.integration
@pytest.mark.parametrize("jobs", [1, 2])
def test_misaligned_and_ill_encoded_files(tmp_path: Path, jobs: int) -> None:
    raw = write_raw(tmp_path / "raw", train=TRAIN, valid=TRAIN)
    (raw / "valid.de").write_text("eins\n")
    with pytest.raises(DataError, match=r"valid\.en has 6, .*valid\.de has 1"):
        clean(raw, tmp_path / "clean", RECIPE, "en-de", jobs)
    (raw / "train.en").write_bytes(b"fine\nno \xe9t\xe9\n" * 3)
    with pytest.raises(DataError, match=r"train\.en, line 2: expected UTF-8, got byte 0xe9 at column 4"):
        clean(raw, tmp_path / "clean", RECIPE, "en-de", jobs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]


@pytest.mark.integration
def test_a_recipe_without_moses_needs_no_sacremoses() -> None:
    code = "\n".join(
        [
            "import sys; from nmt.config.data import Cleaning; from nmt.text.cleaner import clean_line",
            "clean_line('A dog.', 'en', Cleaning(punctuation=False, tokenize='none'))",
            "print('sacremoses' in sys.modules)",
        ]
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
