"""Search on a GPU: sentences per second and latency by model, beam and batch size."""

import statistics
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.kernels import kernels
from benchmarks.gpu.records import Measurement, Record, memory, wait
from nmt.config.data import SpecialIds
from nmt.config.decoding import Decoding
from nmt.config.models import TransformerConfig
from nmt.models.base import Decoder
from nmt.models.build import build
from nmt.models.search import search
from nmt.system.errors import DataError
from nmt.system.lines import read_lines
from nmt.translation.translator import Translator

TINY = {"layers": 4, "width": 128, "ffn": 256, "heads": 4}
BASE = {"layers": 6, "width": 512, "ffn": 2048, "heads": 8}
SMALLEST = {"layers": 1, "width": 16, "ffn": 32, "heads": 2}
Sizes = tuple[str, str, dict[str, int], int]
MODELS: list[Sizes] = [("tiny", "fp32", TINY, 10_000), ("base", "fp32", BASE, 32_000), ("base", "bf16", BASE, 32_000)]
DRY: list[Sizes] = [("dry", "bf16", SMALLEST, 60)]
"""Models with random weights: name, format of weights and computation, configuration, vocabulary."""
BATCH_SIZES = (64, 512, 1, 8)  # the most informative ones first
BEAMS = (1, 5)
FEWEST = 3  # batches that every measurement searches
COLUMNS = (
    "model", "precision", "beam", "batch", "sentences", "sentences/s", "pieces/s", "latency_ms", "ms_a_step",
    "kernels", "busy", "tensors_mib", "reserved_mib",
)  # fmt: skip
Rows = list[list[int]]


def random_rows(vocabulary: int, sentences: int) -> Rows:
    """Return sentences of random pieces. Their lengths are about those of Multi30K: 14 pieces, from 4 to 40."""
    random = np.random.default_rng(1)
    lengths = np.exp(random.normal(2.6, 0.35, sentences)).round().clip(4, 40).astype(int)
    return [random.integers(4, vocabulary, length).tolist() for length in lengths]


def batches_of(rows: Rows, size: int, ids: SpecialIds) -> list[Tensor]:
    """Return padded batches of sentences of similar length, in random order: a part of them is a fair sample."""
    ordered = sorted(rows, key=len)
    parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    batches = []
    for part in (parts[i] for i in np.random.default_rng(2).permutation(len(parts))):
        batch = torch.full((len(part), max(map(len, part)) + 2), ids.pad)
        for line, row in zip(batch, part, strict=True):
            line[: len(row) + 2] = torch.tensor([ids.bos, *row, ids.eos])
        batches.append(batch)
    return batches


def measure(
    decoder: Decoder,
    batches: Sequence[Tensor],
    decoding: Decoding,
    ids: SpecialIds,
    device: torch.device,
    profiled: bool,
    limit: float,
) -> Record:
    """Search batches until all are done or the time is over, at least `FEWEST`; return speed, latency and memory.

    The clock includes the copy of the ids to the GPU. The largest batch and the first one come before, to warm up. A
    batch has as many steps as its longest translation has pieces.
    """

    def run(batch: Tensor) -> list[int]:
        found = search(decoder, batch.to(device), decoding, ids)
        wait(device)
        return [len(best[0].ids) + 1 for best in found if best]

    for batch in (max(batches, key=torch.Tensor.numel), batches[0]):
        run(batch)
    began, took, lengths = wait(device), list[float](), list[list[int]]()
    for batch in batches:
        started = time.perf_counter()
        lengths.append(run(batch))
        took.append(time.perf_counter() - started)
        if len(took) >= FEWEST and time.perf_counter() - began > limit:
            break
    sentences, seconds, steps = sum(map(len, lengths)), sum(took), [max(of_batch) for of_batch in lengths]
    record = {
        "sentences": sentences, "sentences/s": sentences / seconds, "pieces/s": sum(map(sum, lengths)) / seconds,
        "latency_ms": 1e3 * statistics.median(took), "ms_a_step": 1e3 * seconds / sum(steps), "batches": len(took),
    } | memory()  # fmt: skip
    if profiled:
        record |= kernels(lambda: run(batches[0]), device, steps[0], 1e3 * took[0] / steps[0], by_name=True)
    return record


def load(folder: Path, text: Path, sentences: int, device: torch.device) -> tuple[Decoder, Rows, SpecialIds]:
    """Load a model folder; return its decoder, and the first sentences of a cleaned text as pieces."""
    translator = Translator.load(folder, device.type)
    lines = list(islice(read_lines(text), sentences))
    rows = [row[: translator.model.longest - 2] for row in translator.source.encode(lines) if row]
    if not rows:
        raise DataError(f"{text}: expected sentences, got none; give cleaned text, one sentence a line")
    return translator.decoder, rows, translator.source.ids


def cases(
    device: torch.device, model: Path | None, text: Path | None, sentences: int, dry: bool
) -> list[tuple[Record, Measurement]]:
    """Return the cases. A model with random weights writes as many pieces as its source has, because it cannot end.

    The kernels are listed in cases of their own at the end, because calls may be slower once the profiler has run.
    """
    made: list[tuple[Record, Decoder, Rows, SpecialIds, dict[str, Any]]] = []
    if model and text:
        made.append(({"model": model.name, "precision": "fp32"}, *load(model, text, sentences, device), {}))
    else:
        for name, precision, settings, vocabulary in DRY if dry else MODELS:
            torch.manual_seed(1)
            ids = SpecialIds()
            decoder = build(TransformerConfig.model_validate(settings), vocabulary, vocabulary, ids.pad)
            decoder = decoder.to(device, torch.bfloat16 if precision == "bf16" else torch.float32).eval()
            rows = random_rows(vocabulary, 12 if dry else sentences)
            limits = {"length_factor": 1.0, "length_extra": 0}
            made.append(({"model": name, "precision": precision}, decoder, rows, ids, limits))
    sizes = (4, 1) if dry else BATCH_SIZES
    found: list[tuple[Record, Measurement]] = []
    for size, profiled in [*((size, False) for size in sizes), (sizes[0], True)]:
        for case, decoder, rows, ids, limits in made:
            batches = batches_of(rows, size, ids)[: FEWEST if profiled else None]
            for beam in BEAMS:
                decoding = Decoding.model_validate({"beam": beam} | limits)
                measurement = partial(measure, decoder, batches, decoding, ids, device, profiled)
                found.append((case | {"beam": beam, "batch": size}, measurement))
    return found
