"""Stands in for ``nmt`` where only the workflow is tested: writes what a stage's rule declares, at once."""

import itertools
import json
import os
import sys
from pathlib import Path

SCORED = ["hypotheses.tok", "references.tok", "hypotheses.detok", "references.detok", "sources.txt", "scores.json"]


def main(stage: str, *rest: str) -> None:
    options = {name: value for name, value in itertools.pairwise(rest) if name.startswith("--")}
    if stage == "train":
        train(Path(rest[1]))
        return
    if "--shard" in options:
        return  # what a shard leaves is no output of its rule
    tables = Path(json.loads(options["--config"]).get("results", "results")) if stage == "report" else Path()
    name = Path(rest[0]).stem
    written = {
        "download": lambda: [Path(rest[2], "train.en")],
        "clean": lambda: [Path(rest[1], "train.en")],
        "subwords": lambda: [Path(rest[1], "source.model")],
        "inherit-subwords": lambda: [Path(rest[1], "source.model")],
        "encode": lambda: [Path(rest[2], "meta.json")],
        "draw": lambda: [Path(rest[0], "train.txt")],
        "features": lambda: [Path(rest[2]), Path(rest[2]).with_suffix(".json")],
        "average": lambda: [Path(rest[1], "weights.safetensors")],
        "ensemble": lambda: [Path(rest[-1], "weights.safetensors")],
        "decode": lambda: [Path(rest[2]), *(Path(rest[2]).with_name(f"{n}.json") for n in ("decoding", "alignments"))],
        "score": lambda: [Path(options["--out"], file) for file in SCORED],
        "track": lambda: [Path(options["--out"])],
        "report": lambda: [
            *(tables / "tables" / f"{name}.{kind}" for kind in ("md", "csv", "json", "html")),
            tables / "figures" / name / "loss.png",
            tables / "records" / name / "training.json",
        ],
    }
    for path in written[stage]():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
        if stage == os.environ.get("STUB_FAILS"):
            sys.exit("failed")


def train(run: Path) -> None:
    """Fail as often as STUB_FAILURES says, then find the state that the attempts before left."""
    state = run / "state" / "attempts"
    state.parent.mkdir(parents=True, exist_ok=True)
    attempts = len(state.read_text()) if state.exists() else 0
    state.write_text("x" * (attempts + 1))
    (run / "log.jsonl").write_text("")
    if attempts < int(os.environ.get("STUB_FAILURES", "0")):
        sys.exit("killed")
    (run / "training.json").write_text("{}\n")


main(*sys.argv[1:])
