"""Noise in training pairs: at the given rates, the same in any order, and in training text alone."""

import json
import re
from pathlib import Path

import pytest

from nmt.config.corpus.noise import Noise
from nmt.config.data import Cleaning
from nmt.config.yaml import parse
from nmt.system.errors import ConfigError
from nmt.system.files import read_json
from nmt.text.clean import clean
from nmt.text.filters.noise import noisy

PAIR = ("the old dog isn't asleep ... ?!", "der alte Hund schläft nicht?")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("title", ("The Old Dog Isn't Asleep ... ?!", "Der Alte Hund Schläft Nicht?")),
        ("upper", ("THE OLD DOG ISN'T ASLEEP ... ?!", "DER ALTE HUND SCHLÄFT NICHT?")),
        ("punctuation", ("the old dog isn't asleep", PAIR[1])),
    ],
)
def test_each_kind(kind: str, expected: tuple[str, str]) -> None:
    assert noisy(PAIR, Noise.model_validate({kind: 1}), ("en", "de")) == (expected, [kind])


def test_typos_change_the_source_alone_and_tags_both_sides() -> None:
    (source, target), _ = noisy(PAIR, Noise(typos=1), ("en", "de"))
    assert target == PAIR[1] and source != PAIR[0] and abs(len(source) - len(PAIR[0])) <= 1
    (source, target), _ = noisy(PAIR, Noise(tags=1), ("en", "de"))
    before, after = source.split(PAIR[0])
    assert target == before + PAIR[1] + after and before[1:].split(" ")[0].rstrip(">") == after[2:-1]
    assert noisy(("ilk", "x"), Noise(upper=1), ("tr", "en"))[0] == ("İLK", "X")
    assert noisy(("Işık İlk", "X"), Noise(lower=1), ("tr", "en")) == (("ışık ilk", "X"), ["lower"])
    assert noisy(("?!", "?"), Noise(punctuation=1, typos=1), ("en", "de"))[0] == ("?!", "?")


@pytest.mark.parametrize(
    ("pair", "pattern"),
    [
        (
            ("Tom's uncle met Tom in Bonn.", "Toms Onkel traf Tom in Bonn."),
            r"(\S.+)'s uncle met \1 in (\S.+)\.\nToms .* \1 in \2\.",
        ),
        (("मैं DVD चलाता हूँ", "I play a DVD"), r"मैं ([A-Z ]+) चलाता हूँ\nI play a \1"),
    ],
)
def test_names_are_the_same_made_up_words_on_both_sides(pair: tuple[str, str], pattern: str) -> None:
    made, kinds = noisy(pair, Noise(names=1), ("en", "de"))
    assert re.fullmatch(pattern, "\n".join(made)) and kinds == ["names"]
    assert not {"Tom", "Bonn", "DVD"} & set(re.findall(r"\w+", made[0]))
    assert noisy(PAIR, Noise(names=1), ("en", "de")) == (PAIR, [])  # no shared name


def test_names_have_one_or_two_words_of_many_letters() -> None:
    pairs = [(f"Tom has {number} cats", f"Tom hat {number} Katzen") for number in range(1000)]
    names = [noisy(pair, Noise(names=1), ("en", "de"))[0][0].partition(" has ")[0] for pair in pairs]
    assert all(re.fullmatch(r"[A-Z][a-z]{2,9}( [A-Z][a-z]{2,9})?|[A-Z]{3,10}( [A-Z]{3,10})?", name) for name in names)
    assert sum(" " in name for name in names) == pytest.approx(200, abs=40)
    assert sum(name.isupper() for name in names) == pytest.approx(100, abs=30)
    assert len(set("".join(names).lower())) == 27 and len(set(names)) > 900


def test_numbers_are_the_same_other_digits_on_both_sides() -> None:
    pair = ("1 of 30 at 2:05 pm: $30,000", "1 von 30 um 14:05 Uhr: 30 000 $")
    for seed in range(20):
        made, kinds = noisy(pair, Noise(numbers=1, seed=seed), ("en", "de"))
        pattern = r"1 of ([2-9]\d) at 2:(\d\d) pm: \$\1,(\d{3})\n1 von \1 um 14:\2 Uhr: \1 \3 \$"
        assert re.fullmatch(pattern, "\n".join(made)) and kinds == ["numbers"] and made != pair
    assert noisy(("1 dog, two cats", "1 Hund, 2 Katzen"), Noise(numbers=1), ("en", "de"))[1] == []


def test_rates_hold_and_draws_depend_on_pair_and_seed_alone() -> None:
    pairs = [(f"sentence {number} of many", f"Satz {number} von vielen") for number in range(4000)]
    noise = Noise(title=0.1, typos=0.3, tags=0.02)
    made = [noisy(pair, noise, ("en", "de")) for pair in pairs]
    for kind, rate in (("title", 0.1), ("typos", 0.3), ("tags", 0.02), ("upper", 0)):
        assert sum(kind in kinds for _, kinds in made) / len(pairs) == pytest.approx(rate, abs=0.02)
    assert [noisy(pair, noise, ("en", "de")) for pair in pairs[::-1]] == made[::-1]
    other = [noisy(pair, noise.model_copy(update={"seed": 1}), ("en", "de")) for pair in pairs]
    assert sum(a == b for a, b in zip(made, other, strict=True)) < 3000
    assert [
        noisy(pair, noise.model_copy(update={"names": 1}), ("en", "de")) for pair in pairs
    ] == made  # none has names


def test_training_text_alone_gets_noise_and_it_is_counted(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in ("train", "valid"):
        for side, code in enumerate(("en", "de")):
            (raw / f"{split}.{code}").write_text(f"{PAIR[side]}\n")
    (raw / "corpus.json").write_text(json.dumps({"corpus": "own", "splits": {"train": {}, "valid": {}}}))
    recipe = Cleaning.model_validate({"lowercase": False, "tokenize": "none", "noise": {"upper": 1, "punctuation": 1}})
    clean(raw, tmp_path / "clean", recipe, "en-de")
    assert (tmp_path / "clean/train.en").read_text() == "THE OLD DOG ISN'T ASLEEP\n"
    assert (tmp_path / "clean/valid.en").read_text().startswith("the old dog")
    splits = read_json(tmp_path / "clean/report.json")["splits"]
    assert splits["train"]["noise"] == {"upper": 1, "punctuation": 1} and "noise" not in splits["valid"]


def test_case_noise_needs_case() -> None:
    for kind in ("title", "upper", "lower"):
        with pytest.raises(ConfigError, match=f"noise.{kind} changes letter case, which lowercase: true removes"):
            parse(Cleaning, f"noise: {{{kind}: 0.1}}", "t.yaml")
    assert "noise" not in Cleaning().model_dump() and Cleaning().non_defaults() == {}
