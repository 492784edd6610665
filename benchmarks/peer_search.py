"""Run the search of the toolkits in `benchmarks.peers` with the weights of our model.

A toolkit with post-norm layers can load a post-norm model, a toolkit with pre-norm layers a pre-norm model. All
toolkits get our position table and the epsilon of our layer norms. Sockeye's attention has no biases, so it gets ours.

The score of a beam is the log-probability divided by the length. In OpenNMT-py and eole the length includes BOS.
JoeyNMT supports only (5 + length) / 6 instead of the length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from benchmarks import peers
from benchmarks.peers import BOS, EOS, PAD, Sizes, Vocabulary

# From padded ids (B, S) and the beam size to pieces, which EOS and padding may follow:
Search = Callable[[Any, int], list[list[int]]]
Copy = Callable[[Any, Any], None]  # their part, our part: copies the weights


@dataclass(frozen=True)
class Names:
    """The names of a toolkit for the parts of a layer, in our order: attention, feed-forward, norms."""

    attention: Copy
    encoder: str
    decoder: str


def copy_layers(ours: Any, encoder: Sequence[Any], decoder: Sequence[Any], names: Names) -> None:
    """Copy the weights of our layers into theirs."""
    for to, of in zip(encoder, ours.encoder, strict=True):
        _copy_layer(to, of, [of.attention], names.encoder, names.attention)
    for to, of in zip(decoder, ours.decoder, strict=True):
        _copy_layer(to, of, [of.attention, of.source_attention], names.decoder, names.attention)


def _copy_layer(to: Any, of: Any, attentions: list[Any], names: str, attention: Copy) -> None:
    others = [of.feed_forward.inner, of.feed_forward.outer, *(residual.norm for residual in of.residuals)]
    copies = [attention] * len(attentions) + [copy_part] * len(others)
    for copy, name, part in zip(copies, names.split(), attentions + others, strict=True):
        copy(to.get_submodule(name), part)


def copy_part(to: Any, of: Any) -> None:
    """Copy one of our linear layers or layer norms into theirs."""
    _fill(to, of.weight, of.bias)
    if hasattr(of, "eps"):
        to.eps = of.eps


def _fill(to: Any, weight: Any, bias: Any) -> None:
    """Set a weight and a bias; the part may have had no bias."""
    import torch

    with torch.no_grad():
        to.weight.copy_(weight)
        to.bias = torch.nn.Parameter(bias.clone())


def split_attention(names: str) -> Copy:
    """Return a function that copies attention into four linear layers: queries, keys, values and output."""

    def copy(to: Any, of: Any) -> None:
        *parts, output = (to.get_submodule(name) for name in names.split())
        for part, weight, bias in zip(parts, of.project.weight.chunk(3), of.project.bias.chunk(3), strict=True):
            _fill(part, weight, bias)
        copy_part(output, of.output)

    return copy


def copy_embedding(pieces: Any, positions: Any, of: Any) -> None:
    """Copy our embeddings and positions into their tables. Their position table may have one more axis."""
    pieces.data.copy_(of.pieces.weight)
    table = of.positions
    positions.data = table if positions.dim() == 2 else table.unsqueeze(list(positions.shape).index(1))


def longest(source: Any) -> int:
    """Return the limit of pieces in a translation, for a batch of sources (B, S) with BOS and EOS."""
    return 2 * (int(source.shape[1]) - 2) + 10


MARIAN = Names(  # also for fairseq
    split_attention("q_proj k_proj v_proj out_proj"),
    "self_attn fc1 fc2 self_attn_layer_norm final_layer_norm",
    "self_attn encoder_attn fc1 fc2 self_attn_layer_norm encoder_attn_layer_norm final_layer_norm",
)


def transformers_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """`generate` of Hugging Face transformers."""
    model, _ = peers.transformers(m, sizes)
    encoder, decoder = model.get_encoder(), model.model.decoder
    copy_layers(ours, encoder.layers, decoder.layers, MARIAN)
    for to, embedding in ((encoder, ours.source_embedding), (decoder, ours.target_embedding)):
        copy_embedding(to.embed_tokens.weight, to.embed_positions.weight, embedding)
        to.embed_scale = embedding.scale
    model.lm_head.weight = decoder.embed_tokens.weight
    model.eval()

    def search(source: Any, beam: int) -> list[list[int]]:
        sequences = model.generate(
            source, attention_mask=(source != PAD).long(), num_beams=beam, do_sample=False, early_stopping=beam > 1,
            max_new_tokens=longest(source) + 1, length_penalty=1.0, suppress_tokens=[PAD, BOS], use_cache=True,
        )  # fmt: skip
        return [row[1:].tolist() for row in sequences]

    return search


def fairseq_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """fairseq's `SequenceGenerator`."""
    import torch
    from fairseq.sequence_generator import SequenceGenerator

    model, _ = peers.fairseq(m, sizes)
    copy_layers(ours, model.encoder.layers, model.decoder.layers, MARIAN)
    for to, embedding in ((model.encoder, ours.source_embedding), (model.decoder, ours.target_embedding)):
        to.embed_tokens.weight.data.copy_(embedding.pieces.weight)
        to.embed_positions.weights = torch.cat([embedding.positions[:1] * 0, embedding.positions])  # 0: padding
        to.embed_scale = embedding.scale
    words = peers.fairseq_words(sizes["target"])

    def search(source: Any, beam: int) -> list[list[int]]:
        # fairseq counts BOS and EOS of the source, so this limit equals ours.
        generator = SequenceGenerator([model], words, beam_size=beam, max_len_a=2, max_len_b=6, max_len=500)
        inputs = {"src_tokens": source, "src_lengths": (source != PAD).sum(1)}
        hypotheses = generator.generate([model], {"net_input": inputs}, bos_token=BOS)
        return [best[0]["tokens"].tolist() for best in hypotheses]

    return search


