"""Write a model as a folder that ``MarianMTModel`` and ``MarianTokenizer`` of Hugging Face load."""

import shutil
from pathlib import Path
from typing import Any

from nmt.config.models import TransformerConfig
from nmt.models.layers import GATES
from nmt.models.multimodal import Multimodal
from nmt.models.transformer import Transformer
from nmt.system.errors import ConfigError
from nmt.system.files import write_json, write_text
from nmt.text.foreign import split
from nmt.text.subwords import SIDES
from nmt.training.checkpoint import verified_weights, write_tensors
from nmt.translation.marian.weights import to_theirs
from nmt.translation.translator import Translator

BEAM = 5
README = """\
# {source}→{target}, a Marian model for Hugging Face's transformers

{about} Run these lines in this folder:

```python
{code}```
"""
RAW = "It takes and writes raw text."
RAW_CODE = """\
from transformers import MarianMTModel, MarianTokenizer

tokenizer, model = MarianTokenizer.from_pretrained("."), MarianMTModel.from_pretrained(".")
batch = tokenizer(["A line of text."], return_tensors="pt", padding=True)
print(*tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True), sep="\\n")
"""
CLEAN = "It takes and writes cleaned text. The package `nmt` cleans lines and detokenises translations."
CLEAN_CODE = """\
import json

from transformers import MarianMTModel, MarianTokenizer

from nmt.config.data import Cleaning
from nmt.text.cleaner import clean_line, restore

recipe = Cleaning(**json.load(open("cleaning.json"))["cleaning"])
tokenizer, model = MarianTokenizer.from_pretrained("."), MarianMTModel.from_pretrained(".")
batch = tokenizer([clean_line("A line of text.", "{source}", recipe)], return_tensors="pt", padding=True)
for line in tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True):
    print(restore(line, "{target}", recipe))
"""


def write_marian(folder: Path, translator: Translator, out: Path) -> None:
    """Write a model in the format of Hugging Face.

    Args:
        folder: the model directory.
        translator: the loaded model.
        out: folder for the files.

    Raises:
        ConfigError: ``MarianMTModel`` does not support such a model.
    """
    config = _supported(folder, translator)
    source, target = translator.source, translator.target
    pieces = [vocabulary.pieces(range(len(vocabulary))) for vocabulary in (source, target)]
    separate = pieces[0] != pieces[1]
    write_tensors(to_theirs(verified_weights(folder), config), out / "model.safetensors", {"format": "pt"})
    for side, name, listed in zip(SIDES, ("vocab.json", "target_vocab.json"), pieces, strict=True):
        (out / f"{side}.spm").write_bytes(split(folder / f"{side}.model")[0])
        if side == "source" or separate:
            write_json(out / name, {piece: i for i, piece in enumerate(listed)})
    special = _special(translator)
    write_json(out / "config.json", special | _settings(config, len(source), len(target)))
    write_json(out / "generation_config.json", special | _generation(translator, config))
    write_json(out / "tokenizer_config.json", _tokenizer(translator, config, pieces[0], separate))
    for name in ("cleaning.json", "provenance.json"):
        shutil.copyfile(folder / name, out / name)
    languages = dict(zip(SIDES, translator.languages, strict=True))
    about, code = (RAW, RAW_CODE) if source.foreign else (CLEAN, CLEAN_CODE.format(**languages))
    write_text(out / "README.md", README.format(about=about, code=code, **languages))


def _supported(folder: Path, translator: Translator) -> TransformerConfig:
    """Return the configuration; raise ConfigError if ``MarianMTModel`` has no such model."""
    model, config, got = translator.model, translator.model.config, ""
    if translator.source.tags:
        raise ConfigError(
            f"--format huggingface: expected subwords without tags of languages, got tags of "
            f"{', '.join(translator.source.tags)} in {folder}, which Marian's tokeniser does not put before sentences; "
            "use --format ctranslate2 or pyfunc"
        )
    if len(translator.models) > 1:
        got = "an ensemble"
    elif not isinstance(model, Transformer) or isinstance(model, Multimodal):
        got = f"a {config.kind} model"
    elif translator.source.bytewise or translator.source.whole_words or translator.target.whole_words:
        got = "byte-level pieces" if translator.source.bytewise else "whole words"
    else:
        assert isinstance(config, TransformerConfig)
        expected: dict[str, str | bool] = {"norm": "post", "positions": "sinusoidal", "context": "none"}
        expected |= {"attention_output": True, "attention_bias": True, "normalisation": "layer"}
        wrong = [f"{key}: {getattr(config, key)}" for key, value in expected.items() if getattr(config, key) != value]
        wrong += [f"activation: {config.activation}"] * (config.activation in GATES)
        wrong += [f"key_value_heads: {config.groups}"] * (config.groups != config.heads)
        got = ", ".join(wrong).lower()
    if got:
        raise ConfigError(
            "--format huggingface: expected a post-norm Transformer with sinusoidal positions and BPE, layer "
            "normalisation, no gates, and attention with output projections, biases and as many heads of keys as of "
            f"queries, got {got} in {folder}, which MarianMTModel does not support; use --format pyfunc"
        )
    assert isinstance(config, TransformerConfig)
    return config


def _special(translator: Translator) -> dict[str, Any]:
    ids = translator.source.ids
    return {
        "pad_token_id": ids.pad, "eos_token_id": ids.eos, "bos_token_id": ids.eos if ids.bos == ids.pad else ids.bos,
        "decoder_start_token_id": ids.bos, "forced_eos_token_id": ids.eos,
    }  # fmt: skip


def _settings(config: TransformerConfig, source: int, target: int) -> dict[str, Any]:
    """Return the rest of ``config.json`` for vocabularies of these sizes."""
    dropout = config.dropout
    sizes = {"layers": config.layers, "attention_heads": config.heads, "ffn_dim": config.ffn, "layerdrop": 0.0}
    return {
        "architectures": ["MarianMTModel"], "model_type": "marian", "is_encoder_decoder": True,
        "vocab_size": source, "decoder_vocab_size": target, "d_model": config.width,
        "activation_function": config.activation, "max_position_embeddings": config.max_positions,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()},
        "decoder_layers": config.decoder_layers or config.layers,
        "dropout": dropout.residual, "attention_dropout": dropout.attention, "activation_dropout": dropout.activation,
        "scale_embedding": config.scale_embeddings, "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "none", "normalize_before": False, "normalize_embedding": False,
        "static_position_embeddings": True, "add_final_layer_norm": False, "init_std": 0.02, "use_cache": True,
    }  # fmt: skip


def _generation(translator: Translator, config: TransformerConfig) -> dict[str, Any]:
    """Return the rest of ``generation_config.json``: our default search."""
    ids = translator.source.ids
    return {
        "bad_words_ids": [[i] for i in sorted({ids.pad, ids.bos})], "num_beams": BEAM, "length_penalty": 1.0,
        "max_length": config.max_positions,
    }  # fmt: skip


def _tokenizer(translator: Translator, config: TransformerConfig, pieces: list[str], separate: bool) -> dict[str, Any]:
    """Return ``tokenizer_config.json``; the tokeniser adds EOS itself, and BOS if sentencepiece is told to."""
    source, target = translator.languages
    ids = translator.source.ids
    return {
        "tokenizer_class": "MarianTokenizer", "source_lang": source, "target_lang": target,
        "model_max_length": config.max_positions, "separate_vocabs": separate,
        "unk_token": pieces[ids.unk], "eos_token": pieces[ids.eos], "pad_token": pieces[ids.pad],
        "sp_model_kwargs": {"add_bos": True} if config.source_bos else {},
    }  # fmt: skip
