"""Vocabularies take any text for text: what sentencepiece reserves for itself is no exception."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from copytask import write_clean
from pydantic import ValidationError
from sentences import SENTENCES

from nmt.config.data import Subwords
from nmt.system.errors import ConfigError
from nmt.system.files import sha256
from nmt.system.lines import read_lines
from nmt.text.subwords import Vocabulary, learn

RESERVED = [
    "load ▁▂▃▅▇ done", "<s> is a tag", "the <unk> sign", "</s> ends <pad> here", "▁ ▅", "a▁b ▅",
    "<s><s> x<unk>", "<<s>",
]  # fmt: skip
KINDS = [
    Subwords(kind="bpe", size=80), Subwords(kind="bbpe", size=300), Subwords(kind="words", size=1000),
    Subwords(kind="unigram", size=52), Subwords(kind="char", size=1000),
    Subwords(kind="char", size=400, byte_fallback=True),
]  # fmt: skip


def learned(folder: Path, lines: list[str], config: Subwords) -> Vocabulary:
    learn(write_clean(folder / "clean", {"train": lines}), folder / "subwords", "en-de", config)
    return Vocabulary(folder / "subwords/source.model")


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_what_sentencepiece_reserves_is_text(config: Subwords, tmp_path: Path) -> None:
    vocabulary = learned(tmp_path, RESERVED * 3, config)
    rows = vocabulary.encode(RESERVED)
    assert vocabulary.decode(rows) == RESERVED
    assert {*vocabulary.ids.model_dump().values()}.isdisjoint({i for row in rows for i in row})
    if config.kind != "bbpe":
        shown = ["".join(vocabulary.labels(row)) for row in rows]
        assert shown == ["▁" + line.replace(" ", "▁") for line in RESERVED]


@pytest.mark.parametrize("config", [KINDS[0], KINDS[2]], ids=lambda config: config.kind)
def test_what_training_text_lacks_is_unknown_and_never_a_space_or_a_special_piece(
    config: Subwords, tmp_path: Path
) -> None:
    vocabulary = learned(tmp_path, ["s unk pad a b < > / x"], config.model_copy(update={"size": 23}))
    for text, back in [
        ("a ▁ b", "a <unk> b"),
        ("a ▅ b", "a <unk> b"),
        ("<s> b", "<s> b" if config.kind == "bpe" else "<unk> b"),
    ]:
        row = vocabulary.encode([text])[0]
        assert vocabulary.decode([row]) == [back]
        assert (vocabulary.ids.unk in row) == ("unk" in back) and vocabulary.ids.bos not in row


def test_size_is_the_largest_number_of_words(tmp_path: Path) -> None:
    lines = ["load ▁▂▃▅▇ done", "<s> is a tag", "the <unk> sign"]
    vocabulary = learned(tmp_path, lines, Subwords(kind="words", size=1000))
    assert len(vocabulary) == 10 + 4  # all words, and the special pieces


@pytest.mark.parametrize(
    ("config", "pieces", "ids"),
    [  # made before special characters were escaped
        (Subwords(kind="bpe", size=1000), "edf8fc96b5e9daeb", "6f5fb427ebc1bf5b"),
        (Subwords(kind="bbpe", size=600), "aebb663f129349ac", "1d7c9bd29a1dda4e"),
        (Subwords(kind="words", size=1000), "b4035dd3deecbb8a", "e8160a5fbc1e3a93"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_ordinary_text_has_the_pieces_that_it_ever_had(config: Subwords, pieces: str, ids: str, tmp_path: Path) -> None:
    mirror = os.environ.get("NMT_MIRROR") or pytest.skip("NMT_MIRROR is not set")
    for code in ("en", "de"):
        shutil.copyfile(Path(mirror, f"multi30k/data/task1/tok/val.lc.norm.tok.{code}"), tmp_path / f"train.{code}")
    learn(tmp_path, tmp_path / "subwords", "en-de", config)
    rows = Vocabulary(tmp_path / "subwords/source.model").encode(list(read_lines(tmp_path / "train.de")))
    assert sha256(tmp_path / "subwords/source.vocab")[:16] == pieces
    assert hashlib.sha256(str(rows).encode()).hexdigest()[:16] == ids


RAW = [line for language in ("zh", "ja", "th", "km", "my", "lo", "ko", "bo") for line in SENTENCES[language]]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "bbpe"])
def test_text_without_spaces_needs_no_segmentation(kind: str, tmp_path: Path) -> None:
    config = Subwords.model_validate({"kind": kind, "size": {"bbpe": 600, "char": 1000}.get(kind, 520)})
    vocabulary = learned(tmp_path, RAW * 3, config)
    rows = vocabulary.encode(RAW)
    assert vocabulary.decode(rows) == RAW
    assert vocabulary.ids.unk not in {i for row in rows for i in row}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_rare_characters_are_unknown_or_bytes(kind: str, tmp_path: Path) -> None:
    lines = ["的一是不了人我在有他这为之大来以个中上们" * 20] * 50 + ["龘"]
    settings = {"kind": kind, "size": 300, "character_coverage": 0.999}
    (tmp_path / "unknown").mkdir()
    plain = learned(tmp_path / "unknown", lines, Subwords.model_validate(settings | {"size": 26}))
    assert plain.decode(plain.encode(["一龘"])) == ["一<unk>"]
    with_bytes = learned(tmp_path, lines, Subwords.model_validate(settings | {"byte_fallback": True, "size": 290}))
    rows = with_bytes.encode(["一龘", "▁ 🏖\ufe0f"])
    assert with_bytes.decode(rows) == ["一龘", "▁ 🏖\ufe0f"]
    assert with_bytes.ids.unk not in {i for row in rows for i in row}


def test_too_small_a_size_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"character_coverage below 1, e\.g\. 0\.9995"):
        learned(tmp_path, RAW, Subwords(size=50))


def test_unigram_pieces_do_not_depend_on_threads(tmp_path: Path) -> None:
    text = write_clean(tmp_path / "clean", {"train": RAW * 3})
    for threads in (1, 2):
        learn(text, tmp_path / str(threads), "en-de", Subwords(kind="unigram", size=520), threads)
    assert len({sha256(tmp_path / str(threads) / "source.vocab") for threads in (1, 2)}) == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"kind": "words", "byte_fallback": True, "size": 300}, "byte_fallback is for kind: bpe, unigram or char"),
        ({"kind": "bbpe", "character_coverage": 0.9}, "character_coverage is for kind: bpe, unigram or char"),
        ({"kind": "char", "byte_fallback": True, "size": 100}, "byte_fallback: true needs size: 260 or more"),
        ({"kind": "unigram", "dropout": 0.1}, "kind: unigram has none"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Subwords.model_validate(settings)
