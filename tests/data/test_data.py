"""Encoded corpora and batches, against the text they came from."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from copytask import copy_lines, write_clean

from nmt.config.data import SpecialIds, Subwords
from nmt.data.batches import Parallel, raw_lines
from nmt.data.encode import encode_corpus
from nmt.system.chunks import Shard
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED, read_json, sha256
from nmt.text.stats import subwords
from nmt.text.subwords import Vocabulary, learn


def test_batches_hold_each_pair_once_and_decode_to_the_text(copy_corpus: Path) -> None:
    data, vocabulary = Parallel(copy_corpus, "train"), Vocabulary(copy_corpus / "target.model")
    lines = copy_lines(6000, 1)
    batches = data.batches("256 tokens", (1, 0))
    assert sorted(i for batch in batches for i in batch) == list(range(6000))
    for indices in batches[:20]:
        batch, ids = data.batch(indices), vocabulary.ids
        assert batch.source.numel() <= 256 and batch.target.numel() <= 256
        assert (batch.target[:, 0] == ids.bos).all() and ((batch.target == ids.eos).sum(1) == 1).all()
        assert batch.pieces == int((batch.target[:, 1:] != ids.pad).sum())
        assert vocabulary.decode(batch.target.tolist()) == [lines[i] for i in indices]


def test_places_are_those_of_the_pieces_to_predict(copy_corpus: Path) -> None:
    data = Parallel(copy_corpus, "train")
    batch = data.batch(np.array([5, 0, 3]))
    expected = batch.target[:, 1:]
    real = expected != SpecialIds().pad
    assert batch.expected.tolist() == expected[real].tolist() and batch.pieces == data.pieces(np.array([5, 0, 3]))
    assert not real.all()
    twice = batch.twice()
    assert twice.expected.tolist() == 2 * batch.expected.tolist() and twice.pieces == 2 * batch.pieces


def test_shapes_are_the_same_in_every_epoch(copy_corpus: Path) -> None:
    data = Parallel(copy_corpus, "train")
    shapes = [
        sorted(tuple(part.shape for part in data.batch(indices).tensors()) for indices in batches)
        for batches in (data.batches("500 tokens", (1, epoch)) for epoch in range(3))
    ]
    assert shapes[0] == shapes[1] == shapes[2] and len(set(shapes[0])) > 10


@pytest.mark.parametrize(("size", "largest"), [("64 sentences", 64), ("1 sentences", 1)])
def test_batches_by_sentences(copy_corpus: Path, size: str, largest: int) -> None:
    sizes = [len(b) for b in Parallel(copy_corpus, "train").batches(size)]
    assert sum(sizes) == 6000 and max(sizes) == largest and sorted(sizes)[1:] == [largest] * (len(sizes) - 1)


def test_order_depends_on_seed_and_epoch_alone(copy_corpus: Path) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(Parallel(copy_corpus, "train").batches("300 tokens", (seed, epoch))).tolist()

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(s, e)) for s in (1, 2) for e in (0, 1)}) == 4


def test_bucketing_leaves_little_padding(copy_corpus: Path) -> None:
    data = Parallel(copy_corpus, "train")
    batches = [data.batch(b).target for b in data.batches("512 tokens", (1, 0))]
    padding = sum(int((b == SpecialIds().pad).sum()) for b in batches)
    assert padding / sum(b.numel() for b in batches) < 0.05


def test_pairs_too_long_for_the_model_are_left_out_and_counted(copy_corpus: Path) -> None:
    data = Parallel(copy_corpus, "train", longest=6)
    assert data.too_long == sum(len(line.split()) > 4 for line in copy_lines(6000, 1))
    with pytest.raises(DataError, match="max_positions: 2"):
        Parallel(copy_corpus, "train", longest=2)


def encode(folder: Path, subwords: Subwords, train: list[str]) -> Path:
    clean = write_clean(folder / "clean", {"train": train, "valid": train[:2]})
    learn(clean, folder / "subwords", "en-de", subwords)
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


@pytest.mark.parametrize("kind", ["words", "bpe", "bbpe"])
def test_other_pieces_than_were_learned_are_refused(tmp_path: Path, kind: str) -> None:
    config = Subwords.model_validate({"kind": kind, "size": 264 if kind == "bbpe" else 10})
    encode(tmp_path, config, ["ab bc ca", "bc"])
    (tmp_path / "foreign").mkdir()
    encode(tmp_path / "foreign", config, ["xy yz zx", "yz"])
    model = tmp_path / "subwords/source.model"
    assert Vocabulary(model).sha256() == sha256(model.with_suffix(".vocab"))
    shutil.copyfile(tmp_path / "foreign/subwords/source.model", model)
    with pytest.raises(DataError, match=r"source\.model: expected the pieces that were learned, sha256"):
        encode_corpus(tmp_path / "clean", tmp_path / "subwords", tmp_path / "other", "en-de")


def test_subwords_of_the_other_direction_are_refused(tmp_path: Path) -> None:
    encode(tmp_path, Subwords(kind="words", size=20), ["a b", "b c"])
    with pytest.raises(ConfigError, match="subwords: expected subwords of de-en, got those of en-de"):
        encode_corpus(tmp_path / "clean", tmp_path / "subwords", tmp_path / "other", "de-en")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("joint", [True, False])
def test_bpe_is_lossless_on_any_text_it_learned_from(tmp_path: Path, joint: bool) -> None:
    lines = [
        "ein mädchen läuft .",
        "&quot; c &apos; est ça , œuf ! &quot;",
        "नमस्ते दुनिया",
        "日本 \u200b語",
        "a\u00a0b",
    ]
    encoded = encode(tmp_path, Subwords(size=100, joint=joint), lines * 3)
    vocabulary = Vocabulary(encoded / "source.model")
    assert vocabulary.ids == SpecialIds() and len(vocabulary) == 100
    assert vocabulary.decode(vocabulary.encode(lines)) == lines
    assert vocabulary.decode(vocabulary.encode(["ж"])) == ["<unk>"]


def test_special_ids_can_move_and_words_are_capped_by_the_text(tmp_path: Path) -> None:
    ids = SpecialIds(pad=3, unk=0, bos=1, eos=2)
    encoded = encode(tmp_path, Subwords(kind="words", size=25_000, ids=ids), ["a b c", "b c d"])
    vocabulary = Vocabulary(encoded / "target.model")
    assert vocabulary.ids == ids and len(vocabulary) == 8
    assert Parallel(encoded, "train").batch(np.array([0, 1])).source[:, 0].tolist() == [1, 1]
    assert vocabulary.decode(vocabulary.encode(["b x c"])) == ["b <unk> c"]


def test_top_words_are_kept(tmp_path: Path) -> None:
    encoded = encode(tmp_path, Subwords(kind="words", size=8), ["a a a a b b b c c d d e f g"] * 3)
    vocabulary = Vocabulary(encoded / "source.model")
    assert vocabulary.decode(vocabulary.encode(["a b c d e f"])) == ["a b c d <unk> <unk>"]


DROPPING = Subwords(size=60, dropout=0.3, segmentations=3)
WORDS = [f"{word} {other}" for word in ("anna", "anton", "banane", "tanne") for other in ("kannen", "kanten", "enten")]


def test_bpe_dropout_cuts_the_training_text_anew_each_time_and_what_is_translated_never(tmp_path: Path) -> None:
    encoded = encode(tmp_path, DROPPING, WORDS)
    data, vocabulary = Parallel(encoded, "train"), Vocabulary(encoded / "target.model")
    assert len(data.target.lengths) == 3 * len(WORDS)
    rows = [data.target.pieces(i) for i in range(3 * len(WORDS))]
    assert vocabulary.decode(rows) == WORDS * 3
    cuts = [rows[n * len(WORDS) : (n + 1) * len(WORDS)] for n in range(3)]
    assert len({str(cut) for cut in [*cuts, vocabulary.encode(WORDS)]}) == 4
    counted = subwords(encoded, {"train": tmp_path / "clean"}, "en-de")["train"]["de"]
    assert counted == pytest.approx(sum(map(len, rows)) / 3)
    valid = Parallel(encoded, "valid").target
    assert [valid.pieces(i) for i in range(2)] == vocabulary.encode(WORDS[:2])


def test_bpe_dropout_leaves_out_that_share_of_merges(tmp_path: Path) -> None:
    vocabulary = Vocabulary(encode(tmp_path, Subwords(size=9), ["ab"] * 4) / "target.model")
    cut = vocabulary.encode(["ab"] * 4000, dropout=0.25, seed=1)
    whole = sum(len(row) == 1 for row in cut) / len(cut)  # two merges make it of ▁, a and b
    assert whole == pytest.approx(0.75**2, abs=0.03)  # four standard deviations


def test_bpe_dropout_is_the_same_in_every_encoding_whole_or_shared_out(tmp_path: Path) -> None:
    whole = encode(tmp_path / "whole", DROPPING, WORDS)
    shared = tmp_path / "whole" / "shared"
    for shard in (Shard(2, 2), Shard(1, 2), None):
        encode_corpus(tmp_path / "whole/clean", tmp_path / "whole/subwords", shared, "en-de", shard)
    names = {path.name for path in whole.glob("*.npy")}
    assert names and {path.name for path in shared.glob("*.npy")} == names
    for name in names:
        assert (shared / name).read_bytes() == (whole / name).read_bytes()


def test_the_pictures_of_text_that_is_encoded_several_times_are_those_of_its_lines(tmp_path: Path) -> None:
    encoded = encode(tmp_path, DROPPING, WORDS)
    (encoded / DROPPED).write_text("2\n5\n")  # lines of the raw text that cleaning left out
    lines, total = raw_lines(encoded, "train", 3 * len(WORDS))
    once = [line for line in range(len(WORDS) + 2) if line + 1 not in (2, 5)]
    assert total == len(WORDS) + 2 and lines.tolist() == once * 3


def test_subwords_without_dropout_are_described_as_before_there_was_any(tmp_path: Path) -> None:
    encoded = encode(tmp_path, Subwords(size=60), WORDS)  # trainings compare it: they would begin anew
    assert read_json(encoded / "meta.json")["subwords"]["subwords"].keys() == {"kind", "size", "joint", "ids"}


def test_a_vocabulary_larger_than_the_text_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"subwords\.size: 5000 .*smaller"):
        encode(tmp_path, Subwords(size=5000), ["a b c"])
    assert not (tmp_path / "subwords").exists()


def test_misaligned_sides_name_both_files_and_counts(tmp_path: Path) -> None:
    clean = write_clean(tmp_path / "clean", {"train": ["a b", "b a"], "valid": ["a", "b"]})
    (clean / "valid.de").write_text("a\n")
    learn(clean, tmp_path / "subwords", "en-de", Subwords(kind="words", size=9))
    with pytest.raises(DataError, match=r"valid\.en has 2 lines and .*valid\.de has 1 lines"):
        encode_corpus(clean, tmp_path / "subwords", tmp_path / "encoded", "en-de")
    assert not (tmp_path / "encoded").exists()


def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path: Path) -> None:
    clean = write_clean(tmp_path / "clean", {"train": ["a b"], "valid": ["a"]})
    learn(clean, tmp_path / "subwords", "en-de", Subwords(kind="words", size=9))
    (clean / "train.en").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"train\.en, line 2: expected UTF-8, got byte 0xef at column 3"):
        encode_corpus(clean, tmp_path / "subwords", tmp_path / "encoded", "en-de")


def test_a_damaged_array_is_named(copy_corpus: Path, tmp_path: Path) -> None:
    for file in copy_corpus.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "train.source.npy").write_bytes(b"short")
    with pytest.raises(DataError, match=r"train\.source\.npy: expected encoded text"):
        Parallel(tmp_path, "train")
