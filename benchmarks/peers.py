"""Adapters for other toolkits: their own model classes and losses. Each toolkit is installed in its own folder.

    python -m benchmarks.peers [NAME...]        # the first step of `make bench-peers`

A peer is a toolkit in ``.peers/NAME``. Only its own process has this folder on its path, before the packages of
`.venv`, which provide torch. If a peer cannot be installed, ``.peers/NAME.txt`` has the reason.

Each adapter returns a model and its loss: a function from a batch to the mean over the target pieces. If a toolkit has
a fixed padding id, the ids of padding and unknown words are exchanged. `benchmarks.peer_search` has the searches.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click

from nmt.data.batches import Batch
from nmt.system.files import write_text

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".peers"
PAD, BOS, EOS = 0, 2, 3

Sizes = Mapping[str, Any]  # a model's layers, width, ffn, heads, dropout
Vocabulary = Mapping[str, int]  # vocabulary sizes of source and target
Loss = Callable[[Batch], Any]
Adapter = Callable[[Sizes, Vocabulary], tuple[Any, Loss]]


def transformers(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """Marian's model in Hugging Face transformers."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=sizes["source"], decoder_vocab_size=sizes["target"], share_encoder_decoder_embeddings=False,
        d_model=m["width"], encoder_layers=m["layers"], decoder_layers=m["layers"], encoder_attention_heads=m["heads"],
        decoder_attention_heads=m["heads"], encoder_ffn_dim=m["ffn"], decoder_ffn_dim=m["ffn"], dropout=m["dropout"],
        attention_dropout=m["dropout"], activation_dropout=m["dropout"], activation_function="relu",
        max_position_embeddings=512, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS,
        forced_eos_token_id=None, use_cache=False,
    )  # fmt: skip
    model = MarianMTModel(config)

    def loss(batch: Batch) -> Any:
        labels = batch.target[:, 1:].masked_fill(batch.target[:, 1:] == PAD, -100)
        mask = (batch.source != PAD).long()
        return model(batch.source, attention_mask=mask, decoder_input_ids=batch.target[:, :-1], labels=labels).loss

    return model, loss


