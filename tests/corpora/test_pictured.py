"""A corpus of the lines that have a picture in a mirror: text and pictures stay aligned."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from nmt.corpora import catalogue
from nmt.corpora.catalogue import Declared, fetch, write_pictures
from nmt.system.errors import ConfigError, DataError

# The index names lines in any order, pictures of other splits, and a picture on two lines.
INDEX = """split\tline0\tmulti30k_image\tupstream_file
val\t1\tc.jpg\tx
train\t3\ta.jpg\tx
train\t0\tb.jpg\tx
test\t0\ta.jpg\tx
"""


def tar_of(**pictures: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in pictures.items():
            member = tarfile.TarInfo(f"{name}.jpg")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of the corpus `seen`; its English line n is ``n`` and its German one ``-n``."""
    files = {"index.tsv": INDEX.encode(), "images.tar": tar_of(a=b"A", b=b"B", c=b"C", d=b"D")}
    for split in ("train", "val", "test"):
        files |= {f"{split}.en": b"0\n1\n2\n3\n", f"{split}.de": b"-0\n-1\n-2\n-3\n"}
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)

    def sha256(name: str) -> str:
        return hashlib.sha256(files[name]).hexdigest()

    def source(name: str) -> dict[str, object]:
        return {
            "made": "m",
            "mirror": f"{name}.{{language}}",
            "sha256": {c: sha256(f"{name}.{c}") for c in ("en", "de")},
        }

    names = {"train": "train", "valid": "val", "test_seen": "test"}
    pictures = {
        "made": "made by hand", "splits": names, "tar": {"mirror": "images.tar", "sha256": sha256("images.tar")},
        "index": {"mirror": "index.tsv", "sha256": sha256("index.tsv")},
    }  # fmt: skip
    facts = {"title": "t", "licence": "L", "pictures": pictures}
    seen = Declared.model_validate({**facts, "splits": {split: source(name) for split, name in names.items()}})
    monkeypatch.setattr(catalogue, "declared", lambda: {"seen": seen})
    monkeypatch.delenv("NMT_MIRROR", raising=False)
    return folder


def test_line_n_of_the_text_has_picture_n_of_the_list(mirror: Path, tmp_path: Path) -> None:
    fetch("seen", "en-de", tmp_path / "raw", mirror=mirror)
    write_pictures("seen", tmp_path / "images", mirror=mirror)
    pairs = {"train": [("0", "B"), ("3", "A")], "valid": [("1", "C")], "test_seen": [("0", "A")]}
    for split, expected in pairs.items():
        lines = (tmp_path / f"raw/{split}.en").read_text().splitlines()
        assert (tmp_path / f"raw/{split}.de").read_text().splitlines() == [f"-{line}" for line in lines]
        names = (tmp_path / f"images/{split}.txt").read_text().splitlines()
        assert [(line, (tmp_path / "images" / n).read_text()) for line, n in zip(lines, names, strict=True)] == expected
    assert not (tmp_path / "images/d.jpg").exists()


def test_a_limit_cuts_text_and_pictures_alike(mirror: Path, tmp_path: Path) -> None:
    fetch("seen", "en-de", tmp_path / "raw", mirror=mirror, limit=1)
    write_pictures("seen", tmp_path / "images", 1, mirror)
    assert (tmp_path / "raw/train.en").read_text() == "0\n"
    assert (tmp_path / "images/train.txt").read_text() == "b.jpg\n"


def test_what_is_missing_or_changed_is_named_and_nothing_is_left(mirror: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"images.tar: no URL has this file, made by hand; put it below a folder"):
        write_pictures("seen", tmp_path / "images")
    (mirror / "images.tar").write_bytes(tar_of(a=b"other"))
    with pytest.raises(DataError, match=r"images.tar: wrong checksum: expected SHA-256"):
        write_pictures("seen", tmp_path / "images", mirror=mirror)
    with pytest.raises(ConfigError, match="unknown corpus with pictures: 'sen'; did you mean 'seen'"):
        write_pictures("sen", tmp_path / "images", mirror=mirror)
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]
