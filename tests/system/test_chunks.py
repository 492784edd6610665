"""Large files in chunks: any number of shards, repeated and interrupted, gives the bytes of one job."""

import shutil
from pathlib import Path

import pytest
from raw import write_raw

from nmt.config.data import Cleaning, Subwords
from nmt.config.decoding import Decoding
from nmt.data import encode as data
from nmt.data.encode import encode_corpus
from nmt.system.chunks import Chunks, Shard
from nmt.system.errors import ConfigError, DataError
from nmt.text import clean as cleaning
from nmt.text.clean import clean
from nmt.text.repeats import mark_repeats
from nmt.text.subwords import Vocabulary, _sampled, learn
from nmt.translation import decode_file as translate
from nmt.translation.decode_file import decode_file

PAIRS = [(f"The {n % 31} dogs bark.", "Ein Hund." if n % 7 else "") for n in range(100)]
RECIPES = [Cleaning(tokenize="none"), Cleaning(tokenize="none", deduplicate=True)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("text", ["0/8", "9/8", "1", "a/b", "1/0"])
def test_a_shard_is_one_of_some(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--shard: expected number/total, e.g. 2/8, got '{text}'"):
        Shard.parse(text)


@pytest.mark.parametrize("chunks", [0, 1, 5, 16])
@pytest.mark.parametrize("of", [1, 3, 8])
def test_shards_share_out_every_chunk_once(of: int, chunks: int) -> None:
    shares = [Shard(number, of).share(chunks) for number in range(1, of + 1)]
    assert [chunk for share in shares for chunk in share] == list(range(chunks))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("of", [1, 2, 7])
def test_cleaning_in_shards_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Cleaning, of: int
) -> None:
    raw = write_raw(tmp_path / "raw", train=PAIRS, valid=PAIRS[:5])
    clean(raw, tmp_path / "whole", recipe, "en-de")
    monkeypatch.setattr(cleaning, "CHUNK", 11)
    for number in reversed(range(1, of + 1)):
        clean(raw, tmp_path / "parts", recipe, "en-de", shard=Shard(number, of))
        assert not (tmp_path / "parts").exists()
    monkeypatch.setattr(cleaning, "_write_chunk", None)  # nothing is cleaned twice
    clean(raw, tmp_path / "parts", recipe, "en-de")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "whole", "parts"}


def test_chunks_of_another_recipe_or_text_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "CHUNK", 11)
    raw = write_raw(tmp_path / "raw", train=PAIRS, valid=PAIRS[:5])
    clean(raw, tmp_path / "whole", RECIPES[1], "en-de")
    clean(raw, tmp_path / "parts", RECIPES[0], "en-de", shard=Shard(1, 2))
    clean(raw, tmp_path / "parts", RECIPES[1], "en-de")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    clean(raw, tmp_path / "parts", RECIPES[1], "en-de", shard=Shard(1, 2))
    (raw / "train.en").write_text((raw / "train.en").read_text().replace("dogs", "cats"))
    clean(raw, tmp_path / "parts", RECIPES[1], "en-de")
    assert b"dogs" not in (tmp_path / "parts" / "train.en").read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "bbpe"])
@pytest.mark.parametrize("of", [2, 7])
def test_encoding_in_shards_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, of: int
) -> None:
    raw = write_raw(tmp_path / "raw", train=PAIRS, valid=PAIRS[:5])
    clean(raw, tmp_path / "clean", RECIPES[0], "en-de")
    subwords = Subwords.model_validate({"kind": kind, "size": {"bpe": 40, "bbpe": 280}[kind]})
    learn(tmp_path / "clean", tmp_path / "sub", "en-de", subwords)
    encode_corpus(tmp_path / "clean", tmp_path / "sub", tmp_path / "whole", "en-de")
    monkeypatch.setattr(data, "CHUNK", 11)
    for number in range(1, of + 1):
        encode_corpus(tmp_path / "clean", tmp_path / "sub", tmp_path / "parts", "en-de", Shard(number, of))
    monkeypatch.setattr(Vocabulary, "encode", None)  # nothing is encoded twice
    encode_corpus(tmp_path / "clean", tmp_path / "sub", tmp_path / "parts", "en-de")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert not (tmp_path / "parts.chunks").exists()


