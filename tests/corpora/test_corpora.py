import csv
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import types
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.system import System
from nmt.corpora import catalogue as corpora
from nmt.corpora import sources
from nmt.corpora.catalogue import Declared, check_trainable, fetch, resolve, splits, with_corpus_of
from nmt.corpora.catalogue import test_sets as sets_of
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json
from nmt.system.warnings import read_warnings, recorded

ENGLISH, GERMAN = "A dog.\nA cat.\nTwo birds.\n", "Ein Hund.\nEine Katze.\nZwei Vögel.\n"
FLICKR = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"]
NEWS, FLORES = ["newstest2013", "newstest2014"], ["flores200_dev", "flores200_devtest"]
TEXTS = {
    f"{stem}.{language}.gz": gzip.compress(text.encode(), mtime=0)
    for stem in ("train", "val")
    for language, text in (("en", ENGLISH), ("de", GERMAN))
}


class Handler(SimpleHTTPRequestHandler):
    requests: ClassVar[list[str]] = []
    failures = 0

    def do_GET(self) -> None:
        Handler.requests.append(self.path)
        if Handler.failures:
            Handler.failures -= 1
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A web server on this machine: its folder and URL; downloads go to a cache of the test's own."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name, data in TEXTS.items():
        (folder / name).write_bytes(data)
    Handler.requests, Handler.failures = [], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(sources, "RETRIES", 0)
    monkeypatch.delenv("NMT_MIRROR", raising=False)
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def declare(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Make `small` the only declared corpus, at ``url`` and at ``small/`` in a mirror."""

    def split(stem: str) -> dict[str, object]:
        hashes = {code: hashlib.sha256(TEXTS[f"{stem}.{code}.gz"]).hexdigest() for code in ("en", "de")}
        place = f"{stem}.{{language}}.gz"
        return {"url": f"{url}/{place}", "mirror": f"small/{place}", "sha256": hashes}

    corpus = {"title": "Small", "licence": "CC0", "splits": {"train": split("train"), "valid": split("val")}}
    found = {"small": Declared.model_validate(corpus)}
    monkeypatch.setattr(corpora, "declared", lambda: found)


def assert_nothing_left(out: Path) -> None:
    assert not out.exists()
    assert not list(out.parent.glob(".*part"))


def custom(folder: Path, **texts: bytes) -> CustomCorpus:
    """The user's own corpus; keys like ``train_en`` give files their bytes."""
    good = {"train_en": ENGLISH, "train_de": GERMAN, "valid_en": ENGLISH, "valid_de": GERMAN}
    for name, data in ({key: text.encode() for key, text in good.items()} | texts).items():
        (folder / name.replace("_", ".")).write_bytes(data)
    sides = {split: {c: folder / f"{split}.{c}" for c in ("en", "de")} for split in ("train", "valid")}
    return CustomCorpus.model_validate(sides)


# Names


@pytest.mark.parametrize(
    ("name", "languages", "tests"),
    [
        (
            "multi30k",
            "en-de",
            [*FLICKR, *FLORES, "test_2016_wmt16"],
        ),
        (
            "multi30k",
            "fr-de",
            [*FLICKR, *FLORES],
        ),
        ("multi30k", "fr-en", [*FLICKR, "test_tatoeba", *NEWS, *FLORES]),
        ("tatoeba-en-fr", "en-fr", ["test_tatoeba", *FLICKR, *NEWS, *FLORES]),
        ("multi30k-tatoeba", "en-fr", [*FLICKR, "test_tatoeba", *NEWS, *FLORES]),
        ("multi30k", "en-cs", ["test_2016_flickr", "test_2018_flickr"]),
        ("multi30k-wmt16", "en-de", ["test_2016_flickr"]),
        ("scenes", "en-fr", ["test", "test_ambiguous"]),
    ],
)
def test_a_pair_has_the_splits_that_both_languages_have(name: str, languages: str, tests: list[str]) -> None:
    assert sets_of(name, languages) == tests
    assert splits(name, languages)[:2] == ["train", "valid"]
    assert set(splits(name, languages)[2:]) <= set(tests)


@pytest.mark.parametrize(
    ("name", "languages", "parts"),
    [
        ("multi3k", "en-de", ["'multi3k'", "did you mean 'multi30k'?", "scenes", "config.yaml"]),
        ("multi30k", "en-dee", ["'dee'", "did you mean 'de'?", "cs, de, en, fr"]),
        ("multi30k", "en-hi", ["'hi'", "cs, de, en, fr"]),
        ("multi30k", "en-en", ["two different", "'en-en'"]),
        ("multi30k", "en_de", ["source-target", "'en_de'"]),
        ("multi30k-wmt16", "en-fr", ["'fr'", "de, en"]),
        ("tatoeba-en-fr", "en-de", ["'de'", "en, fr"]),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, languages: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        splits(name, languages)
    assert all(part in str(error.value) for part in parts), error.value


def test_declarations_are_those_of_the_mirror() -> None:
    mirror = os.environ.get("NMT_MIRROR") or pytest.skip("NMT_MIRROR is not set")
    with Path(mirror, "MANIFEST.tsv").open(encoding="utf-8") as stream:
        rows = {row["path"]: row for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)}
    for corpus in corpora.declared().values():
        for source in (source for split in corpus.splits.values() for source in split):
            hashes = source.sha256 if isinstance(source.sha256, dict) else {"": source.sha256}
            for language, sha256 in hashes.items():
                if sha256 is None:
                    continue  # out of reach, and so in no mirror yet
                code = source.codes.get(language, language)
                row = rows[source.mirror.format(language=code)]
                url = source.url.format(language=code) if source.url else "derived"
                assert (row["url"], row["sha256"]) == (url, sha256)


# Mirror


@pytest.mark.parametrize("limit", [None, 100])
def test_multi30k_from_the_mirror(tmp_path: Path, limit: int | None) -> None:
    if not os.environ.get("NMT_MIRROR"):
        pytest.skip("NMT_MIRROR is not set")
    fetch("multi30k", "en-cs", tmp_path / "raw", limit=limit)
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    lines = {split: {side["lines"] for side in sides.values()} for split, sides in described["splits"].items()}
    full = {"train": 29000, "valid": 1014, "test_2016_flickr": 1000, "test_2018_flickr": 1071}
    assert lines == {split: {limit or count} for split, count in full.items()}
    first = (tmp_path / "raw/train.en").read_text(encoding="utf-8").split("\n")[0]
    assert first == "Two young, White males are outside near many bushes."


def test_mirror_argument_wins_over_environment(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/small").symlink_to(site[0])
    monkeypatch.setenv("NMT_MIRROR", "/nowhere")
    fetch("small", "de-en", tmp_path / "raw", mirror=tmp_path / "mirror")
    assert (tmp_path / "raw/train.de").read_text(encoding="utf-8") == GERMAN
    assert Handler.requests == []
    with pytest.raises(ConfigError, match="/nowhere: no such folder"):
        fetch("small", "de-en", tmp_path / "other")


def test_mirror_with_a_damaged_or_missing_file(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    mirror = tmp_path / "mirror"
    (mirror / "small").mkdir(parents=True)
    for name, data in TEXTS.items():
        (mirror / "small" / name).write_bytes(data if name != "val.de.gz" else b"other")
    with pytest.raises(DataError) as error:
        fetch("small", "en-de", tmp_path / "raw", mirror=mirror)
    expected, got = (hashlib.sha256(data).hexdigest() for data in (TEXTS["val.de.gz"], b"other"))
    for part in (str(mirror / "small/val.de.gz"), expected, got, f"{site[1]}/val.de.gz", "unset"):
        assert part in str(error.value)
    assert_nothing_left(tmp_path / "raw")
    (mirror / "small/val.de.gz").unlink()
    with pytest.raises(DataError, match=r"val\.de\.gz: the mirror has no such file; put the file from http"):
        fetch("small", "en-de", tmp_path / "raw", mirror=mirror)
    assert_nothing_left(tmp_path / "raw")


# Download


def test_download_and_again_without_a_request(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    fetch("small", "en-de", tmp_path / "raw", limit=2)
    fetch("small", "en-de", tmp_path / "again")
    assert sorted(Handler.requests) == sorted(f"/{name}" for name in TEXTS)
    assert (tmp_path / "raw/train.de").read_text(encoding="utf-8") == "Ein Hund.\nEine Katze.\n"
    assert (tmp_path / "again/train.de").read_text(encoding="utf-8") == GERMAN
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == [
        *["corpus.json", "train.de", "train.en", "valid.de", "valid.en"]
    ]
    described = json.loads((tmp_path / "again/corpus.json").read_text())
    train = {
        "lines": 3,
        "sha256": hashlib.sha256(GERMAN.encode()).hexdigest(),
        "url": f"{site[1]}/train.de.gz",
    }
    assert described["splits"]["train"]["de"] == train
    assert (described["corpus"], described["licence"], described["synthetic"]) == ("small", "CC0", False)


def test_the_cache_is_a_mirror(tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, site[1])
    fetch("small", "en-de", tmp_path / "raw")
    fetch("small", "en-de", tmp_path / "again", mirror=tmp_path / "cache/nmt")
    assert len(Handler.requests) == len(TEXTS)


def test_a_failed_download_is_tried_again(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    monkeypatch.setattr(sources, "RETRIES", 1)
    monkeypatch.setattr("pooch.core.time", types.SimpleNamespace(sleep=lambda _: None))
    Handler.failures = 1
    fetch("small", "en-de", tmp_path / "raw")
    assert len(Handler.requests) == len(TEXTS) + 1


def test_a_rerun_downloads_only_what_is_missing(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    (site[0] / "val.de.gz").unlink()
    with pytest.raises(DataError, match="404"):
        fetch("small", "en-de", tmp_path / "raw")
    (site[0] / "val.de.gz").write_bytes(TEXTS["val.de.gz"])
    Handler.requests.clear()
    fetch("small", "en-de", tmp_path / "raw")
    assert Handler.requests == ["/val.de.gz"]


def test_download_of_other_bytes_than_declared(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, site[1])
    (site[0] / "train.en.gz").write_bytes(TEXTS["train.en.gz"][:20])
    with pytest.raises(DataError) as error:
        fetch("small", "en-de", tmp_path / "raw")
    expected, got = (hashlib.sha256(data).hexdigest() for data in (TEXTS["train.en.gz"], TEXTS["train.en.gz"][:20]))
    for part in ("small/train.en.gz", f"{site[1]}/train.en.gz", expected, got, "run again", "NMT_MIRROR"):
        assert part in str(error.value)
    assert_nothing_left(tmp_path / "raw")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("fault", ["404", "refused"])
def test_neither_network_nor_mirror(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    url = f"{site[1]}/elsewhere" if fault == "404" else "http://127.0.0.1:9"
    declare(monkeypatch, url)
    with pytest.raises(DataError) as error:
        fetch("small", "en-de", tmp_path / "raw")
    for part in (
        "small/train.en.gz",
        f"{url}/train.en.gz",
        fault,
        "check the network",
        "mirror:",
        "NMT_MIRROR",
    ):
        assert part in str(error.value)
    assert_nothing_left(tmp_path / "raw")


# Packed and joined


def zipped(members: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return stream.getvalue()


def encrypted(members: dict[str, str]) -> bytes:
    """A zip whose members are marked as encrypted; nobody gets as far as their bytes."""
    data = bytearray(zipped(members))
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(header) + flags] |= 1
    return bytes(data)


def with_method(data: bytes, method: int) -> bytes:
    """A zip whose first member says that it is compressed by another method."""
    changed = bytearray(data)
    for header, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        changed[changed.index(header) + place] = method
    return bytes(changed)


def table_corpus(mirror: Path, data: bytes, name: str = "pairs.zip", **keys: object) -> Declared:
    """A corpus whose splits are all of one table of a number, English and French in a mirror."""
    (mirror / name).write_bytes(data)
    facts = {
        "url": "http://x",
        "mirror": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "columns": ["_", "en", "fr"],
    }
    source = {**facts, **({"member": "a/pairs.txt"} if name.endswith(".zip") else {}), **keys}
    return Declared.model_validate({"title": "t", "licence": "L", "splits": dict.fromkeys(("train", "valid"), source)})


@pytest.mark.parametrize("name", ["pairs.zip", "pairs.tsv", "pairs.tsv.gz"])
@pytest.mark.parametrize("languages", ["en-fr", "fr-en"])
def test_columns_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, languages: str) -> None:
    text = "1\tGo.\tVa !\r\n2\tRun!\tCours\u202f!\n"
    packed = {"zip": zipped({"a/pairs.txt": text}), "tsv": text.encode(), "gz": gzip.compress(text.encode())}
    corpus = table_corpus(tmp_path, packed[name.rpartition(".")[2]], name)
    monkeypatch.setattr(corpora, "declared", lambda: {"table": corpus})
    fetch("table", languages, tmp_path / "raw", mirror=tmp_path)
    assert (tmp_path / "raw/train.en").read_text(encoding="utf-8") == "Go.\nRun!\n"
    assert (tmp_path / "raw/valid.fr").read_text(encoding="utf-8") == "Va !\nCours\u202f!\n"


BAD_TABLES = {
    "not a zip": (b"1\tGo.\tVa !\n", {}, ["pairs.zip: expected zip, got a damaged file"]),
    "encrypted": (encrypted({"a/pairs.txt": "1\ta\tb\n"}), {}, ["expected zip, got an encrypted file; unpack it"]),
    "damaged": (zipped({"a/pairs.txt": "1\ta\tb\n"}).replace(b"PK\1\2", b"PK\1\3"), {}, ["got a damaged file"]),
    "unknown method": (with_method(zipped({"a/pairs.txt": "1\ta\tb\n"}), 98), {}, ["got a damaged file (That"]),
    "no member": (zipped({"other.txt": "x"}), {}, ["expected a member 'a/pairs.txt', got only other.txt"]),
    "columns": (
        zipped({"a/pairs.txt": "1\ta\tb\n2\ta\n"}), {}, ["a/pairs.txt, line 2: expected 3 tab-separated columns, got 2"]
    ),
    "encoding": (zipped({"a/pairs.txt": "1\ta\tb\n"}).replace(b"1\ta\tb", b"1\t\xff\tb"), {}, ["pairs.zip"]),
    "empty": (zipped({"a/pairs.txt": ""}), {}, ["expected valid text, got no pair"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_table_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    data, keys, parts = BAD_TABLES[case]
    monkeypatch.setattr(corpora, "declared", lambda: {"table": table_corpus(tmp_path, data, **keys)})
    with pytest.raises(DataError) as error:
        fetch("table", "en-fr", tmp_path / "raw", mirror=tmp_path)
    assert all(part in str(error.value) for part in (str(tmp_path), *parts)), error.value
    assert_nothing_left(tmp_path / "raw")


def tarred(members: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


def packed_corpus(mirror: Path, members: dict[str, str], **keys: object) -> Declared:
    """A corpus whose splits are lines 1 and 2 (from 0) of two members of a tar in a mirror."""
    data = tarred(members)
    (mirror / "both.tgz").write_bytes(data)
    hashes = dict.fromkeys(("en", "fr"), hashlib.sha256(data).hexdigest())
    source = {"url": "http://x/both.tgz", "mirror": "both.tgz", "sha256": hashes, "member": "all/text.{language}"}
    source |= {"lines": [1, 3], **keys}
    return Declared.model_validate({"title": "t", "licence": "L", "splits": dict.fromkeys(("train", "valid"), source)})


TARRED = {"all/text.en": "zero\none\ntwo\nthree\n", "all/text.fr": "zéro\nun\ndeux\ntrois\n"}


def test_some_lines_of_members_of_a_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "declared", lambda: {"packed": packed_corpus(tmp_path, TARRED)})
    fetch("packed", "fr-en", tmp_path / "raw", mirror=tmp_path)
    assert (tmp_path / "raw/train.fr").read_text(encoding="utf-8") == "un\ndeux\n"
    assert (tmp_path / "raw/train.en").read_text(encoding="utf-8") == "one\ntwo\n"


def test_a_tar_without_the_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = packed_corpus(tmp_path, {"../../escape": "x\n", "all/text.en": "one\n"})
    monkeypatch.setattr(corpora, "declared", lambda: {"packed": corpus})
    with pytest.raises(DataError, match=r"expected a member 'all/text\.fr', got only \.\./\.\./escape, all/text\.en"):
        fetch("packed", "en-fr", tmp_path / "in/raw", mirror=tmp_path)
    assert not (tmp_path.parent / "escape").exists() and not (tmp_path / "escape").exists()


def test_a_file_that_no_url_has_is_found_in_mirrors_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = packed_corpus(tmp_path, TARRED, url=None, made="made by hand")
    monkeypatch.setattr(corpora, "declared", lambda: {"packed": corpus})
    monkeypatch.delenv("NMT_MIRROR", raising=False)
    with pytest.raises(DataError, match=r"both\.tgz: no URL has this file, made by hand; put it .* mirror:"):
        fetch("packed", "en-fr", tmp_path / "raw")
    fetch("packed", "en-fr", tmp_path / "raw", mirror=tmp_path)
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    assert described["splits"]["train"]["en"]["url"] == "made by hand"
    with pytest.raises(ValueError, match="made: says how"):
        packed_corpus(tmp_path, TARRED, url=None)


@pytest.mark.parametrize("keys", [{"sha256": {"en": None, "fr": None}}, {"sha256": None, "columns": ["en", "fr"]}])
def test_an_unknown_checksum_is_refused_with_the_one_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, object]
) -> None:
    corpus = packed_corpus(tmp_path, TARRED, **keys)
    monkeypatch.setattr(corpora, "declared", lambda: {"packed": corpus})
    found = hashlib.sha256((tmp_path / "both.tgz").read_bytes()).hexdigest()
    with pytest.raises(DataError, match=f"no checksum is declared .*{found}"):
        fetch("packed", "en-fr", tmp_path / "raw", mirror=tmp_path)


def test_a_download_of_unknown_checksum_is_refused_with_the_one_found(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = packed_corpus(site[0], TARRED, url=f"{site[1]}/both.tgz", sha256={"en": None, "fr": None})
    monkeypatch.setattr(corpora, "declared", lambda: {"packed": corpus})
    found = hashlib.sha256((site[0] / "both.tgz").read_bytes()).hexdigest()
    with pytest.raises(DataError, match=f"no checksum is declared .*{found}"):
        fetch("packed", "en-fr", tmp_path / "raw")


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("Rena_me…", "Rename…"),
        ("Re_ply-To:", "Reply-To:"),
        ("<b>A_vailable</b>", "<b>Available</b>"),
        ("S&plit, and pass~word", "Split, and password"),
        ("Center && Track", "Center & Track"),
        ("फ़ाइल (F)", "फ़ाइल"),
        ("आउटपुट ट्रे (r):", "आउटपुट ट्रे:"),
        ("संपादन करें (E)...", "संपादन करें..."),
        ("America/Port_of_Spain", "America/Port_of_Spain"),
        ("%DOWNLOAD_PATH and $error_message$", "%DOWNLOAD_PATH and $error_message$"),
        ("GTK_CAN_DEFAULT a_b_c", "GTK_CAN_DEFAULT a_b_c"),
        ("Variable (x)", "Variable (x)"),
        ("salt & pepper", "salt & pepper"),
    ],
)
def test_marks_of_shortcuts_are_taken_out(marked: str, plain: str) -> None:
    assert sources.without_shortcuts(marked) == plain


def test_sentences_that_hardly_differ_have_one_key() -> None:
    assert sources.key("Who's there?") == sources.key("who’s  there") == "whosthere"
    assert sources.key("वाह!") == "वाह" and sources.key("वही") != sources.key("वह")  # vowel signs count
    assert sources.key("...") != sources.key("?!")


def test_slices_part_the_sentences_whatever_their_order() -> None:
    thirds = [sources.Slice(by="en", per_mille=part) for part in ((0, 333.25), (333.25, 666), (666, 1000))]
    sentences = [f"Sentence {i}." for i in range(3000)]
    placed = [[sources.holds(third, sentence) for third in thirds] for sentence in sentences]
    assert {sum(places) for places in placed} == {1}
    assert all(900 < sum(column) < 1100 for column in zip(*placed, strict=True))
    again = [sources.holds(third, sentence.upper()) for sentence, third in zip(sentences, thirds * 1000, strict=True)]
    assert again == [places[i % 3] for i, places in enumerate(placed)]


def test_a_slice_can_be_a_part_of_a_thousandth() -> None:
    few = sources.Slice(by="en", per_mille=(0, 0.5))
    assert 20 < sum(sources.holds(few, f"Sentence {i}.") for i in range(100_000)) < 80
    assert str(sources.Slice(by="en", per_mille=(0, 5)).per_mille) == "(0, 5)"  # not 5.0, which has another digest


def joined(folder: Path, texts: dict[str, dict[str, str]], **keys: object) -> dict[str, Declared]:
    """Corpora `a` and `b` of these splits (``a.train``), whose files use other language codes, and both as `ab`."""
    found: dict[str, dict[str, Any]] = {}
    for name, sides in texts.items():
        corpus, split = name.split(".")
        for language, text in sides.items():
            (folder / f"{name}.{language}_x").write_text(text)
        source = {"url": "http://x/{language}", "mirror": name + ".{language}", "licence": f"of {corpus}"}
        hashes = {language: hashlib.sha256(text.encode()).hexdigest() for language, text in sides.items()}
        codes = {language: f"{language}_x" for language in sides}
        found.setdefault(corpus, {"title": corpus, "splits": {}})["splits"][split] = {
            **source, "codes": codes, "sha256": hashes
        }  # fmt: skip
    found["ab"] = {"title": "both", "join": ["a", "b"], "tests": ["a", "b"], **keys}
    return resolve({name: Declared.model_validate(corpus) for name, corpus in found.items()})


JOINED = {
    "a.train": {"en": "one\ntwo\nTHREE!\n", "fr": "un\ndeux\ntrois\n", "de": "eins\nzwei\ndrei\n"},
    "a.valid": {"en": "four\n", "fr": "quatre\n", "de": "vier\n"},
    "a.news": {"en": "three\n", "fr": "trois ?\n", "de": "drei\n"},
    "b.train": {"en": "five\nsix\nseven\n", "fr": "cinq\nquatre\nsept\n"},
    "b.valid": {"en": "eight\nnine\n", "fr": "dix\nneuf\n"},
    "b.talks": {"en": "ten\n", "fr": "dix !\n"},
}


def test_joined_corpora_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = joined(tmp_path, JOINED)
    monkeypatch.setattr(corpora, "declared", lambda: found)
    assert sets_of("ab", "en-fr") == ["news", "talks"]
    fetch("ab", "fr-en", tmp_path / "raw", mirror=tmp_path)
    assert (tmp_path / "raw/train.en").read_text() == "one\ntwo\nTHREE!\nfive\nsix\nseven\n"
    assert (tmp_path / "raw/valid.fr").read_text() == "quatre\ndix\nneuf\n"
    assert not (tmp_path / "raw/news.en").exists()  # in the folder of the corpus that holds it
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    assert described["licence"] == "of a; of b"
    assert [source["licence"] for source in described["sources"]["train"]] == ["of a", "of b"]
    assert described["splits"]["train"]["en"]["url"] == "http://x/en_x"
    with pytest.raises(ConfigError, match=r"'de'.*en, fr"):
        splits("ab", "en-de")
    fetch("ab", "en-fr", tmp_path / "cut", mirror=tmp_path, limit=4)
    assert (tmp_path / "cut/train.en").read_text() == "one\ntwo\nfive\nsix\n"


def test_training_gives_way_to_validation_and_both_to_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = joined(tmp_path, JOINED, disjoint=True)
    monkeypatch.setattr(corpora, "declared", lambda: found)
    fetch("ab", "en-fr", tmp_path / "raw", mirror=tmp_path)
    assert (tmp_path / "raw/train.en").read_text() == "one\ntwo\nfive\nseven\n"  # news has THREE, valid has quatre
    assert (tmp_path / "raw/valid.en").read_text() == "four\nnine\n"  # talks has dix
    described = json.loads((tmp_path / "raw/corpus.json").read_text())["sources"]
    counts = {split: [(one["pairs"], one["dropped"]) for one in parts] for split, parts in described.items()}
    assert counts == {"train": [(3, 1), (3, 1)], "valid": [(1, 0), (2, 1)]}


def test_a_test_set_lies_with_the_corpus_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = joined(tmp_path, JOINED)
    monkeypatch.setattr(corpora, "declared", lambda: found)
    system = System.model_validate({"corpus": "ab", "languages": "en-fr", "training": {"epochs": 1}})
    held = {split: with_corpus_of(system, split).corpus for split in ("train", "valid", "news", "talks", "other")}
    assert held == {"train": "ab", "valid": "ab", "news": "a", "talks": "b", "other": "ab"}


def test_test_sets_alone_are_no_training_text() -> None:
    assert splits("flores200", "hi-de") == FLORES
    with pytest.raises(ConfigError, match="'flores200' has test sets only"):
        check_trainable("flores200", "hi-de")


def test_declarations_that_cannot_be_resolved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"corpora\.yaml's ab.*'c'"):
        joined(tmp_path, JOINED, tests=["c"])
    with pytest.raises(ConfigError, match="two test sets have the same name"):
        joined(tmp_path, JOINED | {"b.news": JOINED["a.news"]})


DISJOINT = {
    ("tatoeba-en-fr", "en-fr"): (167_130, {"train": 162_502, "valid": 2_019, "test_tatoeba": 2_048}),
    ("hi-en-open", "hi-en"): (
        80_819, {"train": 71_489, "valid": 1_460, "newstest2014": 2_507, "hvg_test": 1_595, "hvg_challenge": 1_400}
    ),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(
    ("corpus", "languages"),
    [pytest.param("tatoeba-en-fr", "en-fr", marks=pytest.mark.long), ("hi-en-open", "hi-en")],
)
def test_no_sentence_is_in_training_and_held_out(tmp_path: Path, corpus: str, languages: str) -> None:
    if not os.environ.get("NMT_MIRROR"):
        pytest.skip("NMT_MIRROR is not set")
    fetch(corpus, languages, tmp_path / "raw")
    fetch("flores200", languages, tmp_path / "other")
    described = json.loads((tmp_path / "raw/corpus.json").read_text())["sources"]
    assert sum(source["pairs"] for parts in described.values() for source in parts) == DISJOINT[corpus, languages][0]
    read = {
        file: [file.with_suffix(f".{code}").read_text(encoding="utf-8").splitlines() for code in languages.split("-")]
        for folder in ("raw", "other") for file in (tmp_path / folder).glob(f"*.{languages[:2]}")
    }  # fmt: skip
    counts = {file.stem: len(sides[0]) for file, sides in read.items() if file.parent.name == "raw"}
    assert counts == DISJOINT[corpus, languages][1]
    for side in (0, 1):
        keys = {file.stem: set(map(sources.key, sides[side])) for file, sides in read.items()}
        train, valid = keys.pop("train"), keys.pop("valid")
        assert not train & valid and not (train | valid) & set().union(*keys.values())


# The user's own text


def test_own_text_plain_or_gzip_with_any_line_ends(tmp_path: Path) -> None:
    own = custom(tmp_path, train_en=b"A dog.\r\nA cat.", train_de=b"Ein Hund.\nEine\xe2\x80\xa8Katze.\n")
    (tmp_path / "t.en.gz").write_bytes(gzip.compress(b"one\n"))
    (tmp_path / "t.de").write_bytes(b"eins\n")
    tests = {
        "both": {"en": tmp_path / "t.en.gz", "de": tmp_path / "t.de"},
        "half": {"en": tmp_path / "t.en.gz"},
    }
    own = CustomCorpus.model_validate(own.model_dump() | {"tests": tests, "licence": "mine"})
    assert sets_of("own", "en-de", own) == ["both"]
    fetch("own", "en-de", tmp_path / "raw", custom=own)
    assert (tmp_path / "raw/train.en").read_bytes() == b"A dog.\nA cat.\n"
    assert (tmp_path / "raw/train.de").read_text(encoding="utf-8") == "Ein Hund.\nEine\u2028Katze.\n"
    assert (tmp_path / "raw/both.en").read_text() == "one\n"
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    assert list(described["splits"]) == ["train", "valid", "both"]
    assert described["licence"] == "mine"
    assert described["splits"]["both"]["en"]["url"] == str(tmp_path / "t.en.gz")


LEAKY = {
    "train": [("A dog runs.", "Ein Hund rennt."), ("Two men.", "Zwei Männer."), ("A cat.", "Eine Katze."), ("", "")],
    "valid": [("A cat!", "Ein Kater."), ("Snow.", "Schnee.")],
    "news": [("a dog  runs", "Es rennt ein Hund."), ("Rain.", "Regen."), ("snow", "Der Schnee."), ("", "Leer.")],
    "talks": [("Nothing of it.", "Nichts davon.")],
}


def leaky(folder: Path, **changes: object) -> CustomCorpus:
    """The user's own corpus with test and validation text that is in the training text too."""
    for split, pairs in LEAKY.items():
        for side, code in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{code}").write_text(text, encoding="utf-8")
    files = {split: {code: folder / f"{split}.{code}" for code in ("en", "de")} for split in LEAKY}
    tests = {"news": files["news"], "talks": files["talks"]}
    return CustomCorpus.model_validate({"train": files["train"], "valid": files["valid"], "tests": tests} | changes)


def told_of_overlap(folder: Path, own: CustomCorpus) -> list[tuple[str, str, int]]:
    with recorded("download", folder / "raw"):
        fetch("own", "en-de", folder / "raw", custom=own)
    found = read_warnings(folder / "raw")
    return [(w.text.split(" share a sentence with ")[1].split(",")[0], w.split, w.count) for w in found]


def test_own_test_text_that_is_in_the_training_text_is_told_and_left_out(tmp_path: Path) -> None:
    valid_is_tested = ("valid", "news", 1)
    told = told_of_overlap(tmp_path, leaky(tmp_path))
    assert told == [("train", "valid", 1), ("train", "news", 1), valid_is_tested]
    assert told_of_overlap(tmp_path, leaky(tmp_path, disjoint=True)) == [valid_is_tested]
    assert (tmp_path / "raw/train.de").read_text() == "Zwei Männer.\n"
    assert (tmp_path / "raw/valid.en").read_text() == (tmp_path / "valid.en").read_text()
    [source] = read_json(tmp_path / "raw/corpus.json")["sources"]["train"]
    assert (source["pairs"], source["dropped"]) == (4, 3)


def test_validation_text_without_test_sentences(tmp_path: Path) -> None:
    assert told_of_overlap(tmp_path, leaky(tmp_path, disjoint="all")) == []
    assert (tmp_path / "raw/train.de").read_text() == "Zwei Männer.\n"
    assert (tmp_path / "raw/valid.en").read_text() == "A cat!\n"
    corpus = read_json(tmp_path / "raw/corpus.json")
    assert list(corpus["sources"]) == ["train", "valid", "news", "talks"]
    assert [corpus["sources"][split][0]["dropped"] for split in corpus["sources"]] == [3, 1, 0, 0]


def test_training_text_that_is_all_held_out_is_refused(tmp_path: Path) -> None:
    own = leaky(tmp_path, disjoint=True)
    own.tests["same"] = own.train
    with pytest.raises(DataError, match=r"corpora\.own: disjoint: true leaves none of 4 pairs of train"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)
    assert_nothing_left(tmp_path / "raw")


def test_lines_that_end_in_carriage_returns_alone_are_refused(tmp_path: Path) -> None:
    own = custom(tmp_path, train_en=b"A dog.\rA cat.\rA bird.\r")
    with pytest.raises(DataError, match=r"train\.en: expected lines that end in LF or CR LF, got CR alone"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)


@pytest.mark.parametrize(
    ("bad", "error", "parts"),
    [
        ({"train_de": b"Ein Hund.\n"}, DataError, ["train.en has 3", "train.de has 1"]),
        ({"train_de": b"Ein Hund.\nZwei V\xf6gel.\n"}, DataError, ["train.de, line 2", "0xf6", "iconv"]),
        ({"valid_en": b"", "valid_de": b""}, DataError, ["valid.en", "empty"]),
    ],
)
def test_own_text_that_is_wrong(tmp_path: Path, bad: dict[str, bytes], error: type, parts: list[str]) -> None:
    own = custom(tmp_path, **bad)
    for limit in (None, 1):  # a quick trial finds faults further down too
        with pytest.raises(error) as raised:
            fetch("own", "en-de", tmp_path / "raw", custom=own, limit=limit)
        assert all(part in str(raised.value) for part in parts), raised.value
        assert_nothing_left(tmp_path / "raw")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(ENGLISH.encode(), mtime=0)[:-12], "damaged"),
        (b"plain", "damaged"),
        (gzip.compress(b"a\nb\xff\n", mtime=0), "line 2: expected UTF-8"),
        (gzip.compress(b"a\n" + b"b" * 2**21, mtime=0), "line 2: expected one sentence of at most 1,048,576 bytes"),
    ],
)
def test_own_gzip_that_is_wrong(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "train.en.gz"
    path.write_bytes(data)
    own = custom(tmp_path)
    own = CustomCorpus(train={"en": path, "de": own.train["de"]}, valid=own.valid)
    with pytest.raises(DataError, match=message) as error:
        fetch("own", "en-de", tmp_path / "raw", custom=own)
    assert str(error.value).startswith(str(path))
    assert_nothing_left(tmp_path / "raw")


def test_own_corpus_that_is_declared_wrongly(tmp_path: Path) -> None:
    own = custom(tmp_path)
    with pytest.raises(ConfigError, match=r"corpora\.multi30k: .* choose another"):
        splits("multi30k", "en-de", own)
    with pytest.raises(ConfigError, match=r"corpora\.own\.tests\.train: .* choose another"):
        splits("own", "en-de", own.model_copy(update={"tests": {"train": own.train}}))
    with pytest.raises(ConfigError, match="'own' has no valid text for en-fr"):
        splits("own", "en-fr", own.model_copy(update={"train": own.train | {"fr": tmp_path / "train.fr"}}))
    (tmp_path / "valid.de").unlink()
    with pytest.raises(ConfigError, match=r"corpora\.own\.valid\.de: .*valid\.de: no such file"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)


# Text in one language


def test_text_in_one_language_is_what_a_pair_has_of_it(
    tmp_path: Path, site: tuple[Path, str], monkeypatch: Any
) -> None:
    own = custom(tmp_path)
    declare(monkeypatch, site[1])
    for name, theirs, codes in (("small", None, "en-de"), ("own", own, "de-en"), ("scenes", None, "en-fr")):
        fetch(name, codes, tmp_path / name / "both", custom=theirs, limit=2)
        for code in codes.split("-"):
            alone = tmp_path / name / code
            fetch(name, code, alone, custom=theirs, limit=2)
            files = sorted(path.name for path in alone.iterdir() if path.suffix != ".json")
            assert files and all(file.endswith(f".{code}") for file in files)
            assert all((alone / file).read_bytes() == (tmp_path / name / "both" / file).read_bytes() for file in files)
            described, both = (json.loads((alone.parent / one / "corpus.json").read_text()) for one in (code, "both"))
            assert described["splits"] == {split: {code: facts[code]} for split, facts in both["splits"].items()}


def test_own_text_in_one_language_needs_no_validation_text(tmp_path: Path) -> None:
    (tmp_path / "more.de").write_text(GERMAN, encoding="utf-8")
    own = CustomCorpus(train={"de": tmp_path / "more.de"})
    fetch("more", "de", tmp_path / "raw", custom=own)
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["corpus.json", "train.de"]
    for languages, message in (
        ("en", "unknown language of corpus 'more': 'en'"),
        ("e", "source-target, e.g. en-de, or"),
    ):
        with pytest.raises(ConfigError, match=message):
            splits("more", languages, own)
    pair = CustomCorpus(train={"de": tmp_path / "more.de", "en": tmp_path / "more.en"})
    with pytest.raises(ConfigError, match="'more' has no valid text for en-de; add it"):
        splits("more", "en-de", pair)


# Built in


def test_scenes_are_written_by_their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_corpus(folder: Path, languages: str, limit: int | None) -> None:
        for split in ("train", "valid", "test", "test_ambiguous"):
            for language in languages.split("-"):
                (folder / f"{split}.{language}").write_text("x\n" * (limit or 5))

    monkeypatch.setitem(sys.modules, "nmt.corpora.scenes", types.SimpleNamespace(write_corpus=write_corpus))
    fetch("scenes", "en-fr", tmp_path / "raw", limit=3)
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    assert described["synthetic"] is True
    assert described["splits"]["test"]["fr"]["lines"] == 3


@pytest.mark.integration
def test_declaring_needs_no_download_library() -> None:
    code = "import sys; from nmt.corpora.catalogue import test_sets; test_sets('multi30k', 'en-de'); "
    code += "print('pooch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
