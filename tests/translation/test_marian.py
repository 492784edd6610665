"""Marian models of Hugging Face, against an explicit forward pass and, where it is installed, transformers."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from commands import run
from marian import logits, own_model, sentences, write_marian, write_texts
from safetensors.torch import load_file
from torch import Tensor

from nmt.config.decoding import Decoding
from nmt.system.files import read_json, write_json
from nmt.translation.translator import Translator


def imported(folder: Path, out: Path, *options: str) -> Path:
    code, output = run("import", folder, out, *options)
    assert code == 0 and f"wrote {out}; use it by: nmt translate {out} FILE\n" in output, output
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("marian") / "opus-mt-en-de")


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return imported(folder, tmp_path_factory.mktemp("imported") / "model")


@torch.inference_mode()
def our_logits(translator: Translator, source: list[int], target: list[int]) -> Tensor:
    """Logits (T, V) of pieces; the target begins with BOS, which the vocabulary may lack."""
    ids = translator.source.ids
    model = translator.model
    hidden = model(torch.tensor([[ids.bos, *source, ids.eos]]), torch.tensor([[ids.bos, *target]]))
    return model.projection(hidden)[0, :, : model.projection.out_features]


VARIANTS: list[dict[str, Any]] = [
    {},
    {"activation_function": "relu", "scale_embedding": False},
    {"activation_function": "gelu", "share_encoder_decoder_embeddings": False},
    {"activation_function": "silu", "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_logits_are_those_of_an_explicit_forward_pass(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_marian(tmp_path / "theirs", **changes)
    translator = Translator.load(imported(folder, tmp_path / "ours"), "cpu", 1)
    config, weights = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    config["activation_function"] = config["activation_function"].replace("silu", "swish")
    pad = config["pad_token_id"]
    for source, target in (([5, 9, 7], [11, 3]), ([4], []), (list(range(3, 40)), list(range(40, 3, -1)))):
        expected = logits(config, weights, [*source, 0], [pad, *target])
        torch.testing.assert_close(our_logits(translator, source, target).double(), expected, rtol=0, atol=2e-5)


def test_a_search_writes_what_the_forward_pass_finds_likeliest(folder: Path, model: Path) -> None:
    translator = Translator.load(model, "cpu", 1)
    config, weights = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    pad, lines = config["pad_token_id"], ["The dog sleeps.", "Two men", "a"]
    found = translator.nbest(lines, Decoding(beam=1, length_factor=1e-9, length_extra=6))
    for line, (best,) in zip(lines, found, strict=True):
        source, written = translator.source.encode([line])[0], list[int]()
        while len(written) < 6:
            scores = logits(config, weights, [*source, 0], [pad, *written])[-1]
            scores[pad] = -torch.inf
            if (piece := int(scores.argmax())) == 0:
                break
            written.append(piece)
        assert best.ids == written


def test_text_becomes_the_ids_of_vocab_json(folder: Path, model: Path) -> None:
    import sentencepiece

    translator, vocabulary = Translator.load(model, "cpu", 1), json.loads((folder / "vocab.json").read_text())
    for side, ours in (("source", translator.source), ("target", translator.target)):
        spm = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        lines = [*sentences(side, 50, 2), "Ｆｕｌｌ width ½ x ▁ y", "</s> <pad>", "", "a"]
        expected = [[vocabulary.get(piece, 1) for piece in spm.encode(line, out_type=str)] for line in lines]
        assert ours.encode(lines) == expected and any(1 in row for row in expected)
        known = [row for row in expected if 1 not in row]
        assert ours.decode(known) == [
            spm.decode(spm.encode(line)) for line, row in zip(lines, expected, strict=True) if 1 not in row
        ]
        assert ours.encode([">>deu<< the dog"])[0][0] == vocabulary[">>deu<<"]
    assert translator.source.ids.model_dump() == {
        "pad": len(vocabulary) - 1,
        "unk": 1,
        "bos": len(vocabulary) - 1,
        "eos": 0,
    }
    assert translator.clean("  The  Dog's “10 000” ") == "The Dog's “10 000”"


def test_weights_of_pytorch_and_other_languages_are_read(folder: Path, model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "bin")
    weights = load_file(other / "model.safetensors")
    shared = weights["model.shared.weight"]
    copies = {f"model.{side}.embed_tokens.weight": shared for side in ("encoder", "decoder")} | {
        "lm_head.weight": shared
    }
    tables = {f"model.{side}.embed_positions.weight": torch.zeros(64, 16) for side in ("encoder", "decoder")}
    torch.save(weights | copies | tables, other / "pytorch_model.bin")
    (other / "model.safetensors").unlink()
    (other / "tokenizer_config.json").unlink()
    code, output = run("import", other, tmp_path / "none")
    assert code == 1 and "give --languages" in output and not (tmp_path / "none").exists()
    out = imported(other, tmp_path / "ours", "--languages", "en-nl")
    assert (out / "weights.safetensors").read_bytes() == (model / "weights.safetensors").read_bytes()
    assert Translator.load(out, "cpu", 1).languages == ["en", "nl"]


def test_the_export_of_an_import_is_what_was_imported(folder: Path, model: Path, tmp_path: Path) -> None:
    code, output = run("export", model, tmp_path / "out", "--format", "huggingface")
    assert code == 0 and f"wrote {tmp_path}/out; use it by: the program in {tmp_path}/out/README.md\n" in output, output
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    assert json.loads((tmp_path / "out" / "vocab.json").read_text()) == json.loads((folder / "vocab.json").read_text())
    before, after = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    config = json.loads((folder / "config.json").read_text())
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {key: written[key] for key in config if key in written} == {
        key: config[key] for key in config if key in written
    }
    again = imported(tmp_path / "out", tmp_path / "again")
    lines = sentences("source", 5, 3)
    assert Translator.load(again, "cpu", 1).translate(lines) == Translator.load(model, "cpu", 1).translate(lines)


def theirs(folder: Path) -> tuple[Any, Any]:
    """The model and the tokeniser of transformers."""
    transformers = pytest.importorskip("transformers")
    model = transformers.MarianMTModel.from_pretrained(str(folder), local_files_only=True)
    return model.eval(), transformers.MarianTokenizer.from_pretrained(str(folder), local_files_only=True)


@torch.inference_mode()
def assert_equal(ours: Path, folder: Path, lines: list[str], limit: int = 12) -> int:
    """Compare logits, and greedy and beam search, with transformers; return how many translations end by themselves."""
    model, tokenizer = theirs(folder)
    translator, ended = Translator.load(ours, "cpu", 1), 0
    ids = translator.source.ids
    batch = tokenizer([translator.clean(line) for line in lines], return_tensors="pt", padding=True)
    for row in batch["input_ids"].tolist():
        source = [i for i in row[translator.model.config.source_bos :] if i not in (ids.pad, ids.eos)]
        target = source[::-1]
        found = model(input_ids=torch.tensor([[i for i in row if i != ids.pad]]),
                      decoder_input_ids=torch.tensor([[ids.bos, *target]])).logits[0]  # fmt: skip
        torch.testing.assert_close(our_logits(translator, source, target), found, rtol=0, atol=1e-5)
    for beam in (1, 4):
        decoding = Decoding(beam=beam, nbest=beam, length_factor=1e-9, length_extra=limit)
        results = translator.nbest(lines, decoding)  # with beam translations, ours stops when theirs does
        rows = model.generate(**batch, num_beams=beam, max_new_tokens=limit + 1, length_penalty=1.0)
        texts = tokenizer.batch_decode(rows, skip_special_tokens=True)
        for (best, *_), row, text in zip(results, rows[:, 1:].tolist(), texts, strict=True):
            written = row[: row.index(ids.eos)]
            if len(written) < limit:
                assert best.ids == written and best.text.replace("<unk>", "").split() == text.split()
                ended += 1
    return ended


def test_an_imported_model_is_that_of_transformers(folder: Path, model: Path) -> None:
    assert assert_equal(model, folder, sentences("source", 40, 4)) > 40


def test_what_transformers_saves_is_imported(folder: Path, model: Path, tmp_path: Path) -> None:
    for part in theirs(folder):
        part.save_pretrained(tmp_path / "saved")
    out = imported(tmp_path / "saved", tmp_path / "out")
    assert (out / "weights.safetensors").read_bytes() == (model / "weights.safetensors").read_bytes()
    assert all((out / name).read_bytes() == (model / name).read_bytes() for name in ("source.model", "target.model"))


def test_an_export_of_an_import_is_loaded_by_transformers(model: Path, tmp_path: Path) -> None:
    code, output = run("export", model, tmp_path / "out", "--format", "huggingface")
    assert code == 0, output
    assert assert_equal(model, tmp_path / "out", sentences("source", 20, 5)) > 20


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


OURS: list[dict[str, Any]] = [
    {"tied": "all", "output_bias": True, "activation": "swish", "decoder_layers": 1},
    {"tied": "decoder", "output_bias": True, "activation": "gelu", "scale_embeddings": False, "joint": False},
    {"tied": "none", "output_bias": True},
    {"tied": "decoder"},
]


@pytest.mark.parametrize("settings", OURS, ids=str)
def test_our_models_keep_their_logits_when_exported(texts: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    model = own_model(texts, tmp_path / "ours", **settings)
    code, output = run("export", model, tmp_path / "out", "--format", "huggingface")
    assert code == 0, output
    config, weights = (read_json(tmp_path / "out" / "config.json"), load_file(tmp_path / "out" / "model.safetensors"))
    translator = Translator.load(model, "cpu", 1)
    weights.setdefault("final_logits_bias", torch.zeros(1, len(translator.target)))
    found = our_logits(translator, [9, 5, 30], [7, 12])
    torch.testing.assert_close(found.double(), logits(config, weights, [2, 9, 5, 30, 3], [2, 7, 12]), rtol=0, atol=2e-5)
    lines = sentences("source", 9, 6)
    again = Translator.load(imported(tmp_path / "out", tmp_path / "again"), "cpu", 1)
    assert again.translate(lines) == translator.translate(lines) and again.cleaning == translator.cleaning


def test_the_lines_of_the_readme_clean_and_detokenise(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = own_model(texts, tmp_path / "ours", tied="all")
    assert run("export", model, tmp_path / "out", "--format", "huggingface")[0] == 0
    transformers = MagicMock()
    tokenizer = transformers.MarianTokenizer.from_pretrained.return_value
    tokenizer.batch_decode.return_value = ["rot &amp; blau ."]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.chdir(tmp_path / "out")
    exec(re.findall(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)[0], {})
    assert tokenizer.call_args.args == (["a line of text ."],)
    assert capsys.readouterr().out == "rot & blau.\n"


@pytest.mark.parametrize("settings", OURS, ids=str)
def test_our_models_are_loaded_by_transformers(texts: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    model = own_model(texts, tmp_path / "ours", **settings)
    code, output = run("export", model, tmp_path / "out", "--format", "huggingface")
    assert code == 0, output
    ended = assert_equal(model, tmp_path / "out", sentences("source", 20, 5))
    assert ended > 10 or not settings.get("output_bias")


def break_key(key: str, value: Any) -> Any:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | {key: value}
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))

    return change


def remove(*names: str) -> Any:
    return lambda folder: [(folder / name).unlink() for name in names]


def write(name: str, content: str) -> Any:
    return lambda folder: (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (break_key("model_type", "bert"), 'model_type: expected "marian", got "bert"'),
        (break_key("model_type", None), 'model_type: expected "marian", got null'),
        (break_key("activation_function", "mish"), "activation_function: expected swish, silu, relu, gelu, got 'mish'"),
        (break_key("activation_function", ["relu"]), "activation_function: expected swish, silu, relu, gelu, got"),
        (break_key("normalize_before", True), "normalize_before: expected false, got true"),
        (break_key("decoder_ffn_dim", 8), "expected the same ffn_dim in encoder and decoder, got 24 and 8"),
        (break_key("d_model", None), "expected the key d_model"),
        (break_key("d_model", 20), "expected d_model: 20 numbers in"),
        (break_key("d_model", 7), "values: width must be a multiple of heads"),
        (break_key("max_position_embeddings", 0), "max_positions: expected 1 or more, got 0"),
        (break_key("encoder_layers", 4), "got none named model.encoder.layers.3"),
        (break_key("encoder_layers", 10**7), "describes a model larger than its"),
        (break_key("max_position_embeddings", 10**9), "max_positions times width must be at most"),
        (break_key("encoder_layers", 2), "got model.encoder.layers.2"),
        (break_key("decoder_start_token_id", 5), "expected decoder_start_token_id"),
        (break_key("pad_token_id", 5000), "expected ids of pieces for pad"),
        (remove("source.spm", "model.safetensors"),
         "without source.spm, model.safetensors or pytorch_model.bin"),
        (write("vocab.json", "{"), "vocab.json: expected JSON"),
        (write("vocab.json", '{"a": 0, "b": 2}'), "vocab.json: expected pieces and their ids"),
        (write("vocab.json", '{"a": "x"}'), "vocab.json: expected pieces and their ids"),
        (write("vocab.json", '{"a": 0, "b": [1]}'), "vocab.json: expected pieces and their ids"),
        (write("config.json", "[]"), "config.json: expected keys and their values, got a list"),
        (write("source.spm", "no model"), "source.model: expected a sentencepiece model"),
        (write("model.safetensors", "no model"), "model.safetensors: expected safetensors"),
    ],
)  # fmt: skip
def test_what_is_no_marian_model_is_one_message(folder: Path, tmp_path: Path, change: Any, message: str) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    change(broken)
    code, output = run("import", broken, tmp_path / "out")
    assert code == 1 and message in output and len(output.splitlines()) == 1, output
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_written_over_its_source(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for out in (folder, folder / "within"):
        code, output = run("import", folder, out)
        assert code == 1 and "expected a folder outside" in output and sorted(folder.iterdir()) == before


def test_an_import_replaces_an_import_but_no_trained_model(folder: Path, tmp_path: Path) -> None:
    again = imported(folder, imported(folder, tmp_path / "imported"))
    trained = shutil.copytree(again, tmp_path / "trained")
    provenance = read_json(trained / "provenance.json")
    write_json(trained / "provenance.json", {key: provenance[key] for key in provenance if key != "imported"})
    before = {file.name: file.read_bytes() for file in trained.iterdir()}
    code, output = run("import", folder, trained)
    assert code == 1 and "trained: expected a new folder or an imported model, got a trained model" in output
    assert {file.name: file.read_bytes() for file in trained.iterdir()} == before


def test_other_formats_refuse_what_they_cannot_hold(model: Path, tmp_path: Path) -> None:
    code, output = run("export", model, tmp_path / "out", "--format", "ctranslate2")
    assert code == 1 and "got an imported one" in output and "ct2-transformers-converter" in output
    assert read_json(model / "provenance.json")["system"] == "opus-mt-en-de" and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "got"),
    [({"norm": "pre"}, "got norm: pre"), ({"positions": "learned"}, "got positions: learned"),
     ({"context": "gru"}, "got context: gru"), ({"attention_output": False}, "got attention_output: false"),
     ({"attention_bias": False}, "got attention_bias: false"), ({"normalisation": "rms"}, "got normalisation: rms"),
     ({"activation": "swiglu"}, "got activation: swiglu"), ({"positions": "rotary"}, "got positions: rotary"),
     ({"key_value_heads": 1}, "got key_value_heads: 1")],
)  # fmt: skip
def test_our_models_that_marian_lacks_are_refused(
    texts: Path, tmp_path: Path, settings: dict[str, Any], got: str
) -> None:
    model = own_model(texts, tmp_path / "ours", **settings)
    code, output = run("export", model, tmp_path / "out", "--format", "huggingface")
    assert code == 1 and got in output and len(output.splitlines()) == 1 and not (tmp_path / "out").exists()
