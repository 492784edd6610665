"""Training by several processes: the same model as by one, the same bits again, and one end for all."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import forks
import pytest
import torch
from copytask import copy_lines, write_links
from ports import free_port
from safetensors.torch import load_file
from snakes import ROOT

import nmt.training.train as stage
from nmt.data.batches import Parallel
from nmt.system.errors import DataError
from nmt.system.files import read_json
from nmt.system.interrupt import Interrupted
from nmt.training.distributed import Processes, process_group, rank_and_size, set_torchrun_variables
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.training.trainer import Trainer

TRANSFORMER = {"layers": 1, "width": 32, "ffn": 64, "heads": 2}
RECURRENT = {
    "kind": "recurrent", "layers": 1, "width": 32, "tied": "none", "attention": {"kind": "local-p", "window": 3},
}  # fmt: skip
LIKE_ONE = {
    "updates": 80, "validate_every": "40 updates", "checkpoint_every": "40 updates", "train_bleu": 20,
    "schedule": {"peak": 0.001, "warmup": 20}, "label_smoothing": 0.1,
}  # fmt: skip
SHORT = {
    "batch": "512 tokens", "updates": 40, "checkpoint_every": "10 updates", "validate_every": "20 updates",
    "validation_bleu": False, "schedule": {"peak": 0.005, "warmup": 10},
}  # fmt: skip


def experiment(model: dict[str, Any], dropout: float, **training: Any) -> Experiment:
    return Experiment.model_validate({"model": model | {"dropout": dropout}, "training": training})


def shorter(config: Experiment, updates: int) -> Experiment:
    return config.model_copy(update={"training": config.training.model_copy(update={"updates": updates})})


# Without ReLU's kink, where another order of adding can make a gradient another one. Batches of one sentence leave the
# second of two processes without any.
SMOOTH = TRANSFORMER | {"activation": "gelu"}
OPTIONS = TRANSFORMER | {
    "normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 1, "norm": "pre",
}  # fmt: skip
ALIKE = {
    "transformer": experiment(SMOOTH, 0.0, batch="128 tokens", accumulate=2, **LIKE_ONE),
    "recurrent": experiment(RECURRENT, 0.0, batch="256 tokens", clip=1.0, **LIKE_ONE),
    "options": experiment(OPTIONS, 0.0, batch="256 tokens", **LIKE_ONE | {"updates": 40}),
    "guided": experiment(SMOOTH, 0.0, batch="256 tokens", **LIKE_ONE | {"updates": 40}, guided_alignment={}),
    "lone": experiment(SMOOTH, 0.0, batch="1 sentences", accumulate=3, **LIKE_ONE | {"updates": 40}),
}
DROPPED = experiment(TRANSFORMER, 0.2, **SHORT, consistency={})
FORCED = experiment(RECURRENT | {"teacher_forcing": 0.75}, 0.2, **SHORT | {"updates": 15})
JOBS = ALIKE | {
    "dropped": DROPPED,
    "again": DROPPED,
    "forced": FORCED,
    "forced again": FORCED,
}


def train_all(corpus: Path, jobs: list[tuple[Path, Experiment]], links: Path, pause: float) -> None:
    """Run trainings one after the other, as one of the processes of a group; each update takes so long at least."""
    train_on = Trainer.train_on
    Trainer.train_on = lambda self, update: (time.sleep(pause), train_on(self, update))[1]  # type: ignore[assignment, method-assign]
    try:
        with process_group("cpu") as processes:
            stage.process_group = lambda device: nullcontext(processes)  # type: ignore[assignment]
            for run, config in jobs:
                guided = links if config.training.guided_alignment else None
                train(corpus, run, config, 1, "cpu", 1, "copy/small", alignments=guided)
    except Interrupted as interruption:
        print(interruption, file=sys.stderr)
        sys.exit(143)
    except DataError as error:
        sys.exit(str(error))


def start(folder: Path, jobs: dict[str, Experiment], corpora: tuple[Path, Path], pause: float = 0) -> list[BaseProcess]:
    """Two processes, as torchrun or srun would start them, each told its own folder of the corpus."""
    environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    write_links(folder / "links", copy_lines(6000, 1))
    (folder / "said").unlink(missing_ok=True)
    configs = [(folder / name, config) for name, config in jobs.items()]
    return [
        forks.start(
            folder / "said", environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            train_all, corpus, configs, folder / "links", pause,
        )
        for rank, corpus in enumerate(corpora)
    ]  # fmt: skip


def ended(processes: list[BaseProcess], folder: Path) -> tuple[list[int | None], str]:
    """Exit codes, and all that was said; none goes on after a test that waited too long."""
    for process in processes:
        process.join(280)
        process.kill()
    return [process.exitcode for process in processes], (folder / "said").read_text()


def records(run: Path, *keys: str) -> list[tuple[Any, ...]]:
    found = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [tuple(r.get(key, 0) for key in keys) for r in found if r["event"] in ("train", "valid")]


def weights(run: Path, update: int) -> dict[str, torch.Tensor]:
    return load_file(run / f"state/checkpoints/update-{update:08d}/weights.safetensors")


def assert_same(one: Path, other: Path) -> None:
    """The same weights and losses, bit for bit."""
    last = read_json(one / "training.json")["updates"]
    first, second = weights(one, last), weights(other, last)
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert records(one, "event", "update", "loss") == records(other, "event", "update", "loss")


@pytest.fixture(scope="module")
def by_two(copy_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every training of JOBS, by two processes."""
    folder = tmp_path_factory.mktemp("two")
    codes, said = ended(start(folder, JOBS, (copy_corpus, copy_corpus)), folder)
    assert codes == [0, 0], said
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("name", ALIKE)
def test_two_processes_train_the_model_of_one(copy_corpus: Path, by_two: Path, tmp_path: Path, name: str) -> None:
    config = ALIKE[name]
    links = by_two / "links" if config.training.guided_alignment else None
    train(copy_corpus, tmp_path, config, 1, "cpu", 1, "copy/small", alignments=links)
    found, expected = (read_json(run / "training.json") for run in (by_two / name, tmp_path))
    assert (found["hardware"]["processes"], expected["hardware"]["processes"]) == (2, 1)
    for fact in ("identity", "updates", "epochs", "pieces", "parameters"):
        assert found[fact] == expected[fact]
    for fact in ("event", "update", "epoch", "learning_rate"):
        assert records(by_two / name, fact) == records(tmp_path, fact)
    losses, like = (records(run, "loss", "gradient_norm") for run in (by_two / name, tmp_path))
    for ours, theirs in zip(losses, like, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert like[-1][0] < like[0][0]
    last = config.training.updates
    assert last
    for key, value in weights(tmp_path, last).items():
        ours, theirs = weights(by_two / name, last)[key], value
        if key.endswith("attention.project.bias"):  # of queries, keys, values: softmax does not see that of the keys,
            keys = slice(32, 32 + (len(value) - 32) // 2)
            ours[keys] = theirs[keys]  # whose gradient is rounding
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.integration
@pytest.mark.parametrize(("one", "other"), [("dropped", "again"), ("forced", "forced again")])
def test_two_processes_give_the_same_bits_again(by_two: Path, one: str, other: str) -> None:
    assert_same(by_two / one, by_two / other)


@pytest.mark.integration
def test_processes_drop_different_elements(copy_corpus: Path, by_two: Path, tmp_path: Path) -> None:
    train(copy_corpus, tmp_path, DROPPED, 1, "cpu", 1, "copy/small")
    first, _ = (records(run, "loss") for run in (by_two / "dropped", tmp_path))
    assert first != records(tmp_path, "loss")


def disturbed(folder: Path, corpus: Path, number: signal.Signals) -> tuple[list[int | None], str, list[str]]:
    """How a training ends whose second process gets a signal after a new checkpoint, and what checkpoints it has."""
    found = folder / "run/state/checkpoints"
    before = set(found.glob("update-*"))
    processes = start(folder, {"run": DROPPED}, (corpus, corpus), pause=0.1)
    while not set(found.glob("update-*")) - before and processes[1].is_alive():
        time.sleep(0.01)
    time.sleep(0.25)
    os.kill(processes[1].pid or 0, number)
    codes, said = ended(processes, folder)
    assert not (folder / "run/training.json").exists()
    return codes, said, sorted(path.name for path in found.glob("update-*"))


@pytest.mark.long
def test_killed_and_told_to_stop_they_end_together_and_resume_bit_identical(
    copy_corpus: Path, by_two: Path, tmp_path: Path
) -> None:
    codes, said, saved = disturbed(tmp_path, copy_corpus, signal.SIGKILL)
    assert codes == [1, -signal.SIGKILL] and said.count("another process of this training has ended") == 1
    assert saved == ["update-00000010"]
    codes, said, saved = disturbed(tmp_path, copy_corpus, signal.SIGTERM)
    assert codes == [143, 143] and said.count("stopped by SIGTERM at update") == 1
    assert "update-00000020" <= saved[-1] < "update-00000040" and saved[-1].endswith(f"{int(said.split()[-1]):08d}")
    codes, said = ended(start(tmp_path, {"run": DROPPED}, (copy_corpus, copy_corpus)), tmp_path)
    assert codes == [0, 0], said
    assert_same(tmp_path / "run", by_two / "dropped")


@pytest.mark.integration
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_one_process_is_told_once(copy_corpus: Path, tmp_path: Path, rank: int) -> None:
    nowhere = tmp_path / "nowhere"
    corpora = (copy_corpus, nowhere) if rank else (nowhere, copy_corpus)
    codes, said = ended(start(tmp_path, {"run": DROPPED}, corpora), tmp_path)
    assert codes == [1, 1]
    assert said.count("nowhere/meta.json: no such file") == 1 and "another process" not in said


@pytest.mark.integration
def test_one_process_goes_on_where_two_were(copy_corpus: Path, by_two: Path, tmp_path: Path) -> None:
    config = ALIKE["transformer"]
    shutil.copytree(by_two / "transformer", tmp_path / "run")
    shutil.rmtree(tmp_path / "run/state/checkpoints/update-00000080")
    train(copy_corpus, tmp_path / "run", config, 1, "cpu", 1, "copy/small")
    assert [r[0] for r in records(tmp_path / "run", "update")][-1] == 80
    starts = [line for line in (tmp_path / "run/log.jsonl").read_text().splitlines() if '"start"' in line]
    assert [json.loads(line)["update"] for line in starts] == [0, 40]
    for ours, theirs in zip(records(tmp_path / "run", "loss"), records(by_two / "transformer", "loss"), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.integration
def test_torchrun_starts_the_command(copy_corpus: Path, tmp_path: Path) -> None:
    config = json.dumps(shorter(DROPPED, 5).non_defaults())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "nmt"]
    done = subprocess.run(
        [*launch, "train", str(copy_corpus), str(tmp_path), "--config", config, "--device", "cpu", "--threads", "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("valid  update") == 1
    assert read_json(tmp_path / "training.json")["hardware"]["processes"] == 2


def test_shares_are_all_sentences_once(copy_corpus: Path) -> None:
    data = Parallel(copy_corpus, "train")
    for batch in data.batches("5 sentences", (1, 0))[:3]:
        parts = [Processes(rank, 3).share(batch) for rank in range(3)]
        assert [len(part) for part in parts] == [2, 2, 1]
        assert sorted(i for part in parts for i in part) == sorted(batch)
        assert data.pieces(batch) == sum(data.batch(part).pieces for part in parts)


def test_srun_tells_each_process_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # what `set_torchrun_variables` sets goes with the test
        monkeypatch.delenv(name)
    told = {"JOB_ID": "7", "PROCID": "1", "LOCALID": "0", "LAUNCH_NODE_IPADDR": "10.0.0.3", "NTASKS": "2"}
    for name, value in told.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    set_torchrun_variables()
    assert rank_and_size() == (0, 1)  # in a batch script, which srun has not started
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    set_torchrun_variables()
    assert rank_and_size() == (1, 2)
    assert os.environ["MASTER_ADDR"] == "10.0.0.3" and 10_000 <= int(os.environ["MASTER_PORT"]) < 30_000
