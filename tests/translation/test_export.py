"""Exports: CTranslate2 against our own model and search, by scores and translations; MLflow's pyfunc."""

import itertools
import json
import operator
import random
import shutil
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import run
from copytask import copy_lines

from nmt.config.data import Cleaning, SpecialIds
from nmt.config.decoding import Decoding
from nmt.config.models import RecurrentConfig, TransformerConfig
from nmt.models.build import build
from nmt.system.files import read_json, write_json, write_text
from nmt.text.cleaner import Cleaner, restore
from nmt.text.subwords import Vocabulary
from nmt.training.checkpoint import weights_of, write_tensors
from nmt.translation import comparison, standalone
from nmt.translation.engines.bundle import bundle
from nmt.translation.translator import Translator

ctranslate2 = pytest.importorskip("ctranslate2")
IDS = SpecialIds()
Scored = tuple[list[str], float]  # pieces and score


def export(model: Path, out: Path, to: str) -> None:
    code, output = run("export", model, out, "--format", to)
    use = {"ctranslate2": "python {}/translate.py FILE", "half": "nmt translate {} FILE"}
    words = use.get(to, "mlflow models serve -m {} --env-manager local").format(out)
    assert code == 0 and output == f"wrote {out}; use it by: {words}\n", output


def engine(folder: Path) -> Any:
    return ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)


def random_model(corpus: Path, folder: Path, settings: dict[str, Any]) -> Path:
    """A model directory whose every weight is random, also those that start as zeros and ones."""
    folder.mkdir()
    config = TransformerConfig.model_validate({"width": 16, "ffn": 24, "heads": 4, "max_positions": 32, **settings})
    for side in ("source", "target"):
        shutil.copyfile(corpus / f"{side}.model", folder / f"{side}.model")
    sizes = [len(Vocabulary(folder / f"{side}.model")) for side in ("source", "target")]
    torch.manual_seed(3)
    model = build(config, *sizes, IDS.pad)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    write_tensors(weights_of(model), folder / "weights.safetensors")
    vocabulary = {"source": sizes[0], "target": sizes[1]}
    write_json(folder / "config.json", {"model": config.model_dump(), "vocabulary": vocabulary})
    write_json(folder / "cleaning.json", {"cleaning": {}, "languages": "en-de"})
    write_json(folder / "provenance.json", {})
    return folder