def sockeye(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """Sockeye's post-norm Transformer."""
    import torch
    from sockeye import constants as C
    from sockeye.loss import CrossEntropyLoss

    model = sockeye_model(m, sizes)
    _initialise(model)
    entropy = CrossEntropyLoss(label_smoothing=0.0, label_smoothing_impl="torch", ignore_label=PAD)

    def loss(batch: Batch) -> Any:
        lengths = [torch.stack([n := (ids != PAD).sum(1), n], 1) for ids in (batch.source, batch.target)]
        outputs = model(batch.source[..., None], lengths[0], batch.target[:, :-1, None], lengths[1])
        return entropy(outputs, {C.TARGET_LABEL_NAME: batch.target[:, 1:]})[0]

    return model, loss


def sockeye_model(m: Sizes, sizes: Vocabulary, inference_only: bool = False) -> Any:
    """Sockeye's model; for inference it caches keys and values of the source."""
    from sockeye import constants as C
    from sockeye.data_io import DataConfig
    from sockeye.encoder import EmbeddingConfig
    from sockeye.model import ModelConfig, SockeyeModel
    from sockeye.transformer import TransformerConfig

    side = TransformerConfig(
        model_size=m["width"], attention_heads=m["heads"], feed_forward_num_hidden=m["ffn"], act_type=C.RELU,
        num_layers=m["layers"], dropout_attention=m["dropout"], dropout_act=m["dropout"], dropout_prepost=m["dropout"],
        positional_embedding_type=C.FIXED_POSITIONAL_EMBEDDING, preprocess_sequence="", postprocess_sequence="drn",
        max_seq_len_source=512, max_seq_len_target=512, depth_key_value=m["width"],
    )  # fmt: skip
    embeddings = {name: EmbeddingConfig(size, m["width"], m["dropout"]) for name, size in sizes.items()}
    config = ModelConfig(
        DataConfig(None, 512, 512, 1, 1), sizes["source"], sizes["target"], embeddings["source"], embeddings["target"],
        side, side, weight_tying_type=C.WEIGHT_TYING_TRG_SOFTMAX,
    )  # fmt: skip
    return SockeyeModel(config, inference_only=inference_only)


def opennmt(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """OpenNMT-py's pre-norm Transformer."""
    for name in ("spacy", "fasttext"):  # imported by transforms that are not used here
        sys.modules.setdefault(name, ModuleType(name))
    import configargparse
    from onmt import opts
    from onmt.model_builder import build_base_model
    from onmt.utils.loss import LossCompute

    parser = configargparse.ArgumentParser(conflict_handler="resolve")  # model options are defined twice
    opts.train_opts(parser)
    opt = parser.parse_known_args(["-data", "", "-src_vocab", ""])[0]
    chosen = {
        "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
        "self_attn_type": "scaled-dot", "enc_layers": m["layers"], "dec_layers": m["layers"],
        "heads": m["heads"], "transformer_ff": m["ffn"], "share_decoder_embeddings": True,
        "dropout": [m["dropout"]], "attention_dropout": [m["dropout"]], "add_qkvbias": True, "add_ffnbias": True,
        "freeze_word_vecs_enc": False, "freeze_word_vecs_dec": False, "model_type": "text", "optim": "adam",
    }  # fmt: skip
    widths = ("src_word_vec_size", "tgt_word_vec_size", "enc_hid_size", "dec_hid_size")
    vars(opt).update(chosen | dict.fromkeys(widths, m["width"]))
    vocabularies = onmt_words(sizes)
    model = build_base_model(opt, vocabularies)
    _initialise(model)
    compute = LossCompute.from_opts(opt, model, vocabularies["tgt"])

    def loss(batch: Batch) -> Any:
        source, target, lengths = batch.source[..., None], batch.target[..., None], (batch.source != PAD).sum(1)
        output, attention = model(source, target, lengths)
        return compute({"tgt": target, "srclen": lengths}, output, attention)[0] / batch.pieces

    return model, loss


def onmt_words(sizes: Vocabulary) -> dict[str, Any]:
    """The vocabularies of OpenNMT-py and eole with our ids."""
    import pyonmttok

    vocabularies: dict[str, Any] = {"decoder_start_token": "<s>"}
    for side, size in (("src", sizes["source"]), ("tgt", sizes["target"])):
        words = ["<blank>", "<unk>", "<s>", "</s>", *map(str, range(size - 4))]
        vocabularies[side] = pyonmttok.build_vocab_from_tokens(words)
        assert len(vocabularies[side]) == size
    return vocabularies


def _initialise(model: Any) -> None:
    """Initialise the weights of toolkits that leave this to their trainer."""
    from torch.nn import init

    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            init.xavier_uniform_(weight)
        elif name.endswith("bias"):
            init.zeros_(weight)


def fairseq(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """fairseq's post-norm Transformer, without its C++ code, which is for scoring and for other models."""
    from fairseq.criterions.cross_entropy import CrossEntropyCriterion
    from fairseq.models.transformer import TransformerModel

    task = SimpleNamespace(**{f"{side}_dictionary": fairseq_words(size) for side, size in sizes.items()})
    chosen = {"dropout": m["dropout"], "attention_dropout": m["dropout"], "activation_dropout": m["dropout"]}
    for side in ("encoder", "decoder"):
        chosen |= {f"{side}_embed_dim": m["width"], f"{side}_ffn_embed_dim": m["ffn"], f"{side}_layers": m["layers"]}
        chosen[f"{side}_attention_heads"] = m["heads"]
    arguments = SimpleNamespace(share_decoder_input_output_embed=True, **chosen)
    model = TransformerModel.build_model(arguments, task)
    criterion = CrossEntropyCriterion(task, sentence_avg=False)

    def loss(batch: Batch) -> Any:
        source, target = batch.source, batch.target
        lengths = (source != PAD).sum(1)
        inputs = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": target[:, :-1].contiguous()}
        sample = {"net_input": inputs, "target": target[:, 1:].contiguous(), "ntokens": batch.pieces}
        total, pieces, _ = criterion(model, sample)
        return total / pieces

    return model, loss


def fairseq_words(size: int) -> Any:
    """fairseq's dictionary with our ids."""
    from fairseq.data import Dictionary

    words = Dictionary(add_special_symbols=False)
    for name in ("<pad>", "<unk>", "<s>", "</s>", *map(str, range(size - 4))):
        words.add_symbol(name)
    words.pad_index, words.unk_index, words.bos_index, words.eos_index = range(4)
    words.nspecial = 4
    return words


def eole(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """Eole's pre-norm Transformer."""
    from eole.config.models import TransformerModelConfig
    from eole.config.training import TrainingConfig
    from eole.models.model import EncoderDecoderModel
    from eole.utils.loss import LossCompute

    config = TransformerModelConfig(
        layers=m["layers"], hidden_size=m["width"], word_vec_size=m["width"], heads=m["heads"], transformer_ff=m["ffn"],
        share_decoder_embeddings=True, add_qkvbias=True, add_ffnbias=True, add_final_linear_bias=True,
        embeddings={"position_encoding_type": "SinusoidalInterleaved", "word_vec_size": m["width"]},
    )  # fmt: skip
    training = TrainingConfig(dropout=[m["dropout"]], attention_dropout=[m["dropout"]])
    vocabularies = eole_words(sizes)
    model = EncoderDecoderModel.for_training(config, vocabularies, training)
    compute = LossCompute.from_config(SimpleNamespace(model=config, training=training), model, vocabularies)

    def loss(batch: Batch) -> Any:
        lengths = (batch.source != PAD).sum(1)
        output, attention, _ = model(batch.source, batch.target, lengths)
        inputs = {"src": batch.source, "tgt": batch.target, "srclen": lengths, "cid": [], "cid_line_number": []}
        return compute(inputs, output, attention)[0] / batch.pieces

    return model, loss


def eole_words(sizes: Vocabulary) -> dict[str, Any]:
    """Eole's vocabularies with our ids and the names of the special pieces."""
    special = {"pad_token": "<blank>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return onmt_words(sizes) | {"specials": special}


def joeynmt(m: Sizes, sizes: Vocabulary) -> tuple[Any, Loss]:
    """JoeyNMT's post-norm Transformer, or its LSTM if the model has no heads."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary as Words

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
    )  # fmt: skip
    words = {side: Words([str(i) for i in range(size - 4)], special) for side, size in sizes.items()}
    model = build_model(_joeynmt_config(m), words["source"], words["target"])
    model.loss_function = ("crossentropy", 0.0)

    def loss(batch: Batch) -> Any:
        order = (batch.source != PAD).sum(1).argsort(descending=True)
        source, target = exchanged(batch.source[order]), exchanged(batch.target[order])
        total, *_ = model(
            return_type="loss", src=source, src_length=(source != 1).sum(1), src_mask=(source != 1)[:, None],
            trg_input=target[:, :-1], trg=target[:, 1:], trg_mask=(target[:, 1:] != 1)[:, None],
        )  # fmt: skip
        return total / batch.pieces

    return model, loss


def exchanged(ids: Any) -> Any:
    """Convert ids between our order and JoeyNMT's, where padding is 1 and unknown is 0."""
    return ids.where(ids > 1, 1 - ids)


def _joeynmt_config(m: Sizes) -> dict[str, Any]:
    """JoeyNMT's configuration of a model."""
    embeddings = {"embedding_dim": m["width"], "dropout": m["dropout"]}
    side = {"hidden_size": m["width"], "num_layers": m["layers"], "embeddings": embeddings, "dropout": m["dropout"]}
    if "heads" in m:
        side |= {"type": "transformer", "num_heads": m["heads"], "ff_size": m["ffn"], "layer_norm": "post"}
        return {"encoder": side, "decoder": side, "tied_softmax": True}
    side |= {"type": "recurrent", "rnn_type": "lstm"}
    decoder = {"attention": "luong", "input_feeding": False, "hidden_dropout": m["dropout"], "init_hidden": "bridge"}
    return {"encoder": side | {"bidirectional": True}, "decoder": side | decoder}


@dataclass(frozen=True)
class Peer:
    """The packages of a toolkit, installed without their dependencies, and the adapters of its models."""

    packages: list[str]
    transformer: Adapter
    recurrent: Adapter | None = None  # None if its LSTM decoder would be twice as wide as ours


PEERS = {
    "transformers": Peer(
        ["transformers==5.23.0", "tokenizers==0.23.3", "huggingface_hub==2.4.0", "typer==0.29.2", "httpx2==2.16.2",
         "httpcore2==2.16.2", "truststore==0.10.5", "shellingham==1.5.4", "rich==15.0.0"],
        transformers,
    ),
    "Sockeye": Peer(["sockeye==3.1.34"], sockeye),
    "OpenNMT-py": Peer(
        ["OpenNMT-py==3.5.1", "pyonmttok==1.38.1", "rapidfuzz==3.14.6", "pyahocorasick==2.3.1", "tensorboard==2.21.0",
         "absl-py==2.5.1"],
        opennmt,
    ),
    "eole": Peer(
        ["eole==0.6.4", "pyonmttok==1.38.1", "rapidfuzz==3.14.6", "pyahocorasick==2.3.1", "tensorboard==2.21.0",
         "absl-py==2.5.1", "subword-nmt==0.3.8", "rich==15.0.0", "torch-optimi==0.3.3", "tokenizers==0.23.3",
         "huggingface_hub==2.4.0", "httpx2==2.16.2", "httpcore2==2.16.2", "truststore==0.10.5"],
        eole,
    ),
    "fairseq": Peer(
        ["--no-build-isolation", "fairseq-fixed==0.12.3.1", "omegaconf==2.4.0", "hydra-core==1.3.8", "bitarray==3.12.3",
         "antlr4-python3-runtime==4.8"],
        fairseq,
    ),
    "JoeyNMT": Peer(
        ["joeynmt==2.3.0", "absl-py==2.5.1", "tensorboard==2.21.0", "subword-nmt==0.3.8", "datasets==5.2.0"],
        joeynmt, joeynmt,
    ),
}  # fmt: skip


def missing(name: str) -> str:
    """Return why a peer cannot run, in a few words; empty if it can run."""
    if (note := FOLDER / f"{name}.txt").is_file():
        return f"not installed: {note.read_text(encoding='utf-8').strip()}"
    return "" if (FOLDER / name).is_dir() else "not installed: make bench-peers"


def install(name: str, packages: list[str]) -> None:
    """Install a peer in its folder, whole or not at all. After a failure, a note has pip's reason."""
    note, folder = FOLDER / f"{name}.txt", FOLDER / name
    if folder.is_dir():
        return
    part = FOLDER / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part), *packages]
    environment = os.environ | {"READTHEDOCS": "1"}  # with this, fairseq's setup omits its C++ code
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        write_text(note, reason(done.stderr) + "\n")
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.replace(folder)
        note.unlink(missing_ok=True)
    print(f"{name}: {missing(name) or 'installed'}", flush=True)


def reason(text: str) -> str:
    """Return the first error that pip names, cut to a few words."""
    lines = text.strip().splitlines() or ["pip gave no reason"]
    error = next((line for line in lines if re.match(r"\s*error: ", line, re.IGNORECASE)), lines[-1])
    return " ".join(error.split())[:120]


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Install the named toolkits, or all, below .peers, each in its own folder."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PEERS:
        install(name, PEERS[name].packages)


if __name__ == "__main__":
    main()
