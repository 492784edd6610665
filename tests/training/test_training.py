"""Training: what it learns, that it resumes bit for bit, and what it does when told something wrong."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import forks
import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from copytask import copy_lines
from pydantic import ValidationError
from safetensors.torch import load_file

from nmt.config.decoding import Decoding
from nmt.config.training import Optimizer, Training
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, write_json
from nmt.system.interrupt import Interrupted
from nmt.system.locks import exclusive
from nmt.system.warnings import read_warnings, recorded
from nmt.system.workers import prefetch
from nmt.training.average import average, ensemble, select
from nmt.training.checkpoint import Checkpoints, Progress
from nmt.training.experiment import Experiment
from nmt.training.optimizer import make_optimizer
from nmt.training.train import train
from nmt.training.trainer import Trainer
from nmt.training.updates import Update, Updates
from nmt.training.validation import Validation, bleu
from nmt.translation import decode_file as decode_stage
from nmt.translation import translator
from nmt.translation.decode_file import decode_file
from nmt.translation.export import export
from nmt.translation.translator import Translator

pytestmark = pytest.mark.integration  # whole trainings

SMALL = {"layers": 1, "width": 32, "ffn": 64, "heads": 2, "dropout": 0.1}
SHORT = {
    "batch": "512 tokens", "updates": 40, "checkpoint_every": "10 updates", "validate_every": "20 updates",
    "schedule": {"peak": 0.005, "warmup": 10},
}  # fmt: skip


RECURRENT = {"kind": "recurrent", "layers": 2, "width": 32, "dropout": 0.1, "tied": "none", "teacher_forcing": 0.75}
KINDS: dict[str, dict[str, Any]] = {
    "transformer": SMALL,
    "newer options": SMALL
    | {"normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 1, "norm": "pre"},
    "s2s": RECURRENT | {"attention": {"kind": "none"}},
    "local attention": RECURRENT | {"attention": {"kind": "local-p", "score": "dot", "window": 3}},
    "context feeding": RECURRENT
    | {
        "attention": {"kind": "local-p", "score": "dot", "window": 3, "pad_source": True, "centre_width": 8},
        "context_feeding": True,
        "activation": "relu",
        "scale_embeddings": False,
        "output_bias": True,
        "teacher_forcing_draw": "batch",
    },
    "image queries": SMALL
    | {
        "kind": "multimodal", "images": "blank", "keys": "embeddings", "attention_output": False,
        "attention_bias": False, "norm": "pre", "layers": 2,
    },
}  # fmt: skip


def experiment(model: dict[str, Any] | None = None, kind: str = "transformer", **training: Any) -> Experiment:
    return Experiment.model_validate({"model": KINDS[kind] | (model or {}), "training": SHORT | training})


def run_to_end(encoded: Path, run: Path, config: Experiment, seed: int = 1) -> dict[str, Any]:
    run.mkdir(parents=True, exist_ok=True)
    train(encoded, run, config, seed, "cpu", 1, "copy/small")
    return dict(read_json(run / "training.json"))


def validations(run: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if r["event"] == "valid"]


def weights(run: Path, update: int) -> dict[str, torch.Tensor]:
    return load_file(run / f"state/checkpoints/update-{update:08d}/weights.safetensors")


def assert_same_weights(a: Path, b: Path, update: int = 40) -> None:
    first, second = weights(a, update), weights(b, update)
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def undisturbed(copy_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed")
    run_to_end(copy_corpus, run, experiment())
    return run


@pytest.mark.parametrize(
    ("kind", "model", "peak", "updates"),
    [
        ("transformer", {"width": 64, "ffn": 128, "dropout": 0.0}, 0.005, 400),
        pytest.param(
            "local attention",
            {"layers": 1, "width": 64, "dropout": 0.1, "teacher_forcing": 1.0},
            0.01,
            1100,
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_copy_task_is_learned(
    copy_corpus: Path, tmp_path: Path, kind: str, model: dict[str, Any], peak: float, updates: int
) -> None:
    config = experiment(
        model, kind, batch="2000 tokens", updates=updates, train_bleu=50,
        checkpoint_every=f"{updates // 2} updates", validate_every=f"{updates // 2} updates",
        schedule={"peak": peak, "warmup": 100},
    )  # fmt: skip
    run_to_end(copy_corpus, tmp_path, config)
    valid = validations(tmp_path)
    assert valid[-1]["bleu"] > 98 and valid[-1]["train_bleu"] > 98
    average(tmp_path, copy_corpus, "last", tmp_path / "model")
    unseen = sorted(set(copy_lines(600, 3)) - set(copy_lines(6000, 1)))
    found = Translator.load(tmp_path / "model", "cpu").translate_clean(unseen, Decoding(beam=2))
    right = sum(f[0].text == line for f, line in zip(found, unseen, strict=True))
    assert len(unseen) > 400 and right / len(unseen) >= 0.99


def test_prefetching_changes_nothing(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Updates.after
    monkeypatch.setattr(Updates, "after", lambda self, progress: prefetch(plain(self, progress)))  # as on a GPU
    run_to_end(copy_corpus, tmp_path / "whole", experiment())
    assert_same_weights(undisturbed, tmp_path / "whole")
    for updates in (17, 40):
        run_to_end(copy_corpus, tmp_path / "parts", experiment(updates=updates))
    assert_same_weights(undisturbed, tmp_path / "parts")
    patient = experiment(updates=400, validate_every="2 updates", patience=3, schedule={"peak": 1e-9, "warmup": 0})
    ended = run_to_end(copy_corpus, tmp_path / "patient", patient)
    assert ended["stopped"] == "patience" and ended["updates"] < 400


def test_one_seed_gives_one_result_and_another_seed_another(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    run_to_end(copy_corpus, tmp_path / "same", experiment())
    assert_same_weights(undisturbed, tmp_path / "same")
    run_to_end(copy_corpus, tmp_path / "other", experiment(), seed=2)
    assert not torch.equal(
        *(weights(r, 40)["decoder.0.feed_forward.inner.weight"] for r in (undisturbed, tmp_path / "other"))
    )


def train_slowly(corpus: Path, run: Path, config: Experiment) -> None:
    train_on = Trainer.train_on
    Trainer.train_on = lambda self, update: (time.sleep(0.05), train_on(self, update))[1]  # type: ignore[assignment, method-assign]
    try:
        train(corpus, run, config, 1, "cpu", 1, "copy/small")
    except Interrupted as interruption:
        sys.exit(interruption.exit_code)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("transformer", signal.SIGKILL),
        pytest.param("transformer", signal.SIGTERM, marks=pytest.mark.long),
        pytest.param("transformer", signal.SIGUSR1, marks=pytest.mark.long),
        pytest.param("transformer", signal.SIGHUP, marks=pytest.mark.long),
        pytest.param("s2s", signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("local attention", signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("context feeding", signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_killed_anywhere_and_started_again_ends_bit_identical(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    config = experiment(kind=kind)
    if kind != "transformer":
        undisturbed = tmp_path / "undisturbed"
        run_to_end(copy_corpus, undisturbed, config)
    moments, log = random.Random(5), tmp_path / "state" / "log.jsonl"
    for _ in range(3):
        started = log.stat().st_mtime_ns if log.exists() else 0
        process = forks.start(tmp_path / "said", os.environ, train_slowly, copy_corpus, tmp_path, config)
        while process.is_alive() and (not log.exists() or log.stat().st_mtime_ns == started):
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 1.2))
        code = forks.stop(process, number)
        ended = (tmp_path / "state" / "checkpoints" / "update-00000040").is_dir()  # then it need not heed signals
        told = (tmp_path / "said").read_text()
        assert code in (-signal.SIGKILL, 128 + number, 0) or (ended and code == -number), told
    run_to_end(copy_corpus, tmp_path, config)
    assert_same_weights(undisturbed, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    expected = [json.loads(line) for line in (undisturbed / "log.jsonl").read_text().splitlines()]

    def losses(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(r["event"], r["update"], r["loss"]) for r in found if r["event"] in ("train", "valid")]

    assert losses(records) == losses(expected)


@pytest.mark.parametrize("kind", ["context feeding", "image queries", "newer options"])
def test_other_models_and_a_loss_by_sentence_resume_bit_identical(copy_corpus: Path, tmp_path: Path, kind: str) -> None:
    options = {"loss_mean": "sentences", "checkpoint_every": "2 updates", "validation_bleu": False}
    for updates in (4, 8):
        run_to_end(copy_corpus, tmp_path / "resumed", experiment(kind=kind, updates=updates, **options))
    run_to_end(copy_corpus, tmp_path / "whole", experiment(kind=kind, updates=8, **options))
    assert_same_weights(tmp_path / "resumed", tmp_path / "whole", 8)


@pytest.mark.parametrize("loss_mean", ["pieces", "sentences"])
def test_accumulation_and_bigger_batches_agree(small_corpus: Path, tmp_path: Path, loss_mean: str) -> None:
    options = {"optimizer": {"epsilon": 1e-3}, "updates": 3, "validation_bleu": False, "loss_mean": loss_mean}
    model = {"dropout": 0.0}
    run_to_end(small_corpus, tmp_path / "one", experiment(model, **options, batch="600 sentences"))
    run_to_end(small_corpus, tmp_path / "many", experiment(model, **options, batch="10 sentences", accumulate=60))
    for (name, a), b in zip(weights(tmp_path / "one", 3).items(), weights(tmp_path / "many", 3).values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def test_bf16_learns_too(copy_corpus: Path, tmp_path: Path) -> None:
    config = experiment(updates=60, precision="bf16", validate_every="60 updates", validation_bleu=False)
    run_to_end(copy_corpus, tmp_path, config)
    found = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [r["loss"] for r in found if r["event"] == "valid"][-1] < 2.3  # ln 10: better than knowing the vocabulary
    assert next(iter(weights(tmp_path, 60).values())).dtype == torch.float32


def test_without_instructions_for_bf16_a_training_computes_in_fp32_and_says_so(
    copy_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The weights are those of fp32, on any machine; finished again where bf16 is fast, the record still tells."""
    options: dict[str, Any] = {"updates": 5, "validation_bleu": False}
    run_to_end(copy_corpus, tmp_path / "expected", experiment(**options))
    monkeypatch.setattr(machine, "_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    run_to_end(copy_corpus, tmp_path / "found", experiment(**options, precision="bf16"))
    told = "precision: bf16 is computed in fp32, as the machine that trains has no instructions for bf16"
    assert told in capsys.readouterr().err
    assert_same_weights(tmp_path / "expected", tmp_path / "found", 5)
    assert read_json(tmp_path / "found/training.json")["hardware"]["precision"] == "fp32"
    monkeypatch.setattr(machine, "_capabilities", lambda: {"avx512_bf16": True})
    run_to_end(copy_corpus, tmp_path / "found", experiment(**options, precision="bf16"))
    assert told in capsys.readouterr().err


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_taken(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(copy_corpus, tmp_path, experiment())
    newest = tmp_path / "state/checkpoints/update-00000040/weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    run_to_end(copy_corpus, tmp_path, experiment())
    told = r"update-00000040/weights\.safetensors: expected sha256 .* training resumes from the checkpoint before"
    assert re.search(told, capsys.readouterr().err)
    assert_same_weights(undisturbed, tmp_path)


def test_a_damaged_checkpoint_of_a_finished_training_says_to_delete_that(copy_corpus: Path, tmp_path: Path) -> None:
    run_to_end(copy_corpus, tmp_path / "run", experiment(updates=30))
    damaged = tmp_path / "run/state/checkpoints/update-00000010/weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    run_to_end(copy_corpus, tmp_path / "run", experiment(updates=30))  # it is finished, so this mends nothing
    advice = f"choose another checkpoint (--at), or delete {tmp_path / 'run'} and train again"
    with pytest.raises(DataError, match=re.escape(advice)):
        average(tmp_path / "run", copy_corpus, "average 3", tmp_path / "model")


@pytest.mark.filterwarnings("ignore:.*meta parameter")
def test_the_optimisers_state_resumes_where_its_parameters_are(tmp_path: Path) -> None:
    """The fused kernel wants all of it there; as another device serves one that computes nothing."""
    model = torch.nn.Linear(2, 3)
    made = make_optimizer(model, Optimizer())
    model(torch.ones(1, 2)).sum().backward()
    made.step()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Progress(update=1), model, made)
    elsewhere = torch.nn.Linear(2, 3, device="meta")
    resumed = make_optimizer(elsewhere, Optimizer())
    assert checkpoints.resume(elsewhere, resumed).update == 1
    assert {name for state in resumed.state.values() for name in state} == {"step", "exp_avg", "exp_avg_sq"}
    assert {value.device.type for state in resumed.state.values() for value in state.values()} == {"meta"}


def test_a_digit_that_changed_in_a_checkpoints_progress_is_seen(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=30))
    newest = tmp_path / "state/checkpoints/update-00000030/progress.json"
    newest.write_text(newest.read_text().replace('"batch": 30', '"batch": 20'))
    assert read_json(newest)["progress"]["batch"] == 20
    run_to_end(copy_corpus, tmp_path, experiment())
    assert "progress.json: is not as it was written; set aside" in capsys.readouterr().err
    assert_same_weights(undisturbed, tmp_path)