VARIANTS = [
    {"norm": norm, "tied": tied, "positions": positions, "activation": activation, "scale_embeddings": scaled}
    for (norm, positions), (tied, activation, scaled) in itertools.product(
        itertools.product(("post", "pre"), ("sinusoidal", "learned")),
        [("none", "relu", True), ("decoder", "gelu", False), ("all", "gelu", True)],
    )
] + [
    {"attention_output": output, "attention_bias": bias}
    for output, bias in [(False, False), (False, True), (True, False)]
]
VARIANTS += [
    {"normalisation": "rms"},
    {"normalisation": "rms", "norm": "pre"},
    {"activation": "swiglu"},
    {"activation": "geglu", "attention_bias": False},
    {"positions": "rotary"},
    {"key_value_heads": 2},
    {"key_value_heads": 1},
    {"norm": "pre", "normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 2},
]


@pytest.mark.integration
@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_random_models_give_the_same_log_probabilities(
    copy_corpus: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    folder = random_model(copy_corpus, tmp_path / "model", {"layers": 2, "decoder_layers": 1, **settings})
    export(folder, tmp_path / "out", "ctranslate2")
    translator, numbers = Translator.load(folder, "cpu", 1), random.Random(1)
    sources, targets = ([numbers.choices(range(4, 14), k=k) for k in lengths] for lengths in ([1, 5, 9], [4, 1, 8]))
    pieces = [list(map(translator.source.pieces, sources)), list(map(translator.target.pieces, targets))]
    for source, target, theirs in zip(sources, targets, engine(tmp_path / "out").score_batch(*pieces), strict=True):
        with torch.inference_mode():
            inputs = torch.tensor([[IDS.bos, *source, IDS.eos]]), torch.tensor([[IDS.bos, *target]])
            log_probs = translator.model.log_probabilities(translator.model(*inputs)[0])
        ours = [float(log_probs[t, piece]) for t, piece in enumerate([*target, IDS.eos])]
        assert theirs.log_probs == pytest.approx(ours, abs=2e-5)


def scored(model: Path, folder: Path, lines: list[str], **options: Any) -> list[tuple[Scored, Scored]]:
    """Ours and CTranslate2's of the lines that both end before the limit: there they differ, we force an end."""
    translator, limit = Translator.load(model, "cpu", 1), 12
    decoding = Decoding(beam=options["beam_size"], length_factor=1e-9, length_extra=limit)
    ours = [(translator.target.pieces(t.ids), t.score) for t, *_ in translator.translate_clean(lines, decoding)]
    found = engine(folder).translate_batch(
        [translator.source.pieces(row) for row in translator.source.encode(lines)],
        return_scores=True, min_decoding_length=0, max_decoding_length=limit + 1, **options,
    )  # fmt: skip
    theirs = [(result.hypotheses[0], result.scores[0]) for result in found]
    return [(a, b) for a, b in zip(ours, theirs, strict=True) if max(len(a[0]), len(b[0])) < limit]


def test_searches_agree_but_for_when_they_stop(model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "out", "ctranslate2")
    lines = copy_lines(400, 5)
    found = scored(model, tmp_path / "out", lines, beam_size=1)
    assert len(found) > 100 and all(a[0] == b[0] for a, b in found)
    assert all(a[1] == pytest.approx(b[1], abs=1e-4) for a, b in found)  # log p / length, EOS counted, in both
    found = scored(model, tmp_path / "out", lines, beam_size=5)
    equal = [a[1] == pytest.approx(b[1], abs=1e-4) for a, b in found if a[0] == b[0]]
    assert all(equal) and len(equal) > 0.5 * len(found) > 50
    assert all(a[1] > b[1] - 1e-4 for a, b in found)  # it never stops later than we do
    found = scored(model, tmp_path / "out", lines, beam_size=5, patience=10)
    assert all(a[1] < b[1] + 1e-4 for a, b in found)  # nor, with patience, earlier


@pytest.mark.integration
def test_the_program_of_an_export_needs_nothing_of_ours(model: Path, tmp_path: Path) -> None:
    """It runs where torch, pydantic and this package cannot be imported, on raw text."""
    export(model, tmp_path / "out", "ctranslate2")
    blocked = ("torch", "pydantic", "nmt", "yaml", "safetensors", "click", "sacrebleu")
    for name in blocked:
        write_text(tmp_path / "blocked" / f"{name}.py", f"raise ModuleNotFoundError('no {name}')")
    raw = [*copy_lines(40, 5), "  W1   w2\u00a0w3 ", "", "w1 \u200d“W2” & unseen…", " ".join(["w1 w2"] * 300)]
    environment = {"PYTHONPATH": str(tmp_path / "blocked"), "PATH": "", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, tmp_path / "out" / "translate.py", "--threads", "1", "--beam", "1"],
        input="".join(f"{line}\r\n" for line in raw).encode(), env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found = done.stdout.decode().split("\n")[:-1]
    expected = Translator.load(model, "cpu", 1).translate(raw, Decoding(beam=1))
    assert b"1 of 44 sentences have more than the model's" in done.stderr
    assert len(found) == 44 and found[41] == "" and sum(map(operator.eq, found, expected)) >= 43
    wrong = subprocess.run([*done.args, "-"], input=b"w1\n\xff\n", env=environment, capture_output=True, check=False)
    assert wrong.returncode == 1 and wrong.stdout == b""
    assert wrong.stderr.decode().startswith("translate: standard input, line 2: expected UTF-8, got byte 0xff")
    (source := tmp_path / "source").write_text("w1\n")
    for out in (source, tmp_path):
        command = [*done.args, source, "--out", out]
        wrong = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert wrong.stderr.decode().startswith(f"translate: {out}: expected an output file, got a folder or an input")
    assert source.read_text() == "w1\n"


def test_the_program_of_an_export_ends_in_one_line_when_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["translate.py"])
    monkeypatch.setattr(standalone, "ExportedModel", interrupt)
    with pytest.raises(SystemExit) as end:
        standalone.main()
    assert end.value.code == 130 and capsys.readouterr().err == "translate: stopped\n"


@pytest.mark.parametrize("option", ["--threads", "--beam"])
@pytest.mark.parametrize("value", ["-1", "0", "x"])
def test_the_program_of_an_export_counts_from_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["translate.py", f"{option}={value}"])
    monkeypatch.setattr(standalone, "ExportedModel", None)  # would be called
    with pytest.raises(SystemExit):
        standalone.main()
    assert f"{option}: expected a number from 1, got {value}" in capsys.readouterr().err


