"""Translation models: parts (embedding, attention, layers, loss) and the architectures made of them."""

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
    """The model that a configuration describes, its weights drawn from torch's generator.

    Args:
        config: of any kind.
        source_vocabulary: pieces on the source side.
        target_vocabulary: pieces on the target side.
        pad: the id that pads.
    """
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, source_vocabulary, target_vocabulary, pad)
    if isinstance(config, MultimodalConfig):
        return Multimodal(config, source_vocabulary, target_vocabulary, pad)
    return Transformer(config, source_vocabulary, target_vocabulary, pad)
