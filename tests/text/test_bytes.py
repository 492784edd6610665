"""Byte-level BPE: bytes as symbols, recovery of text from any bytes, and vocabularies to which nothing is unknown."""

import random
import sys
import time
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from copytask import write_clean

from nmt.config.data import SpecialIds, Subwords
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json
from nmt.text.bytes import SYMBOLS, are_symbols, readable, recover, to_bytes, to_symbols
from nmt.text.subwords import Vocabulary, learn

HINDI = ["उत्तर भारत कम अशांत नहीं था ।", "एक लाल गेंद", "भारत का उत्तर ।"]
ENGLISH = ["north india was no less restless .", "a red ball", "india &apos;s north ."]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of 400 pieces, of English and Hindi."""
    folder = tmp_path_factory.mktemp("bbpe")
    clean = write_clean(folder / "clean", {})
    for language, lines in (("en", ENGLISH), ("de", HINDI)):
        (clean / f"train.{language}").write_text("".join(f"{line}\n" for line in lines * 5), encoding="utf-8")
    learn(clean, folder / "subwords", "en-de", Subwords(kind="bbpe", size=400))
    return folder / "subwords"


@pytest.fixture(scope="module")
def vocabulary(learned: Path) -> Vocabulary:
    return Vocabulary(learned / "source.model")


def assigned() -> list[str]:
    """Every code point that Unicode has assigned, and private ones; surrogates are no characters."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs")]


def random_text(numbers: random.Random) -> str:
    """Some characters of several planes and scripts, combining ones and runs of spaces among them."""
    ranges = [
        (0x20, 0x7E),
        (0, 0xFF),
        (0x300, 0x36F),
        (0x900, 0x97F),
        (0x2000, 0x206F),
        (0xE000, 0xFFFF),
        (2**16, 2**20),
    ]
    picked = [chr(numbers.randint(*numbers.choice(ranges))) for _ in range(numbers.randint(0, 20))]
    return "".join(c + " " * (numbers.random() < 0.2) * numbers.randint(1, 3) for c in picked)


# Bytes as symbols


def test_a_symbol_for_each_byte_that_can_be_printed_and_is_a_letter_where_the_byte_is_not_ascii() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 256 and SYMBOLS.isprintable()
    assert SYMBOLS[0x20:0x7F] == bytes(range(0x20, 0x7F)).decode()
    assert all(unicodedata.name(symbol).startswith("LATIN ") for symbol in SYMBOLS[0x80:])
    assert unicodedata.normalize("NFC", SYMBOLS) == SYMBOLS
    assert to_bytes(SYMBOLS) == bytes(range(256))


def test_labels_show_valid_characters_and_bytes_of_parts() -> None:
    assert readable(to_symbols("é भा.")) == "é भा."
    assert readable(to_symbols("भ")[:2]) == r"\xe0\xa4"
    assert readable(to_symbols("aभ")[:-1]) == r"a\xe0\xa4"


# Recovery


@cache
def optimum(data: bytes) -> int:
    """The most characters in bytes, by trying every choice of bytes to leave out."""
    if not data:
        return 0
    best = optimum(data[1:])
    for length in range(1, 5):
        try:
            character = len(data[:length].decode()) == 1
        except UnicodeDecodeError:
            continue
        best = max(best, character + optimum(data[length:]))
    return best


def corrupted(numbers: random.Random, longest: int) -> bytes:
    """Bytes of a text with some of them lost, replaced or put in; or any bytes at all."""
    if numbers.random() < 0.2:
        return numbers.randbytes(numbers.randint(0, longest))
    data = bytearray(random_text(numbers).encode()[: numbers.randint(1, longest)])
    for _ in range(numbers.randint(1, 4)):
        place = numbers.randrange(len(data) + 1)
        data[place : place + numbers.randint(0, 2)] = numbers.randbytes(numbers.randint(0, 2))
    return bytes(data)


@pytest.mark.integration
def test_recovery_is_the_brute_force_optimum_on_corrupted_bytes() -> None:
    numbers, invalid = random.Random(1), 0
    for _ in range(10_000):
        data = corrupted(numbers, 16)
        text = recover(data)
        assert len(text) == optimum(data), data
        # UTF-8 synchronises itself: valid characters never overlap, so that the best choice is to take them all.
        assert text == data.decode("utf-8", "ignore")
        invalid += text.encode() != data
    assert invalid > 3000
    optimum.cache_clear()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"abc", "abc"),
        ("भ".encode()[:2], ""),
        ("भ".encode()[:2] + "भा".encode(), "भा"),
        (b"\xed\xa0\x80a", "a"),  # a surrogate
        (b"\xc0\xaf\xf5\x80", ""),  # overlong, and beyond Unicode
        ("😀".encode()[1:] + b"x", "x"),
    ],
)
def test_recovery_of_bytes_that_are_known(data: bytes, text: str) -> None:
    assert recover(data) == text


