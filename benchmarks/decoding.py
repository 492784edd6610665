"""Compare translation speed with the same weights: ours, CTranslate2, and other Python toolkits.

    python -m benchmarks.decoding [MODEL SOURCE] [--limit 1000] [--rounds 3] [--threads 2] [--only SIDE]

SOURCE is cleaned text. The default model and text are those of `make run`. Each side runs in its own process with the
same number of threads. The sides take turns in each round. Loading the model is not measured.

Ours and CTranslate2 run twice: with all threads on one batch, and with one worker per thread. Our workers are
processes, as in `nmt decode`, and start anew for each measurement. Their memory is the sum over the processes; shared
memory counts in each process. "Ours, auto" is our `engine: auto`, which takes CTranslate2 with one worker per thread.

The other toolkits load our weights into their own Transformer and use their own search (`benchmarks.peer_search`).
transformers, Sockeye, fairseq and JoeyNMT support post-norm models. OpenNMT-py and eole support pre-norm models. The
table gives this reason for a toolkit that does not support the model.

The limit of a translation is twice the source length plus ten pieces. CTranslate2 takes the longest source of the text,
Sockeye each source, the other toolkits the longest source of the batch. Batches have sentences of similar length; the
best of several batch sizes counts. Equal is the share of sentences with the same pieces as ours.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import TEXT, TRAINED, Failed, environment, peak_memory, process, table
from nmt.config.decoding import Decoding
from nmt.system.files import read_json
from nmt.system.lines import read_lines

SEARCHES = {"greedy": 1, "beam 5": 5}
SIZES = (32, 128, 512)  # sentences per batch
ALONE = 200  # sentences that are translated one by one
HEADINGS = (
    "search", "side", "one by one, sentences/s", "of ours", "best batch, sentences/s", "least–most", "of ours", "equal",
    "memory, MiB",
)  # fmt: skip

Rows = list[list[int]]
Translate = Callable[[Rows, int, int], Rows]  # source pieces, beam, sentences per batch; pieces without BOS and EOS


def ours(side: str, model: Path, threads: int) -> Translate:
    """Return our translation function, `nmt.models.search`."""
    from nmt.models.search import search
    from nmt.translation.translator import Translator

    workers = threads if "workers" in side else 1
    translator = Translator.load(model, "cpu", threads, workers)

    def batched(source: Any, beam: int) -> Rows:
        hypotheses = search(translator.model, source, Decoding(beam=beam), translator.source.ids)
        return [best[0].ids for best in hypotheses]

    return by_length(batched, workers)


def chosen(side: str, model: Path, threads: int) -> Translate:
    """Return our translation function with ``engine: auto``."""
    from nmt.models.search import Hypothesis, search
    from nmt.translation.translator import Translator

    translator = Translator.load(model, "cpu", threads, threads)

    def translate(rows: Rows, beam: int, size: int) -> Rows:
        decoding = Decoding(beam=beam, engine="auto")
        engine = translator.engines.choose(decoding)
        if not engine:
            sys.exit("CTranslate2 cannot search with this model")

        def again(part: list[int]) -> list[list[Hypothesis]]:
            return search(translator.model, padded([rows[i] for i in part]), decoding, translator.source.ids)

        batches = parts(rows, size)
        found = engine.search(rows, batches, decoding, again)
        translations = {
            i: best[0].ids for batch, results in zip(batches, found, strict=True)
            for i, best in zip(batch, results, strict=True)
        }  # fmt: skip
        return [translations[i] for i in range(len(rows))]

    return translate


def parts(rows: Rows, size: int) -> Rows:
    """Divide sentences into batches of similar length, longest first; return their indices."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def padded(rows: Rows) -> Any:
    """Return sentences as one tensor, with BOS and EOS."""
    import torch

    batch = torch.zeros(len(rows), max(map(len, rows)) + 2, dtype=torch.long)
    for line, row in zip(batch, rows, strict=True):
        line[: len(row) + 2] = torch.tensor([2, *row, 3])
    return batch


def by_length(search: Callable[[Any, int], Rows], workers: int = 1) -> Translate:
    """Search in padded batches of sentences of similar length, with BOS and EOS."""
    import torch

    from nmt.system.workers import parallel_map

    def translate(rows: Rows, beam: int, size: int) -> Rows:
        batches = parts(rows, size)

        @torch.inference_mode()
        def search_batch(part: list[int]) -> Rows:
            return [until_end(ids) for ids in search(padded([rows[i] for i in part]), beam)]

        translations: dict[int, list[int]] = {}
        for part, ids in zip(batches, parallel_map(search_batch, batches, workers), strict=True):
            translations |= zip(part, ids, strict=True)
        return [translations[i] for i in range(len(rows))]

    return translate


def until_end(ids: list[int]) -> list[int]:
    """Return the pieces before EOS."""
    return ids[: ids.index(3)] if 3 in ids else ids


def theirs(side: str, model: Path, threads: int) -> Translate:
    """Return the translation function of another Python toolkit; exit with the reason if its layers differ."""
    import torch

    from benchmarks.peer_search import SEARCHES as THEIRS
    from nmt.translation.translator import Translator

    torch.set_num_threads(threads)
    translator = Translator(model, torch.device("cpu"))  # `load` would also set the allocator and the kernels
    config = translator.model.config
    assert config.kind == "transformer" and config.activation == "relu" and config.context == "none", config
    assert config.tied != "none" and config.decoder_layers in (None, config.layers), config
    norm, search = THEIRS[side]
    if norm != config.norm:
        sys.exit(f"its layers are {norm}-norm")
    m = {"layers": config.layers, "width": config.width, "ffn": config.ffn, "heads": config.heads, "dropout": 0.0}
    return by_length(search(translator.model, m, read_json(model / "config.json")["vocabulary"]))


