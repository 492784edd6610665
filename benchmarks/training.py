"""Compare training speed with a plain PyTorch loop and with other toolkits, in one run in which all take turns.

    python -m benchmarks.training [--threads 2] [--rounds 3] [--recipes small,tiny,lstm,large]

Every side trains a model of the same sizes on the same padded batches of Multi30K English→German: forward, backward
and a step of Adam. Each side runs in its own process, because the settings of the allocator hold for a whole process.
The sides take turns in each round, because machines are noisy.

The plain loop is `torch.nn.Transformer`, or `torch.nn.LSTM` with the same attention, with `F.cross_entropy` on the
scores of all words. Ours is `nmt.training`. Other toolkits (`benchmarks.peers`) train their own model class with their
own loss. The number of weights in matrices, without positions, must equal that of the plain model. Biases and norms
may differ, because toolkits place them differently. For an LSTM, up to 3 % may differ: some toolkits have one matrix
between the states of encoder and decoder, others one per layer and state.

Speed is target pieces per second. Peak share compares arithmetic with the speed of square matrix products in the same
run. The arithmetic is the matrix products per target piece, forward and backward, without padding, times the speed.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import Failed, environment, matrix_peak, middle, peak_memory, process, table
from nmt.config.data import Cleaning, Subwords
from nmt.corpora.catalogue import fetch
from nmt.data.batches import Batch, Parallel
from nmt.data.encode import encode_corpus
from nmt.system.files import read_json
from nmt.text.clean import clean
from nmt.text.subwords import learn

RECIPES: dict[str, dict[str, Any]] = {
    "small": {
        "model": {"layers": 2, "width": 128, "ffn": 512, "heads": 2, "dropout": 0.1},
        "batch": "4096 tokens", "updates": (10, 20),
    },
    "tiny": {
        "model": {"layers": 4, "width": 128, "ffn": 256, "heads": 4, "dropout": 0.3},
        "batch": "8192 tokens", "updates": (4, 8),
    },
    "lstm": {
        "model": {
            "kind": "recurrent", "layers": 2, "width": 256, "bidirectional": True, "tied": "none", "dropout": 0.2,
            "attention": {"kind": "global", "score": "general"},
        },
        "batch": "128 sentences", "updates": (4, 8),
    },
    "large": {
        "model": {"layers": 6, "width": 512, "ffn": 2048, "heads": 8, "dropout": 0.1},
        "batch": "2048 tokens", "updates": (2, 4),
    },
}  # fmt: skip
"""For each recipe: the model, the batch, and the numbers of warm-up updates and of measured updates.

