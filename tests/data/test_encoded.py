"""Encoded corpora that are damaged, changed or from somebody else, and a disk that is full while one is written."""

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from copytask import copy_lines, write_clean

from nmt.config.data import Subwords
from nmt.data.encode import encode_corpus
from nmt.data.encoded import check_encoded, read_meta
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json
from nmt.text.subwords import learn

TINY = "{model: {layers: 1, width: 8, heads: 1}, training: {updates: 2}}"


@pytest.fixture
def encoded(small_corpus: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(small_corpus, tmp_path / "encoded"))


def change_meta(encoded: Path, **changes: Any) -> None:
    write_json(encoded / "meta.json", read_json(encoded / "meta.json") | changes)


def set_id(encoded: Path, value: int) -> None:
    ids = np.load(encoded / "train.target.npy").astype(np.int32)
    ids[7] = value
    np.save(encoded / "train.target.npy", ids)


def without_checksums(encoded: Path) -> None:
    """As earlier versions wrote it."""
    meta = read_json(encoded / "meta.json")
    write_json(encoded / "meta.json", {key: value for key, value in meta.items() if key != "sha256"})


def test_every_array_and_text_has_a_checksum_outside_the_identity(small_corpus: Path) -> None:
    meta = read_meta(small_corpus)
    arrays = {f"{split}.{side}{kind}.npy" for split in ("train", "valid") for side in ("source", "target")
              for kind in ("", ".offsets")}  # fmt: skip
    assert meta["sha256"].keys() == arrays | {"valid.references.txt"}
    assert not any("npy" in key for split in meta["splits"].values() for key in split)
    check_encoded(small_corpus)


@pytest.mark.parametrize("name", ["train.source.npy", "valid.target.offsets.npy", "valid.references.txt"])
def test_one_changed_bit_stops_a_training_before_it_starts(encoded: Path, tmp_path: Path, name: str) -> None:
    content = bytearray((encoded / name).read_bytes())
    content[-1] ^= 1
    (encoded / name).write_bytes(content)
    code, output = run("train", encoded, tmp_path / "run", "--config", TINY, "--device", "cpu")
    assert code == 1 and f"{encoded / name}: is not as `nmt encode` wrote it; run `nmt encode` again" in output
    assert not (tmp_path / "run" / "state").exists()


def test_a_folder_of_an_earlier_version_is_taken(encoded: Path) -> None:
    without_checksums(encoded)
    check_encoded(encoded)


@pytest.mark.parametrize("wrong", [-1, 14, 2**31 - 1])
def test_an_id_out_of_range_is_named(encoded: Path, wrong: int) -> None:
    without_checksums(encoded)
    set_id(encoded, wrong)
    assert read_meta(encoded)["vocabulary"]["target"] == 14
    with pytest.raises(DataError, match=rf"train\.target\.npy: expected ids from 0 to 13, got {wrong} at position 7;"):
        check_encoded(encoded)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "no array": lambda folder: (folder / "train.source.npy").unlink(),
    "floats": lambda folder: np.save(folder / "train.source.npy", np.zeros(5)),
    "a table": lambda folder: np.save(folder / "train.source.npy", np.zeros((5, 5), np.uint16)),
    "an archive": lambda folder: np.savez((folder / "train.source.npy").open("wb"), np.zeros(5, np.uint16)),
    "no number": lambda folder: np.save(folder / "train.source.npy", np.uint16(5)),
    "falling offsets": lambda folder: np.save(
        folder / "valid.source.offsets.npy", np.load(folder / "valid.source.offsets.npy")[[0, 2, 1, *range(3, 101)]]
    ),
    "other pieces": lambda folder: shutil.copyfile(folder / "meta.json", folder / "source.model"),
    "a wrong size": lambda folder: change_meta(folder, vocabulary={"source": 10**12, "target": 14}),
    "text as size": lambda folder: change_meta(folder, vocabulary={"source": "many", "target": 14}),
    "no ids": lambda folder: change_meta(folder, ids={}),
    "ids that are one": lambda folder: change_meta(folder, ids={"pad": 1, "unk": 1, "bos": 1, "eos": 1}),
    "splits a list": lambda folder: change_meta(folder, splits=[1]),
    "a file outside": lambda folder: change_meta(folder, sha256={"../../etc/passwd": "0"}),
    "a pipe": lambda folder: ((folder / "train.source.npy").unlink(), os.mkfifo(folder / "train.source.npy")),
    "a device": lambda folder: ((folder / "meta.json").unlink(), (folder / "meta.json").symlink_to("/dev/zero")),
    "deep": lambda folder: (folder / "meta.json").write_text("[" * 100_000),
}


@pytest.mark.integration
@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("checksums", [True, False])
def test_odd_folders_are_one_message(encoded: Path, tmp_path: Path, case: str, checksums: bool) -> None:
    if not checksums:
        without_checksums(encoded)
    DAMAGE[case](encoded)
    code, output = run("train", encoded, tmp_path / "run", "--config", TINY, "--device", "cpu")
    assert code == 1 and len(output.splitlines()) == 1 and str(encoded) in output, output


def test_a_full_disk_names_file_and_cause(tmp_path: Path) -> None:
    """A limit on the size of files acts as a full disk does."""
    clean = write_clean(tmp_path / "clean", {"train": copy_lines(3000, 1), "valid": copy_lines(10, 2)})
    learn(clean, tmp_path / "subwords", "en-de", Subwords(kind="words", size=100))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, hard))
    try:
        code, output = run("encode", clean, tmp_path / "subwords", tmp_path / "encoded", "--languages", "en-de")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 1 and len(output.splitlines()) == 1, output
    assert str(tmp_path / "encoded") in output and os.strerror(errno.EFBIG) in output and "check space" in output
    assert not (tmp_path / "encoded").exists()
    encode_corpus(clean, tmp_path / "subwords", tmp_path / "encoded", "en-de")
    check_encoded(tmp_path / "encoded")
