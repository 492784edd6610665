"""The user's own corpora from every format: the same pairs, and one message for each damaged or hostile file."""

import bz2
import csv as csv_module
import gzip
import io
import json
import lzma
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import pytest

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Cleaning
from nmt.config.yaml import parse
from nmt.corpora import remote
from nmt.corpora.catalogue import fetch
from nmt.corpora.formats import packed
from nmt.corpora.remote import Checksums, from_sacrebleu
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256
from nmt.system.warnings import read_warnings, recorded
from nmt.text.clean import clean

PAIRS = [
    ("A dog & a cat.", "Ein Hund & eine Katze."),
    ('"Who\'s <there>?"', "„Wer ist <da>?“"),
    ("Snow falls.", "Es schneit — sehr."),
    ("", "Leer."),
    ("Two men.", "Zwei Männer.\u2028Und mehr."),
]


def text(side: int, pairs: list[tuple[str, str]] = PAIRS) -> bytes:
    return "".join(f"{pair[side]}\n" for pair in pairs).encode()


def tsv() -> bytes:
    return "".join(f"{n}\t{german}\t{english}\n" for n, (english, german) in enumerate(PAIRS)).encode()


def csv(separator: str, head: list[str]) -> bytes:
    """As spreadsheets write it: cells in quotation marks where they need them, and line ends within cells."""
    file = io.StringIO(newline="")
    writer = csv_module.writer(file, delimiter=separator)
    rows = [[str(n), german.replace("\u2028", "\r\n"), english] for n, (english, german) in enumerate(PAIRS)]
    writer.writerows([head, *rows] if head else rows)
    return file.getvalue().encode("utf-8-sig")


def tmx(pairs: list[tuple[str, str]] = PAIRS) -> bytes:
    units = "".join(
        f'<tu><note>n</note><tuv xml:lang="EN-us"><seg><ph>code</ph>{escape(en)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>\n<hi>{escape(de)}</hi>\n</seg></tuv></tu>'
        for en, de in pairs
    )
    head = '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    return f'{head}<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'.encode()


def xliff(version: int) -> bytes:
    """As translators' programs write it: with code of layouts, proposals, and a unit that nobody has translated."""
    new = ("Left out.", "Left out.")
    if version == 1:
        head = '<xliff version="1.2"><file source-language="en-US" target-language="de-DE" original="a"><body>'
        unit = (
            '<trans-unit id="{n}"><source><ph id="1">code</ph>{en}</source><seg-source><mrk mtype="seg">{en}</mrk>'
            '</seg-source><target state="{state}">\n<g id="2">{de}</g><x id="3"/></target>'
            "<alt-trans><source>Else.</source><target>Anders.</target></alt-trans></trans-unit>"
        )
        states, tail = ("translated", "needs-translation"), "</body></file></xliff>"
    else:
        head = '<xliff version="2.1" srcLang="en-US" trgLang="de"><file id="f">'
        unit = (
            '<unit id="{n}"><mtc:matches><mtc:match><source>Else.</source><target>Anders.</target></mtc:match>'
            '</mtc:matches><notes><note>n</note></notes><segment state="{state}"><source>{en}<sc id="1"/></source>'
            '<target><pc id="2">{de}</pc></target></segment><ignorable><source> </source></ignorable></unit>'
        )
        states, tail = ("final", "initial"), "</file></xliff>"
    units = "".join(
        unit.format(n=n, en=escape(en), de=escape(de), state=states[(en, de) == new])
        for n, (en, de) in enumerate([*PAIRS, new, ("Not yet.", "")])
    )
    return f'<?xml version="1.0" encoding="utf-8"?>{head}{units}{tail}'.encode()


def files_of_one_xliff() -> bytes:
    """Files whose targets are in several languages, said by the file, not at all, and by each target."""
    unit = '<trans-unit id="1"><source>{}</source><target{}>{}</target></trans-unit>'
    marked = ' xml:lang="de-AT"'
    files = [
        (' target-language="fr"', unit.format("Left out.", "", "Dehors.")),
        ("", unit.format("Left out.", "", "Fuori.")),
        ("", "".join(unit.format(escape(en), marked, escape(de)) for en, de in PAIRS)),
    ]
    inner = "".join(f'<file source-language="en"{said}><body>{units}</body></file>' for said, units in files)
    return f"<xliff>{inner}</xliff>".encode()