def fast(side: str, model: Path, threads: int) -> Translate:
    """Return the translation function of CTranslate2 in fp32."""
    import ctranslate2

    from nmt.translation.export import export
    from nmt.translation.translator import Translator

    translator = Translator.load(model, "cpu", threads)
    workers = threads if "workers" in side else 1
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder, "model"), "ctranslate2")
        engine = ctranslate2.Translator(
            str(Path(folder, "model")), inter_threads=workers, intra_threads=threads // workers, compute_type="float32"
        )
    ids = {piece: i for i, piece in enumerate(translator.target.pieces(range(len(translator.target))))}

    def translate(rows: Rows, beam: int, size: int) -> Rows:
        pieces = [translator.source.pieces(row) for row in rows]
        results = engine.translate_batch(
            pieces, beam_size=beam, max_batch_size=size, batch_type="examples", min_decoding_length=0,
            max_decoding_length=2 * max(map(len, rows)) + 10,
        )  # fmt: skip
        return [[ids[piece] for piece in result.hypotheses[0]] for result in results]

    return translate


def run_side(side: str, model: Path, source: Path, limit: int, threads: int) -> dict[str, Any]:
    """Run all searches of a side in this process; return its speeds in sentences per second, and its pieces."""
    from nmt.text.subwords import Vocabulary

    lines = [line for line in read_lines(source) if line][:limit]
    rows = Vocabulary(model / "source.model").encode(lines)
    own = {"ours": ours, "ours, workers": ours, "ours, auto": chosen, "CTranslate2": fast, "CTranslate2, workers": fast}
    translate = own.get(side, theirs)(side, model, threads)
    for beam in SEARCHES.values():
        translate(rows[:10], beam, 1)  # warm-up: kernels for new shapes, programs of Sockeye for each search
    results: dict[str, Any] = {}
    for name, beam in SEARCHES.items():
        speeds = {}
        for size in (1, *SIZES):
            sample = rows[:: max(1, len(rows) // ALONE)] if size == 1 else rows
            started = time.perf_counter()
            pieces = translate(sample, beam, size)
            speeds[size] = len(sample) / (time.perf_counter() - started)
        results[name] = {"alone": speeds.pop(1), "best": max(speeds.values()), "pieces": pieces}
    of_workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if side == "ours, workers" else 0.0
    return results | {"memory": peak_memory() + threads * of_workers}


def sides() -> Iterator[tuple[str, Path | None, str]]:
    """Iterate over the sides: name, folder of packages, and the reason why the side cannot run, or an empty text."""
    from benchmarks.peers import FOLDER, PEERS, missing

    own = ("ours", "ours, workers", "ours, auto", "CTranslate2", "CTranslate2, workers")
    yield from ((name, None, "") for name in own)
    for name in PEERS:
        if FOLDER.is_dir():
            yield name, FOLDER / name, missing(name)


def table_rows(search: str, results: dict[str, list[dict[str, Any]]], failed: dict[str, str]) -> list[Any]:
    """Return the table lines of a search: the sides that ran, and the failed sides with the reason."""
    lines: list[Any] = []
    our_speeds = {kind: statistics.median(run[search][kind] for run in results["ours"]) for kind in ("alone", "best")}
    expected = results["ours"][0][search]["pieces"]
    for name, runs in results.items():
        alone, best = ([run[search][kind] for run in runs] for kind in ("alone", "best"))
        pieces = runs[0][search]["pieces"]
        equal = sum(a == b for a, b in zip(pieces, expected, strict=True)) / len(expected)
        lines.append((
            search, name, f"{statistics.median(alone):,.1f}", f"{statistics.median(alone) / our_speeds['alone']:.2f}",
            f"{statistics.median(best):,.0f}", f"{min(best):,.0f}–{max(best):,.0f}",
            f"{statistics.median(best) / our_speeds['best']:.2f}", f"{equal:.1%}",
            f"{statistics.median(run['memory'] for run in runs):,.0f}",
        ))  # fmt: skip
    return lines + [(search, name, reason, *["–"] * 6) for name, reason in failed.items()]


@click.command()
@click.argument("model", type=click.Path(path_type=Path), default=TRAINED)
@click.argument("source", type=click.Path(path_type=Path), default=TEXT)
@click.option("--limit", default=1000)
@click.option("--rounds", default=3)
@click.option("--threads", default=2)
@click.option("--only", multiple=True, help="Run this side, and ours; can be given several times.")
@click.option("--side", hidden=True, help="Run one side in this process.")
def main(
    model: Path, source: Path, limit: int, rounds: int, threads: int, only: tuple[str, ...], side: str | None
) -> None:
    """Print one table: sentences per second, greedy and with beam 5, one by one and in the best batches."""
    if side:
        return print(json.dumps(run_side(side, model, source, limit, threads)))
    if not model.is_dir():
        raise click.ClickException(f"{model}: no such model directory; run `make run` first, or name another directory")
    results: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for name, path, reason in sides():
            if only and name not in ("ours", *only):
                continue
            try:
                if reason or name in failed:
                    raise Failed(reason or failed[name])
                options = ("--limit", limit, "--threads", threads, "--side", name)
                results.setdefault(name, []).append(process("decoding", model, source, *options, path=path))
            except Failed as error:
                if name == "ours":
                    raise
                failed[name] = str(error)
                results.pop(name, None)
            print(f"{name}: {failed.get(name, 'done')}", file=sys.stderr, flush=True)
    lines = [line for search in SEARCHES for line in table_rows(search, results, failed)]
    count = len(results["ours"][0]["greedy"]["pieces"])
    print(table(HEADINGS, lines), f"{count:,} sentences, {rounds} rounds. {environment(threads)}", sep="\n\n")


if __name__ == "__main__":
    main()
