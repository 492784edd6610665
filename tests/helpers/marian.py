"""Models with random weights: of Hugging Face's Marian, with its forward pass but without transformers, and of ours."""

import io
import json
import math
import random
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from nmt.config.data import SpecialIds, Subwords
from nmt.config.models import TransformerConfig
from nmt.models.build import build
from nmt.system.files import write_json
from nmt.text.subwords import Vocabulary, learn
from nmt.training.checkpoint import weights_of, write_tensors

WORDS = {
    "source": ["a", "the", "dog", "cat", "man", "runs", "sits", "sleeps", "on", "bench", "grass", "two", "old", "red"],
    "target": [
        "ein",
        "der",
        "hund",
        "katze",
        "mann",
        "rennt",
        "sitzt",
        "schläft",
        "auf",
        "bank",
        "gras",
        "zwei",
        "rot",
    ],
}
CONFIG: dict[str, Any] = {  # the keys of Helsinki-NLP/opus-mt-en-de
    "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "classif_dropout": 0.0, "classifier_dropout": 0.0,
    "d_model": 16, "decoder_attention_heads": 4, "decoder_ffn_dim": 24, "decoder_layerdrop": 0.0, "decoder_layers": 2,
    "dropout": 0.1, "encoder_attention_heads": 4, "encoder_ffn_dim": 24, "encoder_layerdrop": 0.0, "encoder_layers": 3,
    "gradient_checkpointing": False, "init_std": 0.02, "is_encoder_decoder": True, "max_position_embeddings": 64,
    "model_type": "marian", "normalize_before": False, "normalize_embedding": False, "num_hidden_layers": 3,
    "scale_embedding": True, "static_position_embeddings": True, "use_cache": True,
}  # fmt: skip


def sentences(side: str, count: int, seed: int = 1) -> list[str]:
    numbers = random.Random(seed)
    return [" ".join(numbers.choices(WORDS[side], k=numbers.randint(1, 8))).capitalize() + "." for _ in range(count)]


def write_marian(folder: Path, **changes: Any) -> Path:
    """Write the folder of a model; the vocabulary lacks a piece of each sentencepiece model."""
    folder.mkdir(parents=True)
    pieces: list[str] = []
    for side in WORDS:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences(side, 300)), model_writer=model, vocab_size=60, minloglevel=2
        )
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces += [
            processor.id_to_piece(i) for i in range(4, processor.vocab_size())
        ]  # without </s>, <unk> and one more
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(["</s>", "<unk>", ">>deu<<", *pieces, "<pad>"]))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    pad = len(vocabulary) - 1
    ids = {
        "bos_token_id": 0,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
    }
    sizes = {"vocab_size": len(vocabulary), "decoder_vocab_size": len(vocabulary)}
    config = CONFIG | ids | sizes | {"share_encoder_decoder_embeddings": True} | changes
    (folder / "config.json").write_text(json.dumps(config))
    generation = ids | {"bad_words_ids": [[pad]], "max_length": 64, "num_beams": 6}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    save_file(random_weights(config), folder / "model.safetensors", {"format": "pt"})
    return folder


def random_weights(config: dict[str, Any], seed: int = 1) -> dict[str, Tensor]:
    width, ffn, vocabulary = config["d_model"], config["encoder_ffn_dim"], config["vocab_size"]
    generator = torch.Generator().manual_seed(seed)
    shapes = {"model.shared.weight": (vocabulary, width), "final_logits_bias": (1, vocabulary)}
    if not config["share_encoder_decoder_embeddings"]:
        shapes |= {f"model.{side}.embed_tokens.weight": (vocabulary, width) for side in ("encoder", "decoder")}
        del shapes["model.shared.weight"]
        if not config.get("tie_word_embeddings", True):
            shapes["lm_head.weight"] = (vocabulary, width)
    for side in ("encoder", "decoder"):
        attentions = ["self_attn", "encoder_attn"][: 1 + (side == "decoder")]
        for n in range(config[f"{side}_layers"]):
            linear = {f"{a}.{p}_proj": (width, width) for a in attentions for p in ("q", "k", "v", "out")}
            linear |= {"fc1": (ffn, width), "fc2": (width, ffn)}
            for name, shape in linear.items():
                shapes |= {
                    f"model.{side}.layers.{n}.{name}.weight": shape,
                    f"model.{side}.layers.{n}.{name}.bias": shape[:1],
                }
            for name in (*(f"{a}_layer_norm" for a in attentions), "final_layer_norm"):
                shapes |= {f"model.{side}.layers.{n}.{name}.{kind}": (width,) for kind in ("weight", "bias")}
    weights = {name: torch.randn(shape, generator=generator) * 0.4 for name, shape in shapes.items()}
    weights["final_logits_bias"][0, 0] += 3  # translations end soon
    return weights