def utf16(data: bytes) -> bytes:
    return data.decode().replace("utf-8", "utf-16").encode("utf-16")


def jsonl(line: Callable[[str, str], Any] = lambda en, de: {"translation": {"en": en, "de": de}}) -> bytes:
    return "".join(json.dumps(line(*pair)) + "\n" for pair in PAIRS).encode()


def xml(turned: bool = False) -> bytes:
    """A test set of WMT, with the segments of the reference in turned order if wanted."""
    sides = [
        f'<{tag} lang="{code}"{by}><p>'
        + "".join(
            f'<seg id="{n}">{escape(PAIRS[n - 1][side])}</seg>\n'
            for n in (range(5, 0, -1) if turned and side else range(1, 6))
        )
        + f"</p></{tag}>"
        for side, tag, code, by in ((0, "src", "en", ""), (1, "ref", "de", ' translator="A"'))
    ]
    second = '<ref lang="de" translator="B"><seg id="1">Anders.</seg></ref>'
    second += '<hyp system="C" language="de"><p><seg id="1">Eine Maschine.</seg></p></hyp>'
    machine = '<hyp system="D"><seg id="2">Eine andere Maschine.</seg></hyp>'
    sides.insert(1, machine)
    return f'<dataset id="t"><doc id="d" origlang="en">{"".join(sides)}{machine}{second}</doc></dataset>'.encode()


def sgm(side: int) -> bytes:
    lines = "".join(f'<seg id="{n}">{escape(pair[side])}</seg>\n' for n, pair in enumerate(PAIRS, 1))
    return f'<srcset setid="t" srclang="any">\n<doc docid="d">\n{lines}</doc>\n</srcset>\n'.encode()


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def parquet(flat: bool = False) -> bytes:
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    nested = [{"de": de, "en": en} for en, de in PAIRS]
    columns = dict(zip(FLAT.values(), zip(*PAIRS, strict=True), strict=True))
    files.write_table(arrow.table(columns if flat else {"translation": nested}), stream)
    return stream.getvalue()


def zst(data: bytes) -> bytes:
    compress: Callable[[bytes], bytes] = pytest.importorskip("zstandard").compress
    return compress(data[:20]) + compress(data[20:])  # two frames


