"""Score translations by a COMET checkpoint. This file runs alone, by the Python of COMET's own environment.

    python comet_worker.py CHECKPOINT < SAMPLES > SCORES

SAMPLES is a JSON list of objects with ``src``, ``mt`` and, for a metric with references, ``ref``. SCORES is a JSON
object with a score for each of them. No network is used.
"""

import json
import os
import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from typing import Any

BATCH = 8
"""Samples that are scored at once."""


def main() -> None:
    """Read samples, and write scores."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with redirect_stdout(sys.stderr):
        import torch
        from comet import load_from_checkpoint

        model: Any = load_from_checkpoint(sys.argv[1], reload_hparams=True, local_files_only=True)
        samples = json.load(sys.stdin)
        needs = bool(model.requires_references())
        if needs and "ref" not in samples[0]:
            sys.exit("this checkpoint compares with references, but none were given")
        gpus = int(torch.cuda.is_available())
        scores = model.predict(samples, batch_size=BATCH, gpus=gpus, progress_bar=False, num_workers=0).scores
    result = {"scores": [float(score) for score in scores], "references": needs, "version": version("unbabel-comet")}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
