"""Several pairs of languages in one encoded corpus: tags, the order of the text, and temperature sampling."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from several import COUNTS, PAIRS, encode_pairs, write_pairs

from nmt.config.data import Subwords
from nmt.data.batches import Parallel
from nmt.data.encode import encode_corpus
from nmt.data.encoded import check_encoded, read_meta
from nmt.data.sampling import draw, quotas, tempered
from nmt.system.chunks import Shard
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_json
from nmt.system.lines import read_lines
from nmt.text.subwords import learn

SIZES = {"bbpe": 264, "words": 20}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode_pairs(tmp_path_factory.mktemp("several"), Subwords(size=60))


@pytest.mark.parametrize("split", ["train", "valid"])
def test_sources_begin_with_the_tag_of_their_target_as_sentencepiece_itself_encodes_them(
    encoded: Path, split: str
) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(encoded / "source.model"))
    data, expected = Parallel(encoded, split), list[tuple[list[int], list[int]]]()
    for pair in COUNTS:
        source, target = pair.split("-")
        texts = [list(read_lines(encoded.parent / "clean" / pair / f"{split}.{code}")) for code in (source, target)]
        tag = pieces.piece_to_id(f"<2{target}>")
        assert pieces.is_control(tag)
        expected += [([tag, *pieces.encode(a)], pieces.encode(b)) for a, b in zip(*texts, strict=True)]
    assert [(data.source.pieces(i), data.target.pieces(i)) for i in range(len(data.indices))] == expected


def test_the_description_counts_each_pair_and_joins_licences_and_references(encoded: Path) -> None:
    check_encoded(encoded)
    meta = read_meta(encoded)
    assert meta["languages"] == PAIRS and meta["licence"] == "of en-de; of en-fr; of de-en"
    train = meta["splits"]["train"]
    assert {pair: part["sentences"] for pair, part in train["pairs"].items()} == COUNTS
    for key in ("sentences", "source_pieces", "target_pieces"):
        assert train[key] == sum(part[key] for part in train["pairs"].values())
    targets = [encoded.parent / "clean" / pair / f"valid.{pair[3:]}" for pair in COUNTS]
    assert (encoded / "valid.references.txt").read_text() == "".join(path.read_text() for path in targets)


def test_a_sentence_cannot_contain_a_tag(tmp_path: Path) -> None:
    folders = write_pairs(tmp_path)
    for path in tmp_path.glob("*/train.*"):
        path.write_text("<2fr> w1 <2de>\n" * len(list(read_lines(path))))
    for kind in ("bpe", "words", "char", "bbpe"):
        learn(folders, tmp_path / kind, PAIRS, Subwords.model_validate({"kind": kind, "size": SIZES.get(kind, 17)}))
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / kind / "source.model"))
        encode_corpus(folders, tmp_path / kind, tmp_path / f"encoded-{kind}", PAIRS)
        data = Parallel(tmp_path / f"encoded-{kind}", "train")
        source, target = data.source.pieces(0), data.target.pieces(0)
        assert source[0] == pieces.piece_to_id("<2de>") and pieces.unk_id() not in source
        assert not any(map(pieces.is_control, [*source[1:], *target]))


def test_shards_and_segmentations_of_several_pairs_give_the_same_arrays(tmp_path: Path) -> None:
    folders = write_pairs(tmp_path / "clean")
    learn(folders, tmp_path / "subwords", PAIRS, Subwords(size=60, dropout=0.2, segmentations=2))
    encode_corpus(folders, tmp_path / "subwords", tmp_path / "whole", PAIRS)
    for number in (1, 2):
        encode_corpus(folders, tmp_path / "subwords", tmp_path / "parts", PAIRS, Shard(number, 2))
    encode_corpus(folders, tmp_path / "subwords", tmp_path / "parts", PAIRS)
    assert read_meta(tmp_path / "whole") == read_meta(tmp_path / "parts")
    pairs = read_meta(tmp_path / "whole")["splits"]["train"]["pairs"]
    assert {pair: part["sentences"] for pair, part in pairs.items()} == {p: 2 * n for p, n in COUNTS.items()}


def test_folders_that_do_not_fit_the_pairs_are_refused(tmp_path: Path) -> None:
    folders = write_pairs(tmp_path / "clean")
    with pytest.raises(ConfigError, match="a folder of cleaned text for each of 3 pairs, in their order, got 2"):
        learn(folders[:2], tmp_path / "subwords", PAIRS, Subwords(size=60))
    with pytest.raises(ConfigError, match="joint: 3 pairs of languages share one vocabulary"):
        learn(folders, tmp_path / "subwords", PAIRS, Subwords(size=60, joint=False))
    learn(folders, tmp_path / "subwords", PAIRS, Subwords(size=60))
    report = read_json(folders[1] / "report.json")
    write_json(folders[1] / "report.json", report | {"cleaning": {"lowercase": False}})
    with pytest.raises(ConfigError, match=r"en-fr: expected text cleaned like .*en-de, got another recipe"):
        encode_corpus(folders, tmp_path / "subwords", tmp_path / "encoded", PAIRS)


def test_a_text_of_both_directions_counts_once_in_the_vocabulary(tmp_path: Path) -> None:
    folders = write_pairs(tmp_path, {"en-de": 50, "en-fr": 30})
    (tmp_path / "de-en").mkdir()
    for path in folders[0].iterdir():
        (tmp_path / "de-en" / path.name).write_bytes(path.read_bytes())
    learn([*folders, tmp_path / "de-en"], tmp_path / "three", "en-de,en-fr,de-en", Subwords(size=63))
    learn(folders, tmp_path / "two", "en-de,en-fr", Subwords(size=62))
    three, two = ((tmp_path / name / "source.vocab").read_text().splitlines() for name in ("three", "two"))
    assert [line for line in three if "<2" not in line] == [line for line in two if "<2" not in line]


@pytest.mark.parametrize("temperature", [1.0, 1.5, 5.0, 1e30])
def test_probabilities_and_quotas_are_those_of_the_formula(temperature: float) -> None:
    counts = [290, 60, 3, 1]
    weights = [count ** (1 / temperature) for count in counts]
    expected = [weight / sum(weights) for weight in weights]
    assert tempered(counts, temperature) == pytest.approx(expected)
    found = quotas(tempered(counts, temperature), sum(counts))
    assert sum(found) == sum(counts)
    assert all(abs(quota - p * sum(counts)) < 1 for quota, p in zip(found, expected, strict=True))
    one = tempered([10, 0], temperature)
    assert one.tolist() == [1, 0] and quotas(one, 10) == [10, 0]


def test_a_small_pair_is_repeated_evenly_and_a_large_one_is_sampled_without_repetition() -> None:
    groups = [np.arange(100), np.arange(100, 107), np.arange(107, 107)]
    shares = tempered([100, 7, 0], 5.0)
    drawn = draw(groups, shares, np.random.default_rng(1))
    uses = [Counter(drawn[np.isin(drawn, group)].tolist()) for group in groups]
    assert [use.total() for use in uses] == quotas(shares, 107)
    assert set(uses[0].values()) == {1} and max(uses[1].values()) - min(uses[1].values()) <= 1


def test_batches_with_a_temperature_depend_on_seed_and_epoch_alone(encoded: Path) -> None:
    data = Parallel(encoded, "train")

    def epoch(*shuffle: int, temperature: float = 2.0) -> list[int]:
        return np.concatenate(data.batches("200 tokens", (shuffle[0], shuffle[1]), temperature)).tolist()

    assert epoch(1, 0) == epoch(1, 0) and len({tuple(epoch(s, e)) for s in (1, 2) for e in (0, 1)}) == 4
    assert sorted(epoch(1, 0, temperature=1.0)) == list(range(380))
    bounds = np.cumsum([0, *COUNTS.values()])
    assert np.histogram(epoch(1, 0), bounds)[0].tolist() == quotas(tempered(list(COUNTS.values()), 2.0), 380)


def test_a_temperature_counts_only_pairs_that_fit_the_model(encoded: Path) -> None:
    data = Parallel(encoded, "train", longest=8)
    assert 0 < len(data.indices) < 380
    assert list(data.groups) == list(COUNTS)
    assert np.concatenate(list(data.groups.values())).tolist() == data.indices.tolist()
    drawn = np.concatenate(data.batches("200 tokens", (1, 0), 3.0))
    assert set(drawn.tolist()) <= set(data.indices.tolist()) and len(drawn) == len(data.indices)
