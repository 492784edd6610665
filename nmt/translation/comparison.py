"""Compare an export with the model that it was made from: BLEU, speed and size."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nmt.scoring.files import Comparison, read_texts
from nmt.scoring.score import measure_all
from nmt.system.files import Json
from nmt.system.workers import processes_for
from nmt.training.checkpoint import WEIGHTS
from nmt.translation.standalone import ExportedModel
from nmt.translation.translator import Translator


def compare_with_export(model: Path, export: Path, source: Path, reference: Path) -> Json:
    """Translate a text with a model and with its export, on the CPU, and score both.

    Args:
        model: the model directory.
        export: its export for CTranslate2.
        source: raw sentences.
        reference: the reference of each.

    Returns:
        ``sentences``; ``threads`` of each; ``equal``, the number of equal translations; for ``model`` and ``export``
        ``bleu`` in the form of `nmt.scoring.score.score_lines` (detokenised), ``sentences_per_second`` (loading left
        out) and ``bytes`` of the weights.

    Raises:
        DataError: a file is missing, empty or not UTF-8, or the numbers of lines differ.
    """
    texts = read_texts({"source": source, "reference": reference})
    threads = processes_for("cpu")
    theirs = ExportedModel(export, "cpu", threads)
    ours = Translator.load(model, "cpu", threads, threads).toward(theirs.target_language, theirs.source_language)
    how = Comparison(lowercase=ours.cleaning.lowercase, language=theirs.target_language)

    def measure(translate: Callable[[Sequence[str]], list[str]], weights: Path) -> tuple[list[str], Json]:
        started = time.perf_counter()
        lines = translate(texts["source"])
        seconds = time.perf_counter() - started
        bleu = measure_all({"bleu": how.metrics(ours.cleaning.lowercase)["bleu"]}, lines, texts["reference"])["bleu"]
        speed = round(len(lines) / max(seconds, 1e-9), 1)
        return lines, {"bleu": bleu, "sentences_per_second": speed, "bytes": weights.stat().st_size}

    first, of_model = measure(ours.translate, model / WEIGHTS)
    second, of_export = measure(theirs.translate, export / "model.bin")
    equal = sum(a == b for a, b in zip(first, second, strict=True))
    return {"sentences": len(first), "threads": threads, "equal": equal, "model": of_model, "export": of_export}


def rows(result: Json) -> list[list[Any]]:
    """The result of `compare_with_export` as the rows of a table: name, BLEU, interval, speed, bytes."""
    return [
        [
            name,
            f"{result[key]['bleu']['score']:.2f}",
            f"[{result[key]['bleu']['low']:.1f}, {result[key]['bleu']['high']:.1f}]",
            f"{result[key]['sentences_per_second']:,.0f}",
            f"{result[key]['bytes']:,}",
        ]
        for name, key in (("model", "model"), ("this export", "export"))
    ]


HEADER = ["", "BLEU, detokenised", "95 % interval", "sentences/s", "bytes of weights"]


def markdown(result: Json) -> str:
    """The result of `compare_with_export` as a Markdown table with one sentence."""
    lines = [f"| {' | '.join(row)} |" for row in (HEADER, ["---"] * len(HEADER), *rows(result))]
    signature = result["model"]["bleu"]["signature"]
    return "\n".join(lines) + (
        f"\n\n{result['equal']:,} of {result['sentences']:,} translations are equal. Beam 5, CPU, {result['threads']} "
        f"thread{'s' * (result['threads'] != 1)}. sacrebleu: `{signature}`."
    )
