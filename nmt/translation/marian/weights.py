"""Where each of our weights is in a ``MarianMTModel`` of Hugging Face.

Both are post-norm Transformers, with two differences. Marian keeps queries, keys and values in three layers, we in one.
Marian has the sines of a position in the first half of its encoding and the cosines in the second, we alternate them.
A permutation of the model's width makes both equal.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.config.models import TransformerConfig
from nmt.system.errors import DataError

SHARED = tuple(f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
ENCODER, DECODER, HEAD = SHARED[1], SHARED[2], "lm_head.weight"
TABLES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Tables of positions: computed, not learned."""


class Place(NamedTuple):
    """Where one of our weights is."""

    names: tuple[str, ...]  # of their weights, whose rows follow each other in ours
    width: int | None  # the dimension that is the model's width, if any
    copies: tuple[str, ...] = ()  # other names that a file may use for the same weight


def places(config: TransformerConfig) -> dict[str, Place]:
    """Return the place of each of our weights by its name."""
    embedding = {
        "all": {"source_embedding.pieces.weight": Place((SHARED[0],), 1, (*SHARED[1:], HEAD))},
        "decoder": {
            "source_embedding.pieces.weight": Place((ENCODER,), 1),
            "target_embedding.pieces.weight": Place((DECODER,), 1, (HEAD,)),
        },
        "none": {
            "source_embedding.pieces.weight": Place((ENCODER,), 1),
            "target_embedding.pieces.weight": Place((DECODER,), 1),
            "projection.weight": Place((HEAD,), 1),
        },
    }[config.tied]
    bias = {"projection.bias": Place(("final_logits_bias",), None)} if config.output_bias else {}
    layers = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
    return embedding | bias | dict(part for side, count in layers.items() for part in _layers(side, count))


def _layers(side: str, count: int) -> Iterator[tuple[str, Place]]:
    attentions = [("attention", "self_attn")] + [("source_attention", "encoder_attn")] * (side == "decoder")
    norms = [*(f"{theirs}_layer_norm" for _, theirs in attentions), "final_layer_norm"]
    for number in range(count):
        ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
        for kind in ("weight", "bias"):
            inputs = 1 if kind == "weight" else None
            for our_part, their_part in attentions:
                queries_keys_values = tuple(f"{theirs}.{their_part}.{part}_proj.{kind}" for part in "qkv")
                yield f"{ours}.{our_part}.project.{kind}", Place(queries_keys_values, inputs)
                yield f"{ours}.{our_part}.output.{kind}", Place((f"{theirs}.{their_part}.out_proj.{kind}",), 0)
            yield f"{ours}.feed_forward.inner.{kind}", Place((f"{theirs}.fc1.{kind}",), inputs)
            yield f"{ours}.feed_forward.outer.{kind}", Place((f"{theirs}.fc2.{kind}",), 0)
            for i, norm in enumerate(norms):
                yield f"{ours}.residuals.{i}.norm.{kind}", Place((f"{theirs}.{norm}.{kind}",), 0)


def to_ours(theirs: Mapping[str, Tensor], config: TransformerConfig, folder: Path) -> dict[str, Tensor]:
    """Return our weights, float32, from those of a ``MarianMTModel``.

    Args:
        theirs: weights by name.
        config: our configuration of the same model.
        folder: their origin, for messages.

    Raises:
        DataError: a weight is missing, or there is one that this kind of model does not have.
    """
    order, ours, known = _order(config.width), {}, set(TABLES)
    for name, place in places(config).items():
        found = [next((n for n in (wanted, *place.copies) if n in theirs), wanted) for wanted in place.names]
        if missing := [name for name in found if name not in theirs]:
            raise DataError(f"{folder}: expected the weights of a Marian model, got none named {missing[0]}")
        known |= {*place.names, *place.copies}
        weight = torch.cat([theirs[name].float() for name in found])
        if name == "projection.bias":
            weight = weight.flatten()
        if place.width is not None and weight.shape[place.width : place.width + 1] != (config.width,):
            raise DataError(f"{folder}: expected d_model: {config.width} numbers in {found[0]}, got {weight.shape}")
        ours[name] = weight if place.width is None else weight.index_select(place.width, order)
    if unknown := sorted(theirs.keys() - known):
        raise DataError(
            f"{folder}: expected the weights of a Marian model, got {unknown[0]} too; it cannot be imported"
        )
    return ours


def to_theirs(ours: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Return the weights of a ``MarianMTModel``, float32, from ours."""
    order, theirs = _order(config.width).argsort(), dict[str, Tensor]()
    for name, place in places(config).items():
        weight = ours[name].float()
        weight = weight if place.width is None else weight.index_select(place.width, order)
        weight = weight[None] if name == "projection.bias" else weight
        for their_name, part in zip(place.names, weight.chunk(len(place.names)), strict=True):
            theirs[their_name] = part.contiguous()
    return theirs


def _order(width: int) -> Tensor:
    """Return which number of Marian's width is each number of ours: the halves alternate."""
    return torch.arange(width).view(2, -1).t().flatten()
