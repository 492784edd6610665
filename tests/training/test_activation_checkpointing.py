"""Layers that are computed again for the backward pass: the same bits, and less that is kept."""

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from nmt.config.models import ModelConfig
from nmt.config.training import Training
from nmt.data.batches import Batch
from nmt.models.build import build
from nmt.training.experiment import Experiment
from nmt.training.gradients import Gradients

SIZES = {"layers": 3, "width": 32, "ffn": 128, "heads": 4, "dropout": 0.2}
TODAY = {"norm": "pre", "normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 2}
MULTIMODAL = {"kind": "multimodal", "channels": 8, "regions": 4, "fusion": "queries", "norm": "pre"}


def gradients(model: dict[str, Any], training: dict[str, Any], consistency: float = 0.0) -> tuple[list[Any], int]:
    """Return the sums of a batch and all gradients, and how many bytes the forward pass keeps."""
    torch.manual_seed(1)
    config = TypeAdapter[Any](ModelConfig).validate_python(SIZES | model)
    built = build(config, 50, 60, 0).train()
    source, target = torch.randint(4, 50, (6, 11)), torch.randint(4, 60, (6, 9))
    source[0, 7:] = 0
    images = torch.randn(6, 4, 8) if "kind" in model else None
    links = torch.rand(6, 8, 11) if "guided_alignment" in training else None
    batch = Batch(source, target, torch.arange(6 * 8), images=images, links=links)
    updates = Gradients(built, Training.model_validate({"updates": 1} | training), torch.device("cpu"), 1)
    kept = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    torch.manual_seed(2)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        sums = updates.add(batch, consistency)
    return [sums.tolist(), *(tensor.tolist() for tensor in updates.tensors())], kept


@pytest.mark.parametrize(
    ("model", "training", "consistency"),
    [
        ({}, {}, 0.0),
        (TODAY, {"precision": "bf16", "label_smoothing": 0.1}, 0.0),
        ({}, {"consistency": {"weight": 2.0}}, 2.0),
        ({}, {"guided_alignment": {"weight": 2.0}}, 0.0),
        (MULTIMODAL, {}, 0.0),
    ],
)
def test_gradients_are_the_same_to_the_bit_and_less_is_kept(
    model: dict[str, Any], training: dict[str, Any], consistency: float
) -> None:
    plain, kept = gradients(model, training, consistency)
    again, least = gradients(model, training | {"activation_checkpointing": True}, consistency)
    assert again == plain and len(plain) > 20
    assert least < kept / 2


def test_a_recurrent_model_is_refused() -> None:
    training = {"updates": 1, "activation_checkpointing": True}
    with pytest.raises(ValidationError, match=r"needs a Transformer, got model\.kind: recurrent"):
        Experiment.model_validate({"model": {"kind": "recurrent"}, "training": training})
