"""Turn a Marian model of Hugging Face into a model directory."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from nmt.config.choices import PAIR
from nmt.config.data import Cleaning, SpecialIds, Subwords
from nmt.config.models import TransformerConfig
from nmt.config.problems.words import in_words
from nmt.models.build import outline
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import atomic_directory, build_stored, check_regular, read_json, sha256, write_json
from nmt.text.foreign import append
from nmt.text.subwords import SIDES, Vocabulary, described
from nmt.training.checkpoint import WEIGHTS, check_shapes, read_tensors, write_tensors
from nmt.translation.marian.weights import to_ours

FILES = ("config.json", "source.spm", "target.spm", "vocab.json")
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
"""Our name of each activation of Marian."""
ONLY = {"model_type": "marian", "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True}  # fmt: skip
"""Keys of ``config.json`` that have one value in each Marian model of Hugging Face."""
RAW = Cleaning(unicode="none", lowercase=False, punctuation=False, tokenize="none")
"""The recipe of an imported model: it removes invisible characters and extra spaces, sentencepiece does the rest."""


def import_model(folder: Path, out: Path, languages: str | None = None) -> None:
    """Turn a Marian model of Hugging Face into a model directory.

    Args:
        folder: local folder with `FILES` and one of `WEIGHT_FILES`; ``tokenizer_config.json`` and
            ``target_vocab.json`` are read if they are there.
        out: the model directory to write.
        languages: source and target, e.g. ``en-de``; None for those of ``tokenizer_config.json``.

    Raises:
        ConfigError: the languages are not known.
        DataError: the folder is not such a model, a file is missing or damaged, or ``out`` is a trained model.
    """
    marian, tokenizer = _read_settings(folder)
    _check_out(out, folder)
    languages = languages or _languages(folder, tokenizer)
    target = "target_vocab.json" if tokenizer.get("separate_vocabs") else "vocab.json"
    lists = {"source": folder / "vocab.json", "target": folder / target}
    pieces = {side: _pieces(path) for side, path in lists.items()}
    options = tokenizer.get("sp_model_kwargs")
    has_bos = isinstance(options, dict) and bool(options.get("add_bos"))
    ids = _special_ids(folder, marian, pieces, has_bos)
    weights, sizes = _read_weights(folder), {side: len(listed) for side, listed in pieces.items()}
    config = _config(folder, marian, has_bos, "final_logits_bias" in weights)
    model = outline(config, list(sizes.values()), ids.pad, len(weights))
    if model is None:
        raise DataError(f"{folder / 'config.json'}: describes a model larger than its {len(weights)} weights")
    weights, cleaning = to_ours(weights, config, folder), _cleaning(folder)
    check_shapes(model, {name: weight.shape for name, weight in weights.items()}, folder)
    with atomic_directory(out, "provenance.json") as part:
        write_tensors(weights, part / WEIGHTS)
        for side in SIDES:
            spm = (folder / f"{side}.spm").read_bytes()
            (part / f"{side}.model").write_bytes(append(spm, pieces[side], ids))
        write_json(part / "config.json", {"model": config.model_dump(), "vocabulary": sizes})
        write_json(part / "cleaning.json", {"cleaning": cleaning.model_dump(mode="json"), "languages": languages})
        parameters = sum(weight.numel() for weight in weights.values())
        made = {"parameters": parameters, "subwords": _subwords(part, sizes["target"], lists)}
        write_json(part / "provenance.json", _provenance(folder, languages, part / WEIGHTS) | made)


def _check_out(out: Path, folder: Path) -> None:
    """Raise DataError if the model directory is within the model's folder, or holds a trained model."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{out}: expected a folder outside {folder}, got one within it; name another")
    if (out / "provenance.json").is_file() and "imported" not in read_json(out / "provenance.json"):
        raise DataError(f"{out}: expected a new folder or an imported model, got a trained model; name another")


def _read_settings(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``config.json`` and ``tokenizer_config.json``; raise DataError if the folder is no Marian model."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; download the model first, nmt reads local files only")
    missing = [name for name in FILES if not (folder / name).exists()]
    if not any((folder / name).exists() for name in WEIGHT_FILES):
        missing.append(" or ".join(WEIGHT_FILES))
    if missing:
        raise DataError(f"{folder}: expected a Marian model of Hugging Face, got a folder without {', '.join(missing)}")
    marian, tokenizer = _read(folder / "config.json"), dict[str, Any]()
    if (folder / "tokenizer_config.json").exists():
        tokenizer = _read(folder / "tokenizer_config.json")
    for key, expected in ONLY.items():
        if (got := marian.get(key, None if key == "model_type" else expected)) != expected:
            raise DataError(
                f"{folder / 'config.json'}: {key}: expected {json.dumps(expected)}, got {json.dumps(got)}; nmt imports "
                "models that MarianMTModel loads"
            )
    return marian, tokenizer


def _read(path: Path) -> dict[str, Any]:
    check_regular(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected JSON, got {error}; download it again") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected keys and their values, got a {type(content).__name__}; download it again")
    return content


def _languages(folder: Path, tokenizer: Mapping[str, Any]) -> str:
    pair = f"{tokenizer.get('source_lang')}-{tokenizer.get('target_lang')}"
    if not re.fullmatch(PAIR, pair):
        raise ConfigError(
            f"{folder}: expected two languages in tokenizer_config.json, got {pair[:40]}; give --languages, e.g. en-de"
        )
    return pair