def bundled(folder: Path) -> Any:
    """The program of an export as a module."""
    program = write_program(folder / "program.py")
    module = types.ModuleType("program")
    sys.modules["program"] = module  # dataclasses look for it
    exec(compile(program, "program.py", "exec"), module.__dict__)
    return module


def write_program(path: Path) -> str:
    path.write_text(bundle("nmt.translation.standalone"), encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"lowercase": False, "unicode": "NFKC", "ranges": True, "symbols": True, "hyphens": True},
        {"tokenize": "none", "punctuation": False, "characters": "latin"},
        {"devanagari": True, "unicode": "none"},
    ],
)
def test_it_cleans_and_restores_like_the_project(tmp_path: Path, recipe: dict[str, Any]) -> None:
    program, cleaning = bundled(tmp_path), Cleaning.model_validate(recipe)
    theirs = program.Cleaning(**cleaning.model_dump(mode="json"))
    lines = [
        "It’s £5–10, «e.g.» well-known & OK!",
        "\u200bİ  a\u0301\tb\u2028c \ue000",
        "१०-२० नहीं|",
        "",
        "a&apos;b … 1 000",
    ]
    for language in ("en", "de", "fr", "hi", "tr"):
        ours = [Cleaner(cleaning, language)(line) for line in lines]
        assert [program.Cleaner(theirs, language)(line) for line in lines] == ours
        restored = [restore(line, language, cleaning) for line in ours]
        assert [program.restore(line, language, theirs) for line in ours] == restored


def test_quantised_weights_are_smaller_and_the_card_says_how_good(model: Path, tmp_path: Path) -> None:
    """The reference is what the model itself writes. It has learned little, so rounding changes many words."""
    texts = tmp_path / "test.en", tmp_path / "test.de"
    lines = copy_lines(30, 6)
    write_text(texts[0], "".join(f"{line}\n" for line in lines))
    own = Translator.load(model, "cpu", 1).translate(lines)
    write_text(texts[1], "".join(f"{line}\n" for line in own))
    options = ("--format", "ctranslate2", "--quantization", "int8", "--check", *texts)
    code, output = run("export", model, tmp_path / "out", *options)
    checked = read_json(tmp_path / "out" / "check.json")
    assert code == 0 and f"{checked['equal']} of 30 translations are equal" in output
    export(model, tmp_path / "float", "ctranslate2")
    assert checked["export"]["bytes"] < 0.7 * (tmp_path / "float" / "model.bin").stat().st_size
    assert checked["model"]["bleu"]["score"] > 99.9 and checked["export"]["bleu"]["score"] > 30
    table, wrote = output.split("wrote ")
    assert wrote.startswith(f"{tmp_path / 'out'}; use it by: python ")
    assert table.strip() in (tmp_path / "out" / "README.md").read_text()
    code, output = run("export", model, tmp_path / "not", "--format", "pyfunc", "--quantization", "int8")
    assert code == 1 and "--quantization: expected --format ctranslate2 with it" in output
    code, output = run("export", model, tmp_path / "not", *options[:-2], texts[1], texts[0])
    assert code == 1 and "test.de: expected text in 'en', as the model translates en-de" in output
    texts[1].write_text("w1\n")
    code, output = run("export", model, tmp_path / "not", *options)
    assert code == 1 and "test.en has 30, " in output and not (tmp_path / "not").exists()


@pytest.mark.integration
def test_mlflow_loads_the_pyfunc_and_predicts(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow
    import numpy
    import pandas

    monkeypatch.setattr(sys, "path", list(sys.path))  # loading adds the model's own copy of the package
    export(model, tmp_path / "out", "pyfunc")
    lines = [" W1  w2 w3", "", "w4 w5"]
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "out"))
    expected = Translator.load(model, "cpu", 1).translate(lines)
    assert loaded.predict(lines) == expected == loaded.predict(pandas.DataFrame(lines))
    for missing in (None, float("nan"), pandas.NA):
        column = pandas.DataFrame({"text": pandas.Series([lines[0], missing, lines[2]], dtype=object)})
        assert loaded.predict(column) == expected
    assert loaded.predict({"text": lines}) == expected and loaded.predict(lines[0]) == expected[:1]
    assert loaded.predict(numpy.array(lines[0])) == expected[:1]  # the server's, for "inputs": "text"
    assert loaded.predict(numpy.array([lines[0], None, lines[2]])) == expected  # and for "inputs": ["text", null]
    assert loaded.predict([]) == []
    with pytest.raises(ValueError, match=r"expected one column of text, got 2 \(id, text\); choose one"):
        loaded.predict(pandas.DataFrame({"id": ["1"], "text": ["w1"]}))
    assert (tmp_path / "out" / "code" / "nmt" / "translate.py").exists()
    assert not list((tmp_path / "out").rglob("*.pkl"))


