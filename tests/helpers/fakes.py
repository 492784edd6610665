"""A small results folder, as the stages write it, for the tests of what comes after training."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config.data import Subwords
from nmt.config.system import System
from nmt.config.table import Row, Table
from nmt.data.encode import encode_corpus
from nmt.plan.layout import Layout
from nmt.scoring.score import score
from nmt.system.files import digest, sha256, write_json, write_text
from nmt.text.cleaner import clean_line
from nmt.text.subwords import learn
from nmt.training.experiment import Experiment, identity

CACHE = tempfile.TemporaryDirectory()
PAIRS = [
    ("A dog runs across the grass.", "Ein Hund rennt über das Gras."),
    ("Two men sit on a bench.", "Zwei Männer sitzen auf einer Bank."),
    ("A girl's red ball lies in the snow.", "Der rote Ball eines Mädchens liegt im Schnee."),
    ('A sign says "Stop".', 'Auf einem Schild steht "Stop".'),
    ("Children play football in the park.", "Kinder spielen im Park Fußball."),
    ("A woman in a blue coat reads a book.", "Eine Frau in einem blauen Mantel liest ein Buch."),
    ("The cat sleeps on the old sofa.", "Die Katze schläft auf dem alten Sofa."),
    ("Five people wait at the bus stop.", "Fünf Personen warten an der Bushaltestelle."),
]
TABLE = {
    "caption": "A table of tests",
    "tests": ["test"],
    "systems": {
        "small": {"corpus": "toy", "languages": "en-de", "training": {"epochs": 4}},
        "large": {"corpus": "toy", "languages": "en-de", "model": {"layers": 8}, "training": {"epochs": 4}},
    },
    "rows": [
        {
            "label": "Small, after 2 epochs",
            "system": "small",
            "at": "epoch 2",
            "published": {"bleu": 33.3, "ter": 49.0},
        },
        {"label": "Large", "system": "large", "at": "best", "note": "not in the report"},
        {"label": "Somebody's <system>", "published": {"bleu": 34.2, "ter": 48.7}},
    ],
    "figures": [
        "loss",
        "loss-by-system",
        "accuracy",
        "bleu",
        "learning-rate",
        "positions",
        "positions-across",
        "mask",
        "learning-curves",
        "alignment",
    ],
    "samples": 3,
}


def table(**changes: Any) -> Table:
    return Table.model_validate(TABLE | changes)


def write_corpus(layout: Layout, system: System, synthetic: bool = False) -> None:
    """Raw and clean text with their reports; corpora other than `toy` have the sentences in another order."""
    pairs = PAIRS if system.corpus == "toy" else PAIRS[::-1]
    raw, clean = layout.raw(system), layout.clean(system)
    splits: dict[str, Any] = {}
    for split in ("train", "valid", "test"):
        for language in (system.source, system.target):
            lines = [english if language == "en" else german for english, german in pairs]
            write_text(raw / f"{split}.{language}", "".join(f"{line}\n" for line in lines))
            cleaned = [clean_line(line, language, system.cleaning) for line in lines]
            write_text(clean / f"{split}.{language}", "".join(f"{line}\n" for line in cleaned))
        splits[split] = {
            lang: {"lines": len(PAIRS), "sha256": "0" * 64, "url": None} for lang in system.languages.split("-")
        }
    facts = {"corpus": system.corpus, "licence": "none", "splits": splits, "synthetic": synthetic}
    write_json(raw / "corpus.json", facts)
    report = {
        "read": len(PAIRS), "kept": len(PAIRS), "dropped": {"empty": 0, "long": 0}, "characters_removed": 0,
        "words": {system.source: 60, system.target: 56},
    }  # fmt: skip
    recipe = system.cleaning.model_dump(mode="json")
    write_json(clean / "report.json", {"cleaning": recipe, "splits": dict.fromkeys(splits, report)})
    if not layout.encoded(system).exists():
        learn(clean, layout.subwords(system), system.languages, Subwords(size=60))  # fewer than the system asks for
        encode_corpus(clean, layout.subwords(system), layout.encoded(system), system.languages)


def records(updates: int, start: float = 1e9, process: int = 1) -> list[dict[str, Any]]:
    """A log: a training record every 50 updates, an epoch and a validation every 100."""
    found: list[dict[str, Any]] = [{"event": "start", "update": 0, "time": start, "process": process}]
    for update in range(50, updates + 1, 50):
        common = {"update": update, "epoch": update / 100, "seconds": update / 10}
        train = {"loss": 6 - update / 200, "accuracy": update / 1000, "learning_rate": update * 1e-5,
                 "gradient_norm": 1.0, "tokens_per_second": 9000}  # fmt: skip
        found.append({"event": "train", **common, **train})
        if update % 100 == 0:
            valid = {"loss": 5 - update / 250, "accuracy": update / 900, "bleu": update / 20, "train_bleu": update / 15}
            found.append({"event": "valid", **common, **valid})
            found.append({"event": "checkpoint", "update": update, "name": f"update-{update:08}"})
    return found


def write_log(path: Path, rows: list[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_run(run: Path, system: System, seed: int, updates: int = 400) -> None:
    """A finished training."""
    config = {part: getattr(system, part).model_dump(mode="json") for part in ("model", "training")}
    data = {"train": {"sentences": 8, "source_sha256": "a" * 64}, "valid": {"sentences": 8, "source_sha256": "b" * 64}}
    made_of = {"config": config, "seed": seed, "data": data, "subwords": {"subwords": {"kind": "bpe", "size": 8192}}}
    same = identity(Experiment.model_validate(config), made_of)
    write_json(run / "state" / "identity.json", {"identity": same, "config": config})
    write_log(run / "state" / "log.jsonl", records(updates))
    write_log(run / "log.jsonl", records(updates))
    summary = {
        "parameters": 3_022_848, "updates": updates, "epochs": updates / 100, "seconds": updates / 10,
        "stopped": "epochs", "tokens_per_second": 9000, "device": "cpu", "code_version": "0123456789ab",
        "corpus": system.corpus,
        "hardware": {"device": "cpu", "processor": "Abacus", "cores": 2, "threads": 2, "memory_gib": 8.0},
        "versions": {"torch": "2"}, "checkpoints": [],
    }  # fmt: skip
    write_json(run / "training.json", {"name": "toy/toy", **made_of, "identity": same, **summary})


def write_scores(
    layout: Layout, name: str, row: Row, system: System, seed: int | str, wrong: int = 1, also: Sequence[str] = ()
) -> Path:
    """A model's description, and its translations scored by the real code; ``wrong`` lines have a word too many."""
    model, out = layout.model(name, row, seed), layout.scores(name, row, "test", seed)
    recipe = system.cleaning.model_dump(mode="json")
    write_json(model / "cleaning.json", {"cleaning": recipe, "languages": system.languages})
    checkpoints = ["update-00000200"] * len(str(seed).split("-"))
    making = {
        "table": name, "system": row.system, "seed": seed, "selection": row.at, "checkpoints": checkpoints,
        "update": 200, "epoch": 2.0, "code_version": "0123456789ab", "training_seconds": 20.0, "valid_loss": 4.2,
        "valid_bleu": 10.0, "parameters": 3_022_848, "hardware": {"processor": "Abacus", "cores": 2},
    }  # fmt: skip
    write_json(model / "provenance.json", making)
    references = (layout.clean(system) / f"test.{system.target}").read_text(encoding="utf-8").splitlines()
    translations = [f"{line} ja" if i < wrong else line for i, line in enumerate(references)]
    write_text(out / "hypotheses.txt", "".join(f"{line}\n" for line in translations))
    decoding = row.decoding.model_dump(mode="json")
    write_text(model / "weights.safetensors", "")
    read = {"source": layout.clean(system) / f"test.{system.source}", "model": model / "weights.safetensors"}
    made_with = {f"{name}_sha256": sha256(path) for name, path in read.items()}
    write_json(out / "decoding.json", {"decoding": decoding, "seconds": 1.5, "sentences": len(PAIRS)} | made_with)
    aligned = [
        {"line": n, "source": list("abc" * n), "target": ["x", "</s>"], "weights": [[1 / (3 * n)] * 3 * n] * 2}
        for n in (1, 3, 6)
    ]
    write_json(out / "alignments.json", aligned if row.system == "small" else [])
    pair = (system.source, system.target)
    score(out / "hypotheses.txt", layout.clean(system), layout.raw(system), "test", *pair, model, out, also)
    return out


def write_results(layout: Layout, name: str, content: Table, seeds: Sequence[int], synthetic: bool = False) -> None:
    """Write everything that a table is made from; the corpus `drawn` is synthetic in any case.

    The same arguments give the same files, so a process makes them once and then copies them.
    """
    cached = Path(CACHE.name, digest([name, content.model_dump(mode="json"), list(seeds), synthetic, layout.limit]))
    if not cached.exists():
        cached.mkdir()
        _make_results(Layout(cached, layout.limit), name, content, seeds, synthetic)
    shutil.copytree(cached, layout.results, dirs_exist_ok=True)


def _make_results(layout: Layout, name: str, content: Table, seeds: Sequence[int], synthetic: bool) -> None:
    for system in content.systems.values():
        write_corpus(layout, system, synthetic or system.corpus == "drawn")
    for index, row in enumerate(content.rows):
        if row.system:
            for seed in seeds:
                write_run(layout.run(name, row.system, seed), content.systems[row.system], seed)
            for model in content.models_of(row, seeds):
                wrong = 1 + 2 * index + (0 if isinstance(model, str) else model)  # an ensemble is better
                write_scores(layout, name, row, content.systems[row.system], model, wrong, content.requested_metrics)
