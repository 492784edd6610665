"""A process that trains several models, such as a notebook, holds the memory of none of them."""

import gc
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from nmt.models.transformer import Transformer
from nmt.training.experiment import Experiment
from nmt.training.train import train

MEMORY = Path("/proc/self/statm")
MODEL = {"layers": 1, "width": 64, "ffn": 256, "heads": 2, "dropout": 0.1}


def resident() -> float:
    """Return how many MiB of main memory this process occupies."""
    return int(MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def train_several(encoded: Path, out: Path) -> list[float]:
    """Train models of several shapes, and return the memory of this process after each."""
    memory = []
    for number, sentences in enumerate([100, 2000, 1000, 2000]):
        training = {"batch": f"{sentences} sentences", "updates": 1, "validation_bleu": False}
        config = Experiment.model_validate({"model": MODEL, "training": training})
        train(encoded, out / str(number), config, 1, "cpu", 1, "copy/small")
        memory.append(resident())
        assert not any(type(each) is Transformer for each in gc.get_objects())
    return memory


@pytest.mark.integration
@pytest.mark.skipif(not MEMORY.exists(), reason="needs Linux")
def test_a_training_returns_its_memory(copy_corpus: Path, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # other tests would have left gaps in the memory
        memory = pool.submit(train_several, copy_corpus, tmp_path).result()
    assert max(memory) < memory[0] + 64, memory
