"""Build a translation model from its configuration."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from nmt.config.models import ModelConfig, MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.models.base import TranslationModel
from nmt.models.multimodal import Multimodal
from nmt.models.recurrent import Recurrent
from nmt.models.transformer import Transformer
from nmt.system.errors import ConfigError


def build(config: ModelConfig, source_vocabulary: int, target_vocabulary: int, pad: int) -> TranslationModel:
    """Build a model with random weights from torch's global generator.

    Args:
        config: configuration of any kind of model.
        source_vocabulary: number of pieces of the source side.
        target_vocabulary: number of pieces of the target side.
        pad: id of padding.

    Raises:
        ConfigError: no line here builds this kind.
    """
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, source_vocabulary, target_vocabulary, pad)
    if isinstance(config, MultimodalConfig):
        return Multimodal(config, source_vocabulary, target_vocabulary, pad)
    if isinstance(config, TransformerConfig):
        return Transformer(config, source_vocabulary, target_vocabulary, pad)
    raise ConfigError(f"model.kind: {config.kind}: expected a kind that nmt.models.build.build builds; add it there")


def build_empty(config: ModelConfig, vocabularies: Sequence[int], pad: int, device: str = "cpu") -> TranslationModel:
    """Build a model whose weights have no values yet, because they come from a file.

    Args:
        config: configuration of any kind of model.
        vocabularies: number of pieces of the source and the target side.
        pad: id of padding.
        device: ``cpu``, or ``meta`` for weights without memory.
    """
    with _WithoutValues(device):
        return build(config, vocabularies[0], vocabularies[1], pad)


class _WithoutValues(TorchFunctionMode):
    """Puts new weights on a device, without initial values and without drawing random numbers.

    ``torch.device("meta")`` alone would load torch's compiler for the initial values, which takes seconds.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        super().__init__()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        named = named or {}
        if function in (torch.empty, torch.randn):
            return torch.empty(*arguments, **named | {"device": self._device})
        if function.__name__.endswith(("normal_", "uniform_", "ones_", "zeros_")):
            return arguments[0] if arguments else named["tensor"]
        return function(*arguments, **named)


def outline(config: ModelConfig, vocabularies: Sequence[int], pad: int, weights: int) -> TranslationModel | None:
    """Build a model without memory for its weights, to compare their shapes with those in a file.

    Args:
        config: configuration of any kind of model, perhaps from somebody else.
        vocabularies: number of pieces of the source and the target side.
        pad: id of padding.
        weights: number of weights in the file.

    Returns:
        The model on torch's meta device. None if it cannot have so few weights.
    """
    layers = max(getattr(config, "layers", 1), getattr(config, "decoder_layers", None) or 0)
    if layers > weights:
        return None
    if getattr(config, "positions", None) in ("sinusoidal", "rotary"):
        config = config.model_copy(update={"max_positions": 3})  # the table is computed, and no weight
    return build_empty(config, vocabularies, pad, "meta")