JOEYNMT = Names(
    split_attention("q_layer k_layer v_layer output_layer"),
    "src_src_att feed_forward.pwff_layer.0 feed_forward.pwff_layer.3 layer_norm feed_forward.layer_norm",
    "trg_trg_att src_trg_att feed_forward.pwff_layer.0 feed_forward.pwff_layer.3 x_layer_norm dec_layer_norm "
    "feed_forward.layer_norm",
)


def joeynmt_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """JoeyNMT's `search`, which recomputes all positions at each step."""
    import torch
    from joeynmt.batch import Batch
    from joeynmt.search import search as their_search

    model, _ = peers.joeynmt(m, sizes)
    copy_layers(ours, model.encoder.layers, model.decoder.layers, JOEYNMT)
    for to, part, embedding in (
        (model.src_embed, model.encoder, ours.source_embedding), (model.trg_embed, model.decoder, ours.target_embedding)
    ):  # fmt: skip
        copy_embedding(to.lut.weight, part.pe.pe, embedding)
        to.lut.weight.data = to.lut.weight[peers.exchanged(torch.arange(len(to.lut.weight)))].data
        to.scale = embedding.scale != 1
    model.eval()

    def search(source: Any, beam: int) -> list[list[int]]:
        lengths, rows = (source != PAD).sum(1), torch.arange(len(source))
        batch = Batch(peers.exchanged(source), lengths, None, None, None, rows, source.device, 1, EOS, is_train=False)
        translations, *_ = their_search(model, batch, longest(source), beam, 1.0, min_output_length=0)
        pieces: list[list[int]] = peers.exchanged(torch.from_numpy(translations)).tolist()
        return pieces

    return search


def _interleaved(heads: int, width: int) -> Any:
    """Return the rows of keys and values (2 * width,), head by head, in the order of Sockeye's inference."""
    import torch

    return torch.arange(2 * width).view(2, heads, -1).transpose(0, 1).flatten()