@pytest.mark.integration
def test_a_pyfunc_is_written_where_mlflow_is_installed_as_mlflow_skinny(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline's environment has mlflow-skinny, whose package is not called mlflow."""
    import mlflow

    known = metadata.version

    def version(name: str) -> str:
        if name == "mlflow":
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    export(model, tmp_path / "out", "pyfunc")
    assert f"mlflow=={mlflow.__version__}" in (tmp_path / "out" / "requirements.txt").read_text()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (shutil.Error([("a", "out/a", "No space left"), ("b", "out/b", "x")]), "nmt: out/a: No space left; check"),
        (shutil.SameFileError("'a' and 'a' are the same file"), "nmt: writing: 'a' and 'a' are the same file; check"),
    ],
)
def test_what_could_not_be_copied_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("nmt.translation.export.export", fail)
    code, output = run("export", tmp_path, tmp_path / "out", "--format", "pyfunc")
    assert code == 1 and output.startswith(message) and len(output.splitlines()) == 1


def test_a_recurrent_model_and_a_folder_in_use_are_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("mine")
    code, output = run("export", model, tmp_path / "used", "--format", "ctranslate2")
    assert code == 1 and "new or empty" in output and (tmp_path / "used" / "thesis.txt").read_text() == "mine"
    folder = shutil.copytree(model, tmp_path / "recurrent")
    for kind in ("pyfunc", "ctranslate2"):
        code, output = run("export", folder, folder / "within", "--format", kind)
        assert code == 1 and "expected a folder outside" in output and not (folder / "within").exists()
    config = json.loads((folder / "config.json").read_text())
    config["model"] = {"kind": "recurrent", "layers": 1, "width": 8}
    write_json(folder / "config.json", config)
    sizes = config["vocabulary"]
    network = build(RecurrentConfig.model_validate(config["model"]), sizes["source"], sizes["target"], IDS.pad)
    write_tensors(weights_of(network), folder / "weights.safetensors")
    write_json(folder / "provenance.json", {})
    code, output = run("export", folder, tmp_path / "out", "--format", "ctranslate2")
    assert code == 1 and "expected a Transformer, got a recurrent model" in output and "pyfunc" in output
    assert not (tmp_path / "out").exists()


def test_half_the_size_translates_alike(model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "half", "half")
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (model, tmp_path / "half")]
    assert sizes[1] < 0.55 * sizes[0]  # with the header
    lines = copy_lines(20, 7)
    whole, half = (Translator.load(folder, "cpu").translate(lines) for folder in (model, tmp_path / "half"))
    assert whole == half
    locked = shutil.copytree(model, tmp_path / "read only")
    for file in (*locked.iterdir(), locked):
        file.chmod(0o555 if file.is_dir() else 0o444)
    export(locked, tmp_path / "copy", "half")
    assert all(file.stat().st_mode & 0o200 for file in (tmp_path / "copy").iterdir())
    made = read_json(tmp_path / "half" / "provenance.json")
    assert made["rounded_from_sha256"] == read_json(model / "provenance.json")["weights_sha256"]


def test_a_check_scores_with_the_tokeniser_of_the_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_text("A dog.\n" * 2)
    (tmp_path / "reference").write_text("一只狗在公园里看猫。\n" * 2)
    for weights in ("weights.safetensors", "model.bin"):
        (tmp_path / weights).touch()
    found = types.SimpleNamespace(
        source_language="en",
        target_language="zh",
        cleaning=Cleaning(),
        translate=lambda lines: ["一只狗在公园里看狗。"] * 2,
    )
    found.toward = lambda *_: found
    monkeypatch.setattr(comparison, "ExportedModel", lambda *_: found)
    monkeypatch.setattr(comparison.Translator, "load", lambda *_: found)
    made = comparison.compare_with_export(tmp_path, tmp_path, tmp_path / "source", tmp_path / "reference")
    assert "tok:zh" in made["model"]["bleu"]["signature"] and made["export"]["bleu"]["score"] > 50