def logits(config: dict[str, Any], weights: dict[str, Tensor], source: list[int], target: list[int]) -> Tensor:
    """Marian's forward pass in float64: logits (T, V). The source ends in EOS, the target begins with pad."""
    w = {name: weight.double() for name, weight in weights.items()}
    width, heads = config["d_model"], config["encoder_attention_heads"]
    activation = {"swish": torch.nn.functional.silu, "relu": torch.relu, "gelu": torch.nn.functional.gelu}

    def embed(side: str, ids: list[int]) -> Tensor:
        table = w.get("model.shared.weight", w.get(f"model.{side}.embed_tokens.weight"))
        assert table is not None
        rates = [10000 ** (-2 * i / width) for i in range(width // 2)]
        rows = [[math.sin(p * r) for r in rates] + [math.cos(p * r) for r in rates] for p in range(len(ids))]
        scale = math.sqrt(width) if config["scale_embedding"] else 1
        return table[ids] * scale + torch.tensor(rows, dtype=torch.float64)

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        scaled = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def attend(name: str, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
        q, k, v = (linear(f"{name}.{p}_proj", y).unflatten(-1, (heads, -1)).transpose(0, 1) for p, y in
                   (("q", x), ("k", memory), ("v", memory)))  # fmt: skip
        scores = q @ k.transpose(1, 2) / math.sqrt(width / heads)
        if causal:
            scores = scores + torch.full(scores.shape[1:], -torch.inf, dtype=torch.float64).triu(1)
        return linear(f"{name}.out_proj", (scores.softmax(-1) @ v).transpose(0, 1).flatten(1))

    def run(side: str, x: Tensor, memory: Tensor | None) -> Tensor:
        for n in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{n}"
            x = norm(f"{layer}.self_attn_layer_norm", x + attend(f"{layer}.self_attn", x, x, memory is not None))
            if memory is not None:
                x = norm(f"{layer}.encoder_attn_layer_norm", x + attend(f"{layer}.encoder_attn", x, memory, False))
            inner = activation[config["activation_function"]](linear(f"{layer}.fc1", x))
            x = norm(f"{layer}.final_layer_norm", x + linear(f"{layer}.fc2", inner))
        return x

    hidden = run("decoder", embed("decoder", target), run("encoder", embed("encoder", source), None))
    head = next(w[n] for n in ("lm_head.weight", "model.shared.weight", "model.decoder.embed_tokens.weight") if n in w)
    return hidden @ head.T + w["final_logits_bias"][0]


def write_texts(folder: Path) -> Path:
    """Write cleaned training text in both languages."""
    for language, side in (("en", "source"), ("de", "target")):
        (folder / f"train.{language}").write_text("\n".join(sentences(side, 200)).lower().replace(".", " ."))
    return folder


def own_model(texts: Path, folder: Path, joint: bool = True, **settings: Any) -> Path:
    """A model directory of ours with BPE, whose every weight is random."""
    learn(texts, folder, "en-de", Subwords(size=70, joint=joint))
    config = TransformerConfig.model_validate(
        {"layers": 2, "width": 16, "ffn": 24, "heads": 4, "max_positions": 64, **settings}
    )
    sizes = [len(Vocabulary(folder / f"{side}.model")) for side in ("source", "target")]
    torch.manual_seed(3)
    network = build(config, *sizes, SpecialIds().pad)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    if config.output_bias:
        network.projection.bias.data[SpecialIds().eos] += 3
    write_tensors(weights_of(network), folder / "weights.safetensors")
    vocabulary = dict(zip(("source", "target"), sizes, strict=True))
    write_json(folder / "config.json", {"model": config.model_dump(), "vocabulary": vocabulary})
    write_json(folder / "cleaning.json", {"cleaning": {}, "languages": "en-de"})
    write_json(folder / "provenance.json", {"table": "t", "system": "s", "seed": 1, "selection": "best"})
    return folder
