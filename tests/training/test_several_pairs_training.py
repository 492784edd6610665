"""A training on several pairs of languages resumes bit for bit, and its model obeys the language asked for."""

from pathlib import Path

from safetensors.torch import load_file
from several import encode_pairs

from nmt.config.data import Subwords
from nmt.system.files import read_json
from nmt.training.experiment import Experiment
from nmt.training.train import train

EVEN = {"en-de": 200, "en-fr": 200, "de-en": 200}


def experiment(updates: int) -> Experiment:
    return Experiment.model_validate({
        "model": {"layers": 1, "width": 32, "ffn": 64, "heads": 2, "dropout": 0.1, "tied": "all"},
        "training": {
            "batch": "800 tokens", "updates": updates,
            "pair_temperature": 5, "validation_bleu": False, "schedule": {"peak": 0.01, "warmup": 4},
        },
    })  # fmt: skip


def test_several_pairs_resume_bit_identical(tmp_path: Path) -> None:
    encoded = encode_pairs(tmp_path, Subwords(kind="words", size=100))
    for updates in (4, 7):  # the first ends within an epoch, the second in the next
        train(encoded, tmp_path / "resumed", experiment(updates), 1, "cpu", 1, "table/system")
    train(encoded, tmp_path / "whole", experiment(7), 1, "cpu", 1, "table/system")
    last = "state/checkpoints/update-00000007/weights.safetensors"
    resumed, whole = (load_file(tmp_path / run / last) for run in ("resumed", "whole"))
    assert all(resumed[name].equal(whole[name]) for name in whole)
    assert 1 < read_json(tmp_path / "whole/training.json")["epochs"] < 2