def test_decoding_in_shards_changes_no_byte(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "CHUNK", 20)
    source, decoding = tmp_path / "source.txt", Decoding(beam=2, nbest=2, batch="60 tokens")
    source.write_text("".join(f"w{n % 9} w{n % 7} w{n % 5}\n" for n in range(90)))
    for name, of in (("one", 0), ("three", 3)):
        out = tmp_path / name / "hypotheses.txt"
        for number in range(1, of + 1):
            decode_file(model, source, out, decoding, "cpu", 1, shard=Shard(number, of))
            assert len(list(out.with_name("hypotheses.txt.chunks").iterdir())) == number * 5 // of
        decode_file(model, source, out, decoding, "cpu", 1)
    one, three = files(tmp_path / "one"), files(tmp_path / "three")
    for name in ("hypotheses.txt", "nbest.tsv", "alignments.json"):
        assert one[name] == three[name]
    assert one.keys() == three.keys()


def test_a_faulty_text_leaves_no_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "CHUNK", 11)
    raw = write_raw(tmp_path / "raw", train=PAIRS)
    (raw / "train.de").write_bytes((raw / "train.de").read_bytes()[:-2] + b"\xff\n")
    with pytest.raises(DataError, match="line 100: expected UTF-8"):
        clean(raw, tmp_path / "clean", RECIPES[0], "en-de")
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_wrong_folder_to_write_costs_no_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "CHUNK", 11)
    raw, out = write_raw(tmp_path / "raw", train=PAIRS, valid=PAIRS[:5]), tmp_path / "clean"
    clean(raw, out, RECIPES[0], "en-de", shard=Shard(1, 1))
    chunks = set((tmp_path / "clean.chunks").rglob("*"))
    out.mkdir()
    (out / "notes.txt").touch()
    with pytest.raises(DataError, match="expected a folder to write that is new"):
        clean(raw, out, RECIPES[0], "en-de")
    assert len(chunks) > 10 and set((tmp_path / "clean.chunks").rglob("*")) == chunks


@pytest.mark.parametrize("full", [1, 3, 1000])
def test_repeats_are_those_that_a_set_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    monkeypatch.setattr("nmt.text.repeats.FULL", full)
    monkeypatch.setattr("nmt.text.repeats.BLOCK", 7)
    digests = [bytes([n * n % 37]) * 15 + bytes([n % 3]) for n in range(200)]
    for name, some in (("a", digests[:90]), ("b", []), ("c", digests[90:])):
        (tmp_path / name).write_bytes(b"".join(some))
    mark_repeats([tmp_path / name for name in "abc"], tmp_path / "repeats")
    assert list((tmp_path / "repeats").read_bytes()) == [one in digests[:n] for n, one in enumerate(digests)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "repeats"]


def test_a_vocabulary_of_a_long_text_is_learned_from_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.subwords.SAMPLE", 25)
    text = tmp_path / "text"
    text.write_text("".join(f"w{n}\n" for n in range(100)))
    assert _sampled(text, tmp_path / "sample").read_text().split() == [f"w{n}" for n in range(3, 100, 4)]
    monkeypatch.setattr("nmt.text.subwords.SAMPLE", 100)
    assert _sampled(text, tmp_path / "sample") == text


def test_a_kill_while_chunks_are_deleted_leaves_no_half_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk may be a folder, and a part of its files would pass for a finished one."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    chunks = Chunks(tmp_path / "out", "mark", 10)
    (chunks.path(0) / "ids").mkdir(parents=True)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", lambda path, **_: killed() if path.exists() else None)
        chunks.delete()
    assert not chunks.path(0).exists()
    Chunks(tmp_path / "out", "mark", 10)
    assert not list(tmp_path.iterdir())