def test_an_older_checkpoint_whose_progress_cannot_be_read_is_set_aside(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=30))
    (tmp_path / "state/checkpoints/update-00000010/progress.json").write_text("")
    run_to_end(copy_corpus, tmp_path, experiment())
    told = r"update-00000010/progress\.json: expected JSON.*set aside as damaged-update-"
    assert re.search(told, capsys.readouterr().err)
    assert_same_weights(undisturbed, tmp_path)
    start = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines() if '"start"' in line][-1]
    assert start["update"] == 30 and start["hardware"]["threads"] == 1


def test_pairs_that_are_too_long_for_the_model_are_told_of_every_split(copy_corpus: Path, tmp_path: Path) -> None:
    expected = {
        split: sum(n > 4 for n in np.diff(np.load(copy_corpus / f"{split}.source.offsets.npy")))
        for split in ("train", "valid")
    }
    for _ in range(2):  # the second time nothing is left to train, and the warnings stay
        with recorded("train", tmp_path / "training.json"):
            made = run_to_end(copy_corpus, tmp_path, experiment({"max_positions": 6}, updates=10))
        warnings = read_warnings(tmp_path / "training.json")
        assert {w.split: w.count for w in warnings} == expected
        assert [w.split for w in warnings if "max_words" in w.remedy] == ["train"]  # cleaning drops no validation pair
    assert (made["too_long"], made["too_long_valid"]) == (expected["train"], expected["valid"])