With AMX, oneDNN compiles kernels in the first updates, so there are several of them.
"""

HEADINGS = ("recipe", "side", "parameters", "pieces/s", "least–most", "of plain", "peak share", "memory, MiB")
Measured = dict[str, float]  # speed, memory, weights in matrices, parameters


def prepare(folder: Path, words: bool) -> Path:
    """Download and encode Multi30K with 8,192 joint BPE pieces or with whole words; return the encoded folder."""
    fetch("multi30k", "en-de", folder / "raw", mirror=None, limit=None, custom=None)
    clean(folder / "raw", folder / "clean", Cleaning(), "en-de", 2)
    subwords = Subwords(kind="words", size=25000, joint=False) if words else Subwords(size=8192)
    learn(folder / "clean", folder / "subwords", "en-de", subwords)
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


def batches_of(encoded: Path, recipe: str) -> list[Batch]:
    """Return the batches of every side, in the same order."""
    data = Parallel(encoded, "train")
    return [data.batch(i) for i in data.batches(RECIPES[recipe]["batch"], (1, 0))[: sum(RECIPES[recipe]["updates"])]]


def timed(batches: list[Batch], warm: int, update: Callable[[Batch], Any]) -> float:
    """Return the target pieces per second of a loop, without its warm-up updates."""
    for batch in batches[:warm]:
        update(batch)
    started = time.perf_counter()
    for batch in batches[warm:]:
        update(batch)
    return sum(b.pieces for b in batches[warm:]) / (time.perf_counter() - started)


def ours(encoded: Path, recipe: str, threads: int, precision: str) -> Measured:
    """Measure our `nmt.training.trainer`."""
    from nmt.system import machine
    from nmt.training.experiment import Experiment
    from nmt.training.trainer import Trainer

    device, chosen = machine.prepare("cpu", threads), RECIPES[recipe]
    training = {"batch": chosen["batch"], "epochs": 1, "precision": precision}
    settings = Experiment.model_validate({"model": chosen["model"], "training": training})
    with tempfile.TemporaryDirectory() as state:
        trainer = Trainer(encoded, Path(state), settings, 1, device)
        trainer.model.train()
        updates = trainer.updates.after(trainer.progress)
        speed = timed(batches_of(encoded, recipe), chosen["updates"][0], lambda _: trainer.train_on(next(updates)))
    return measured(trainer.model, speed)


def theirs(encoded: Path, recipe: str, threads: int, side: str) -> Measured:
    """Measure the plain loop, or another toolkit's model and loss, with torch's Adam."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    chosen, sizes = RECIPES[recipe], read_json(encoded / "meta.json")["vocabulary"]
    model, loss = adapter(side, recipe)(chosen["model"], sizes)
    model.train()
    adam = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)

    def update(batch: Batch) -> None:
        loss(batch).backward()
        adam.step()
        adam.zero_grad()

    return measured(model, timed(batches_of(encoded, recipe), chosen["updates"][0], update))


def measured(model: Any, speed: float) -> Measured:
    """Return the figures of a side. Learned positions count as parameters, but not as matrices."""
    weights = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = sum(p.numel() for name, p in weights if p.dim() > 1 and "position" not in name)
    total = sum(p.numel() for _, p in weights)
    return {"speed": speed, "memory": peak_memory(), "matrices": matrices, "parameters": total}


def adapter(side: str, recipe: str) -> Callable[..., tuple[Any, Callable[[Batch], Any]]]:
    """Return the function that makes a side's model for a recipe."""
    from benchmarks.peers import PEERS

    if side == "plain":
        return plain
    peer = PEERS[side]
    toolkit_adapter = peer.recurrent if "kind" in RECIPES[recipe]["model"] else peer.transformer
    assert toolkit_adapter
    return toolkit_adapter


