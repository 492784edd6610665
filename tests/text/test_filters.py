"""Filters of training pairs: each drops its kind and no other, in order, with counts and examples."""

import json
import random
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.config.data import Cleaning
from nmt.config.yaml import parse
from nmt.corpora import near
from nmt.corpora.near import NearIndex, sketch
from nmt.corpora.sources import key
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED, read_json
from nmt.text.clean import clean
from nmt.text.filters import duplicates
from nmt.text.filters.duplicates import Sketches
from nmt.text.filters.judges import judge_of

GOOD = [
    ("The dog runs through the green park.", "Der Hund rennt durch den grünen Park."),
    ("There were 1,500 people in the room.", "Es waren 1.500 Menschen in dem Raum."),
    ("Who is the man with the old hat?", "Wer ist der Mann mit dem alten Hut?"),
    ("She reads two books every week.", "Sie liest jede Woche zwei Bücher."),
    ("The weather is fine today, isn't it?", "Das Wetter ist heute schön, nicht wahr?"),
]
VALID = [("We sing a song in the evening.", "Wir singen am Abend ein Lied."), ("Nothing else.", "Sonst nichts.")]


def filtered(folder: Path, pairs: list[tuple[str, str]], *filters: Any, jobs: int = 1, **recipe: Any) -> dict[str, Any]:
    """Clean pairs with filters; return the report of the training text, which must agree with the files."""
    raw, out = folder / "raw", folder / f"clean{jobs}"
    raw.mkdir(exist_ok=True)
    for split, chosen in (("train", pairs), ("valid", VALID)):
        for side, code in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in chosen)
            (raw / f"{split}.{code}").write_text(text, encoding="utf-8")
    (raw / "corpus.json").write_text(json.dumps({"corpus": "own", "splits": {"train": {}, "valid": {}}}))
    settings = {"filters": list(filters), "tokenize": "none", "lowercase": False, "punctuation": False} | recipe
    clean(raw, out, Cleaning.model_validate(settings), "en-de", jobs)
    report: dict[str, Any] = read_json(out / "report.json")["splits"]["train"]
    dropped = {int(line) for line in (out / DROPPED).read_text().split()}
    kept = [pair for number, pair in enumerate(pairs, 1) if number not in dropped]
    for side, code in enumerate(("en", "de")):
        assert (out / f"train.{code}").read_text(encoding="utf-8") == "".join(f"{pair[side]}\n" for pair in kept)
    assert report["kept"] == len(kept) and report["read"] == len(pairs) == len(kept) + sum(report["dropped"].values())
    return report