def test_the_state_of_another_training_is_kept_aside(
    copy_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=2))
    run_to_end(copy_corpus, tmp_path, experiment(updates=2, label_smoothing=0.1))
    assert "held another training" in capsys.readouterr().err
    assert len(list(tmp_path.glob("state-*/checkpoints/update-00000002"))) == 1
    run_to_end(copy_corpus, tmp_path, experiment(updates=4))  # back to the first: it goes on where it was
    first = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in first if '"start"' in line] == [0, 2]


@pytest.mark.parametrize(
    ("before", "after", "aside"),
    [
        ({"keep_last": 3}, {"keep_last": 2}, 0),
        ({"keep_last": 2}, {"keep_last": 1, "keep_best": 2}, 0),  # the loss falls, so the best are the last
        ({"keep_last": 4}, {}, 0),  # there are but four
        ({"keep_last": 3}, {"keep_last": 4}, 1),
        ({"keep_last": 1}, {"keep_last": 1, "keep_best": 3}, 1),
    ],
)
def test_checkpoints_that_were_kept_are_enough_for_others_to_keep(
    copy_corpus: Path, tmp_path: Path, before: dict[str, int], after: dict[str, int], aside: int
) -> None:
    every = {"updates": 8, "checkpoint_every": "2 updates", "validate_every": "2 updates"}
    run_to_end(copy_corpus, tmp_path, experiment(**every, **before))
    made = run_to_end(copy_corpus, tmp_path, experiment(**every, **after))
    assert len(made["checkpoints"]) == max(2, after.get("keep_last", 4), after.get("keep_best", 0))
    assert len(list(tmp_path.glob("state-*"))) == aside
    starts = [
        json.loads(line)["update"] for line in (tmp_path / "log.jsonl").read_text().splitlines() if '"start"' in line
    ]
    assert starts == ([0] if aside else [0, 8])