MOSES = {"Set.en-de.en": text(0), "Set.en-de.de": text(1), "README": b"read me", "LICENSE": b"free"}
MACOS = {"x/.DS_Store": b"\0", **{f"__MACOSX/x/._{name}": b"\0" for name in MOSES}}
TAR = {"x/en.txt": text(0), "x/de.txt": text(1)}
BOTH = {"languages": ["en", "de"]}
FLAT = {"en": "sentence", "de": "translation"}
NEWS = {"sacrebleu/wmt14/wmt14.en-de.src": text(0), "sacrebleu/wmt14/wmt14.en-de.ref": text(1)}
ZIP, TABLE = "example.org/Books/de-en.txt.zip", "example.org/news.de-en.tsv.gz"
INDEX = {
    "OPUS-books-v1-deu-eng": {"url": ZIP, "ext": "zip", "in_ext": "txt", "in_paths": ["*.de", "*.en"], "cols": None},
    "Statmt-news-16-deu-eng": {"url": TABLE, "ext": "tsv.gz", "in_ext": None, "in_paths": None, "cols": (1, 2)},
}
"""Entries as mtdata has them for OPUS's Moses zips and for tables of WMT."""
NAMED = {"source": "a.tsv.gz", "columns": {"en": "English", "de": "German"}}
FORMATS: dict[str, tuple[dict[str, Any], Callable[[], dict[str, bytes]]]] = {
    "gz": ({"en": "a.en.gz", "de": "a.de"}, lambda: {"a.en.gz": gzip.compress(text(0)), "a.de": text(1)}),
    "xz": ({"en": "a.xz", "de": "a.bz2"}, lambda: {"a.xz": lzma.compress(text(0)), "a.bz2": bz2.compress(text(1))}),
    "zst": ({"en": "a.en.zst", "de": "a.de.zst"}, lambda: {"a.en.zst": zst(text(0)), "a.de.zst": zst(text(1))}),
    "tsv": ({"source": "a.tsv", "columns": ["_", "de", "en"]}, lambda: {"a.tsv": tsv()}),
    "csv": ({"source": "a.csv", "columns": ["_", "de", "en"]}, lambda: {"a.csv": csv(",", [])}),
    "csv named": (
        {"source": "a.csv", "columns": {"en": "in English, maybe", "de": "German"}},
        lambda: {"a.csv": csv(";", ["id", "German", "in English, maybe"])},
    ),
    "csv tabs": ({"source": "a.txt", "format": "csv", "columns": ["_", "de", "en"]}, lambda: {"a.txt": csv("\t", [])}),
    "named": (NAMED, lambda: {"a.tsv.gz": gzip.compress(b"id\tGerman\tEnglish\n" + tsv())}),
    "tmx": ({"source": "a.tmx", **BOTH}, lambda: {"a.tmx": tmx()}),
    "xliff 1": ({"source": "a.xlf", **BOTH}, lambda: {"a.xlf": xliff(1)}),
    "xliff 2": ({"source": "a.xliff", **BOTH}, lambda: {"a.xliff": xliff(2)}),
    "xliff with prefixes": (
        {"source": "a.xlf", **BOTH},
        lambda: {"a.xlf": re.sub(rb"<(/?)(?=[a-z-]+[ >/])", rb"<\1xlf:", xliff(1))},
    ),
    "xliff of several files": ({"source": "a.xlf", **BOTH}, lambda: {"a.xlf": files_of_one_xliff()}),
    "xliff that states no target": (
        {"source": "a.xlf", **BOTH, "codes": {"de": "und"}},
        lambda: {"a.xlf": xliff(1).replace(b' target-language="de-DE"', b"")},
    ),
    "utf16": ({"source": "a.tmx", **BOTH}, lambda: {"a.tmx": utf16(tmx())}),
    "zipped tmx": ({"source": "a.zip", **BOTH}, lambda: {"a.zip": zipped({"x/a.tmx": tmx(), "x/README": b""})}),
    "moses": ({"source": "a.txt.zip", **BOTH}, lambda: {"a.txt.zip": zipped(MOSES)}),
    "moses of packed files": (
        {"source": "a.zip", **BOTH},
        lambda: {"a.zip": zipped({"S.en.gz": gzip.compress(text(0)), "S.de.xz": lzma.compress(text(1)), "READ": b""})},
    ),
    "table packed twice": (
        {"source": "a.tgz", "columns": ["_", "de", "en"]},
        lambda: {"a.tgz": tarred({"x/a.tsv.gz": gzip.compress(tsv())})},
    ),
    "zst in zip": (
        {"source": "a.zip", "columns": ["_", "de", "en"]},
        lambda: {"a.zip": zipped({"x/a.tsv.zst": zst(tsv())})},
    ),
    "moses of macos": (
        {"source": "a.zip", **BOTH},
        lambda: {"a.zip": zipped({f"x/{name}": data for name, data in MOSES.items()} | MACOS)},
    ),
    "table of macos": (
        {"source": "a.tgz", "columns": ["_", "de", "en"]},
        lambda: {"a.tgz": tarred({"x/._a.tsv": b"\0", "x/a.tsv": tsv()})},
    ),
    "tar": ({"source": "a.tgz", "member": "x/{language}.txt", **BOTH}, lambda: {"a.tgz": tarred(TAR)}),
    "jsonl": ({"source": "a.jsonl.xz", **BOTH}, lambda: {"a.jsonl.xz": lzma.compress(jsonl())}),
    "parquet": ({"source": "a.parquet", **BOTH}, lambda: {"a.parquet": parquet()}),
    "flat jsonl": (
        {"source": "a.jsonl", "columns": FLAT},
        lambda: {"a.jsonl": jsonl(lambda en, de: {"sentence": en, "translation": de})},
    ),
    "flat parquet": ({"source": "a.parquet", "columns": FLAT}, lambda: {"a.parquet": parquet(flat=True)}),
    "xml": ({"source": "a.xml", **BOTH}, lambda: {"a.xml": xml()}),
    "turned xml": ({"source": "a.xml", **BOTH}, lambda: {"a.xml": xml(turned=True)}),
    "xml without ids": ({"source": "a.xml", **BOTH}, lambda: {"a.xml": re.sub(b' id="[0-9]"', b"", xml())}),
    "ndjson": (
        {"source": "a.ndjson.bz2", "columns": {"en": "source", "de": "target"}},
        lambda: {"a.ndjson.bz2": bz2.compress(jsonl(lambda en, de: {"source": en, "target": de}))},
    ),
    "sacrebleu": ({"source": "sacrebleu:wmt14", **BOTH}, lambda: NEWS),
    "mtdata zip": ({"source": "mtdata:OPUS-books-v1-deu-eng", **BOTH}, lambda: {ZIP: zipped(MOSES)}),
    "mtdata tsv": ({"source": "mtdata:Statmt-news-16-deu-eng", **BOTH}, lambda: {TABLE: gzip.compress(tsv())}),
    "address": ({"source": f"https://{ZIP}", **BOTH}, lambda: {ZIP: zipped(MOSES)}),
    "sgm": ({"en": "src.sgm", "de": "ref.sgm.gz"}, lambda: {"src.sgm": sgm(0), "ref.sgm.gz": gzip.compress(sgm(1))}),
}  # fmt: skip