SHUFFLED = "Der Hund rennt durch den grünen Park!"
BAD: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "language": ({"kind": "language"}, ("The cat sleeps under the old tree.", "Le chat dort sous le vieil arbre.")),
    "swapped": ({"kind": "language"}, (GOOD[0][1], GOOD[0][0])),
    "script": ({"kind": "script"}, ("The dog runs.", "Собака бежит.")),
    "garbage": ({"kind": "script"}, ("■■ ◆◆ ✕✕ ¤¤¤ a", "Der Hund rennt.")),
    "numbers": ({"kind": "numbers"}, ("There were 1,500 people.", "Es waren 27 Menschen.")),
    "punctuation": ({"kind": "punctuation"}, ("What? Who? Where? (Here!)", "Hier sind sie")),
    "equal": ({"kind": "equal"}, ("Berlin, New York", "berlin  New York!")),
    "duplicates": ({"kind": "duplicates"}, ("the dog runs through the green park", SHUFFLED)),
    "near": ({"kind": "duplicates"}, ("The dog runs through the green parks.", GOOD[0][1])),
    "overlap": ({"kind": "overlap"}, ("We sing, a song in the evening", "Ganz anders gesagt.")),
    "near overlap": ({"kind": "overlap"}, ("Quite another text.", "Wir singen am Abend ein Lied dort.")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_filter_drops_its_kind_and_nothing_else(tmp_path: Path, name: str) -> None:
    settings, bad = BAD[name]
    if settings["kind"] == "language":
        pytest.importorskip("py3langid")
    report = filtered(tmp_path, [*GOOD, bad], settings)
    assert report["dropped"][settings["kind"]] == 1
    assert report["filters"] == [
        Cleaning.model_validate({"filters": [settings]}).filters[0].model_dump(mode="json")
        | {"name": settings["kind"], "dropped": 1, "examples": [list(bad)]}
    ]
    words = [sum(len(pair[side].split()) for pair in GOOD) for side in range(2)]
    assert report["words"] == {"en": words[0], "de": words[1]}


@pytest.mark.parametrize(
    ("kind", "languages", "good", "bad"),
    [
        ("script", ("eng_Latn", "zh_Hant"), ("The dog runs.", "這隻狗在跑。"), ("The dog runs.", "Der Hund rennt.")),
        ("script", ("sr_Latn", "pa_Arab"), ("Pas trči.", "کتا بھجدا اے۔"), ("Пас трчи.", "کتا بھجدا اے۔")),
        ("script", ("tt", "awa"), ("Эт йөгерә.", "कुकुर दौड़त है"), ("Et yögerä.", "कुकुर दौड़त है")),
        ("script", ("jpn", "hin_Deva"), ("犬がはしる", "कुत्ता दौड़ता है"), ("The dog", "कुत्ता दौड़ता है")),
        ("language", ("eng", "pt_BR"), ("The dog runs in the park.", "O cachorro corre no parque."),
         ("The dog runs in the park.", "Der Hund rennt durch den Park.")),
    ],
)  # fmt: skip
def test_tags_with_a_script_or_region_are_judged_by_their_language(
    kind: str, languages: tuple[str, str], good: tuple[str, str], bad: tuple[str, str]
) -> None:
    if kind == "language":
        pytest.importorskip("py3langid")
    [settings] = Cleaning.model_validate({"filters": [{"kind": kind}]}).filters
    assert judge_of(settings, languages, [])([good, bad]) == [True, False]


def test_marks_and_digits_of_other_scripts_agree(tmp_path: Path) -> None:
    pairs = [("How many? 25 (twenty-five).", "कितने？ २५ (पच्चीस)।"), ("Is it 7 o'clock?", "هل الساعة ٧؟")]
    assert (
        filtered(tmp_path, [*pairs, *GOOD], {"kind": "numbers"}, {"kind": "punctuation", "differences": 0})["kept"] == 7
    )


@pytest.mark.parametrize(
    ("source", "target", "agree"),
    [
        ("It has 1,500 pages.", "Elle a 1 500 pages.", True),
        ("It has 1,500 pages.", "Elle a 1 900 pages.", False),
        ("At 11 we slept.", "À onze heures.", True),
        ("In 1984 we slept.", "Nous dormions.", False),
        ("1" * 5000, "Nous dormions.", False),
        ("2001-01-25 to 26", "25.01.2001 – 26", True),
        ("0.5 and ७", "0,5 et 7", True),
    ],
)
def test_numbers_agree_whatever_their_form(tmp_path: Path, source: str, target: str, agree: bool) -> None:
    report = filtered(tmp_path, [(source, target), GOOD[0]], {"kind": "numbers"}, unicode="none")
    assert report["dropped"]["numbers"] == (not agree)


def test_filters_run_in_order_after_the_limits(tmp_path: Path) -> None:
    pairs = [*GOOD, ("same", "same"), ("", "leer"), ("same", "same"), ("one 1", "eins 2"), GOOD[0], ("1 1", "1 1")]
    order = [{"kind": "equal"}, {"kind": "duplicates"}, {"kind": "numbers"}]
    assert filtered(tmp_path, pairs, *order)["dropped"] == {
        "empty": 1, "long": 0, "ratio": 0, "duplicate": 0, "equal": 3, "duplicates": 1, "numbers": 1,
    }  # fmt: skip
    (tmp_path / "other").mkdir()
    assert filtered(tmp_path / "other", pairs, *order[::-1], deduplicate=True)["dropped"] == {
        "empty": 1, "long": 0, "ratio": 0, "duplicate": 2, "numbers": 1, "duplicates": 0, "equal": 2,
    }  # fmt: skip


def test_a_pair_that_an_earlier_filter_dropped_makes_no_later_pair_a_duplicate(tmp_path: Path) -> None:
    pairs = [
        ("There are 12 dogs in the park today.", "Es sind 13."),
        ("There are 12 dogs in the park today.", "Es sind 12."),
    ]
    numbers, repeats = {"kind": "numbers", "share": 0.9}, {"kind": "duplicates", "similarity": 0.8}
    assert filtered(tmp_path, pairs, numbers, repeats)["dropped"]["duplicates"] == 0
    (tmp_path / "other").mkdir()
    assert filtered(tmp_path / "other", pairs, repeats)["dropped"]["duplicates"] == 1


def test_scores_of_a_file(tmp_path: Path) -> None:
    scores = tmp_path / "scores.txt"
    settings = {"kind": "scores", "file": str(scores), "minimum": -1.5}
    pairs = [*GOOD[:2], ("", ""), *GOOD[2:]]
    scores.write_text("-1\n-1.6\n0\n-inf\n-1.5\tmore\nnan\n")
    report = filtered(tmp_path, pairs, settings)
    assert report["dropped"]["scores"] == 3 and report["filters"][0]["examples"] == [
        list(pair) for pair in (GOOD[1], GOOD[2], GOOD[4])
    ]
    for text, message in (("-1\n" * 5, "got 5"), ("-1\n" * 7, "got 7"), ("x\n" * 6, "line 1: expected a number")):
        scores.write_text(text)
        with pytest.raises(DataError, match=message):
            filtered(tmp_path, pairs, settings)


@pytest.mark.integration
def test_processes_change_nothing(tmp_path: Path) -> None:
    random.seed(1)
    words = [f"w{number}" for number in range(90)]
    pairs = [(" ".join(random.choices(words, k=9)), " ".join(random.choices(words, k=9))) for _ in range(1500)]
    pairs += [(source + " w1", target) for source, target in random.sample(pairs, 700)]
    settings = [{"kind": "numbers", "share": 0.02}, {"kind": "duplicates"}, {"kind": "overlap"}]
    reports = [filtered(tmp_path, pairs, *settings, jobs=jobs) for jobs in (1, 2)]
    assert reports[0] == reports[1] and reports[0]["dropped"]["duplicates"] > 300
    for name in ("train.en", "train.de", DROPPED, "report.json"):
        assert (tmp_path / "clean1" / name).read_bytes() == (tmp_path / "clean2" / name).read_bytes()


def test_all_dropped_is_refused_with_the_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training pair is left of 2: 2 by the filter equal"):
        filtered(tmp_path, [("a", "a"), ("b", "B")], {"kind": "equal"})


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("[{kind: equals}]", "filters.0: kind: expected language, script,"),
        ("[{kind: scores, minimum: 1}]", "expected file: or forward:, got none"),
        ("[{kind: scores, minimum: 1, file: a, forward: a/b}]", "expected file: or forward:, got both"),
        ("[{kind: scores, minimum: 1, file: a, backward: a/b}]", "backward: goes with forward:"),
        ("[{kind: scores, minimum: 1, forward: b}]", "expected TABLE/SYSTEM"),
        ("[{kind: duplicates, similarity: 0.5}]", "expected 0.7 or more, got 0.5"),
        ("[{kind: opusfilter, name: lengthFilter}]", "expected a class of OpusFilter"),
        ("[{share: 1}]", "filters.0"),
    ],
)
def test_a_wrong_filter_is_explained(filters: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(Cleaning, f"filters: {filters}", "t.yaml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "script", "scripts": {"de": "Klingon"}}, "expected a script of Unicode.*Klingon"),
        ({"kind": "opusfilter", "name": "NoSuchFilter"}, "NoSuchFilter"),
    ],
)
def test_a_filter_that_cannot_run_is_explained(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        filtered(tmp_path, GOOD, settings)


class LengthRatioFilter:
    """As OpusFilter's: a score for each pair, and whether it is accepted."""

    def __init__(self, threshold: float = 3) -> None:
        self.threshold = threshold

    def score(self, pairs: Any) -> Any:
        return (max(map(len, pair)) / min(map(len, pair)) for pair in pairs)

    def accept(self, score: float) -> bool:
        return score < self.threshold


def test_filters_of_opusfilter_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = SimpleNamespace(filters=SimpleNamespace(LengthRatioFilter=LengthRatioFilter))
    monkeypatch.setitem(sys.modules, "opusfilter", package)
    settings = {"kind": "opusfilter", "name": "LengthRatioFilter", "parameters": {"threshold": 2}}
    report = filtered(tmp_path, [*GOOD, ("Yes.", "Ja, das ist so.")], settings)
    assert report["dropped"]["LengthRatioFilter"] == 1
    with pytest.raises(ConfigError, match=r"LengthRatioFilter: .*most.*fix its parameters"):
        filtered(tmp_path, GOOD, settings | {"parameters": {"most": 2}})


def test_recipes_without_filters_are_as_before() -> None:
    assert "filters" not in Cleaning().model_dump() and Cleaning().non_defaults() == {}


# MinHash


def jaccard(first: tuple[str, ...], second: tuple[str, ...]) -> float:
    sets = [
        {
            (side, gram)
            for side, text in enumerate(map(key, pair))
            for gram in zip(text, text[1:], text[2:], strict=False)
        }
        for pair in (first, second)
    ]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_similarities_are_those_of_the_trigrams() -> None:
    random.seed(2)
    errors = []
    for _ in range(200):
        text = list("".join(random.choices("abcdefghijklmnopqrst uvwxyz", k=random.randint(30, 150))))
        other = [random.choice("abc") if random.random() < 0.02 else letter for letter in text]
        pairs = [("".join(text), "x"), ("".join(other), "x")]
        signatures, _ = sketch(pairs)
        errors.append(float(near.similarity(signatures[0], signatures[1])) - jaccard(*pairs))
    assert abs(np.mean(errors)) < 0.02 and np.std(errors) < 0.06


def test_sketches_ignore_case_sides_count_and_blank_text_is_allowed() -> None:
    signatures, bands = sketch([("A dog, barks.", "B"), ("a DOG barks", "b!"), ("b", "a dog barks"), ("", "")])
    assert (signatures[0] == signatures[1]).all() and (bands[0] == bands[1]).all()
    assert near.similarity(signatures[0], signatures[2]) < 0.3
    alone, _ = sketch([("b", "a dog barks")])
    assert (alone[0] == signatures[2]).all()  # whatever the rest of the batch


def test_repeats_are_found_on_disk_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(3)
    texts = [("".join(random.choices("abcdefgh ", k=60)), "") for _ in range(300)]
    pairs = [random.choice(texts) for _ in range(900)]
    chosen = np.array([random.random() < 0.8 for _ in pairs])
    seen, expected = set(), []
    for pair, takes_part in zip(pairs, chosen, strict=True):
        expected.append(bool(takes_part) and pair in seen)
        seen |= {pair} if takes_part else set()
    monkeypatch.setattr(duplicates, "ROWS", 100)  # nine buckets
    sketches = Sketches(tmp_path)
    for first, last in pairwise(range(0, 901, 90)):
        sketches.add(*sketch(pairs[first:last]))
    assert sketches.repeats(chosen, 0.85).tolist() == expected


def test_an_index_finds_near_texts() -> None:
    index = NearIndex(["the old man and the sea", "a tale of two cities"])
    found = index.holds(["The old man, and the sea!", "the old man and the seas", "war and peace", ""], 0.85)
    assert found.tolist() == [True, True, False, False]
    assert not NearIndex([]).holds(["x"], 0.7).any() and not index.holds([], 0.7).any()


def test_held_out_text_near_training_text_is_counted_for_own_corpora(tmp_path: Path) -> None:
    near_by = ("We sing a song in the evenings!", "Ganz anders gesagt als sonst.")
    for folder, filters, expected in (("a", [], 1), ("b", [{"kind": "overlap"}], None)):
        (tmp_path / folder).mkdir()
        filtered(tmp_path / folder, [*GOOD, near_by], *filters)
        splits = read_json(tmp_path / folder / "clean1/report.json")["splits"]
        assert splits["valid"].get("near_training") == expected and "near_training" not in splits["train"]