def test_a_state_that_does_not_say_its_training_is_kept_aside(
    copy_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=2))
    (tmp_path / "state/identity.json").unlink()
    run_to_end(copy_corpus, tmp_path, experiment(updates=2, label_smoothing=0.1))
    assert "identity.json, which says which, is missing" in capsys.readouterr().err
    assert len(list(tmp_path.glob("state-*/checkpoints/update-00000002"))) == 1
    start = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    assert (start["event"], start["update"]) == ("start", 0)


def test_training_longer_goes_on_from_the_state(copy_corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=20))
    assert run_to_end(copy_corpus, tmp_path, experiment())["updates"] == 40
    assert_same_weights(undisturbed, tmp_path)
    assert not list(tmp_path.glob("state-*"))


def test_patience_ends_training_and_best_is_kept(copy_corpus: Path, tmp_path: Path) -> None:
    config, hasty = (
        experiment(
            updates=200, patience=many, keep_last=1, validate_every="5 updates", schedule={"peak": 3.0, "warmup": 3}
        )  # a rate this high makes it worse and worse
        for many in (2, 1)
    )
    found = run_to_end(copy_corpus, tmp_path, config)
    assert found["stopped"] == "patience" and found["updates"] < 200
    valid = validations(tmp_path)
    best = min(valid, key=lambda r: r["loss"])
    assert [path.name for path in select(tmp_path, "best", "loss")] == [f"update-{best['update']:08d}"]
    assert valid[-1]["update"] == best["update"] + 2 * 5
    again = run_to_end(copy_corpus, tmp_path, config)  # a finished training is not taken up again
    assert again["updates"] == found["updates"]
    sooner = next(record["update"] for record in valid if not record["best"])
    with pytest.raises(ConfigError, match=f"has trained to update {found['updates']}, beyond the .* for, {sooner};"):
        run_to_end(copy_corpus, tmp_path, hasty)


@pytest.mark.parametrize("monitor", ["loss", "bleu"])
def test_the_best_checkpoints_are_kept_in_whatever_order_they_come(
    small_corpus: Path, tmp_path: Path, monitor: str
) -> None:
    config = experiment(
        updates=30, validate_every="1 updates", checkpoint_every="30 updates", keep_best=5, monitor=monitor,
        schedule={"peak": 0.1, "warmup": 1},
    )  # fmt: skip
    run_to_end(small_corpus, tmp_path, config)
    valid = validations(tmp_path)
    ranked = sorted(valid, key=lambda r: (r["loss"] if monitor == "loss" else -r["bleu"], r["update"]))[:5]
    assert not all(r["best"] for r in ranked)  # one of them was not the best when it came
    expected = [f"update-{update:08d}" for update in sorted(r["update"] for r in ranked)]
    assert [path.name for path in select(tmp_path, "average best 5", monitor)] == expected


