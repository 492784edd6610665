"""Training speed beside a plain PyTorch loop and other toolkits, from one run in which all take turns.

    python -m benchmarks.training [--threads 2] [--rounds 3] [--recipes small,tiny,lstm,large]

Every side trains a model of the same sizes on the same padded batches of Multi30K English→German, forward, backward and
a step of Adam, each in a process of its own (the allocator's settings hold for a whole process), and rounds alternate,
since machines are noisy. The plain loop is `torch.nn.Transformer`, or `torch.nn.LSTM` with the same attention: full
scores, `F.cross_entropy`. Ours is `nmt.training`. Other toolkits (`benchmarks.peers`) train their own model class with
their own loss. That sizes agree is checked: the weights in matrices, positions apart, are as many as the plain model's;
biases and normalisation, which toolkits place differently, may differ. Of an LSTM up to 3 % may differ: from the
encoder's states to the decoder's leads one matrix, or one for each layer and state.

Speed is target pieces a second. Peak share: the arithmetic of the matrix products that a target piece needs, forward
and backward, padding left out, times speed, as a share of what square matrix products reach in the same run.
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
        "batch": "4096 tokens", "updates": (2, 5),
    },
    "tiny": {
        "model": {"layers": 4, "width": 128, "ffn": 256, "heads": 4, "dropout": 0.3},
        "batch": "8192 tokens", "updates": (1, 3),
    },
    "lstm": {
        "model": {
            "kind": "recurrent", "layers": 2, "width": 256, "bidirectional": True, "tied": "none", "dropout": 0.2,
            "attention": {"kind": "global", "score": "general"},
        },
        "batch": "128 sentences", "updates": (2, 5),
    },
    "large": {
        "model": {"layers": 6, "width": 512, "ffn": 2048, "heads": 8, "dropout": 0.1},
        "batch": "2048 tokens", "updates": (1, 3),
    },
}  # fmt: skip
"""Of each: the model, the batch, and how many updates warm up and how many are measured."""

HEADINGS = ("recipe", "side", "parameters", "pieces/s", "least–most", "of plain", "peak share", "memory, MiB")
Measured = dict[str, float]  # speed, memory, matrices, parameters


def prepare(folder: Path, words: bool) -> Path:
    """Multi30K if a mirror or the network has it, encoded by 8,192 joint BPE pieces or by whole words."""
    fetch("multi30k", "en-de", folder / "raw", mirror=None, limit=None, custom=None)
    clean(folder / "raw", folder / "clean", Cleaning(), "en-de", 2)
    subwords = Subwords(kind="words", size=25000, joint=False) if words else Subwords(size=8192)
    learn(folder / "clean", folder / "subwords", "en-de", subwords)
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


def batches_of(encoded: Path, recipe: str) -> list[Batch]:
    """The batches that every side trains on, in one order."""
    data = Parallel(encoded, "train")
    return [data.batch(i) for i in data.batches(RECIPES[recipe]["batch"], (1, 0))[: sum(RECIPES[recipe]["updates"])]]


def timed(batches: list[Batch], warm: int, update: Callable[[Batch], Any]) -> float:
    """Target pieces a second of a loop, its first updates apart."""
    for batch in batches[:warm]:
        update(batch)
    started = time.perf_counter()
    for batch in batches[warm:]:
        update(batch)
    return sum(b.pieces for b in batches[warm:]) / (time.perf_counter() - started)


def ours(encoded: Path, recipe: str, threads: int, precision: str) -> Measured:
    """Our `nmt.training.trainer`."""
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
    """The plain loop, or another toolkit's model and loss; Adam as torch has it."""
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
    """What a side tells of itself; positions that are learned count among its parameters alone."""
    weights = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = sum(p.numel() for name, p in weights if p.dim() > 1 and "position" not in name)
    total = sum(p.numel() for _, p in weights)
    return {"speed": speed, "memory": peak_memory(), "matrices": matrices, "parameters": total}


def adapter(side: str, recipe: str) -> Callable[..., tuple[Any, Callable[[Batch], Any]]]:
    """What makes a side's model for a recipe."""
    from benchmarks.peers import PEERS

    if side == "plain":
        return plain
    peer = PEERS[side]
    found = peer.recurrent if "kind" in RECIPES[recipe]["model"] else peer.transformer
    assert found
    return found


