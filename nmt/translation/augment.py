"""Back-translation and forward translation: add pairs with a translated side to the training text.

`nmt.config.system.AddedText` configures them.
"""

import shutil
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.corpora.parts import misaligned
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import atomic_directory, build_stored, check_not_input, read_json, sha256, write_json, write_lines
from nmt.system.lines import count_lines, read_lines
from nmt.text.cleaner import clean_line, restore
from nmt.translation.directions import choose_direction, read_pairs


def translate_text(
    model: Path,
    text: Path,
    out: Path,
    decoding: Decoding,
    device: str,
    threads: int | None,
    languages: tuple[str | None, str | None] = (None, None),
) -> None:
    """Translate a raw file line by line into a raw file, and write ``decoding.json`` next to it.

    An interrupted job continues where it stopped, see `nmt.translation.decode_file.decode_file`.

    Args:
        model: directory of the model.
        text: raw sentences in the model's source language.
        out: the translations to write.
        decoding: settings of the search.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPU threads; None for PyTorch's default.
        languages: target and source, of a model that was trained on several pairs (`choose_direction`).

    Raises:
        ConfigError, DataError: see `nmt.translation.decode_file.decode_file`.
        Interrupted: a signal has asked the process to stop.
    """
    from nmt.training.checkpoint import check_model_directory
    from nmt.translation.decode_file import decode_file  # imports torch

    check_not_input(out, [text])
    check_model_directory(model)
    recipe, provenance = (read_json(model / name) for name in ("cleaning.json", "provenance.json"))
    target, source = languages
    source, target = choose_direction(model, read_pairs(recipe["languages"], model / "cleaning.json"), source, target)
    cleaning = build_stored(Cleaning, recipe["cleaning"], model / "cleaning.json")
    cleaned = out.with_name(f".{out.name}.cleaned")
    write_lines(cleaned, (clean_line(line, source, cleaning) for line in read_lines(text)))
    decode_file(
        model, cleaned, out, decoding, device, threads, finish=lambda line: restore(line, target, cleaning), name=text,
        languages=(target, source),
    )  # fmt: skip
    record = read_json(out.with_name("decoding.json"))
    speed = round(record["sentences"] / max(record["seconds"], 1e-3), 1)
    record |= {"languages": f"{source}-{target}", "text_sha256": sha256(text), "sentences_per_second": speed}
    record |= {"model": str(model), "provenance": provenance}
    write_json(out.with_name("decoding.json"), record)
    cleaned.unlink()