@pytest.mark.integration
def test_recovery_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        data = "भा😀a".encode()[1:] * count
        started = time.process_time()
        recover(data)
        return time.process_time() - started

    seconds(10)
    assert min(seconds(8000) for _ in range(3)) < 25 * min(seconds(800) for _ in range(3))


# The vocabulary


def test_the_base_vocabulary_is_the_256_bytes(vocabulary: Vocabulary) -> None:
    single = {vocabulary._pieces.id_to_piece(i) for i in range(len(vocabulary))}
    assert {symbol.replace(" ", "▁") for symbol in SYMBOLS} <= single
    assert len(vocabulary) == 400 and vocabulary.ids == SpecialIds()


@pytest.mark.integration
def test_every_assigned_code_point_comes_back_alone_and_in_text(vocabulary: Vocabulary) -> None:
    points = assigned()
    assert len(points) > 280_000
    rows = vocabulary.encode(points)
    assert vocabulary.decode(rows) == points
    assert vocabulary.ids.unk not in {i for row in rows for i in row}
    lines = ["".join(points[i : i + 50]) for i in range(0, len(points), 50)]
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


def test_random_strings_come_back_with_all_their_spaces(vocabulary: Vocabulary) -> None:
    numbers = random.Random(2)
    lines = [random_text(numbers) for _ in range(20_000)]
    assert any("  " in line for line in lines) and any(line != line.strip() for line in lines) and "" in lines
    assert vocabulary.decode(vocabulary.encode(lines)) == lines
    assert vocabulary.decode(vocabulary.encode(["", " ", "   ", " a", "a  ", "▁", "<s>", "<unk>"])) == [
        "", " ", "   ", " a", "a  ", "▁", "<s>", "<unk>",
    ]  # fmt: skip


def test_any_ids_have_a_text(vocabulary: Vocabulary) -> None:
    numbers, ids = random.Random(3), vocabulary.ids
    rows = [numbers.choices(range(len(vocabulary)), k=numbers.randint(0, 30)) for _ in range(2000)]
    for text in vocabulary.decode(rows):
        text.encode()
    assert vocabulary.decode([[ids.bos, *vocabulary.encode(["एक गेंद"])[0], ids.eos, ids.pad]]) == ["एक गेंद"]


def test_pieces_are_readable(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode(["भारत red"])[0]
    assert vocabulary.pieces(ids) == ["▁भारत", "▁red"]
    assert vocabulary.pieces(vocabulary.encode(["犬"])[0]) == ["▁", r"\xe7", r"\x8a", r"\xac"]
    special = vocabulary.ids
    assert vocabulary.pieces([special.bos, special.eos, special.pad]) == ["<s>", "</s>", "<pad>"]


def test_the_kind_is_told_from_the_pieces(learned: Path, tmp_path: Path) -> None:
    assert are_symbols(SYMBOLS) and not are_symbols(SYMBOLS[1:]) and not are_symbols(SYMBOLS + "é")
    assert read_json(learned / "subwords.json")["subwords"]["kind"] == "bbpe"
    assert sorted(p.name for p in learned.iterdir()) == [
        "source.model", "source.vocab", "subwords.json", "target.model", "target.vocab",
    ]  # fmt: skip
    clean = write_clean(tmp_path / "clean", {"train": HINDI * 5})
    learn(clean, tmp_path / "subwords", "en-de", Subwords(size=60))
    plain = Vocabulary(tmp_path / "subwords/source.model")
    assert plain.decode(plain.encode(["犬"])) == ["<unk>"]


def test_one_vocabulary_a_side_and_one_of_bytes_alone(tmp_path: Path) -> None:
    clean = write_clean(tmp_path / "clean", {"train": HINDI * 5})
    learn(clean, tmp_path / "subwords", "en-de", Subwords(kind="bbpe", size=260, joint=False))
    vocabulary = Vocabulary(tmp_path / "subwords/target.model")
    assert len(vocabulary) == 260
    assert [len(row) for row in vocabulary.encode(HINDI)] == [len(line.encode()) + 1 for line in HINDI]


def test_a_size_that_the_text_does_not_allow_is_refused(tmp_path: Path) -> None:
    clean = write_clean(tmp_path / "clean", {"train": ["a b c"]})
    with pytest.raises(ConfigError, match=r"subwords\.size: 5000 .*train\.en and .*smaller"):
        learn(clean, tmp_path / "subwords", "en-de", Subwords(kind="bbpe", size=5000))
    (clean / "train.de").write_text("\n")
    with pytest.raises(DataError, match=r"train\.de: expected training text, got an empty file"):
        learn(clean, tmp_path / "subwords", "en-de", Subwords(size=60))
    assert not (tmp_path / "subwords").exists()
