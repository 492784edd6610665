"""Small corpora and models that several tests share."""

import os

os.environ.pop("MLFLOW_TRACKING_URI", None)  # tests keep to stores of their own
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests are many small operations; a second thread only spins
# Small models have many shapes: a smaller cache compiles kernels again and again, a larger one grows by gigabytes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
os.environ.setdefault("LRU_CACHE_CAPACITY", "256")

from pathlib import Path

import pytest
import torch
from commands import run
from copytask import copy_lines, write_clean

from nmt.config.data import Subwords
from nmt.data.encode import encode_corpus
from nmt.system.workers import available_cores
from nmt.text.subwords import learn

pytest_plugins = ["guards", "buckets"]
os.fsync = lambda _: None  # the files of tests need not survive a power failure
TESTS = Path(__file__).parent
SLOWEST = ["workflow/test_pipeline.py", "reproduce/test_reproduce.py", "workflow/test_workflow.py",
           "training/test_training.py", "training/test_distributed.py", "workflow/test_last_words.py"]  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one worker more than cores with ``-n auto``, because some tests wait for what they started."""
    return available_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the slowest files, so that no worker runs one of them alone at the end."""
    place = {TESTS / name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def encoded_copies(folder: Path, pairs: int) -> Path:
    """Encode the copy task by words: so many training pairs and 100 validation pairs."""
    clean = write_clean(folder / "clean", {"train": copy_lines(pairs, 1), "valid": copy_lines(100, 2)})
    learn(clean, folder / "subwords", "en-de", Subwords(kind="words", size=100))
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


@pytest.fixture(scope="session")
def copy_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy task with 6,000 training pairs."""
    return encoded_copies(tmp_path_factory.mktemp("copy"), 6000)


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy task with 600 training pairs."""
    return encoded_copies(tmp_path_factory.mktemp("small"), 600)


@pytest.fixture(scope="session")
def model(copy_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Transformer, trained a little on the copy task, by the commands."""
    folder = tmp_path_factory.mktemp("model")
    settings = (
        "{model: {layers: 1, width: 32, ffn: 64, heads: 2, dropout: 0},"
        " training: {batch: 1000 tokens, updates: 60, schedule: {peak: 0.005, warmup: 20}}}"
    )
    config = folder / "config.yaml"
    config.write_text(settings)
    code, output = run("train", copy_corpus, folder / "run", "--config", config, "--device", "cpu", "--threads", 1)
    assert code == 0, output
    code, output = run("average", folder / "run", folder / "model", "--at", "last", "--encoded", copy_corpus)
    assert code == 0, output
    return folder / "model"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