def corpus(folder: Path, source: Any, files: dict[str, bytes]) -> CustomCorpus:
    """A corpus with a source as its training text, and plain validation text; paths are below the folder."""
    for name, data in (files | {"valid.en": text(0), "valid.de": text(1)}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    def placed(value: Any) -> Any:
        if isinstance(value, list):
            return [placed(each) for each in value]
        keys = ("source", "en", "de")
        return {key: f"{folder}/{each}" if key in keys and ":" not in each else each for key, each in value.items()}

    valid = {code: folder / f"valid.{code}" for code in ("en", "de")}
    return CustomCorpus.model_validate({"train": placed(source), "valid": valid})


@pytest.mark.integration
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_cleaned_text(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(name: str, _: Any) -> tuple[Any, list[str]]:
        return SimpleNamespace(**INDEX[name] | {"url": f"https://{INDEX[name]['url']}"}), ["de", "en"]

    monkeypatch.setattr(remote, "_mtdata_entry", entry)
    source, files = FORMATS[name]
    plain, raw = corpus(tmp_path, {"en": "p.en", "de": "p.de"}, {"p.en": text(0), "p.de": text(1)}), tmp_path / "raw"
    for folder, own in ((tmp_path / "plain", plain), (raw, corpus(tmp_path, source, files()))):
        fetch("own", "en-de", folder, custom=own, mirror=tmp_path)
        clean(folder, folder.with_suffix(".clean"), Cleaning(), "en-de")
    for code in ("en", "de"):
        read = [(tmp_path / f"{one}.clean" / f"train.{code}").read_bytes() for one in ("plain", "raw")]
        assert read[0] == read[1] and read[0].count(b"\n") == 4
    [described] = read_json(raw / "corpus.json")["sources"]["train"]
    assert described["pairs"] == len(PAIRS)
    used = next(iter(files()))
    assert described["sha256"]["en"] == sha256(tmp_path / used)


def test_joined_sources_keep_licence_count_lines_and_slice(tmp_path: Path) -> None:
    files = {"a.en": text(0), "a.de": text(1), "b.tmx": tmx(), "c.tsv": tsv()}
    part = {"slice": {"by": "en", "per_mille": [0, 500]}}
    sources = [
        {"en": "a.en", "de": "a.de"},
        {"source": "b.tmx", **BOTH, "lines": [1, 3], "licence": "CC0"},
        {"source": "c.tsv", "columns": ["_", "de", "en"], **part},
        {"source": "c.tsv", "columns": ["_", "de", "en"], "slice": {"by": "en", "per_mille": [500, 1000]}},
    ]
    fetch("own", "de-en", tmp_path / "raw", custom=corpus(tmp_path, sources, files))
    described = read_json(tmp_path / "raw/corpus.json")["sources"]["train"]
    assert [(source["licence"], source["pairs"]) for source in described][:2] == [("not stated", 5), ("CC0", 2)]
    filled = [pair for pair in PAIRS if all(pair)]  # a slice has no empty sides
    assert sum(source["pairs"] for source in described[2:]) == len(filled) == 4 and all(
        source["pairs"] for source in described
    )
    german = (tmp_path / "raw/train.de").read_text(encoding="utf-8").split("\n")
    assert german[5:7] == [PAIRS[1][1], PAIRS[2][1]] and sorted(german[7:-1]) == sorted(pair[1] for pair in filled)
    fetch("own", "de", tmp_path / "alone", custom=corpus(tmp_path, sources, files))
    assert (tmp_path / "alone/train.de").read_bytes() == (tmp_path / "raw/train.de").read_bytes()


@pytest.mark.parametrize(
    ("name", "data", "lacking", "whole"),
    [
        ("a.tmx", lambda: tmx().replace(b'xml:lang="de"', b'xml:lang="fr"', 1), 1, 4),
        ("a.xlf", lambda: xliff(1), 2, 5),  # one has no target, another one that is marked as untranslated
        ("a.xlf", lambda: xliff(2), 2, 5),
    ],
)
def test_units_without_a_language_are_counted(
    tmp_path: Path, name: str, data: Callable[[], bytes], lacking: int, whole: int
) -> None:
    own = corpus(tmp_path, {"source": name, **BOTH}, {name: data()})
    with recorded("download", tmp_path / "raw"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)
    [told] = [warning for warning in read_warnings(tmp_path / "raw") if warning.kind == "incomplete units"]
    assert told.count == lacking and read_json(tmp_path / "raw/corpus.json")["sources"]["train"][0]["pairs"] == whole


@pytest.mark.parametrize(
    ("cell", "lines"), [('"Say ""yes"" now."', [1]), ('"Say" ""', []), ('"Yes," he said, "no."', [])]
)
def test_quotation_marks_around_the_cells_of_tsv_are_told(tmp_path: Path, cell: str, lines: list[int]) -> None:
    own = corpus(tmp_path, {"source": "a.tsv", **BOTH}, {"a.tsv": f"{cell}\tx\ny\tz\n".encode()})
    with recorded("download", tmp_path / "raw"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)
    told = [warning for warning in read_warnings(tmp_path / "raw") if warning.kind == "quoted cells"]
    assert [warning.count for warning in told] == lines
    assert (tmp_path / "raw/train.en").read_text().splitlines()[0] == cell  # kept


BOMB = b'<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
EXTERNAL = b'<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><t>&x;</t>'
ENTITIES, DOCUMENTS = "expected segments of text, got a file that declares entities", "a document with other segments"
OTHER = {"a.en": b"", "a.fr": b""}
HALF = r"line 1: expected text, got half of a character, '\\ud83d'; fix the line, or delete it"
BAD: dict[str, tuple[dict[str, Any], Callable[[], bytes], str]] = {
    "entities": ({"source": "a.tmx", **BOTH}, lambda: BOMB + tmx().split(b'dtd">')[1], ENTITIES),
    "external": ({"source": "a.tmx", **BOTH}, lambda: EXTERNAL, ENTITIES),
    "cut xml": ({"source": "a.tmx", **BOTH}, lambda: tmx()[:-30], "expected XML, got"),
    "file of another language": (
        {"source": "a.xlf", **BOTH},
        lambda: xliff(1).replace(b"<body>", b"<body></body></file><file source-language='en'><body>"),
        "the file's languages are en, und",
    ),
    "nothing translated": (
        {"source": "a.xlf", **BOTH},
        lambda: xliff(1).replace(b"translated", b"new"),
        "got none with all of them; a target that is empty or marked as new does not count; the file's languages are "
        "en-US, de-DE",
    ),
    "undefined entity": (
        {"source": "a.tmx", **BOTH},
        lambda: tmx().replace(b"<seg>", b"<seg>&nbsp;", 1),
        "expected segments of text, got &nbsp;, which the file does not define",
    ),
    "encoding": (
        {"source": "a.tmx", **BOTH},
        lambda: b'<?xml version="1.0" encoding="gb18030"?>' + tmx()[tmx().index(b"<!DOCTYPE") :],
        "expected XML, got multi-byte encodings are not supported; make it as UTF-8",
    ),
    "deep": ({"source": "a.tmx", **BOTH}, lambda: b"<a>" * 200, "elements inside each other"),
    "cut gz": ({"source": "a.tmx.gz", **BOTH}, lambda: gzip.compress(tmx())[:-20], "expected gzip, got a damaged file"),
    "cut zip": ({"source": "a.zip", **BOTH}, lambda: zipped(MOSES)[:-30], "expected zip, got a damaged file"),
    "cut gz in zip": (
        {"source": "a.zip", **BOTH},
        lambda: zipped({"a.tmx.gz": gzip.compress(tmx())[:-20]}),
        "expected zip, got a damaged file",
    ),
    "leading out": ({"source": "a.zip", **BOTH}, lambda: zipped({"../a.en": b"", "a.de": b""}), "leads out of it"),
    "no member": ({"source": "a.zip", **BOTH}, lambda: zipped(OTHER), r"expected one file for each of \.en, \.de"),
    "cut zst": ({"source": "a.tmx.zst", **BOTH}, lambda: zst(tmx())[:-10], "expected zstd, got a damaged file"),
    "cut parquet": ({"source": "a.parquet", **BOTH}, lambda: parquet()[:-10], "expected parquet, got a damaged file"),
    "packed parquet": (
        {"source": "a.zip", **BOTH},
        lambda: zipped({"a.parquet": parquet()}),
        "expected parquet that is not packed",
    ),
    "no parquet": ({"source": "a.parquet", "languages": ["en", "fr"]}, parquet, "expected one sentence under fr"),
    "columns": ({"source": "a.tsv", "columns": ["en", "de"]}, tsv, "line 1: expected 2 columns, got 3"),
    "head": ({"source": "a.tsv", "columns": {"en": "English", "de": "German"}}, tsv, "line 1: expected a column named"),
    "other languages": (
        {"source": "a.tmx", "languages": ["en", "fr"]},
        tmx,
        "expected translation units in en and fr, got none with all of them; the file.s languages are EN-us, de:",
    ),
    "no such pairs": ({"source": "a.tmx", **BOTH, "lines": [9, 10]}, tmx, "got no pair; the file is empty, or lines:"),
    "csv columns": ({"source": "a.csv", "columns": ["en", "de"]}, lambda: csv(",", []), "line 1: expected 2 columns"),
    "csv quotes": ({"source": "a.csv", **BOTH}, lambda: b'a,b\n"c,d\n', "line 2: expected CSV with commas between"),
    "tabs": ({"source": "a.csv", **BOTH}, lambda: b'a\tb\n"c" d\te\n', "or end its name in .tsv, where quotation"),
    "no json": ({"source": "a.jsonl", **BOTH}, tsv, "line 1: expected a JSON object"),
    "json keys": ({"source": "a.jsonl", "languages": ["en", "fr"]}, jsonl, "line 1: expected text under en and fr"),
    "half a character": ({"source": "a.jsonl", **BOTH}, lambda: jsonl().replace(b": \"", b": \"\\ud83d", 1), HALF),
    "other documents": ({"source": "a.xml", **BOTH}, lambda: xml().replace(b'id="3"', b'id="9"', 1), DOCUMENTS),
    "twice": ({"source": "a.xml", **BOTH}, lambda: xml().replace(b'id="3"', b'id="2"'), "two segments with the id '2'"),
    "no end": ({"en": "a.sgm", "de": "valid.de"}, lambda: b"<seg id=1>\nA dog", "expected </seg> after each <seg>"),
    "unknown": ({"source": "a.docx", **BOTH}, tsv, "say format: in its declaration"),
    "checksum": ({"source": "a.tmx", **BOTH, "sha256": "0" * 64}, tmx, "wrong checksum: expected SHA-256 000"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_and_hostile_files_get_one_message(tmp_path: Path, name: str) -> None:
    source, data, message = BAD[name]
    language = source.get("languages", ["en", "de"])[1]
    file = source.get("source") or source["en"]
    own = corpus(tmp_path, source, {file: data()})
    if language == "fr":
        own = own.model_copy(update={"valid": {"en": tmp_path / "valid.en", "fr": tmp_path / "valid.de"}})
    with pytest.raises((DataError, ConfigError), match=message) as error:
        fetch("own", f"en-{language}", tmp_path / "raw", custom=own)
    assert str(tmp_path / file) in str(error.value) and not (tmp_path / "raw").exists()


def test_a_file_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "UNTESTED", 2**12)
    own = corpus(
        tmp_path, {"source": "a.txt.zip", **BOTH}, {"a.txt.zip": zipped({"a.en": b"a\n" * 2**20, "a.de": b""})}
    )
    with pytest.raises(DataError, match=r"a\.txt\.zip: expected text, got a file that unpacks to more than 200 times"):
        fetch("own", "en-de", tmp_path / "raw", custom=own)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("{source: a.tsv, languages: [en, de], columns: {en: x}}", "columns: expected a column for each language"),
        ("{source: a.tmx}", "line 1: train.0: languages: which languages does the source have"),
        ("{source: a.tmx, language: [en, de]}", "train.0.language: unknown key; did you mean 'languages'"),
        ("{en: a.en, german: a.de}", "expected an ISO 639 code"),
        ("{en: a.en, de: a.de, per_mille: 5}", 'train.per_mille: expected an ISO 639 code'),
        ("{en: a.en, de: a.de, licence: CC0, per_mille: 5}", 'per_mille: expected an ISO 639 code'),
        ("{en: a.en, de: a.de, columns: [en, de]}", "columns goes with source, but a file for each language is given"),
        ("{sorce: a.tmx, languages: [en, de]}", "train.0.sorce: unknown key; did you mean 'source'"),
        ("[{files: {en: a}, de: b}]", "train.0.de: unknown key"),
        ("[{en: a.en, de: a.de}, {source: b.tsv, columns: [en, 3]}]", "columns"),
        ("[{files: {en: a}, languages: [en]}]", "languages goes with source"),
        ("{source: a.tmx, languages: [en, de], slice: {by: fr, per_mille: [0, 9]}}", "got 'fr'"),
        ("{source: a.tmx, languages: [en], slice: {by: en, per_mille: [0, 2000]}}", "0 to 1000, got [0, 2000]"),
        ("{source: a.tmx, languages: [en], slice: {by: en, per_mille: [50, 5]}}", "[begin, end] from 0 to 1000, got"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_explained(train: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(CustomCorpus, f"train: {train}", "config.yaml")
    assert message in str(error.value) and "config.yaml" in str(error.value)
    assert "\n" not in str(error.value)  # one line for one fault


def test_languages_with_their_files_and_a_part_are_a_source() -> None:
    short = parse(CustomCorpus, "train: {en: a.en, de: a.de, slice: {by: en, per_mille: [0, 9]}}", "config.yaml")
    long = "train: {files: {en: a.en, de: a.de}, slice: {by: en, per_mille: [0, 9]}}"
    assert short == parse(CustomCorpus, long, "config.yaml")


def test_downloads_are_recorded_and_then_enforced(tmp_path: Path) -> None:
    mirror, lock, url = tmp_path / "mirror", tmp_path / "corpora.lock.json", "https://example.org/set/a.tmx?v=1"
    place = mirror / "example.org/set/a.tmx_v_1"
    place.parent.mkdir(parents=True)
    place.write_bytes(tmx())
    own = corpus(tmp_path, {"source": url, "format": "tmx", **BOTH}, {})
    for number in (1, 2):
        fetch("own", "en-de", tmp_path / f"raw{number}", custom=own, mirror=mirror, checksums=lock)
        assert read_json(lock) == {url: sha256(place)}
    place.write_bytes(tmx(PAIRS[:2]))
    with pytest.raises(DataError, match="wrong checksum: expected SHA-256"):
        fetch("own", "en-de", tmp_path / "raw3", custom=own, mirror=mirror, checksums=lock)
    assert Checksums(lock).expected(url) != sha256(place)


def test_a_damaged_index_of_mtdata_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mtdata"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "entry.py").write_text("DatasetId = None")
    (package / "index.py").write_text("raise EOFError('Ran out of input')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"cannot read its index \(EOFError.*delete .*/\.mtdata/mtdata\.index\.\*"):
        remote.from_mtdata("OPUS-books-v1-deu-eng", ["en", "de"], None, Checksums(None))
    for name in [name for name in sys.modules if name.startswith("mtdata")]:
        monkeypatch.delitem(sys.modules, name)


def test_test_sets_of_sacrebleu_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "sacrebleu/wmt14"
    folder.mkdir(parents=True)
    for name, side in (("src", 0), ("ref", 1)):
        (folder / f"wmt14.en-de.{name}").write_bytes(text(side))
    valid = {code: tmp_path / f"{code}" for code in ("en", "de")}
    own = {"train": {"source": "sacrebleu:wmt14", **BOTH}, "valid": valid}
    for side, path in enumerate(valid.values()):
        path.write_bytes(text(side))
    fetch("own", "en-de", tmp_path / "raw", custom=CustomCorpus.model_validate(own), mirror=tmp_path)
    assert (tmp_path / "raw/train.de").read_bytes() == text(1)
    for name, languages, message in (("wmt0", ["en", "de"], "no such test set"), ("wmt14", ["en", "xx"], "got only")):
        with pytest.raises(ConfigError, match=message):
            from_sacrebleu(name, languages, tmp_path)
