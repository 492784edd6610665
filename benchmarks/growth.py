"""Measure how the cost of training grows with batch, model width, vocabulary and sentence length.

    python -m benchmarks.growth [--threads 2] [--updates 4]

The text consists of random ids; source and target have the same lengths. `nmt.training` trains each point in its own
process. One quantity grows at a time. The others remain at the small Transformer, a vocabulary of 8,192, sentences of
16 pieces and batches of 4,096 tokens. The figure is ``benchmarks/growth.png`` and ``.svg``.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.measure import environment, peak_memory, process, table
from nmt.config.data import SpecialIds
from nmt.system.arrays import Indices
from nmt.system.files import write_json
from nmt.text.subwords import SIDES

FIXED = {"tokens": 4096, "width": 128, "vocabulary": 8192, "length": 16}
GROWING = {
    "tokens": (512, 1024, 2048, 4096, 8192, 16384),
    "width": (64, 128, 256, 512),
    "vocabulary": (4096, 8192, 16384, 32768, 65536),
    "length": (10, 30, 100, 250, 500),
}
TITLES = {"tokens": "tokens a batch", "width": "width", "vocabulary": "vocabulary", "length": "pieces a sentence"}
FIGURE = Path(__file__).with_name("growth")
WARM = 2  # updates before the measurement
Point = dict[str, float]  # the values of a point, its speed and its memory


def synthetic(folder: Path, vocabulary: int, lengths: Sequence[Indices]) -> None:
    """Write an encoded corpus of random ids. It has only the files that training reads.

    Args:
        folder: an existing folder.
        vocabulary: number of pieces of each side.
        lengths: pieces of each sentence, without BOS and EOS, of the source and the target side.
    """
    import sentencepiece

    random = np.random.default_rng(1)
    for split in ("train", "valid"):
        for side, of_side in zip(SIDES, lengths, strict=True):
            ids = random.integers(4, vocabulary, of_side.sum())
            np.save(folder / f"{split}.{side}.npy", ids.astype(np.uint16 if vocabulary <= 2**16 else np.int32))
            np.save(folder / f"{split}.{side}.offsets.npy", np.concatenate([[0], of_side.cumsum()]))
    special = SpecialIds()
    sentencepiece.SentencePieceTrainer.train(  # validation needs a vocabulary, but decodes nothing
        sentence_iterator=iter(["a b"]), model_prefix=str(folder / "target"), model_type="word", hard_vocab_limit=False,
        pad_id=special.pad, unk_id=special.unk, bos_id=special.bos, eos_id=special.eos, minloglevel=2,
    )  # fmt: skip
    (folder / "valid.references.txt").write_text("a\n" * len(lengths[0]))
    sizes = dict.fromkeys(SIDES, vocabulary)
    subwords = {"subwords": {"joint": False}}
    meta = {
        "languages": "en-de",
        "splits": {"train": {}, "valid": {}},
        "cleaning": {},
        "vocabulary": sizes,
        "ids": special.model_dump(),
    }
    write_json(folder / "meta.json", meta | {"subwords": subwords})


def train(tokens: int, width: int, vocabulary: int, length: int, updates: int, threads: int) -> Point:
    """Train in this process; return target pieces per second and peak memory in MiB."""
    from nmt.system import machine
    from nmt.training.experiment import Experiment
    from nmt.training.trainer import Trainer

    device = machine.prepare("cpu", threads)
    longest = length + 2
    model = {"layers": 2, "width": width, "ffn": 4 * width, "heads": width // 64, "max_positions": max(512, longest)}
    training = {"batch": f"{max(tokens, longest)} tokens", "updates": updates + WARM}
    with tempfile.TemporaryDirectory() as folder:
        lengths = np.full((updates + WARM) * max(1, tokens // longest), length)
        synthetic(Path(folder), vocabulary, (lengths, lengths))
        settings = Experiment.model_validate({"model": model, "training": training})
        trainer = Trainer(Path(folder), Path(folder, "state"), settings, 1, device)
        trainer.model.train()
        pieces, seconds = 0, 0.0
        for update in islice(trainer.updates.after(trainer.progress), updates + WARM):
            started = time.perf_counter()
            trainer.train_on(update)
            if update.number > WARM:
                pieces, seconds = pieces + update.pieces, seconds + time.perf_counter() - started
    return {"speed": pieces / seconds, "memory": peak_memory()}


def draw(points_of: dict[str, list[Point]], out: Path) -> None:
    """Draw one panel per growing quantity: speed on the left axis, peak memory on the right axis."""
    from nmt.report.figures.plots import COLOURS, STYLE, pyplot, save

    with pyplot.rc_context(STYLE | {"axes.spines.right": True}):
        canvas, panels = pyplot.subplots(2, 2, figsize=(9.6, 6.8), layout="constrained")
        for axes, (name, points) in zip(panels.flat, points_of.items(), strict=True):
            memory_axes = axes.twinx()
            values = [point[name] for point in points]
            axes.plot(values, [point["speed"] for point in points], color=COLOURS[0], marker="o")
            memory_axes.plot(
                values, [point["memory"] for point in points], color=COLOURS[1], marker="s", linestyle="--"
            )
            axes.set(xscale="log", xlabel=TITLES[name], ylim=(0, None))
            axes.set_xticks(values, [f"{value:,}" for value in values], rotation=30)
            axes.minorticks_off()
            axes.set_ylabel("target pieces/s", color=COLOURS[0])
            memory_axes.set_ylabel("peak memory, MiB (dashed)", color=COLOURS[1])
            memory_axes.set_ylim(0, None)
            memory_axes.grid(visible=False)
        canvas.suptitle("Cost of training")
        save(canvas, out)


def rows(points_of: dict[str, list[Point]]) -> list[list[str]]:
    """Return the lines of the table."""
    return [
        [TITLES[name], f"{point[name]:,}", f"{point['speed']:,.0f}", f"{point['memory']:,.0f}"]
        for name, points in points_of.items() for point in points
    ]  # fmt: skip


@click.command()
@click.option("--threads", default=2)
@click.option("--updates", default=4)
@click.option("--out", default=FIGURE, type=click.Path(path_type=Path), help="The figure, without an ending.")
@click.option("--point", hidden=True, help="Measure one point in this process.")
def main(threads: int, updates: int, out: Path, point: str | None) -> None:
    """Print one table and draw one figure: speed and peak memory against each growing quantity."""
    if point:
        return print(json.dumps(train(**json.loads(point), updates=updates, threads=threads)))
    points_of: dict[str, list[Point]] = {}
    for name, values in GROWING.items():
        for value in values:
            settings: dict[str, Any] = FIXED | {name: value}
            options = ("--point", json.dumps(settings), "--threads", threads, "--updates", updates)
            points_of.setdefault(name, []).append(settings | process("growth", *options))
            print(points_of[name][-1], file=sys.stderr, flush=True)
    draw(points_of, out)
    print(table(("what grows", "to", "target pieces/s", "peak memory, MiB"), rows(points_of)))
    print(f"\n![speed and memory](../{out.name}.png)\n\n{updates} updates a point. {environment(threads)}")


if __name__ == "__main__":
    main()
