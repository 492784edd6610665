"""Subword models that were learned elsewhere, for a system that starts from a trained model."""

import json
import shutil
from pathlib import Path

import pytest
from commands import run

from nmt.data.encode import encode_corpus
from nmt.system.files import read_json, write_json


@pytest.fixture
def learned(small_corpus: Path) -> Path:
    return small_corpus.with_name("subwords")


def test_inherited_models_are_those_that_were_learned(learned: Path, tmp_path: Path) -> None:
    code, output = run("inherit-subwords", learned, tmp_path / "out", "--languages", "fr-es")
    assert code == 0, output
    same = ("source.model", "target.model", "source.vocab", "target.vocab")
    assert all((tmp_path / "out" / name).read_bytes() == (learned / name).read_bytes() for name in same)
    assert read_json(tmp_path / "out" / "subwords.json") == read_json(learned / "subwords.json") | {
        "languages": "fr-es"
    }


def test_a_model_directory_hands_them_down_too(small_corpus: Path, learned: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for side in ("source", "target"):
        shutil.copyfile(learned / f"{side}.model", folder / f"{side}.model")
    write_json(folder / "provenance.json", {"subwords": read_json(small_corpus / "meta.json")["subwords"]})
    assert run("inherit-subwords", folder, tmp_path / "out", "--languages", "en-de")[0] == 0
    encode_corpus(small_corpus.with_name("clean"), tmp_path / "out", tmp_path / "encoded", "en-de")
    assert (tmp_path / "encoded" / "train.source.npy").read_bytes() == (small_corpus / "train.source.npy").read_bytes()
    assert read_json(tmp_path / "encoded" / "meta.json") == read_json(small_corpus / "meta.json")
    shutil.copyfile(tmp_path / "out" / "source.vocab", folder / "source.model")
    code, output = run("inherit-subwords", folder, tmp_path / "out", "--languages", "en-de")
    assert code == 1 and "expected a sentencepiece model" in output


def test_dropout_is_that_of_the_child(learned: Path, tmp_path: Path) -> None:
    code, output = run("inherit-subwords", learned, tmp_path / "out", "--languages", "en-de", "--dropout", 0.1)
    assert code == 1 and "dropout 0.1: dropout leaves out BPE" in output and not (tmp_path / "out").exists()
    bpe = read_json(learned / "subwords.json")
    bpe["subwords"] |= {"kind": "bpe", "dropout": 0.3, "segmentations": 4}
    shutil.copytree(learned, tmp_path / "bpe")
    (tmp_path / "bpe" / "subwords.json").write_text(json.dumps(bpe))
    options = ["--languages", "en-de", "--dropout", 0.1, "--segmentations", 2]
    for chosen, expected in ((options, {"dropout": 0.1, "segmentations": 2}), (options[:2], {})):
        assert run("inherit-subwords", tmp_path / "bpe", tmp_path / "out", *chosen)[0] == 0
        written = read_json(tmp_path / "out" / "subwords.json")["subwords"]
        assert {key: written[key] for key in ("dropout", "segmentations") if key in written} == expected