def _copy_sockeye_attention(to: Any, of: Any) -> None:
    import torch

    weight, bias, width = of.project.weight, of.project.bias, len(of.output.weight)
    rows = torch.cat([torch.arange(width), width + _interleaved(of.heads, width)])
    if hasattr(to, "ff_in"):
        _fill(to.ff_in, weight[rows], bias[rows])
    else:
        _fill(to.ff_q, weight[:width], bias[:width])
        _fill(to.ff_kv, weight[rows[width:]], bias[rows[width:]])
    copy_part(to.ff_out, of.output)
    to.kv_interleaved = True


SOCKEYE = Names(
    _copy_sockeye_attention,
    "self_attention ff.ff1 ff.ff2 post_self_attention.layer_norm post_ff.layer_norm",
    "autoregr_layer enc_attention ff.ff1 ff.ff2 post_autoregr_layer.layer_norm post_enc_attention.layer_norm "
    "post_ff.layer_norm",
)


def sockeye_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """Sockeye's `GreedySearch` for single sentences, else its `BeamSearch`, also with beam 1."""
    import torch
    from sockeye.beam_search import CandidateScorer, get_search_algorithm

    model = _sockeye_filled(ours, m, sizes)

    @cache
    def searcher(beam: int, greedy: bool) -> Any:
        scorer = CandidateScorer(length_penalty_alpha=1.0)
        chosen = {"greedy": greedy, "constant_length_ratio": -1.0 if greedy else 0.0}
        return get_search_algorithm([model], beam, torch.device("cpu"), False, scorer, **chosen)

    def search(source: Any, beam: int) -> list[list[int]]:
        greedy = beam == 1 and len(source) == 1
        lengths = (source != PAD).sum(1).int()
        limits = 2 * (lengths - 2) + 10 + (not greedy)  # EOS counts, but greedy search does not force it
        results = searcher(beam, greedy)(source[..., None].int(), torch.stack([lengths] * 2, 1), None, limits)
        return _sockeye_rows(results, beam)

    return search


def _sockeye_filled(ours: Any, m: Sizes, sizes: Vocabulary) -> Any:
    """Return Sockeye's model for inference with our weights."""
    model = peers.sockeye_model(m, sizes, inference_only=True)
    copy_layers(ours, model.encoder.layers, model.decoder.layers, SOCKEYE)
    for to, part, embedding in (
        (model.embedding_source, model.encoder, ours.source_embedding),
        (model.embedding_target, model.decoder, ours.target_embedding),
    ):
        copy_embedding(to.embedding.weight, part.pos_embedding.weight, embedding)
        part.pos_embedding.scale_up_input = embedding.scale != 1
    model.output_layer.bias.data.zero_()
    return model.eval()


def _sockeye_rows(results: Any, beam: int) -> list[list[int]]:
    """Return the best pieces of each sentence by following Sockeye's beam history back."""
    import numpy as np
    from sockeye.inference import Translator

    history, pieces = results.best_hyp_indices.numpy(), results.best_word_indices[:, 0].numpy()
    rows = Translator._get_best_word_indices_for_kth_hypotheses(np.arange(0, len(history), beam), history)
    best: list[list[int]] = pieces[rows, np.arange(rows.shape[1])].tolist()
    return best


OPENNMT = Names(
    split_attention("linear_query linear_keys linear_values final_linear"),
    "self_attn feed_forward.w_1 feed_forward.w_2 layer_norm feed_forward.layer_norm",
    "self_attn context_attn feed_forward.w_1 feed_forward.w_2 layer_norm_1 layer_norm_2 feed_forward.layer_norm",
)


def _finish(ours: Any, model: Any) -> None:
    """Copy the final norms of pre-norm models, clear the output bias, and switch to evaluation."""
    copy_part(model.encoder.layer_norm, ours.encoder_norm)
    copy_part(model.decoder.layer_norm, ours.decoder_norm)
    model.generator.bias.data.zero_()
    model.eval()


