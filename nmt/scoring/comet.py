"""COMET and COMET-Kiwi: neural metrics of unbabel-comet, which lives in an environment of its own.

Its requirements fit no other package's. So a program of one file, `nmt.scoring.comet_worker`, runs by that
environment's Python. The checkpoint is a local file.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from venv import EnvBuilder

import numpy as np

from nmt.scoring import comet_worker
from nmt.scoring.texts import composed, read_aligned
from nmt.scoring.words import SAMPLES, SEED
from nmt.system.errors import ConfigError
from nmt.system.files import Json, sha256

PACKAGE = "unbabel-comet==2.2.7"


def install(folder: Path) -> None:
    """Make an environment with unbabel-comet; an old environment there is replaced.

    Raises:
        ConfigError: the folder has other files, or the package cannot be installed.
    """
    _check_replaceable(folder)
    EnvBuilder(clear=True, with_pip=True).create(folder)
    done = subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", PACKAGE], check=False)
    if done.returncode:
        (folder / "bin" / "python").unlink()  # so that the next run makes the environment again
        raise ConfigError(f"{folder}: {PACKAGE} could not be installed, as pip says above; fix that, then run again")


def _check_replaceable(folder: Path) -> None:
    """Raise ConfigError unless a path is free, an environment, or a folder without files, as Snakemake makes it."""
    if folder.exists() and folder.samefile(sys.prefix):
        raise ConfigError(f"{folder}: expected an environment for COMET alone, got that of nmt; name another")
    if folder.exists() and not (folder / "pyvenv.cfg").is_file():
        files = (path for path in chain([folder], folder.rglob("*")) if not path.is_dir())
        if file := next(files, None):
            raise ConfigError(
                f"{folder}: expected a new folder, or an environment with pyvenv.cfg, got the file {file}; name another"
            )


def score_files(hypotheses: Path, source: Path, reference: Path | None, checkpoint: Path, python: Path) -> Json:
    """Score a plain text file by COMET.

    Args:
        hypotheses: translations of any system, one sentence per line.
        source: the source of each line.
        reference: the reference of each line; None for a checkpoint without references, such as COMET-Kiwi.
        checkpoint: the file of the checkpoint, ``model.ckpt``, as unbabel-comet lays it out.
        python: the Python of COMET's environment.

    Returns:
        ``score`` (0 to 100 for most checkpoints), ``low`` and ``high`` (95 % bootstrap interval), ``signature``, and
        ``scores``, one per line.

    Raises:
        ConfigError: the environment or the checkpoint is missing, or does not fit.
        DataError: a file is missing, empty or not UTF-8, or the numbers of lines differ.
    """
    others = {"source": source, **({"reference": reference} if reference else {})}
    lines, texts = read_aligned(hypotheses, others)
    columns = {"src": composed(texts["source"]), "mt": lines, **({"ref": texts["reference"]} if reference else {})}
    samples = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    result = _run(samples, checkpoint, python)
    scores = [100 * score for score in result["scores"]]
    means = _means(scores)
    name = "COMET" if result["references"] else "COMET-Kiwi"
    signature = f"{name}|checkpoint:{sha256(checkpoint)[:8]}|version:{result['version']}|bs:{SAMPLES}|seed:{SEED}"
    low, high = (float(np.quantile(means, q)) for q in (0.025, 0.975))
    return {"score": float(np.mean(scores)), "low": low, "high": high, "signature": signature, "scores": scores}


def compare(first: Sequence[float], second: Sequence[float]) -> Json:
    """Test whether two systems differ in their scores per line, by paired bootstrap.

    Returns:
        ``difference``, second minus first, and the one-sided ``p_value`` as sacrebleu computes it: the share of samples
        whose centred difference is as large.
    """
    difference = float(np.mean(second) - np.mean(first))
    samples = _means(np.subtract(second, first))
    centred = np.abs(samples) - np.mean(np.abs(samples))
    extreme = int(np.sum(centred > abs(difference)))
    return {"difference": difference, "p_value": (extreme + 1) / (SAMPLES + 1) if difference else 1.0}


def _means(values: Any) -> Any:
    """Return the mean of each bootstrap sample (SAMPLES,); every call draws the same lines."""
    chosen = np.random.default_rng(SEED).integers(len(values), size=(SAMPLES, len(values)))
    return np.asarray(values, np.float64)[chosen].mean(1)


def _run(samples: list[dict[str, str]], checkpoint: Path, python: Path) -> Any:
    """Run the worker; raises ConfigError with the last line that it says."""
    if not checkpoint.is_file():
        raise ConfigError(
            f"{checkpoint}: expected the checkpoint of a COMET metric, got no such file; download its folder once, "
            "e.g. Unbabel/wmt22-comet-da from the Hugging Face Hub, and give the path of checkpoints/model.ckpt"
        )
    if not python.is_file():
        raise ConfigError(
            f"{python}: expected the Python of COMET's environment, got no such file; make it with: snakemake "
            "--cores 1 comet_environment, or name another with --python"
        )
    command = [str(python), "-I", comet_worker.__file__, str(checkpoint)]  # without this folder and our packages
    done = subprocess.run(command, input=json.dumps(samples), capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = (done.stderr.strip() or "nothing").splitlines()[-1].strip()
        raise ConfigError(f"{python}: COMET failed with {checkpoint}: {last_line[:300]}; correct this first")
    return json.loads(done.stdout)