def plain(m: dict[str, Any], sizes: dict[str, int]) -> tuple[Any, Callable[[Batch], Any]]:
    """The plain model and its loss."""
    import torch.nn.functional as F

    model = plain_recurrent(m, sizes) if m.get("kind") == "recurrent" else plain_transformer(m, sizes)

    def loss(batch: Batch) -> Any:
        scores = model(batch.source, batch.target[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=0)

    return model, loss


def plain_transformer(m: dict[str, Any], sizes: dict[str, int]) -> Any:
    """`torch.nn.Transformer`, the output projection tied to the target embedding."""
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
    """`torch.nn.LSTM` on both sides, packed on the source's, and global attention by a bilinear form."""
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
    """Floating-point operations of the matrix products a target piece, forward and backward, padding left out."""
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
        encoder = s * sum(2 * 4 * d * (each + d) for each in inputs)
        products = encoder + t * layers * 8 * d * d + s * 2 * d * d + ts * 3 * d + t * 3 * d * d
    else:
        encoder = s * (4 * d * d + 2 * d * m["ffn"]) + 2 * d * ss
        decoder = t * (6 * d * d + 2 * d * m["ffn"]) + s * 2 * d * d + 2 * d * (tt + ts)
        products = layers * (encoder + decoder)
    return 3 * 2 * (products + t * d * vocabulary) / t


def sides_of(recipe: str) -> Iterator[tuple[str, Path | None, str]]:
    """Each side, the folder that its process needs, and why it cannot run, if so."""
    from benchmarks.peers import FOLDER, PEERS, missing

    yield from ((name, None, "") for name in ("plain", "ours", "ours, bf16"))
    for name, peer in PEERS.items():
        if "kind" in RECIPES[recipe]["model"] and not peer.recurrent:
            continue
        if FOLDER.is_dir():
            yield name, FOLDER / name, missing(name)


def rows(
    recipe: str, found: dict[str, list[Measured]], failed: dict[str, str], each: float, peak: Measured
) -> list[Any]:
    """The lines of a recipe: sides that ran, and those that did not with the reason."""
    plainly = statistics.median(m["speed"] for m in found["plain"])
    lines: list[Any] = []
    for name, runs in found.items():
        speeds = [m["speed"] for m in runs]
        more = runs[0]["matrices"] / found["plain"][0]["matrices"] - 1
        assert more == 0 or ("lstm" in recipe and abs(more) < 0.03), f"{name}: {runs[0]}, plain: {found['plain'][0]}"
        share = statistics.median(speeds) * each / 1e9 / peak["bf16" if "bf16" in name else "fp32"]
        memory = statistics.median(m["memory"] for m in runs)
        lines.append((
            recipe, name, f"{runs[0]['parameters']:,}", *middle(speeds), f"{statistics.median(speeds) / plainly:.2f}",
            f"{share:.0%}", f"{memory:,.0f}",
        ))  # fmt: skip
    lines += [(recipe, name, why, *["–"] * 5) for name, why in failed.items()]
    return lines


def compare(recipe: str, rounds: int, threads: int) -> tuple[list[Any], str]:
    """Measure a recipe; gives its lines of the table and a sentence on its arithmetic."""
    with tempfile.TemporaryDirectory() as folder:
        data = prepare(Path(folder), words="kind" in RECIPES[recipe]["model"])
        found: dict[str, list[Measured]] = {}
        failed: dict[str, str] = {}
        peaks = []
        for number in range(rounds):
            peaks.append(process("training", "--side", "peak", "--threads", threads))
            for name, path, why in sides_of(recipe):
                try:
                    if why or name in failed:
                        raise Failed(why or failed[name])
                    options = ("--side", name, "--recipes", recipe, "--encoded", data, "--threads", threads)
                    found.setdefault(name, []).append(process("training", *options, path=path))
                except Failed as error:
                    if name.startswith(("plain", "ours")):
                        raise
                    failed[name] = str(error)
                    found.pop(name, None)
                say(f"{recipe}, round {number + 1}: {name} {found.get(name, [failed.get(name)])[-1]}")
        each = flops(
            RECIPES[recipe]["model"], read_json(data / "meta.json")["vocabulary"]["target"], batches_of(data, recipe)
        )
    peak = {kind: statistics.median(p[kind] for p in peaks) for kind in ("fp32", "bf16")}
    reached = f"{peak['fp32']:.0f} GFLOP/s in fp32, {peak['bf16']:.0f} in bf16"
    return rows(recipe, found, failed, each, peak), f"{recipe}: {each / 1e6:.1f} MFLOP a target piece; peak {reached}."


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_side(side: str, encoded: Path, recipe: str, threads: int) -> Measured:
    """One side, in this process."""
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
    """Print one table: target pieces a second of each side, as a ratio to the plain loop, its peak share and memory."""
    if side:
        return print(json.dumps(run_side(side, encoded, recipes, threads)))
    lines, told = [], []
    for recipe in recipes.split(","):
        more, sentence = compare(recipe, rounds, threads)
        lines += more
        told.append(sentence)
    print(table(HEADINGS, lines), *told, f"{rounds} rounds. {environment(threads)}", sep="\n\n")


if __name__ == "__main__":
    main()
