"""Translate a cleaned file chunk by chunk, with attention weights and provenance."""

import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from nmt.config.decoding import Decoding
from nmt.data.features import Pictures, describe, no_pictures
from nmt.system import machine
from nmt.system.chunks import WHOLE, Chunks, Shard
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import (
    check_not_input,
    check_writable,
    digest,
    read_json,
    sha256,
    write_json,
    write_lines,
    write_text,
)
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.system.lines import count_lines, read_lines
from nmt.system.progress import Progress
from nmt.system.workers import processes_for
from nmt.translation.translator import Attentions, Translation, Translator

ALIGNED = 10  # sentences per file whose attention is written
BESIDE = ("decoding.json", "alignments.json", "nbest.tsv")
"""Names of the files that `decode_file` writes next to the translations."""
CHUNK = 4000  # lines that are translated before they are written to disk


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
    attended: Sequence[int] = (),
    name: Path | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> None:
    """Translate a cleaned file line by line; write ``out``, ``decoding.json`` and ``alignments.json``.

    ``alignments.json`` has the attention for some sentences: the weights of the decoder's last layer (mean over heads),
    and, for a picture, the weights of each layer and head. With ``nbest`` above 1, ``nbest.tsv`` has line number from
    1, score, translation. An interrupted job continues after the last whole `CHUNK` of lines; the files are the same.

    Args:
        model: model directory.
        source: cleaned text in the model's source language.
        out: the translations to write, one per line.
        decoding: settings of the search.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPU threads; None for PyTorch's default.
        images: array of the lines' image features, for a multimodal model.
        shard: translate only this share of the chunks, beside other jobs; a job without a shard then joins them.
        finish: turns a translation into a line of ``out``.
        attended: lines whose attention is written, from 1; empty for `ALIGNED` lines spread evenly over the file.
        name: the source's name in warnings, if the user knows it by another one.
        languages: target and source, of a model that was trained on several pairs (`choose_direction`).

    Raises:
        ConfigError, DataError: see `Translator.load`; the source cannot be read, or ``out`` not be written.
        Interrupted: a signal has asked the process to stop.
    """
    _check_out(out, [model, source, *([images] if images else [])])
    translator = Translator.load(model, device, threads, processes_for(device, threads)).toward(*languages)
    sentences = count_lines(source)
    if max(attended, default=0) > sentences:
        raise ConfigError(f"{source}: has no line {max(attended)} to show, it has {sentences}; choose others")
    pictures = translator.pictures(images, decoding.images, sentences)
    provenance = _provenance(translator, source, decoding, sentences, images if pictures is not no_pictures else None)
    chunks = Chunks(out, digest([provenance, translator.device.type]), CHUNK)
    numbers = chunks.numbers(sentences, shard or WHOLE)
    translations = Translations(translator, source, decoding, pictures, chunks, numbers)
    with Progress(f"translate {name or source}", min(sentences, CHUNK * len(numbers)), "sentence") as bar:
        seconds = translations.translate(bar.update)
    if shard:
        return
    translator.warn_of_cut(name or source, translations.cut, sentences)
    lines = attended or {1 + i * sentences // ALIGNED for i in range(ALIGNED)}
    alignments = _alignments(translator, translations.pairs(), lines, pictures)
    write_json(out.with_name("alignments.json"), alignments)
    translations.write(out, finish)
    provenance |= {"seconds": round(seconds, 3), "hardware": translator.hardware, "hypotheses_sha256": sha256(out)}
    write_json(out.with_name("decoding.json"), provenance)
    chunks.delete()


def _check_out(out: Path, sources: Sequence[Path]) -> None:
    """Raise DataError if the translations cannot be written, or would overwrite what they are made from."""
    check_writable(out)
    if out.name in BESIDE:
        raise DataError(f"{out}: expected another name than those of the files beside it, {', '.join(BESIDE)}")
    for file in (out, *(out.with_name(name) for name in BESIDE)):
        check_not_input(file, sources)


def _provenance(
    translator: Translator, source: Path, decoding: Decoding, sentences: int, images: Path | None
) -> dict[str, Any]:
    """Return everything that determines the translations of a file, for its provenance."""
    return {
        "decoding": decoding.model_dump(mode="json"), "sentences": sentences, "code_version": machine.code_version(),
        "versions": machine.versions(), "engine": translator.engines.name(decoding), "source_sha256": sha256(source),
        "model_sha256": sha256(translator.folder / "weights.safetensors"),
        **({"languages": "-".join(translator.languages)} if len(translator.pairs) > 1 else {}),
        **({"images": describe(images)} if images else {}),
    }  # fmt: skip


@dataclass
class Translations:
    """The translations of a file, written to disk chunk by chunk."""

    translator: Translator
    source: Path  # the cleaned file
    decoding: Decoding
    pictures: Pictures  # of the file's lines
    chunks: Chunks  # the files for the translations
    numbers: range  # of the chunks to translate
    stop_signal: int | None = None
    cut: int = 0  # lines that were cut to the model's length, in all chunks so far

    def translate(self, progress: Callable[[int], Any]) -> float:
        """Translate the missing chunks; return the seconds that all chunks took, including earlier attempts."""
        with signal_handlers(self._request_stop):
            return sum(self._translate(*block, progress) for block in self._blocks())

    def pairs(self) -> Iterator[tuple[str, list[Translation]]]:
        """Iterate over each line with its translations, after `translate`. Only one chunk is in memory at a time."""
        for _, file, lines in self._blocks():
            nbest = read_json(file)["found"]
            yield from ((line, [Translation(*t) for t in ts]) for line, ts in zip(lines, nbest, strict=True))

    def write(self, out: Path, finish: Callable[[str], str]) -> None:
        """Write the best translation of each line, and ``nbest.tsv`` if there are several per line."""
        if self.decoding.nbest > 1:
            best = ((n, t) for n, (_, ts) in enumerate(self.pairs(), 1) for t in ts)
            write_lines(out.with_name("nbest.tsv"), (f"{n}\t{t.score:.6f}\t{t.text}" for n, t in best))
        else:
            out.with_name("nbest.tsv").unlink(missing_ok=True)  # left by other settings
        write_lines(out, (finish(translations[0].text) for _, translations in self.pairs()))

    def _blocks(self) -> Iterator[tuple[int, Path, list[str]]]:
        """Iterate over the chunks: number of the first line from 0, file of the translations, and lines."""
        size = self.chunks.size
        lines = read_lines(self.source, self.numbers.start * size)
        for number in self.numbers:
            yield number * size, self.chunks.path(number).with_suffix(".json"), list(islice(lines, size))

    def _translate(self, first: int, file: Path, lines: list[str], progress: Callable[[int], Any]) -> float:
        if file.is_file():
            progress(len(lines))
            made = read_json(file)
            self.cut += made.get("cut", 0)
            return float(made["seconds"])
        started, cut = time.perf_counter(), list[int]()

        def report(sentences: int) -> None:
            progress(sentences)
            if self.stop_signal is not None:
                raise Interrupted(self.stop_signal, f"in the translation of {self.source}")

        nbest = self.translator.translate_clean(
            lines, self.decoding, report, lambda indices: self.pictures(indices + first), cut.append
        )
        seconds = time.perf_counter() - started
        found = [[astuple(t) for t in ts] for ts in nbest]
        write_text(file, json.dumps({"seconds": seconds, "found": found, "cut": sum(cut)}))
        self.cut += sum(cut)
        return seconds

    def _request_stop(self, number: int, _: FrameType | None) -> None:
        self.stop_signal = number


def _alignments(
    translator: Translator, pairs: Iterable[tuple[str, list[Translation]]], lines: Container[int], pictures: Pictures
) -> list[dict[str, Any]]:
    """Return the attention of some lines: number from 1, pieces, and one row of weights per target piece."""
    aligned = []
    for i, (line, translations) in enumerate(pairs):
        if i + 1 not in lines:
            continue
        attentions = translator.attentions(line, translations[0], pictures(np.array([i])))
        if "source" in attentions.weights:
            weights = attentions.weights["source"][-1].mean(0).tolist()
            rounded = [[round(weight, 4) for weight in row] for row in weights]
            sentence = {"line": i + 1, "source": attentions.source, "target": attentions.target[1:], "weights": rounded}
            aligned.append(sentence | _on_picture(attentions))
    return aligned


def _on_picture(attentions: Attentions) -> dict[str, Any]:
    """Return the weights of the regions of a picture.

    ``image`` has them by layer and head, summed over the target pieces (L, H, R). ``image_rows`` has them by target
    piece, of the last layer, as the mean over its heads (T, R).
    """
    if "image" not in attentions.weights:
        return {}
    weights = attentions.weights["image"]
    summed, rows = weights.sum(2).tolist(), weights[-1].mean(0).tolist()
    return {
        "image": [[[round(weight, 4) for weight in head] for head in layer] for layer in summed],
        "image_rows": [[round(weight, 5) for weight in row] for row in rows],
    }
