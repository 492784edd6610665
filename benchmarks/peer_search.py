"""Other toolkits' own search with the weights of a model of ours; the toolkits are those of `benchmarks.peers`.

A toolkit whose layers are post-norm can hold the weights of a post-norm model, one whose layers are pre-norm those of a
pre-norm model. They get our table of positions and our layer norms' epsilon; Sockeye's attention, which has no biases,
is given ours. Beams are scored by log-probability over length: with BOS in OpenNMT-py and eole, and in JoeyNMT, which
has nothing else, over (5 + length) / 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from benchmarks import peers
from benchmarks.peers import BOS, EOS, PAD, Sizes, Vocabulary

# Padded ids (B, S) and beam to pieces, perhaps with EOS and padding after:
Search = Callable[[Any, int], list[list[int]]]
Copy = Callable[[Any, Any], None]  # into a part of theirs one of ours


@dataclass(frozen=True)
class Names:
    """What a toolkit calls the parts of a layer: attention, the linear layers of feed-forward, norms, in our order."""

    attention: Copy
    encoder: str
    decoder: str


def copy_layers(ours: Any, encoder: Sequence[Any], decoder: Sequence[Any], names: Names) -> None:
    """Put the weights of our layers into theirs."""
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
    """Put one of our linear layers or layer norms into theirs."""
    _fill(to, of.weight, of.bias)
    if hasattr(of, "eps"):
        to.eps = of.eps


def _fill(to: Any, weight: Any, bias: Any) -> None:
    """Weight and bias, which it need not have had."""
    import torch

    with torch.no_grad():
        to.weight.copy_(weight)
        to.bias = torch.nn.Parameter(bias.clone())


def apart(names: str) -> Copy:
    """Of attention whose queries, keys, values and output are four linear layers of these names."""

    def copy(to: Any, of: Any) -> None:
        *parts, output = (to.get_submodule(name) for name in names.split())
        for part, weight, bias in zip(parts, of.project.weight.chunk(3), of.project.bias.chunk(3), strict=True):
            _fill(part, weight, bias)
        copy_part(output, of.output)

    return copy


def copy_embedding(pieces: Any, positions: Any, of: Any) -> None:
    """Put our embeddings and positions into their tables; that of positions may have one more axis."""
    pieces.data.copy_(of.pieces.weight)
    table = of.positions
    positions.data = table if positions.dim() == 2 else table.unsqueeze(list(positions.shape).index(1))


def longest(source: Any) -> int:
    """The most pieces of a translation, by the batch's longest source, (B, S) with BOS and EOS."""
    return 2 * (int(source.shape[1]) - 2) + 10