def _pieces(path: Path) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids."""
    listed = _read(path)
    by_id = {number: piece for piece, number in listed.items() if type(number) is int}
    if len(by_id) < len(listed) or any(i not in by_id for i in range(len(by_id))) or not by_id:
        raise DataError(f"{path}: expected pieces and their ids, 0 to the number of pieces, got others")
    return [by_id[i] for i in range(len(by_id))]


def _special_ids(folder: Path, marian: Mapping[str, Any], pieces: Mapping[str, list[str]], has_bos: bool) -> SpecialIds:
    """Return the ids of the special pieces; without a BOS, padding begins the translations."""
    pad, eos = marian.get("pad_token_id"), marian.get("eos_token_id")
    named = {"pad": pad, "eos": eos, "bos": marian.get("decoder_start_token_id", pad)}
    for listed in pieces.values():
        if "<unk>" not in listed:
            raise DataError(f"{folder}: expected the piece <unk> in the vocabulary, got none")
        named.setdefault("unk", listed.index("<unk>"))
        wrong = [name for name, i in named.items() if type(i) is not int or not 0 <= i < len(listed)]
        if wrong or listed[named["unk"]] != "<unk>":
            raise DataError(f"{folder}: expected ids of pieces for pad, eos, unk and start, got {named}")
    ids = SpecialIds(**named)
    if (ids.bos != ids.pad) != has_bos or (has_bos and pieces["source"][ids.bos] != "<s>"):
        raise DataError(
            f"{folder}: expected decoder_start_token_id: {ids.pad}, which is padding, got {ids.bos}; "
            "such a model cannot be imported"
        )
    return ids


def _config(folder: Path, marian: Mapping[str, Any], source_bos: bool, output_bias: bool) -> TransformerConfig:
    """Return our configuration of a model."""
    path, activation = folder / "config.json", str(marian.get("activation_function", "gelu"))
    if activation not in ACTIVATIONS:
        raise DataError(f"{path}: activation_function: expected {', '.join(ACTIVATIONS)}, got {activation!r}")
    shared, tied = marian.get("share_encoder_decoder_embeddings", True), marian.get("tie_word_embeddings", True)
    if shared and not tied:
        raise DataError(f"{path}: expected tie_word_embeddings: true with shared embeddings, got false")
    halves = {"ffn": "ffn_dim", "heads": "attention_heads"}
    for theirs in halves.values():
        if marian.get(f"encoder_{theirs}") != marian.get(f"decoder_{theirs}"):
            got = f"{marian.get(f'encoder_{theirs}')} and {marian.get(f'decoder_{theirs}')}"
            raise DataError(f"{path}: expected the same {theirs} in encoder and decoder, got {got}")
    try:
        return TransformerConfig(
            layers=marian["encoder_layers"], decoder_layers=marian["decoder_layers"], width=marian["d_model"],
            **{ours: marian[f"encoder_{theirs}"] for ours, theirs in halves.items()},
            norm="post", activation=ACTIVATIONS[activation], output_bias=output_bias,
            tied="all" if shared else "decoder" if tied else "none",
            max_positions=marian.get("max_position_embeddings", 1024),
            scale_embeddings=marian.get("scale_embedding", False), source_bos=source_bos,
            dropout={"embedding": marian.get("dropout", 0.1), "residual": marian.get("dropout", 0.1),
                     "attention": marian.get("attention_dropout", 0.0),
                     "activation": marian.get("activation_dropout", 0.0)},
        )  # fmt: skip
    except KeyError as error:
        raise DataError(f"{path}: expected the key {error.args[0]}, got none; download it again") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "values"
        raise DataError(f"{path}: {where}: {in_words(problem)}") from None


def _read_weights(folder: Path) -> dict[str, Tensor]:
    path = folder / WEIGHT_FILES[0]
    if path.exists():
        return read_tensors(path)
    path = folder / WEIGHT_FILES[1]
    check_regular(path)
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError, OSError, ValueError, KeyError) as error:
        problem = " ".join(str(error).split())[:100]
        raise DataError(f"{path}: expected weights of PyTorch, got: {problem}; download it again") from None
    if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise DataError(f"{path}: expected weights by name, got other data; download it again")
    return weights


def _cleaning(folder: Path) -> Cleaning:
    """Return the recipe that `nmt export` wrote into the folder, or `RAW`."""
    path = folder / "cleaning.json"
    return build_stored(Cleaning, _read(path).get("cleaning", {}), path) if path.exists() else RAW


def _subwords(model: Path, size: int, lists: Mapping[str, Path]) -> dict[str, Any]:
    """Describe the vocabularies, as `nmt.text.subwords.write_record` does."""
    config = Subwords(size=size, joint=lists["source"] == lists["target"])
    hashes = {side: Vocabulary(model / f"{side}.model").sha256() for side in SIDES}
    return {"subwords": described(config), "vocab_sha256": hashes}


def _provenance(folder: Path, languages: str, weights: Path) -> dict[str, Any]:
    """Return where a model comes from; of its training nothing is known."""
    files = [folder / name for name in (*FILES, *WEIGHT_FILES) if (folder / name).exists()]
    return {
        "table": "imported", "system": folder.resolve().name, "seed": 0, "selection": "imported", "checkpoints": [],
        "update": 0, "epoch": 0.0, "code_version": machine.code_version(), "averaged_by": machine.code_version(),
        "versions": machine.versions(), "hardware": None, "starts": [], "corpus": None, "languages": languages,
        "data": {}, "training_seconds": 0.0, "valid_loss": None, "valid_bleu": None,
        "imported": {path.name: sha256(path) for path in files},
        "weights_sha256": sha256(weights),
    }  # fmt: skip
