"""Parts of a model that a training does not change."""

from collections.abc import Iterable

from torch import nn

from nmt.config.training import Part

EMBEDDINGS = ("source_embedding.", "target_embedding.")
ENCODER = ("encoder.", "encoder_norm.", "context.", "regions.", "gate.")


def part_of(name: str) -> Part:
    """Return the part of a model that a parameter belongs to.

    A tied output projection has the name of the embedding that it shares, so it belongs to the embeddings. What is
    neither of the embeddings nor of the encoder belongs to the decoder, as an untied output projection does.

    Args:
        name: of the parameter, as ``named_parameters`` gives it.
    """
    if name.startswith(EMBEDDINGS):
        return "embeddings"
    return "encoder" if name.startswith(ENCODER) else "decoder"


def freeze(model: nn.Module, parts: Iterable[Part]) -> None:
    """Have the parameters of some parts compute no gradients; optimisers leave such parameters out."""
    chosen = set(parts)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name) not in chosen)
