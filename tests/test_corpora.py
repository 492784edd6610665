import csv
import gzip
import hashlib
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from nmt import corpora
from nmt.config import CustomCorpus
from nmt.corpora import Declared, fetch, splits
from nmt.corpora import test_sets as sets_of
from nmt.errors import ConfigError, DataError

ENGLISH, GERMAN = "A dog.\nA cat.\nTwo birds.\n", "Ein Hund.\nEine Katze.\nZwei Vögel.\n"
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
    monkeypatch.setattr(corpora, "RETRIES", 0)
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
            ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"],
        ),
        (
            "multi30k",
            "fr-de",
            ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"],
        ),
        ("multi30k", "en-cs", ["test_2016_flickr", "test_2018_flickr"]),
        ("multi30k-wmt16", "en-de", ["test_2016_flickr"]),
        ("scenes", "en-fr", ["test", "test_ambiguous"]),
    ],
)
def test_a_pair_has_the_splits_that_both_languages_have(name: str, languages: str, tests: list[str]) -> None:
    assert sets_of(name, languages) == tests
    assert splits(name, languages) == ["train", "valid", *tests]


@pytest.mark.parametrize(
    ("name", "languages", "parts"),
    [
        ("multi3k", "en-de", ["'multi3k'", "did you mean 'multi30k'?", "scenes", "config.yaml"]),
        ("multi30k", "en-dee", ["'dee'", "did you mean 'de'?", "cs, de, en, fr"]),
        ("multi30k", "en-hi", ["'hi'", "cs, de, en, fr"]),
        ("multi30k", "en-en", ["two different", "'en-en'"]),
        ("multi30k", "en_de", ["source-target", "'en_de'"]),
        ("multi30k-wmt16", "en-fr", ["'fr'", "de, en"]),
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
        for files in corpus.splits.values():
            for language, sha256 in files.sha256.items():
                row = rows[files.mirror.format(language=language)]
                assert (row["url"], row["sha256"]) == (files.url.format(language=language), sha256)


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
    monkeypatch.setattr(corpora, "RETRIES", 1)
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
        (gzip.compress(ENGLISH.encode())[:-12], "damaged"),
        (b"plain", "damaged"),
        (gzip.compress(b"a\nb\xff\n"), "line 2: expected UTF-8"),
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


# Built in


def test_scenes_are_written_by_their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_corpus(folder: Path, languages: str, limit: int | None) -> None:
        for split in ("train", "valid", "test", "test_ambiguous"):
            for language in languages.split("-"):
                (folder / f"{split}.{language}").write_text("x\n" * (limit or 5))

    monkeypatch.setitem(sys.modules, "nmt.scenes", types.SimpleNamespace(write_corpus=write_corpus))
    fetch("scenes", "en-fr", tmp_path / "raw", limit=3)
    described = json.loads((tmp_path / "raw/corpus.json").read_text())
    assert described["synthetic"] is True
    assert described["splits"]["test"]["fr"]["lines"] == 3


def test_declaring_needs_no_download_library() -> None:
    code = "import nmt.corpora, sys; nmt.corpora.test_sets('multi30k', 'en-de'); print('pooch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
