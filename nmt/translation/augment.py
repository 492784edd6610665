"""Training pairs one side of which a model wrote, `nmt.config.system.AddedText`, mixed with the true ones."""

import shutil
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.corpora.catalogue import misaligned
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import (
    as_written,
    atomic_directory,
    check_apart,
    count_lines,
    read_json,
    read_lines,
    sha256,
    write_json,
    write_lines,
)
from nmt.text.clean import clean_line, restore
from nmt.translation.decode_file import decode_file


def translate_text(model: Path, text: Path, out: Path, decoding: Decoding, device: str, threads: int | None) -> None:
    """Translate a raw file into a raw one, line by line, and write ``decoding.json`` beside it, with its speed.

    Interrupted, it goes on where it was, as `nmt.translation.decode_file.decode_file` does.

    Args:
        model: directory of the model that translates.
        text: raw sentences of its source language.
        out: their translations.
        decoding: how to search.
        device: as `nmt.system.machine.prepare` takes it.
        threads: of the CPU.

    Raises:
        ConfigError, DataError: as `nmt.translation.decode_file.decode_file` does.
        Interrupted: told to stop by a signal.
    """
    check_apart(out, [text])
    recipe = read_json(model / "cleaning.json")
    source, target = recipe["languages"].split("-")
    cleaning = as_written(Cleaning, recipe["cleaning"], model / "cleaning.json")
    cleaned = out.with_name(f".{out.name}.cleaned")
    write_lines(cleaned, (clean_line(line, source, cleaning) for line in read_lines(text)))
    decode_file(model, cleaned, out, decoding, device, threads, finish=lambda line: restore(line, target, cleaning))
    making = read_json(out.with_name("decoding.json"))
    speed = round(making["sentences"] / max(making["seconds"], 1e-3), 1)
    making |= {"languages": recipe["languages"], "text_sha256": sha256(text), "sentences_per_second": speed}
    making |= {"model": str(model), "provenance": read_json(model / "provenance.json")}
    write_json(out.with_name("decoding.json"), making)
    cleaned.unlink()


def mix(raw: Path, text: Path, translations: Path, out: Path, languages: str, copies: int, tag: str | None) -> None:
    """Write a raw corpus with added pairs after the true ones of its training text, whole or not at all.

    What was translated says which way: text of the target language has become the source (back-translation), or text of
    the source language the target (forward translation).

    Where the text has several descriptions of what each line of the corpus describes (``together``), ``images`` in
    ``corpus.json`` says how many images they are of: line n of the training text is about image n modulo so many.

    Args:
        raw: folder of the corpus.
        text: folder of the corpus whose training text of one language was translated.
        translations: the folder that `translate_text` wrote into, ``translations.txt``.
        out: the folder to write.
        languages: source and target, e.g. ``en-de``.
        copies: times that the true pairs are written.
        tag: a word that each added source begins with; None for none.

    Raises:
        ConfigError: the translations are between other languages, or ``out`` is one of the other folders.
        DataError: a file is missing or not UTF-8, or the translations are of another text.
    """
    source, target = languages.split("-")
    corpus, making = read_json(raw / "corpus.json"), read_json(translations / "decoding.json")
    if making["languages"] not in (f"{target}-{source}", languages):
        expected = f"{target}-{source} or {languages}"
        raise ConfigError(f"{translations}: expected translations {expected}, got {making['languages']}")
    if out.resolve() in (raw.resolve(), text.resolve()):
        raise ConfigError(f"{out}: expected a folder for the mixed corpus, got one that it is made of; name another")
    translated, other = making["languages"].split("-")
    written, original = translations / "translations.txt", text / f"train.{translated}"
    more, added = {translated: original, other: written}, _pairs(written, original)
    if making["text_sha256"] != sha256(original):
        raise DataError(
            f"{written}: expected translations of {original}, got those of another text; translate it again"
        )
    with atomic_directory(out, "corpus.json") as part:
        for file in raw.iterdir():
            if file.name not in ("corpus.json", f"train.{source}", f"train.{target}"):
                shutil.copyfile(file, part / file.name)
        tagged = (f"{tag} {line}" if tag else line for line in read_lines(more[source]))
        for language, lines in ((source, tagged), (target, read_lines(more[target]))):
            true = chain.from_iterable(read_lines(raw / f"train.{language}") for _ in range(copies))
            write_lines(part / f"train.{language}", chain(true, lines))
        described = _described(corpus, read_json(text / "corpus.json"), making, languages, added, copies)
        for language, facts in described["splits"]["train"].items():
            urls = dict.fromkeys(source["url"][language] for source in described["sources"]["train"])
            file = part / f"train.{language}"
            facts |= {"lines": count_lines(file), "sha256": sha256(file), "url": " ".join(urls)}
        write_json(part / "corpus.json", described)


def _pairs(written: Path, original: Path) -> int:
    """How many lines there are, and translations of them; raises DataError if these are not as many."""
    counts = {path: count_lines(path) for path in (written, original)}
    if counts[original] != counts[written]:
        raise misaligned(counts)
    return counts[original]


def _described(
    corpus: dict[str, Any], text: dict[str, Any], making: dict[str, Any], languages: str, added: int, copies: int
) -> dict[str, Any]:
    """corpus.json with one more source of training text, and the model that made it."""
    translated, written = making["languages"].split("-")
    way = "forward" if making["languages"] == languages else "back"
    url = {translated: f"{text['corpus']}'s training text", written: f"translated by {making['model']}"}
    more = {"url": url, "licence": text["licence"], "pairs": added, "dropped": 0, f"{way}_translation": making}
    images = _images(corpus, written) if text.get("together") else 0
    return {key: value for key, value in corpus.items() if key != "images"} | {
        "corpus": f"{corpus['corpus']} with {way}-translations",
        "licence": "; ".join(dict.fromkeys([corpus["licence"], text["licence"]])),
        "sources": corpus["sources"] | {"train": [*corpus["sources"]["train"] * copies, more]},
        **({"images": images} if images and added % images == 0 else {}),
    }


def _images(corpus: dict[str, Any], language: str) -> int:
    """Of how many images the training text is, one line each, again and again; 0 where something added broke that."""
    lines = corpus["splits"]["train"][language]["lines"]
    return int(corpus.get("images", 0 if _writings(corpus) else lines))


def seconds(corpus: dict[str, Any]) -> float | None:
    """Training and translating time of the models that wrote part of a ``corpus.json``; None where all is true."""
    found = _writings(corpus)
    return sum(made["provenance"]["training_seconds"] + made["seconds"] for made in found) if found else None


def _writings(corpus: dict[str, Any]) -> list[dict[str, Any]]:
    """How each added part of the training text was made, once however often the text has it."""
    sources = corpus.get("sources", {}).get("train", [])
    every = [source[key] for source in sources for key in source if key.endswith("_translation")]
    return [made for index, made in enumerate(every) if made not in every[:index]]
