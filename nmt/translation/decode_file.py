"""Translate a cleaned file, chunk by chunk, with where the model looked and how the translations were made."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from nmt.config.decoding import Decoding
from nmt.data.features import Pictures, describe, no_pictures
from nmt.system import machine
from nmt.system.chunks import WHOLE, Chunks, Shard
from nmt.system.errors import DataError
from nmt.system.files import (
    check_apart,
    check_writable,
    count_lines,
    digest,
    read_json,
    read_lines,
    sha256,
    write_json,
    write_lines,
    write_text,
)
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.system.workers import processes_for
from nmt.translation.translator import Attentions, Translation, Translator

ALIGNED = 10  # sentences of a translated file whose attention is kept
BESIDE = ("decoding.json", "alignments.json", "nbest.tsv")
"""What `decode_file` writes besides the translations."""
CHUNK = 4000  # lines of a file that are translated before they are put on disk


@machine.returning_memory()
def decode_file(
    model: Path,
    source: Path,
    out: Path,
    decoding: Decoding,
    device: str,
    threads: int | None,
    images: Path | None = None,
    shard: Shard | None = None,
    finish: Callable[[str], str] = str,
) -> None:
    """Translate a cleaned file line by line; write ``out`` and, beside it, ``decoding.json`` and ``alignments.json``.

    ``alignments.json`` has sentences spread evenly over the file: where the decoder's last layer looked (mean over
    heads), and where each layer and head looked on the picture. With ``nbest`` above 1 there is also ``nbest.tsv``:
    line number from 1, score, translation. A job that was interrupted goes on after the last whole `CHUNK` of lines
    and ends with the same files.

    Args:
        model: model directory.
        source: cleaned text in the model's source language.
        out: the translations, one a line.
        decoding: how to search.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: of the CPU; None for PyTorch's choice.
        images: array of the lines' image features, for a multimodal model.
        shard: translate this share of the chunks and stop. Several jobs can do so at once; a job without a shard then
            joins their chunks.
        finish: turns a translation into a line of ``out``.

    Raises:
        ConfigError, DataError: see `Translator.load`; the source is missing or not UTF-8; ``out`` cannot be written.
        Interrupted: told to stop by a signal.
    """
    from tqdm import tqdm

    check_writable(out)
    if out.name in BESIDE:
        raise DataError(f"{out}: expected another name than those of the files beside it, {', '.join(BESIDE)}")
    for written in (out, *(out.with_name(name) for name in BESIDE)):
        check_apart(written, [source])
    translator = Translator.load(model, device, threads, processes_for(device, threads))
    sentences = count_lines(source)
    pictures = translator.pictures(images, decoding.images, sentences)
    making = _making(model, source, decoding, sentences, images if pictures is not no_pictures else None)
    chunks = Chunks(out, digest([making, translator.device.type]), CHUNK)
    numbers = chunks.numbers(sentences, shard or WHOLE)
    translations = Translations(translator, source, decoding, pictures, chunks, numbers)
    with tqdm(total=min(sentences, CHUNK * len(numbers)), unit="sentence", disable=None) as bar:
        seconds = translations.translate(bar.update)
    if shard:
        return
    write_json(out.with_name("alignments.json"), _alignments(translator, translations.pairs(), sentences, pictures))
    translations.write(out, finish)
    hardware = machine.hardware(translator.device) | {"workers": translator.workers}
    making |= {"seconds": round(seconds, 3), "hardware": hardware, "hypotheses_sha256": sha256(out)}
    write_json(out.with_name("decoding.json"), making)
    chunks.forget()


def _making(model: Path, source: Path, decoding: Decoding, sentences: int, images: Path | None) -> dict[str, Any]:
    """Everything that determines the translations of a file, for its provenance."""
    return {
        "decoding": decoding.model_dump(mode="json"), "sentences": sentences, "code_version": machine.code_version(),
        "versions": machine.versions(), "source_sha256": sha256(source),
        "model_sha256": sha256(model / "weights.safetensors"), **({"images": describe(images)} if images else {}),
    }  # fmt: skip


class Translations:
    """The translations of a file, written to disk chunk by chunk.

    Args:
        translator: the model.
        source: the cleaned file.
        decoding: how to search.
        pictures: of the file's lines.
        chunks: where the translations are written.
        numbers: of the chunks to translate.
    """

    def __init__(
        self,
        translator: Translator,
        source: Path,
        decoding: Decoding,
        pictures: Pictures,
        chunks: Chunks,
        numbers: range,
    ) -> None:
        self.translator, self.source, self.decoding, self.pictures = translator, source, decoding, pictures
        self.chunks, self.numbers = chunks, numbers
        self.stop_signal: int | None = None

    def translate(self, progress: Callable[[int], Any]) -> float:
        """Translate the missing chunks; return the seconds that all chunks took, those of earlier attempts included."""
        with signal_handlers(self._remember):
            return sum(self._translate(*block, progress) for block in self._blocks())

    def pairs(self) -> Iterator[tuple[str, list[Translation]]]:
        """Each line with its translations, after `translate`; one chunk is in memory at a time."""
        for _, place, lines in self._blocks():
            nbest = read_json(place)["found"]
            yield from ((line, [Translation(*t) for t in ts]) for line, ts in zip(lines, nbest, strict=True))

    def write(self, out: Path, finish: Callable[[str], str]) -> None:
        """Write the best translation of each line, and beside it ``nbest.tsv`` if there are several a line."""
        if self.decoding.nbest > 1:
            best = ((n, t) for n, (_, ts) in enumerate(self.pairs(), 1) for t in ts)
            write_lines(out.with_name("nbest.tsv"), (f"{n}\t{t.score:.6f}\t{t.text}" for n, t in best))
        else:
            out.with_name("nbest.tsv").unlink(missing_ok=True)  # left by other settings
        write_lines(out, (finish(translations[0].text) for _, translations in self.pairs()))

    def _blocks(self) -> Iterator[tuple[int, Path, list[str]]]:
        """The place of each chunk's first line, the file of its translations, and its lines."""
        size = self.chunks.size
        lines = read_lines(self.source, self.numbers.start * size)
        for number in self.numbers:
            yield number * size, self.chunks.place(number).with_suffix(".json"), list(islice(lines, size))

    def _translate(self, first: int, place: Path, lines: list[str], progress: Callable[[int], Any]) -> float:
        if place.is_file():
            progress(len(lines))
            return float(read_json(place)["seconds"])
        started = time.perf_counter()

        def done(sentences: int) -> None:
            progress(sentences)
            if self.stop_signal is not None:
                raise Interrupted(self.stop_signal, f"in the translation of {self.source}")

        nbest = self.translator.translate_clean(
            lines, self.decoding, done, lambda indices: self.pictures(indices + first)
        )
        seconds = time.perf_counter() - started
        write_text(place, json.dumps({"seconds": seconds, "found": [[astuple(t) for t in ts] for ts in nbest]}))
        return seconds

    def _remember(self, number: int, _: FrameType | None) -> None:
        self.stop_signal = number


def _alignments(
    translator: Translator, pairs: Iterable[tuple[str, list[Translation]]], sentences: int, pictures: Pictures
) -> list[dict[str, Any]]:
    """Some sentences: line number from 1, pieces of source and translation, one row of weights per piece written."""
    aligned = []
    wanted = {i * sentences // ALIGNED for i in range(ALIGNED)} if sentences > ALIGNED else range(sentences)
    for i, (line, translations) in enumerate(pairs):
        if i not in wanted:
            continue
        looked = translator.attentions(line, translations[0], pictures(np.array([i])))
        if "source" in looked.weights:
            weights = looked.weights["source"][-1].mean(0).tolist()
            rounded = [[round(weight, 4) for weight in row] for row in weights]
            sentence = {"line": i + 1, "source": looked.source, "target": looked.target[1:], "weights": rounded}
            aligned.append(sentence | _on_picture(looked))
    return aligned


def _on_picture(looked: Attentions) -> dict[str, Any]:
    """Where each layer and head looked on the regions of a picture, summed over the pieces written (L, H, R)."""
    if "image" not in looked.weights:
        return {}
    summed = looked.weights["image"].sum(2).tolist()
    return {"image": [[[round(weight, 4) for weight in head] for head in layer] for layer in summed]}
