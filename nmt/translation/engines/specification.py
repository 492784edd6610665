"""A Transformer as a model of CTranslate2."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.attention import Attention
from nmt.models.base import TranslationModel
from nmt.models.embedding import PositionalEmbedding
from nmt.models.layers import GATES, FeedForward
from nmt.models.multimodal import Multimodal
from nmt.models.transformer import Transformer
from nmt.text.subwords import Vocabulary


def unsupported(models: Sequence[TranslationModel], source: Vocabulary) -> tuple[str, str] | None:
    """Return what CTranslate2 expects of a model and what this one is, if it does not support it.

    Args:
        models: the model, or the members of an ensemble.
        source: its source vocabulary.
    """
    model = models[0]
    if len(models) > 1:
        return "one model", "an ensemble"
    if not isinstance(model, Transformer) or isinstance(model, Multimodal):
        return "a Transformer", f"a {model.config.kind} model"
    if source.foreign:
        return "a model that nmt trained", "an imported one"
    if source.bytewise:
        return "pieces of text", "byte-level pieces"
    if model.config.context != "none":
        return "plain embeddings", f"context: {model.config.context}"
    return None


def specification(model: Any, source: Vocabulary, target: Vocabulary) -> Any:
    """Return a Transformer as a `ctranslate2.specs.TransformerSpec`, with its weights and vocabularies.

    The attention of CTranslate2 has the same fused products as ours. Self-attention computes queries, keys and values
    in one product. Attention over the source computes the queries in one product, keys and values in another. Positions
    are always our table, because CTranslate2 orders the sinusoids differently; rotary ones are rotated by halves too.
    """
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec

    config = model.config
    activation = {"relu": Activation.RELU, "gelu": Activation.GELU, "swish": Activation.SWISH}
    activation |= {"geglu": Activation.GELU, "swiglu": Activation.SWISH}
    options: dict[str, Any] = {
        "pre_norm": config.norm == "pre", "rms_norm": config.normalisation == "rms",
        "activation": activation[config.activation], "ffn_glu": config.activation in GATES,
        "rotary_dim": 0 if config.positions == "rotary" else None, "rotary_interleave": False,
        "num_heads_kv": config.key_value_heads,
    }  # fmt: skip
    spec = TransformerSpec(
        TransformerEncoderSpec(len(model.encoder), config.heads, **options),
        TransformerDecoderSpec(len(model.decoder), config.heads, **options),
    )
    _encoder(spec.encoder, model)
    _decoder(spec.decoder, model)
    spec.register_source_vocabulary(source.pieces(range(len(source))))
    spec.register_target_vocabulary(target.pieces(range(len(target))))
    spec.config.add_source_bos, spec.config.add_source_eos = not model.skipped_bos, True
    spec.config.layer_norm_epsilon = model.encoder[0].residuals[0].norm.eps
    return spec


def _encoder(spec: Any, model: Transformer) -> None:
    _embedding(spec, spec.embeddings[0], model.source_embedding, model.longest)
    for to, layer in zip(spec.layer, model.encoder, strict=True):
        around_attention, around_feed_forward = layer.residuals
        _attention(to.self_attention, layer.attention, around_attention.norm, [3])
        _feed_forward(to.ffn, layer.feed_forward, around_feed_forward.norm)
    if model.config.norm == "pre":
        _norm(spec.layer_norm, model.encoder_norm)


def _decoder(spec: Any, model: Transformer) -> None:
    _embedding(spec, spec.embeddings, model.target_embedding, model.longest)
    for to, layer in zip(spec.layer, model.decoder, strict=True):
        around_attention, around_source, around_feed_forward = layer.residuals
        _attention(to.self_attention, layer.attention, around_attention.norm, [3])
        _attention(to.attention, layer.source_attention, around_source.norm, [1, 2])
        _feed_forward(to.ffn, layer.feed_forward, around_feed_forward.norm)
    if model.config.norm == "pre":
        _norm(spec.layer_norm, model.decoder_norm)
    pieces = slice(model.projection.out_features)  # without the padding of `lay_out_for_search`
    spec.projection.weight = _array(model.projection.weight[pieces])
    if model.config.output_bias:
        spec.projection.bias = _array(model.projection.bias[pieces])


def _embedding(spec: Any, pieces: Any, embedding: PositionalEmbedding, longest: int) -> None:
    pieces.weight = _array(embedding.pieces.weight)
    spec.scale_embeddings = embedding.scale != 1
    if embedding.positions is not None:
        spec.position_encodings.encodings = _array(embedding.positions)
    elif hasattr(spec, "position_encodings"):  # the encoder always adds positions, rotary or not
        spec.position_encodings.encodings = _array(torch.zeros(longest, embedding.pieces.embedding_dim))


def _attention(spec: Any, attention: Attention, norm: nn.Module, products: Sequence[int]) -> None:
    """Set the weights of an attention layer and its norm.

    Args:
        spec: the layer of CTranslate2.
        attention: our layer.
        norm: its layer norm.
        products: for each linear layer before the output, how many of queries, keys and values it computes.
    """
    project, output, width = attention.project, attention.output, attention.project.in_features
    parts = iter(attention.sizes)
    sizes = [sum(islice(parts, count)) for count in products]
    biases = [None] * len(sizes) if project.bias is None else torch.split(project.bias, sizes)
    for linear, weight, bias in zip(spec.linear, torch.split(project.weight, sizes), biases, strict=False):
        _linear(linear, weight, bias)
    if isinstance(output, nn.Linear):
        _linear(spec.linear[-1], output.weight, output.bias)
    else:  # CTranslate2 always has an output projection; the identity changes nothing
        _linear(spec.linear[-1], torch.eye(width), None)
    _norm(spec.layer_norm, norm)


def _feed_forward(spec: Any, feed_forward: FeedForward, norm: nn.Module) -> None:
    inner, outer = feed_forward.inner, feed_forward.outer
    parts = [spec.linear_0, *([spec.linear_0_noact] if hasattr(spec, "linear_0_noact") else [])]
    for part, weight, bias in zip(parts, inner.weight.chunk(len(parts)), inner.bias.chunk(len(parts)), strict=True):
        _linear(part, weight, bias)
    _linear(spec.linear_1, outer.weight, outer.bias)
    _norm(spec.layer_norm, norm)


def _linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()