def _by_translators(make: Callable[[int], Any], translate: Callable[[Any, Any, Any], Any]) -> Search:
    """Return a search with one translator per beam size.

    Args:
        make: makes the translator of a beam size.
        translate: translates ids with their lengths by a translator.
    """
    translator_of = cache(make)

    def search(source: Any, beam: int) -> list[list[int]]:
        translator = translator_of(beam)
        translator.max_length = longest(source)
        results = translate(translator, source, (source != PAD).sum(1))
        return [best[0].tolist() for best in results["predictions"]]

    return search


def opennmt_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """OpenNMT-py's `Translator`."""
    model, _ = peers.opennmt(m, sizes)
    from onmt.translate import GNMTGlobalScorer, Translator  # the adapter has made it importable

    copy_layers(ours, model.encoder.transformer, model.decoder.transformer_layers, OPENNMT)
    for part, embedding in ((model.encoder, ours.source_embedding), (model.decoder, ours.target_embedding)):
        table = part.embeddings.make_embedding.pe
        copy_embedding(part.embeddings.word_lut.weight, table.pe, embedding)
        table.dim = embedding.scale**2  # the scale is its root
    _finish(ours, model)
    words, scorer = peers.onmt_words(sizes), GNMTGlobalScorer(1.0, 0.0, "avg", "none")

    def make(beam: int) -> Any:
        chosen = {"beam_size": beam, "random_sampling_topk": int(beam == 1), "max_length_ratio": 0, "dump_beam": ""}
        return Translator(model, words, global_scorer=scorer, **chosen)

    return _by_translators(
        make, lambda translator, ids, n: translator.translate_batch({"src": ids[..., None], "srclen": n}, False)
    )


EOLE = Names(
    split_attention("linear_query linear_keys linear_values final_linear"),
    "self_attn mlp.gate_up_proj mlp.down_proj input_layernorm post_attention_layernorm",
    "self_attn context_attn mlp.gate_up_proj mlp.down_proj input_layernorm precontext_layernorm "
    "post_attention_layernorm",
)


def eole_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """Eole's `Translator`."""
    from eole.config.run import PredictConfig
    from eole.predict import GNMTGlobalScorer, Translator

    model, _ = peers.eole(m, sizes)
    copy_layers(ours, model.encoder.transformer_layers, model.decoder.transformer_layers, EOLE)
    for to, embedding in ((model.src_emb, ours.source_embedding), (model.tgt_emb, ours.target_embedding)):
        copy_embedding(to.embeddings.weight, to.pe.pe, embedding)
        to.pe.dim = embedding.scale**2  # the scale is its root
    _finish(ours, model)
    words, config = peers.eole_words(sizes), SimpleNamespace(add_estimator=False, estimator_type=None)

    def make(beam: int) -> Any:
        chosen = {"beam_size": beam, "top_k": int(beam == 1), "max_length_ratio": 0, "seed": 0}
        options = PredictConfig(model_path="no/model", src="", **chosen)  # the slash prevents that files are read
        scorer = GNMTGlobalScorer.from_config(options)
        return Translator(model, words, options, config, device_id=-1, global_scorer=scorer)

    return _by_translators(make, lambda translator, ids, n: translator.predict_batch({"src": ids, "srclen": n}, False))


# For each toolkit: the norm of its layers, and its search with our model's weights.
SEARCHES: dict[str, tuple[str, Callable[[Any, Sizes, Vocabulary], Search]]] = {
    "transformers": ("post", transformers_search),
    "Sockeye": ("post", sockeye_search),
    "OpenNMT-py": ("pre", opennmt_search),
    "eole": ("pre", eole_search),
    "fairseq": ("post", fairseq_search),
    "JoeyNMT": ("post", joeynmt_search),
}
