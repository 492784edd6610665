"""Training and decoding speed beside a plain PyTorch loop, as ratios from one alternating run.

    python benchmarks/training.py [--threads 2] [--rounds 5]

The plain loop is `torch.nn.Transformer` of the same sizes, full logits, `F.cross_entropy`, Adam, the same batches.
Each side runs in a process of its own (the allocator's settings hold for a whole process); rounds alternate, since
machines are noisy; medians are printed.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from nmt.config import Cleaning, Subwords
from nmt.corpora import fetch
from nmt.data import Batch, Parallel, encode_corpus
from nmt.files import read_json
from nmt.subwords import learn
from nmt.text.clean import clean

RECIPES = {
    "small": {"model": {"layers": 2, "width": 128, "ffn": 512, "heads": 2, "dropout": 0.1}, "batch": "4096 tokens"},
    "tiny": {"model": {"layers": 4, "width": 128, "ffn": 256, "heads": 4, "dropout": 0.3}, "batch": "8192 tokens"},
}
UPDATES, WARM = 24, 6


def prepare(folder: Path) -> Path:
    """Multi30K if a mirror or the network has it, encoded by 8,192 joint BPE pieces."""
    fetch("multi30k", "en-de", folder / "raw", mirror=None, limit=None, custom=None)
    clean(folder / "raw", folder / "clean", Cleaning(), "en-de", 2)
    learn(folder / "clean", folder / "subwords", "en-de", Subwords(size=8192))
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


def ours(encoded: Path, recipe: str, threads: int) -> float:
    """Target pieces a second of `nmt.training`."""
    from nmt import runtime
    from nmt.training import Experiment, Trainer

    device = runtime.prepare("cpu", threads)
    settings = {"model": RECIPES[recipe]["model"], "training": {"batch": RECIPES[recipe]["batch"], "epochs": 1}}
    with tempfile.TemporaryDirectory() as state:
        trainer = Trainer(encoded, Path(state), Experiment.model_validate(settings), 1, device)
        trainer.model.train()
        steps = [step for step, _ in zip(trainer._steps(), range(UPDATES), strict=False)]
        for step in steps[:WARM]:
            trainer._update(step)
        started = time.perf_counter()
        for step in steps[WARM:]:
            trainer._update(step)
        return sum(b.pieces for s in steps[WARM:] for b in s.batches) / (time.perf_counter() - started)


def plain(encoded: Path, recipe: str, threads: int) -> float:
    """Target pieces a second of the plain loop."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)
    m = RECIPES[recipe]["model"]
    vocabulary = read_json(encoded / "meta.json")["vocabulary"]["target"]
    source, target = nn.Embedding(vocabulary, m["width"]), nn.Embedding(vocabulary, m["width"])
    model = nn.Transformer(m["width"], m["heads"], m["layers"], m["layers"], m["ffn"], m["dropout"], batch_first=True)
    projection = nn.Linear(m["width"], vocabulary, bias=False)
    projection.weight = target.weight
    adam = torch.optim.Adam([*source.parameters(), *target.parameters(), *model.parameters()], lr=1e-4)
    data = Parallel(encoded, "train")
    batches = [data.batch(i) for i in data.batches(RECIPES[recipe]["batch"], (1, 0))[:UPDATES]]

    def update(batch: Batch) -> None:
        inputs, expected = batch.target[:, :-1], batch.target[:, 1:]
        causal = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
        padding = batch.source == 0
        hidden = model(source(batch.source), target(inputs), tgt_mask=causal, tgt_is_causal=True,
                       src_key_padding_mask=padding, memory_key_padding_mask=padding)  # fmt: skip
        F.cross_entropy(projection(hidden).flatten(0, 1), expected.flatten(), ignore_index=0).backward()
        adam.step()
        adam.zero_grad()

    for batch in batches[:WARM]:
        update(batch)
    started = time.perf_counter()
    for batch in batches[WARM:]:
        update(batch)
    return sum(b.pieces for b in batches[WARM:]) / (time.perf_counter() - started)


@click.command()
@click.option("--threads", default=2)
@click.option("--rounds", default=5)
@click.option("--side", hidden=True, help="Run one side in this process: ours or plain.")
@click.option("--recipe", hidden=True)
@click.option("--encoded", hidden=True, type=click.Path(path_type=Path))
def main(threads: int, rounds: int, side: str | None, recipe: str, encoded: Path) -> None:
    """Print one table: target pieces a second, ours and the plain loop's, and their ratio."""
    if side:
        return print(json.dumps({"ours": ours, "plain": plain}[side](encoded, recipe, threads)))
    with tempfile.TemporaryDirectory() as folder:
        data = prepare(Path(folder))
        print("| recipe | plain loop | ours | ratio |\n|---|---|---|---|")
        for name in RECIPES:
            speeds: dict[str, list[float]] = {"plain": [], "ours": []}
            for _ in range(rounds):
                for which, found in speeds.items():
                    command = [sys.executable, __file__, "--side", which, "--recipe", name, "--encoded", str(data)]
                    output = subprocess.run(
                        [*command, "--threads", str(threads)], capture_output=True, check=True
                    ).stdout
                    found.append(json.loads(output))
            a, b = (statistics.median(speeds[side]) for side in ("plain", "ours"))
            print(f"| {name} | {a:,.0f} | {b:,.0f} | {b / a:.2f} |", flush=True)


if __name__ == "__main__":
    main()