def mix(raw: Path, text: Path, translations: Path, out: Path, languages: str, copies: int, tag: str | None) -> None:
    """Write a raw corpus whose training text has added pairs after the original pairs, whole or not at all.

    The languages of the translations determine the direction. In back-translation, text of the target language was
    translated and the translations are the source. In forward translation, text of the source language was translated
    and the translations are the target.

    If the text has several descriptions of each image (``together``), ``images`` in ``corpus.json`` is the number of
    images. Line n of the training text then describes image n modulo this number.

    Args:
        raw: folder of the corpus.
        text: folder of the corpus whose training text of one language was translated.
        translations: folder with the ``translations.txt`` and ``decoding.json`` of `translate_text`.
        out: the folder to write.
        languages: source and target, e.g. ``en-de``.
        copies: how often the original pairs are written.
        tag: a word before each added source sentence; None for no word.

    Raises:
        ConfigError: the translations have other languages, or ``out`` is one of the other folders.
        DataError: a file is missing or not UTF-8, or the translations are of another text.
    """
    source, target = languages.split("-")
    corpus, decoding = read_json(raw / "corpus.json"), read_json(translations / "decoding.json")
    if decoding["languages"] not in (f"{target}-{source}", languages):
        expected = f"{target}-{source} or {languages}"
        raise ConfigError(f"{translations}: expected translations {expected}, got {decoding['languages']}")
    if out.resolve() in (raw.resolve(), text.resolve()):
        raise ConfigError(f"{out}: expected a new folder for the mixed corpus, got one of its inputs; name another")
    translated, other = decoding["languages"].split("-")
    written, original = translations / "translations.txt", text / f"train.{translated}"
    files, added = {translated: original, other: written}, _pairs(written, original)
    if decoding["text_sha256"] != sha256(original):
        raise DataError(
            f"{written}: expected translations of {original}, got those of another text; translate it again"
        )
    with atomic_directory(out, "corpus.json") as part:
        for file in raw.iterdir():
            if file.name not in ("corpus.json", f"train.{source}", f"train.{target}"):
                shutil.copyfile(file, part / file.name)
        tagged = (f"{tag} {line}" if tag else line for line in read_lines(files[source]))
        for language, lines in ((source, tagged), (target, read_lines(files[target]))):
            original_lines = chain.from_iterable(read_lines(raw / f"train.{language}") for _ in range(copies))
            write_lines(part / f"train.{language}", chain(original_lines, lines))
        description = _describe(corpus, read_json(text / "corpus.json"), decoding, languages, added, copies)
        for language, facts in description["splits"]["train"].items():
            urls = dict.fromkeys(source["url"][language] for source in description["sources"]["train"])
            file = part / f"train.{language}"
            facts |= {"lines": count_lines(file), "sha256": sha256(file), "url": " ".join(urls)}
        tags = [*corpus.get("tags", []), *([tag] if tag else [])]
        write_json(part / "corpus.json", description | ({"tags": tags} if tags else {}))


def _pairs(translations: Path, text: Path) -> int:
    """Return the number of pairs; raise DataError if the files have different numbers of lines."""
    counts = {path: count_lines(path) for path in (translations, text)}
    if counts[text] != counts[translations]:
        raise misaligned(counts)
    return counts[text]


def _describe(
    corpus: dict[str, Any], text: dict[str, Any], decoding: dict[str, Any], languages: str, added: int, copies: int
) -> dict[str, Any]:
    """Return the ``corpus.json`` with the added source of training text and how it was translated."""
    translated, language = decoding["languages"].split("-")
    way = "forward" if decoding["languages"] == languages else "back"
    url = {translated: f"{text['corpus']}'s training text", language: f"translated by {decoding['model']}"}
    counts = {"pairs": added, "dropped": 0}
    added_source = {"url": url, "licence": text["licence"], **counts, f"{way}_translation": decoding}
    images = _images(corpus, language) if text.get("together") else 0
    lines = corpus["splits"]["train"][language]["lines"]
    parts = corpus.get("parts", [(corpus["corpus"], lines)]) * copies + [(f"{way}_translation", added)]
    return {key: value for key, value in corpus.items() if key != "images"} | {
        "corpus": f"{corpus['corpus']} with {way}-translations",
        "licence": "; ".join(dict.fromkeys([corpus["licence"], text["licence"]])),
        "sources": corpus["sources"] | {"train": [*corpus["sources"]["train"] * copies, added_source]},
        **({"images": images} if images and added % images == 0 else {}),
        "parts": parts,
    }


def _images(corpus: dict[str, Any], language: str) -> int:
    """Return the number of images that the training text describes in turn; 0 if added text has broken this order."""
    lines = corpus["splits"]["train"][language]["lines"]
    return int(corpus.get("images", 0 if _translations(corpus) else lines))


def seconds(corpus: dict[str, Any]) -> float | None:
    """Return the training and translation time of the models behind the added text of a ``corpus.json``.

    The time is in seconds; None if the corpus has no added text.
    """
    translations = _translations(corpus)
    times = [translation["provenance"]["training_seconds"] + translation["seconds"] for translation in translations]
    return sum(times) if times else None


def _translations(corpus: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how each distinct added part of the training text was translated."""
    sources = corpus.get("sources", {}).get("train", [])
    translations = [source[key] for source in sources for key in source if key.endswith("_translation")]
    return [translation for index, translation in enumerate(translations) if translation not in translations[:index]]