MARIAN = Names(  # and fairseq
    apart("q_proj k_proj v_proj out_proj"),
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
        found = model.generate(
            source, attention_mask=(source != PAD).long(), num_beams=beam, do_sample=False, early_stopping=beam > 1,
            max_new_tokens=longest(source) + 1, length_penalty=1.0, suppress_tokens=[PAD, BOS], use_cache=True,
        )  # fmt: skip
        return [row[1:].tolist() for row in found]

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
        # Its length counts BOS and EOS of the source: the limit is ours.
        generator = SequenceGenerator([model], words, beam_size=beam, max_len_a=2, max_len_b=6, max_len=500)
        inputs = {"src_tokens": source, "src_lengths": (source != PAD).sum(1)}
        found = generator.generate([model], {"net_input": inputs}, bos_token=BOS)
        return [best[0]["tokens"].tolist() for best in found]

    return search


JOEYNMT = Names(
    apart("q_layer k_layer v_layer output_layer"),
    "src_src_att feed_forward.pwff_layer.0 feed_forward.pwff_layer.3 layer_norm feed_forward.layer_norm",
    "trg_trg_att src_trg_att feed_forward.pwff_layer.0 feed_forward.pwff_layer.3 x_layer_norm dec_layer_norm "
    "feed_forward.layer_norm",
)


def joeynmt_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """JoeyNMT's `search`, which computes all positions anew at each step."""
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
        found, *_ = their_search(model, batch, longest(source), beam, 1.0, min_output_length=0)
        pieces: list[list[int]] = peers.exchanged(torch.from_numpy(found)).tolist()
        return pieces

    return search


def _interleaved(heads: int, width: int) -> Any:
    """Rows of keys and values, (2 * width,), head by head, as Sockeye wants them for translating."""
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
    """Sockeye's `GreedySearch`, which is for single sentences, or its `BeamSearch`, also of beam 1."""
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
        limits = 2 * (lengths - 2) + 10 + (not greedy)  # EOS counts; greedy search does not force it
        found = searcher(beam, greedy)(source[..., None].int(), torch.stack([lengths] * 2, 1), None, limits)
        return _sockeye_rows(found, beam)

    return search


def _sockeye_filled(ours: Any, m: Sizes, sizes: Vocabulary) -> Any:
    """Sockeye's model, for translating alone, with our weights."""
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


def _sockeye_rows(found: Any, beam: int) -> list[list[int]]:
    """The best of each sentence, which Sockeye's search leaves to be followed back."""
    import numpy as np
    from sockeye.inference import Translator

    history, pieces = found.best_hyp_indices.numpy(), found.best_word_indices[:, 0].numpy()
    rows = Translator._get_best_word_indices_for_kth_hypotheses(np.arange(0, len(history), beam), history)
    best: list[list[int]] = pieces[rows, np.arange(rows.shape[1])].tolist()
    return best


OPENNMT = Names(
    apart("linear_query linear_keys linear_values final_linear"),
    "self_attn feed_forward.w_1 feed_forward.w_2 layer_norm feed_forward.layer_norm",
    "self_attn context_attn feed_forward.w_1 feed_forward.w_2 layer_norm_1 layer_norm_2 feed_forward.layer_norm",
)


def _finish(ours: Any, model: Any) -> None:
    """What the pre-norm models have besides layers and embeddings."""
    copy_part(model.encoder.layer_norm, ours.encoder_norm)
    copy_part(model.decoder.layer_norm, ours.decoder_norm)
    model.generator.bias.data.zero_()
    model.eval()


def _by_translators(make: Callable[[int], Any], translate: Callable[[Any, Any, Any], Any]) -> Search:
    """Search by a translator for each beam, which finds translations of ids with their lengths."""
    made = cache(make)

    def search(source: Any, beam: int) -> list[list[int]]:
        translator = made(beam)
        translator.max_length = longest(source)
        found = translate(translator, source, (source != PAD).sum(1))
        return [best[0].tolist() for best in found["predictions"]]

    return search


def opennmt_search(ours: Any, m: Sizes, sizes: Vocabulary) -> Search:
    """OpenNMT-py's `Translator`."""
    model, _ = peers.opennmt(m, sizes)
    from onmt.translate import GNMTGlobalScorer, Translator  # what the adapter has made importable

    copy_layers(ours, model.encoder.transformer, model.decoder.transformer_layers, OPENNMT)
    for part, embedding in ((model.encoder, ours.source_embedding), (model.decoder, ours.target_embedding)):
        table = part.embeddings.make_embedding.pe
        copy_embedding(part.embeddings.word_lut.weight, table.pe, embedding)
        table.dim = embedding.scale**2  # its root scales
    _finish(ours, model)
    words, scorer = peers.onmt_words(sizes), GNMTGlobalScorer(1.0, 0.0, "avg", "none")

    def make(beam: int) -> Any:
        chosen = {"beam_size": beam, "random_sampling_topk": int(beam == 1), "max_length_ratio": 0, "dump_beam": ""}
        return Translator(model, words, global_scorer=scorer, **chosen)

    return _by_translators(
        make, lambda translator, ids, n: translator.translate_batch({"src": ids[..., None], "srclen": n}, False)
    )


EOLE = Names(
    apart("linear_query linear_keys linear_values final_linear"),
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
        to.pe.dim = embedding.scale**2  # its root scales
    _finish(ours, model)
    words, config = peers.eole_words(sizes), SimpleNamespace(add_estimator=False, estimator_type=None)

    def make(beam: int) -> Any:
        chosen = {"beam_size": beam, "top_k": int(beam == 1), "max_length_ratio": 0, "seed": 0}
        options = PredictConfig(model_path="no/model", src="", **chosen)  # with a slash: no files are read
        scorer = GNMTGlobalScorer.from_config(options)
        return Translator(model, words, options, config, device_id=-1, global_scorer=scorer)

    return _by_translators(make, lambda translator, ids, n: translator.predict_batch({"src": ids, "srclen": n}, False))


# The norm of their layers, and their search with our model's weights:
SEARCHES: dict[str, tuple[str, Callable[[Any, Sizes, Vocabulary], Search]]] = {
    "transformers": ("post", transformers_search),
    "Sockeye": ("post", sockeye_search),
    "OpenNMT-py": ("pre", opennmt_search),
    "eole": ("pre", eole_search),
    "fairseq": ("post", fairseq_search),
    "JoeyNMT": ("post", joeynmt_search),
}