def plain(m: dict[str, Any], sizes: dict[str, int]) -> tuple[Any, Callable[[Batch], Any]]:
    """Return the plain model and its loss."""
    import torch.nn.functional as F

    model = plain_recurrent(m, sizes) if m.get("kind") == "recurrent" else plain_transformer(m, sizes)

    def loss(batch: Batch) -> Any:
        scores = model(batch.source, batch.target[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=0)

    return model, loss


def plain_transformer(m: dict[str, Any], sizes: dict[str, int]) -> Any:
    """`torch.nn.Transformer` whose output projection is tied to the target embedding."""
    from torch import nn

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (nn.Embedding(sizes[side], m["width"]) for side in ("source", "target"))
            layers, width = m["layers"], m["width"]
            self.body = nn.Transformer(width, m["heads"], layers, layers, m["ffn"], m["dropout"], batch_first=True)
            self.projection = nn.Linear(width, sizes["target"], bias=False)
            self.projection.weight = self.target.weight

        def forward(self, source: Any, target: Any) -> Any:
            causal, padding = nn.Transformer.generate_square_subsequent_mask(target.shape[1]), source == 0
            hidden = self.body(self.source(source), self.target(target), tgt_mask=causal, tgt_is_causal=True,
                               src_key_padding_mask=padding, memory_key_padding_mask=padding)  # fmt: skip
            return self.projection(hidden)

    return Plain()


def plain_recurrent(m: dict[str, Any], sizes: dict[str, int]) -> Any:
    """`torch.nn.LSTM` as encoder, on packed sequences, and as decoder, with bilinear global attention."""
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = m["width"]
            self.source, self.target = (nn.Embedding(sizes[side], width) for side in ("source", "target"))
            self.encoder, self.decoder = (
                nn.LSTM(width, width, m["layers"], batch_first=True, dropout=m["dropout"], bidirectional=both)
                for both in (True, False)
            )
            self.bridge = nn.Linear(2 * width, width)
            self.keys, self.combine = nn.Linear(2 * width, width, bias=False), nn.Linear(3 * width, width)
            self.projection, self.dropout = nn.Linear(width, sizes["target"]), nn.Dropout(m["dropout"])

        def forward(self, source: Any, target: Any) -> Any:
            words = self.dropout(self.source(source))
            packed = pack_padded_sequence(words, (source != 0).sum(1), batch_first=True, enforce_sorted=False)
            packed, state = self.encoder(packed)
            memory, _ = pad_packed_sequence(packed, batch_first=True)
            ways = (part.view(m["layers"], 2, *part.shape[1:]).transpose(1, 2).flatten(2) for part in state)
            state = tuple(torch.tanh(self.bridge(part)) for part in ways)
            hidden, _ = self.decoder(self.dropout(self.target(target)), state)
            scores = hidden @ self.keys(memory).transpose(1, 2)
            weights = scores.masked_fill((source == 0)[:, None], -torch.inf).softmax(-1)
            return self.projection(self.dropout(torch.tanh(self.combine(torch.cat([hidden, weights @ memory], -1)))))

    return Plain()


def flops(m: dict[str, Any], vocabulary: int, batches: Sequence[Batch]) -> float:
    """Count the operations of matrix products per target piece, forward and backward, without padding."""
    source = [(b.source != 0).sum(1).double() for b in batches]
    target = [(b.target != 0).sum(1).double() - 1 for b in batches]
    s, t = (float(sum(part.sum() for part in side)) for side in (source, target))
    ss, tt, ts = (
        float(sum((a * b).sum() for a, b in zip(*sides, strict=True)))
        for sides in ((source, source), (target, target), (target, source))
    )
    d, layers = m["width"], m["layers"]
    if m.get("kind") == "recurrent":
        inputs = [d] + [2 * d] * (layers - 1)
        encoder = s * sum(2 * 4 * d * (size + d) for size in inputs)
        products = encoder + t * layers * 8 * d * d + s * 2 * d * d + ts * 3 * d + t * 3 * d * d
    else:
        keys_values = 2 * d * d // m["heads"] * (m.get("key_value_heads") or m["heads"])
        feed_forward = (3 if m.get("activation") in ("geglu", "swiglu") else 2) * d * m["ffn"]
        encoder = s * (2 * d * d + keys_values + feed_forward) + 2 * d * ss
        decoder = t * (4 * d * d + keys_values + feed_forward) + s * keys_values + 2 * d * (tt + ts)
        products = layers * (encoder + decoder)
    return 3 * 2 * (products + t * d * vocabulary) / t


def sides_of(recipe: str) -> Iterator[tuple[str, Path | None, str]]:
    """Iterate over the sides: name, folder of packages, and the reason why the side cannot run, or an empty text."""
    import torch

    from benchmarks.peers import FOLDER, PEERS, missing
    from nmt.system.machine import has_bfloat16

    yield from ((name, None, "") for name in ("plain", "ours"))
    yield "ours, bf16", None, "" if has_bfloat16(torch.device("cpu")) else "no instructions for it: computed in fp32"
    for name, peer in PEERS.items():
        if "kind" in RECIPES[recipe]["model"] and not peer.recurrent:
            continue
        if FOLDER.is_dir():
            yield name, FOLDER / name, missing(name)


def rows(
    recipe: str, results: dict[str, list[Measured]], failed: dict[str, str], flops_per_piece: float, peak: Measured
) -> list[Any]:
    """Return the table lines of a recipe: the sides that ran, and the failed sides with the reason."""
    plain_speed = statistics.median(m["speed"] for m in results["plain"])
    lines: list[Any] = []
    for name, runs in results.items():
        speeds = [m["speed"] for m in runs]
        excess = runs[0]["matrices"] / results["plain"][0]["matrices"] - 1
        assert excess == 0 or ("lstm" in recipe and abs(excess) < 0.03), (
            f"{name}: {runs[0]}, plain: {results['plain'][0]}"
        )
        share = statistics.median(speeds) * flops_per_piece / 1e9 / peak["bf16" if "bf16" in name else "fp32"]
        memory = statistics.median(m["memory"] for m in runs)
        lines.append((
            recipe, name, f"{runs[0]['parameters']:,}", *middle(speeds),
            f"{statistics.median(speeds) / plain_speed:.2f}", f"{share:.0%}", f"{memory:,.0f}",
        ))  # fmt: skip
    lines += [(recipe, name, reason, *["–"] * 5) for name, reason in failed.items()]
    return lines


def compare(recipe: str, rounds: int, threads: int) -> tuple[list[Any], str]:
    """Measure a recipe; return its table lines and a sentence about its arithmetic."""
    with tempfile.TemporaryDirectory() as folder:
        data = prepare(Path(folder), words="kind" in RECIPES[recipe]["model"])
        results: dict[str, list[Measured]] = {}
        failed: dict[str, str] = {}
        peaks = []
        for number in range(rounds):
            peaks.append(process("training", "--side", "peak", "--threads", threads))
            for name, path, reason in sides_of(recipe):
                try:
                    if reason or name in failed:
                        raise Failed(reason or failed[name])
                    options = ("--side", name, "--recipes", recipe, "--encoded", data, "--threads", threads)
                    results.setdefault(name, []).append(process("training", *options, path=path))
                except Failed as error:
                    if name.startswith(("plain", "ours")) and not reason:
                        raise
                    failed[name] = str(error)
                    results.pop(name, None)
                say(f"{recipe}, round {number + 1}: {name} {results.get(name, [failed.get(name)])[-1]}")
        flops_per_piece = flops(
            RECIPES[recipe]["model"], read_json(data / "meta.json")["vocabulary"]["target"], batches_of(data, recipe)
        )
    peak = {kind: statistics.median(p[kind] for p in peaks) for kind in peaks[0]}
    speeds = ", ".join(f"{speed:.0f} GFLOP/s in {kind}" for kind, speed in peak.items())
    arithmetic = f"{recipe}: {flops_per_piece / 1e6:.1f} MFLOP per target piece; peak {speeds}."
    return rows(recipe, results, failed, flops_per_piece, peak), arithmetic


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def run_side(side: str, encoded: Path, recipe: str, threads: int) -> Measured:
    """Measure one side in this process."""
    if side == "peak":
        return matrix_peak(threads)
    if side.startswith("ours"):
        return ours(encoded, recipe, threads, "bf16" if "bf16" in side else "fp32")
    return theirs(encoded, recipe, threads, side)


@click.command()
@click.option("--threads", default=2)
@click.option("--rounds", default=3)
@click.option("--recipes", default=",".join(RECIPES))
@click.option("--side", hidden=True, help="Run one side in this process.")
@click.option("--encoded", hidden=True, type=click.Path(path_type=Path))
def main(threads: int, rounds: int, recipes: str, side: str | None, encoded: Path) -> None:
    """Print one table: target pieces per second of each side, their ratio to the plain loop, peak share and memory."""
    if side:
        return print(json.dumps(run_side(side, encoded, recipes, threads)))
    lines, sentences = [], []
    for recipe in recipes.split(","):
        lines_of_recipe, sentence = compare(recipe, rounds, threads)
        lines += lines_of_recipe
        sentences.append(sentence)
    print(table(HEADINGS, lines), *sentences, f"{rounds} rounds. {environment(threads)}", sep="\n\n")


if __name__ == "__main__":
    main()
