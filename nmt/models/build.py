"""Build a translation model from its configuration."""

from nmt.config.models import MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.models.base import TranslationModel
from nmt.models.multimodal import Multimodal
from nmt.models.recurrent import Recurrent
from nmt.models.transformer import Transformer


def build(
    config: TransformerConfig | RecurrentConfig | MultimodalConfig,
    source_vocabulary: int,
    target_vocabulary: int,
    pad: int,
) -> TranslationModel:
    """Build a model with random weights from torch's global generator.

    Args:
        config: configuration of any kind of model.
        source_vocabulary: number of pieces of the source side.
        target_vocabulary: number of pieces of the target side.
        pad: id of padding.
    """
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, source_vocabulary, target_vocabulary, pad)
    if isinstance(config, MultimodalConfig):
        return Multimodal(config, source_vocabulary, target_vocabulary, pad)
    return Transformer(config, source_vocabulary, target_vocabulary, pad)
