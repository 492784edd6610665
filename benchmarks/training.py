"""Training speed beside a plain PyTorch loop and a peer, as ratios from one alternating run.

    python benchmarks/training.py [--threads 2] [--rounds 5] [--recipes small,tiny,lstm] [--joeynmt PYTHON]

The plain loop is `torch.nn.Transformer`, or `torch.nn.LSTM` with the same attention, of the same sizes: full logits,
`F.cross_entropy`, Adam, the same batches, full teacher forcing. JoeyNMT's recurrent model of the same sizes is measured
where a Python is named that has joeynmt 2.3.0 besides what the lock has (its pins do not go together with mlflow's).
Each side runs in a process of its own (the allocator's settings hold for a whole process); rounds alternate, since
machines are noisy; medians are printed.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nmt.config import Cleaning, Subwords
from nmt.corpora import fetch
from nmt.data import Batch, Parallel, encode_corpus
from nmt.files import read_json
from nmt.subwords import learn
from nmt.text.clean import clean

RECIPES: dict[str, dict[str, Any]] = {
    "small": {"model": {"layers": 2, "width": 128, "ffn": 512, "heads": 2, "dropout": 0.1}, "batch": "4096 tokens"},
    "tiny": {"model": {"layers": 4, "width": 128, "ffn": 256, "heads": 4, "dropout": 0.3}, "batch": "8192 tokens"},
    "lstm": {
        "model": {
            "kind": "recurrent", "layers": 2, "width": 256, "bidirectional": True, "tied": "none", "dropout": 0.2,
            "attention": {"kind": "global", "score": "general"},
        },
        "batch": "128 sentences",
    },
}  # fmt: skip
UPDATES, WARM = 24, 6


def prepare(folder: Path, words: bool) -> Path:
    """Multi30K if a mirror or the network has it, encoded by 8,192 joint BPE pieces or by whole words."""
    fetch("multi30k", "en-de", folder / "raw", mirror=None, limit=None, custom=None)
    clean(folder / "raw", folder / "clean", Cleaning(), "en-de", 2)
    subwords = Subwords(kind="words", size=25000, joint=False) if words else Subwords(size=8192)
    learn(folder / "clean", folder / "subwords", "en-de", subwords)
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
        steps = iter(trainer._steps())
        return timed(batches_of(encoded, recipe), lambda _: trainer._update(next(steps)))


def batches_of(encoded: Path, recipe: str) -> list[Batch]:
    """The batches that every side trains on, in one order."""
    data = Parallel(encoded, "train")
    return [data.batch(i) for i in data.batches(RECIPES[recipe]["batch"], (1, 0))[:UPDATES]]


def timed(batches: list[Batch], update: Callable[[Batch], None]) -> float:
    """Target pieces a second of a loop, its first updates apart."""
    for batch in batches[:WARM]:
        update(batch)
    started = time.perf_counter()
    for batch in batches[WARM:]:
        update(batch)
    return sum(b.pieces for b in batches[WARM:]) / (time.perf_counter() - started)


def plain(encoded: Path, recipe: str, threads: int) -> float:
    """Target pieces a second of the plain loop."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    sizes = read_json(encoded / "meta.json")["vocabulary"]
    m = RECIPES[recipe]["model"]
    model = plain_recurrent(m, sizes) if m.get("kind") == "recurrent" else plain_transformer(m, sizes)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def update(batch: Batch) -> None:
        logits = model(batch.source, batch.target[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=0).backward()
        adam.step()
        adam.zero_grad()

    return timed(batches_of(encoded, recipe), update)


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


def joeynmt_recurrent(m: dict[str, Any], sizes: dict[str, int]) -> Any:
    """JoeyNMT's recurrent model of the same sizes; words are told by number only."""
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
    )  # fmt: skip
    words = {side: Vocabulary([str(i) for i in range(size - 4)], special) for side, size in sizes.items()}
    side = {
        "type": "recurrent", "rnn_type": "lstm", "hidden_size": m["width"], "num_layers": m["layers"],
        "embeddings": {"embedding_dim": m["width"], "dropout": m["dropout"]}, "dropout": m["dropout"],
    }  # fmt: skip
    decoder = {"attention": "luong", "input_feeding": False, "hidden_dropout": m["dropout"], "init_hidden": "bridge"}
    cfg = {"encoder": side | {"bidirectional": True}, "decoder": side | decoder}
    return build_model(cfg, words["source"], words["target"])


def joeynmt(encoded: Path, recipe: str, threads: int) -> float:
    """Target pieces a second of JoeyNMT's recurrent model, by its own loss and Adam."""
    import torch

    torch.set_num_threads(threads)
    model = joeynmt_recurrent(RECIPES[recipe]["model"], read_json(encoded / "meta.json")["vocabulary"])
    model.loss_function = ("crossentropy", 0.0)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def theirs(ids: Any) -> Any:
        return torch.where(ids < 2, 1 - ids, ids)  # pad is 1 there, and unk 0

    def update(batch: Batch) -> None:
        order = (batch.source != 0).sum(1).argsort(descending=True)
        source, target = theirs(batch.source[order]), theirs(batch.target[order])
        loss, *_ = model(
            return_type="loss", src=source, src_length=(source != 1).sum(1), src_mask=(source != 1)[:, None],
            trg_input=target[:, :-1], trg=target[:, 1:], trg_mask=(target[:, 1:] != 1)[:, None],
        )  # fmt: skip
        (loss / batch.pieces).backward()
        adam.step()
        adam.zero_grad()

    model.train()
    return timed(batches_of(encoded, recipe), update)


SIDES = {"plain": plain, "joeynmt": joeynmt, "ours": ours}


@click.command()
@click.option("--threads", default=2)
@click.option("--rounds", default=5)
@click.option("--recipes", default=",".join(RECIPES))
@click.option("--joeynmt", "peer", type=click.Path(exists=True), help="A Python that has joeynmt.")
@click.option("--side", hidden=True, type=click.Choice(list(SIDES)), help="Run one side in this process.")
@click.option("--encoded", hidden=True, type=click.Path(path_type=Path))
def main(threads: int, rounds: int, recipes: str, peer: str | None, side: str | None, encoded: Path) -> None:
    """Print one table: target pieces a second of each side, and ours as a ratio of the others."""
    if side:
        return print(json.dumps(SIDES[side](encoded, recipes, threads)))
    with tempfile.TemporaryDirectory() as folder:
        print("| recipe | plain loop | JoeyNMT | ours | ours / plain | ours / JoeyNMT |\n|---|---|---|---|---|---|")
        for recipe in recipes.split(","):
            data = prepare(Path(folder, recipe), words="kind" in RECIPES[recipe]["model"])
            sides = {"plain": sys.executable, "ours": sys.executable}
            if peer and recipe == "lstm":
                sides["joeynmt"] = peer
            speeds: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(rounds):
                for name, python in sides.items():
                    speeds[name].append(measured(python, name, recipe, data, threads))
            middle = {name: statistics.median(values) for name, values in speeds.items()}
            cells = [f"{middle[name]:,.0f}" if name in middle else "–" for name in SIDES]
            ratios = [f"{middle['ours'] / middle[n]:.2f}" if n in middle else "–" for n in ("plain", "joeynmt")]
            print(f"| {recipe} | {' | '.join([*cells, *ratios])} |", flush=True)


def measured(python: str, side: str, recipe: str, data: Path, threads: int) -> float:
    """One side's speed, from a process of its own."""
    command = [python, __file__, "--side", side, "--recipes", recipe, "--encoded", str(data), "--threads", str(threads)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()[-1])


if __name__ == "__main__":
    main()
