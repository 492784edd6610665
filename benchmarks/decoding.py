"""Translating speed with the same weights: ours, CTranslate2, and the toolkits in Python that can hold them.

    python -m benchmarks.decoding [MODEL SOURCE] [--limit 1000] [--rounds 3] [--threads 2]

SOURCE is cleaned text; model and text are those of `make run` if not given. Each side runs in a process of its own with
as many threads, and rounds alternate; loading is left out. Ours and CTranslate2 run once with all threads on one batch,
once with a worker a thread: ours are processes, as in `nmt decode`, begun anew for each measurement; their memory is
the sum, what they share counted in each. Other toolkits hold our weights in their own Transformer and search in their
own way (`benchmarks.peer_search`): transformers, Sockeye, fairseq and JoeyNMT those of a post-norm model, OpenNMT-py
and eole those of a pre-norm one; the others are named with that reason. The longest translation is twice the source and
ten pieces more for all (CTranslate2: of the longest source of all; toolkits other than Sockeye: of a batch's longest).
Batches are of sentences of like length; the best of several sizes counts. Equal: the share of sentences with the same
pieces as ours.
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
from nmt.system.files import read_json, read_lines

SEARCHES = {"greedy": 1, "beam 5": 5}
SIZES = (32, 128, 512)  # sentences a batch
ALONE = 50  # sentences that are translated one by one
HEADINGS = (
    "search", "side", "one by one, sentences/s", "of ours", "best batch, sentences/s", "least–most", "of ours", "equal",
    "memory, MiB",
)  # fmt: skip

Rows = list[list[int]]
Translate = Callable[[Rows, int, int], Rows]  # source pieces, beam, sentences a batch; pieces without BOS and EOS


def ours(side: str, model: Path, threads: int) -> Translate:
    """`nmt.models.search`."""
    from nmt.models.search import search
    from nmt.translation.translator import Translator

    workers = threads if "workers" in side else 1
    translator = Translator.load(model, "cpu", threads, workers)

    def batched(source: Any, beam: int) -> Rows:
        found = search(translator.model, source, Decoding(beam=beam), translator.source.ids)
        return [best[0].ids for best in found]

    return by_length(batched, workers)


def by_length(search: Callable[[Any, int], Rows], workers: int = 1) -> Translate:
    """Search in batches of sentences of like length, padded, BOS and EOS around each."""
    import torch

    from nmt.system.workers import shared_out

    def translate(rows: Rows, beam: int, size: int) -> Rows:
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        parts = [order[start : start + size] for start in range(0, len(order), size)]

        @torch.inference_mode()
        def searched(part: list[int]) -> Rows:
            padded = torch.zeros(len(part), len(rows[part[0]]) + 2, dtype=torch.long)
            for row, i in zip(padded, part, strict=True):
                row[: len(rows[i]) + 2] = torch.tensor([2, *rows[i], 3])
            return [until_end(ids) for ids in search(padded, beam)]

        found: dict[int, list[int]] = {}
        for part, ids in zip(parts, shared_out(searched, parts, workers), strict=True):
            found |= zip(part, ids, strict=True)
        return [found[i] for i in range(len(rows))]

    return translate


def until_end(ids: list[int]) -> list[int]:
    """Pieces before EOS."""
    return ids[: ids.index(3)] if 3 in ids else ids


def theirs(side: str, model: Path, threads: int) -> Translate:
    """Another toolkit in Python, with our weights; ends with the reason if its layers differ."""
    import torch

    from benchmarks.peer_search import SEARCHES as THEIRS
    from nmt.translation.translator import Translator

    torch.set_num_threads(threads)
    translator = Translator(model, torch.device("cpu"))  # `load` would set the allocator and the kernels too
    config = translator.model.config
    assert config.kind == "transformer" and config.activation == "relu" and config.context == "none", config
    assert config.tied != "none" and config.decoder_layers in (None, config.layers), config
    norm, search = THEIRS[side]
    if norm != config.norm:
        sys.exit(f"its layers are {norm}-norm")
    m = {"layers": config.layers, "width": config.width, "ffn": config.ffn, "heads": config.heads, "dropout": 0.0}
    return by_length(search(translator.model, m, read_json(model / "config.json")["vocabulary"]))


def fast(side: str, model: Path, threads: int) -> Translate:
    """CTranslate2, fp32."""
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
    written = {piece: i for i, piece in enumerate(translator.target.pieces(range(len(translator.target))))}

    def translate(rows: Rows, beam: int, size: int) -> Rows:
        pieces = [translator.source.pieces(row) for row in rows]
        found = engine.translate_batch(
            pieces, beam_size=beam, max_batch_size=size, batch_type="examples", min_decoding_length=0,
            max_decoding_length=2 * max(map(len, rows)) + 10,
        )  # fmt: skip
        return [[written[piece] for piece in result.hypotheses[0]] for result in found]

    return translate


def run_side(side: str, model: Path, source: Path, limit: int, threads: int) -> dict[str, Any]:
    """All searches of a side in this process: sentences a second by batch size, and the pieces found."""
    from nmt.text.subwords import Vocabulary

    lines = [line for line in read_lines(source) if line][:limit]
    rows = Vocabulary(model / "source.model").encode(lines)
    make = ours if side.startswith("ours") else fast if side.startswith("CTranslate2") else theirs
    translate = make(side, model, threads)
    for beam in SEARCHES.values():
        translate(rows[:10], beam, 1)  # kernels are made for new shapes, Sockeye's programs for each search
    found: dict[str, Any] = {}
    for name, beam in SEARCHES.items():
        speeds = {}
        for size in (1, *SIZES):
            some = rows[:: max(1, len(rows) // ALONE)] if size == 1 else rows
            started = time.perf_counter()
            pieces = translate(some, beam, size)
            speeds[size] = len(some) / (time.perf_counter() - started)
        found[name] = {"alone": speeds.pop(1), "best": max(speeds.values()), "pieces": pieces}
    of_workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if side == "ours, workers" else 0.0
    return found | {"memory": peak_memory() + threads * of_workers}


def sides() -> Iterator[tuple[str, Path | None, str]]:
    """Each side, the folder that its process needs, and why it cannot run, if so."""
    from benchmarks.peers import FOLDER, PEERS, missing

    yield from ((name, None, "") for name in ("ours", "ours, workers", "CTranslate2", "CTranslate2, workers"))
    for name in PEERS:
        if FOLDER.is_dir():
            yield name, FOLDER / name, missing(name)


def table_rows(search: str, found: dict[str, list[dict[str, Any]]], failed: dict[str, str]) -> list[Any]:
    """The lines of a search: sides that ran, and those that did not with the reason."""
    lines: list[Any] = []
    mine = {kind: statistics.median(run[search][kind] for run in found["ours"]) for kind in ("alone", "best")}
    expected = found["ours"][0][search]["pieces"]
    for name, runs in found.items():
        alone, best = ([run[search][kind] for run in runs] for kind in ("alone", "best"))
        pieces = runs[0][search]["pieces"]
        equal = sum(a == b for a, b in zip(pieces, expected, strict=True)) / len(expected)
        lines.append((
            search, name, f"{statistics.median(alone):,.1f}", f"{statistics.median(alone) / mine['alone']:.2f}",
            f"{statistics.median(best):,.0f}", f"{min(best):,.0f}–{max(best):,.0f}",
            f"{statistics.median(best) / mine['best']:.2f}", f"{equal:.1%}",
            f"{statistics.median(run['memory'] for run in runs):,.0f}",
        ))  # fmt: skip
    return lines + [(search, name, why, *["–"] * 6) for name, why in failed.items()]


@click.command()
@click.argument("model", type=click.Path(path_type=Path), default=TRAINED)
@click.argument("source", type=click.Path(path_type=Path), default=TEXT)
@click.option("--limit", default=1000)
@click.option("--rounds", default=3)
@click.option("--threads", default=2)
@click.option("--side", hidden=True, help="Run one side in this process.")
def main(model: Path, source: Path, limit: int, rounds: int, threads: int, side: str | None) -> None:
    """Print one table: sentences a second, greedy and with beam 5, one by one and in the best batches."""
    if side:
        return print(json.dumps(run_side(side, model, source, limit, threads)))
    if not model.is_dir():
        raise click.ClickException(f"{model}: no such model directory; first: make run, or name one")
    found: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for name, path, why in sides():
            try:
                if why or name in failed:
                    raise Failed(why or failed[name])
                options = ("--limit", limit, "--threads", threads, "--side", name)
                found.setdefault(name, []).append(process("decoding", model, source, *options, path=path))
            except Failed as error:
                if name == "ours":
                    raise
                failed[name] = str(error)
                found.pop(name, None)
            print(f"{name}: {failed.get(name, 'done')}", file=sys.stderr, flush=True)
    lines = [line for search in SEARCHES for line in table_rows(search, found, failed)]
    count = len(found["ours"][0]["greedy"]["pieces"])
    print(table(HEADINGS, lines), f"{count:,} sentences, {rounds} rounds. {environment(threads)}", sep="\n\n")


if __name__ == "__main__":
    main()