def test_a_loss_that_is_not_a_number_stops_training(copy_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected finite loss and gradients, got .*lower schedule\.peak"):
        run_to_end(copy_corpus, tmp_path, experiment(updates=200, schedule={"peak": 1e30, "warmup": 0}))
    assert not (tmp_path / "training.json").exists()
    (kept,) = (tmp_path / "state").glob("not-a-number-*.json")
    batch = read_json(kept)["batches"][0]
    assert len(batch["source"]) == len(batch["target"]) > 1


def spoil(monkeypatch: pytest.MonkeyPatch, numbers: set[int]) -> None:
    """Make loss and gradients of some updates not a number."""
    train_on = Trainer.train_on

    def spoiled(self: Trainer, update: Update) -> None:
        add = self.gradients.add

        def add_nan(*arguments: Any) -> Any:
            sums = add(*arguments)
            sums[0] = float("nan")
            self.gradients.tensors()[0][:] = float("nan")
            return sums

        with pytest.MonkeyPatch.context() as patch:
            if update.number in numbers:
                patch.setattr(self.gradients, "add", add_nan)
            train_on(self, update)

    monkeypatch.setattr(Trainer, "train_on", spoiled)


def test_a_training_stopped_by_a_passing_fault_ends_as_one_left_alone(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(DataError, match=r"at update 17: .*not-a-number-00000017"),
    ):
        spoil(patch, {17})
        run_to_end(copy_corpus, tmp_path, experiment())
    run_to_end(copy_corpus, tmp_path, experiment())
    assert_same_weights(undisturbed, tmp_path)


def test_updates_that_are_no_number_are_left_out_and_counted(copy_corpus: Path, tmp_path: Path) -> None:
    config = experiment(on_nan="skip")
    with pytest.MonkeyPatch.context() as patch:
        spoil(patch, {1, 20, 25})
        found = run_to_end(copy_corpus, tmp_path, config)
    assert (found["skipped"], found["updates"]) == (3, 40)
    assert all(torch.isfinite(value).all() for value in weights(tmp_path, 40).values())
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(isinstance(r["loss"], float) and r["loss"] < 10 for r in records if "loss" in r)
    message = "at update 30: .*, for the 11th time in a row; .*train from the beginning$"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(DataError, match=message):
        spoil(patch, set(range(20, 40)))
        run_to_end(copy_corpus, tmp_path / "too many", config)


def test_skipping_goes_on_where_a_number_that_is_none_stopped(copy_corpus: Path, tmp_path: Path) -> None:
    stops, skips = (experiment(on_nan=how) for how in ("stop", "skip"))
    with pytest.MonkeyPatch.context() as patch:
        spoil(patch, {17})
        run_to_end(copy_corpus, tmp_path / "at once", skips)
        with pytest.raises(DataError, match="or set on_nan: skip, which goes on from the last checkpoint"):
            run_to_end(copy_corpus, tmp_path / "later", stops)
        found = run_to_end(copy_corpus, tmp_path / "later", skips)
    records = [json.loads(line) for line in (tmp_path / "later/log.jsonl").read_text().splitlines()]
    assert [r["update"] for r in records if r["event"] == "start"] == [0, 10] and found["skipped"] == 1
    assert_same_weights(tmp_path / "at once", tmp_path / "later")
    run_to_end(copy_corpus, tmp_path / "later", stops)  # has skipped an update, which this one would not
    assert list((tmp_path / "later").glob("state-*"))


def test_no_gpu_where_one_was_asked(copy_corpus: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match="expected a GPU, got none"):
        train(copy_corpus, tmp_path, experiment(), 1, "cuda", 1, "copy/small")


def test_averaging_is_the_mean_of_the_selected_checkpoints(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    average(undisturbed, copy_corpus, "average 3", tmp_path / "model")
    found = load_file(tmp_path / "model/weights.safetensors")
    for name, value in found.items():
        expected = sum(weights(undisturbed, u)[name].double() for u in (20, 30, 40)) / 3
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=1e-7)
    provenance = read_json(tmp_path / "model/provenance.json")
    assert provenance["checkpoints"] == ["update-00000020", "update-00000030", "update-00000040"]
    assert provenance["selection"] == "average 3" and provenance["data"]["train"]["sentences"] == 6000


@pytest.mark.parametrize(
    ("at", "updates"), [("last", [40]), ("update 20", [20]), ("average 2", [30, 40]), ("best", [40])]
)
def test_selection(undisturbed: Path, at: str, updates: list[int]) -> None:
    assert [path.name for path in select(undisturbed, at, "loss")] == [f"update-{u:08d}" for u in updates]


def test_a_selection_that_is_not_there_lists_what_is(undisturbed: Path) -> None:
    with pytest.raises(ConfigError, match=r"at: epoch 16: expected 1 .* got 0; there are: update 10 \(epoch"):
        select(undisturbed, "epoch 16", "loss")


def test_a_run_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected checkpoints in .*, got none; where nmt restore put the run back"):
        select(tmp_path, "average 5", "loss")


def test_models_translate_together_by_the_mean_of_their_probabilities(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    members = [tmp_path / at.replace(" ", "-") for at in ("update 10", "last")]
    for member, at in zip(members, ("update 10", "last"), strict=True):
        average(undisturbed, copy_corpus, at, member)
    ensemble(members, tmp_path / "both")
    both, alone = Translator.load(tmp_path / "both", "cpu"), [Translator.load(one, "cpu") for one in members]
    (line,) = copy_lines(1, 9)
    (found,) = both.translate_clean([line], Decoding(beam=3))[0]
    ids = both.source.ids
    source = torch.tensor([[ids.bos, *both.source.encode([line])[0], ids.eos]])
    fed, expected = torch.tensor([[ids.bos, *found.ids]]), [*found.ids, ids.eos]
    with torch.inference_mode():
        each = [one.model.log_probabilities(one.model(source, fed)[0]).exp() for one in alone]
    log_probability = float(torch.stack(each).mean(0).log()[range(len(expected)), expected].sum())
    assert found.score == pytest.approx(log_probability / len(expected), abs=1e-4)
    looked = [one.attentions(line, found).weights["source"] for one in (both, *alone)]
    assert torch.allclose(looked[0], (looked[1] + looked[2]) / 2, atol=1e-6)
    made, parts = (read_json(one / "provenance.json") for one in (tmp_path / "both", members[0]))
    assert made["parameters"] == 2 * parts["parameters"] and made["members"][0] == parts["weights_sha256"]


def test_only_models_that_fit_one_another_translate_together(
    copy_corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    average(undisturbed, copy_corpus, "last", tmp_path / "one")
    for copy in ("two", "other"):
        shutil.copytree(tmp_path / "one", tmp_path / copy)
    ensemble([tmp_path / "one", tmp_path / "other"], tmp_path / "both")
    write_json(tmp_path / "other/cleaning.json", {"languages": "en-fr"})
    for models, message in [
        (["one"], "two models or more"),
        (["one", "other"], "other: expected the same cleaning as in .*one"),
        (["one", "both"], "both: expected a model, got an ensemble"),
        (["one", "one"], "expected different models for an ensemble, got one twice"),
    ]:
        with pytest.raises(ConfigError, match=message):
            ensemble([tmp_path / name for name in models], tmp_path / "out")
    with pytest.raises(ConfigError, match="expected a folder for the ensemble, got one that holds a model"):
        ensemble([tmp_path / "one", tmp_path / "two"], tmp_path / "other")
    with pytest.raises(ConfigError, match="got an ensemble"):
        export(tmp_path / "both", tmp_path / "out", "ctranslate2")
    assert not (tmp_path / "out").exists()


def test_decoding_a_file_keeps_order_and_empty_lines(copy_corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    average(undisturbed, copy_corpus, "last", tmp_path / "model")
    lines = ["w1 w2 w3", "", *copy_lines(50, 9), "w4"]
    (tmp_path / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    decoding = Decoding(beam=3, nbest=3, batch="60 tokens")
    decode_file(tmp_path / "model", tmp_path / "source.txt", tmp_path / "out/hypotheses.txt", decoding, "cpu", 1)
    found = (tmp_path / "out/hypotheses.txt").read_text().splitlines()
    translator = Translator.load(tmp_path / "model", "cpu")
    alone = [translator.translate_clean([line], decoding)[0][0].text for line in lines]
    assert found == alone and found[1] == ""
    table = [line.split("\t") for line in (tmp_path / "out/nbest.tsv").read_text().splitlines()]
    scores = [float(score) for number, score, _ in table if number == "3"]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    making = read_json(tmp_path / "out/decoding.json")
    assert making["decoding"]["beam"] == 3 and making["sentences"] == len(lines)


def decode_slowly(model: Path, source: Path, out: Path) -> None:
    decode_stage.CHUNK, slow = 20, translator.search
    translator.search = lambda *given: (time.sleep(0.05), slow(*given))[1]  # type: ignore[assignment]
    try:
        decode_file(model, source, out, Decoding(beam=2, nbest=2, batch="60 tokens"), "cpu", 1)
    except Interrupted as interruption:
        sys.exit(interruption.exit_code)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),
        pytest.param(signal.SIGUSR1, marks=pytest.mark.long),
    ],
)
def test_decoding_goes_on_after_the_last_whole_chunk(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    source, whole, cut, said = tmp_path / "source.txt", tmp_path / "whole", tmp_path / "cut", tmp_path / "said"
    source.write_text("".join(f"{line}\n" for line in ["", *copy_lines(150, 9)]))

    def start(out: Path) -> BaseProcess:
        return forks.start(said, os.environ, decode_slowly, model, source, out / "hypotheses.txt")

    assert forks.stop(start(whole), 0) == 0, said.read_text()
    kept: list[tuple[str, int]] = []
    for chunks in (1, 3):
        process = start(cut)
        while process.is_alive() and len(list(cut.glob("hypotheses.txt.chunks/*.json"))) < chunks:
            time.sleep(0.01)
        code = forks.stop(process, number)
        assert code == (-number if number == signal.SIGKILL else 128 + number), said.read_text()
        assert not (cut / "hypotheses.txt").exists()
        there = [(path.name, path.stat().st_mtime_ns) for path in sorted(cut.glob("hypotheses.txt.chunks/*.json"))]
        assert there[: len(kept)] == kept and len(there) >= chunks
        kept = there
    assert forks.stop(start(cut), 0) == 0, said.read_text()
    for name in ("hypotheses.txt", "nbest.tsv", "alignments.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert not list(cut.glob("*.chunks"))


def test_attention_is_written_for_the_lines_asked_for(model: Path, tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("".join(f"{line}\n" for line in copy_lines(30, 9)))
    files = tmp_path / "source.txt", tmp_path / "hypotheses.txt"
    decode_file(model, *files, Decoding(beam=1), "cpu", 1, attended=[17, 4])
    assert [sentence["line"] for sentence in read_json(tmp_path / "alignments.json", list)] == [4, 17]
    with pytest.raises(ConfigError, match="has no line 31 to show, it has 30"):
        decode_file(model, *files, Decoding(beam=1), "cpu", 1, attended=[31])


def test_chunks_of_another_translation_are_not_taken(model: Path, tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("w1 w2\n")
    stale = tmp_path / "hypotheses.txt.chunks" / "00000000-000000.json"
    write_json(stale, {"seconds": 1, "found": [[["wrong", 0.0, []]]]})
    decode_file(model, tmp_path / "source.txt", tmp_path / "hypotheses.txt", Decoding(beam=1), "cpu", 1)
    assert (tmp_path / "hypotheses.txt").read_text() != "wrong\n" and not stale.exists()


def test_a_file_that_cannot_be_written_is_named_before_translating(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source.txt", tmp_path / "out"
    source.write_text("w1 w2\n")
    out.mkdir()
    with pytest.raises(DataError, match="out: expected a file to write, got a folder"):
        decode_file(model, source, out, Decoding(), "cpu", 1)
    with pytest.raises(DataError, match=r"source\.txt: expected an output file, got the input"):
        decode_file(model, source, source, Decoding(), "cpu", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source.txt"]
    assert source.read_text() == "w1 w2\n"


def test_a_list_of_the_best_goes_with_the_translations_it_was_of(model: Path, tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("w1 w2\n")
    for nbest in (2, 1):
        decode_file(model, tmp_path / "source.txt", tmp_path / "out.txt", Decoding(beam=2, nbest=nbest), "cpu", 1)
        assert (tmp_path / "nbest.tsv").exists() == (nbest == 2)


def test_a_model_that_is_cut_short_is_named(copy_corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    average(undisturbed, copy_corpus, "last", tmp_path / "model")
    file = tmp_path / "model/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"weights\.safetensors: expected safetensors"):
        Translator.load(tmp_path / "model", "cpu")


def test_training_and_decoding_import_nothing_heavy() -> None:
    modules = "nmt.training.train, nmt.translation.decode_file, nmt.training.average, nmt.cli.main"
    code = f"import sys, {modules}; print(' '.join(sorted(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    banned = {
        "mlflow",
        "snakemake",
        "sacremoses",
        "sacrebleu",
        "pandas",
        "matplotlib",
        "pooch",
        "PIL",
        "jinja2",
        "sklearn",
    }
    assert banned.isdisjoint(found)


def test_an_end_that_was_saved_by_chance_is_validated(
    copy_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare, train_on = {"validate_every": "40 updates", "checkpoint_every": "40 updates"}, Trainer.train_on

    def interrupted(self: Trainer, update: Update) -> None:
        train_on(self, update)
        if update.number == 12:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Trainer, "train_on", interrupted)
        run_to_end(copy_corpus, tmp_path, experiment(**rare))
    ended = run_to_end(copy_corpus, tmp_path, experiment(updates=12, **rare))
    records = list(map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines()))
    assert [record["update"] for record in records if record["event"] == "valid"] == [12]
    assert ended["checkpoints"][-1]["valid_loss"] is not None
    assert select(tmp_path, "best", "loss")


def test_an_end_already_passed_is_refused(copy_corpus: Path, tmp_path: Path) -> None:
    run_to_end(copy_corpus, tmp_path, experiment(updates=12))
    with pytest.raises(ConfigError, match="has trained to update 12, beyond the end now asked for, 10"):
        run_to_end(copy_corpus, tmp_path, experiment(updates=10))


def test_what_a_finished_training_left_stays(copy_corpus: Path, tmp_path: Path) -> None:
    made = run_to_end(copy_corpus, tmp_path, experiment(updates=12))
    del made["config"]["training"]["schedule"]["cooldown"]  # a key that came later
    write_json(tmp_path / "training.json", made | {"code_version": "of that day"})
    left = {name: (tmp_path / name).read_bytes() for name in ("training.json", "log.jsonl", "state/log.jsonl")}
    with pytest.raises(ConfigError, match="beyond the end now asked for"):
        run_to_end(copy_corpus, tmp_path, experiment(updates=10))
    with pytest.raises(ConfigError, match="expected a multimodal model, got transformer"):
        train(copy_corpus, tmp_path, experiment(updates=12), 1, "cpu", 1, "copy/small", images=tmp_path)
    assert run_to_end(copy_corpus, tmp_path, experiment(updates=12))["code_version"] == "of that day"
    assert left == {name: (tmp_path / name).read_bytes() for name in left}
    for name in ("log.jsonl", "training.json"):  # without one of them the training has left nothing
        (tmp_path / name).write_text("")
        assert run_to_end(copy_corpus, tmp_path, experiment(updates=12))["code_version"] != "of that day"
        write_json(tmp_path / "training.json", made | {"code_version": "of that day"})
    assert (tmp_path / "log.jsonl").read_bytes().startswith(left["log.jsonl"])


def test_a_training_tells_every_machine_and_code_it_had(copy_corpus: Path, tmp_path: Path) -> None:
    assert [start["update"] for start in run_to_end(copy_corpus, tmp_path, experiment(updates=12))["starts"]] == [0]
    log = tmp_path / "state/log.jsonl"
    start, *rest = log.read_text().splitlines()
    older = json.dumps({key: value for key, value in json.loads(start).items() if key != "hardware"})
    for first, end, updates in ((start, 13, [0]), (older, 14, [0, 13])):
        log.write_text("".join(f"{line}\n" for line in (older, first, *rest)))  # of two at one update the last counts
        told = run_to_end(copy_corpus, tmp_path, experiment(updates=end))
        assert [one["update"] for one in told["starts"]] == updates
        assert told["starts"][-1] == {"update": updates[-1]} | {k: told[k] for k in ("hardware", "code_version")}
    (tmp_path / "training.json").unlink()  # so it starts again, at the end
    assert run_to_end(copy_corpus, tmp_path, experiment(updates=14))["starts"] == told["starts"]


def test_two_processes_do_not_train_in_one_folder(copy_corpus: Path, tmp_path: Path) -> None:
    with exclusive(tmp_path / "train.lock", tmp_path), pytest.raises(DataError, match=f"process {os.getpid()} on "):
        run_to_end(copy_corpus, tmp_path, experiment())


def test_a_model_needs_the_corpus_it_was_trained_on(copy_corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(copy_corpus, other)
    meta = read_json(other / "meta.json")
    meta["splits"]["train"]["source_sha256"] = "0"
    write_json(other / "meta.json", meta)
    with pytest.raises(DataError, match="was not trained on"):
        average(undisturbed, other, "last", tmp_path / "model")


def test_a_model_that_writes_nothing_but_nan_has_bleu_0(copy_corpus: Path, tmp_path: Path) -> None:
    trainer = Trainer(copy_corpus, tmp_path / "state", experiment(), 1, torch.device("cpu"))
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(float("nan"))
    assert trainer.validation.bleu(trainer.model) == 0.0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_saves_and_says_where(
    copy_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "state").mkdir()
    trainer, number = (
        Trainer(copy_corpus, tmp_path / "state", experiment(), 1, torch.device("cpu")),
        signal.Signals[name],
    )
    train_on = trainer.train_on
    monkeypatch.setattr(trainer, "train_on", lambda update: (signal.raise_signal(number), train_on(update)))
    before = signal.signal(number, signal.SIG_DFL)  # nohup, which may run the tests, ignores SIGHUP
    try:
        with pytest.raises(Interrupted, match=f"{name} at update 1"):
            trainer.run()
    finally:
        signal.signal(number, before)
    assert [path.name for path in trainer.checkpoints.all()] == ["update-00000001"]


@pytest.mark.parametrize(
    "by_the_end",
    [{"schedule": {"kind": "cosine"}}, {"schedule": {"cooldown": 4}}, {"consistency": {"last": 4}}, {}],
)
def test_what_depends_on_the_end_cannot_go_on_to_another(
    copy_corpus: Path, tmp_path: Path, by_the_end: dict[str, object]
) -> None:
    for updates in (6, 8):
        run_to_end(copy_corpus, tmp_path, experiment(updates=updates, **by_the_end))
    assert len(list(tmp_path.glob("state-*"))) == bool(by_the_end)


def test_consistency_begins_with_the_last_updates(copy_corpus: Path, tmp_path: Path) -> None:
    plain = {"updates": 6, "checkpoint_every": "1 updates"}
    for run, training in (("one", plain), ("two", plain | {"consistency": {"last": 2}})):
        run_to_end(copy_corpus, tmp_path / run, experiment(**training))
    assert_same_weights(tmp_path / "one", tmp_path / "two", 4)
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "one", tmp_path / "two", 5)


def test_consistency_brings_predictions_of_two_passes_together(copy_corpus: Path, tmp_path: Path) -> None:
    apart = []
    for weight in (1e-9, 5.0):
        (state := tmp_path / f"{weight}/state").mkdir(parents=True)
        config = experiment(model={"dropout": 0.2}, updates=60, consistency={"weight": weight})
        (trainer := Trainer(copy_corpus, state, config, 1, torch.device("cpu"))).run()
        data = trainer.updates.data
        batch = data.batch(data.batches("64 sentences")[0])
        with torch.inference_mode():
            passes = (trainer.model(batch.source, batch.target[:, :-1]) for _ in range(2))
            one, two = (trainer.model.projection(hidden).log_softmax(-1) for hidden in passes)
        apart.append(float(F.kl_div(one, two, reduction="sum", log_target=True)))
    assert apart[1] < apart[0] / 2


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"schedule": {"kind": "cosine", "cooldown": 5}}, "kind: cosine falls to 0 by itself"),
        (
            {"schedule": {"cooldown": 5}, "patience": 3},
            r"patience .* last updates, where schedule\.cooldown",
        ),
        ({"schedule": {"cooldown": 21}}, "cooldown must not exceed updates, got 21 and 20"),
        ({"consistency": {"last": 5}, "patience": 3}, r"patience .* before the last updates, where consistency\.last"),
        ({"consistency": {"last": 21}}, "consistency.last must not exceed updates, got 21 and 20"),
    ],
)
def test_an_end_that_could_not_come_is_refused(training: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Training.model_validate({"updates": 20, **training})


def test_a_schedule_longer_than_the_epochs_is_told(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = {"updates": None, "epochs": 1, "validation_bleu": False}
    total = run_to_end(small_corpus, tmp_path / "1", experiment(**epochs, schedule={"cooldown": 90}))["updates"]
    assert f"schedule.cooldown is 90 updates, but the training has {total};" in capsys.readouterr().err
    run_to_end(small_corpus, tmp_path / "2", experiment(**epochs, schedule={"cooldown": total, "warmup": total + 1}))
    told = capsys.readouterr().err
    assert "cooldown" not in told and f"schedule.warmup is {total + 1} updates, but the training has {total};" in told
    run_to_end(small_corpus, tmp_path / "3", experiment(**epochs, schedule={"warmup": total}))
    assert "warmup" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "model", "message"),
    [
        ("transformer", {"dropout": 0.0}, "consistency needs dropout"),
        ("local attention", {}, "needs model.teacher_forcing: 1, got 0.75"),
        ("transformer", {"kind": "multimodal", "image_dropout": 0.1}, "needs model.image_dropout: 0, got 0.1"),
    ],
)
def test_passes_that_would_not_differ_by_dropout_are_refused(kind: str, model: dict[str, Any], message: str) -> None:
    experiment(model, kind)
    with pytest.raises(ValidationError, match=message):
        experiment(model, kind, consistency={})


@pytest.mark.parametrize("seed", range(4))
def test_validation_bleu_is_sacrebleus(seed: int) -> None:
    numbers = random.Random(seed)
    references = [" ".join(numbers.choices("abcdef", k=numbers.randint(1, 12))) for _ in range(40 if seed else 2)]
    hypotheses = [" ".join(w for w in line.split() if numbers.random() < 0.8) for line in references]
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)
    assert bleu(hypotheses, references) == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize("languages", ["en-zh", "en-th_Thai", "en-de,en-zh"])
def test_validation_bleu_counts_characters_where_words_have_no_spaces(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: str
) -> None:
    encoded, numbers = shutil.copytree(small_corpus, tmp_path / "encoded"), random.Random(1)
    write_json(encoded / "meta.json", read_json(encoded / "meta.json") | {"languages": languages})
    alphabet = "กขคงจ" if "th" in languages else "我你他猫狗"
    count = len((encoded / "valid.references.txt").read_text().splitlines())
    references = ["".join(numbers.choices(alphabet, k=9)) for _ in range(count)]
    hypotheses = [line[:-1] for line in references]
    (encoded / "valid.references.txt").write_text("".join(f"{line}\n" for line in references))
    monkeypatch.setattr(Validation, "_translate", lambda *_: hypotheses)
    validation = Validation(encoded, torch.device("cpu"), 64)
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="char")
    assert expected.score > 80 and validation.bleu(None) == pytest.approx(expected.score)  # type: ignore[arg-type]


def test_validation_bleu_of_nothing_is_zero() -> None:
    assert bleu(["", "x"], ["a b", "c"]) == 0.0
