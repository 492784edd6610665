"""One model of several pairs of languages: its training resumes bit for bit, and it obeys the language asked for."""

import json
from pathlib import Path

import pytest
import torch
from commands import run
from safetensors.torch import load_file
from several import encode_pairs, sentence

from nmt.config.data import Subwords
from nmt.config.decoding import Decoding
from nmt.data.card import model_card
from nmt.serve.limits import Refused
from nmt.serve.models import ServedModel
from nmt.system.errors import ConfigError
from nmt.system.files import read_json
from nmt.text.subwords import inherit
from nmt.training.average import average
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.translation.directions import choose_direction
from nmt.translation.export import export
from nmt.translation.forced import score_pairs, score_pieces
from nmt.translation.pyfunc import Predictor
from nmt.translation.standalone import ExportedModel
from nmt.translation.translator import Attentions, Translation, Translator

EVEN = {"en-de": 200, "en-fr": 100, "de-en": 150}
UPDATES = 50
NUMBERS = [1, 2, 3, 4]


def experiment(updates: int) -> Experiment:
    return Experiment.model_validate({
        "model": {"layers": 1, "width": 32, "ffn": 64, "heads": 2, "dropout": 0.1, "tied": "all", "max_positions": 24},
        "training": {
            "batch": "75 sentences", "updates": updates, "pair_temperature": 5, "validation_bleu": False,
            "checkpoint_every": "50 updates", "validate_every": "50 updates",
            "schedule": {"kind": "constant", "peak": 0.02, "warmup": 10},
        },
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus in ``encoded``, a training that was interrupted within its first two epochs, and its model."""
    folder = tmp_path_factory.mktemp("several")
    encoded = encode_pairs(folder, Subwords(kind="words", size=100), EVEN)
    for updates in (2, 5, UPDATES):
        train(encoded, folder / "run", experiment(updates), 1, "cpu", 1, "table/system")
    average(folder / "run", encoded, "last", folder / "model")
    return folder


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return Translator.load(folder / "model", "cpu", 1)


@pytest.mark.integration
def test_several_pairs_resume_bit_identical(folder: Path, tmp_path: Path) -> None:
    train(folder / "encoded", tmp_path, experiment(UPDATES), 1, "cpu", 1, "table/system")
    last = f"state/checkpoints/update-{UPDATES:08}/weights.safetensors"
    resumed, whole = load_file(folder / "run" / last), load_file(tmp_path / last)
    assert all(resumed[name].equal(whole[name]) for name in whole)
    assert read_json(tmp_path / "training.json")["epochs"] > 3


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("en", "fr"), ("de", "en")])
def test_the_tag_decides_the_language(translator: Translator, source: str, target: str) -> None:
    [text] = translator.toward(target, source).translate([sentence(NUMBERS, source)])
    assert text and all(word.startswith(target) for word in text.split())


def test_a_language_that_is_not_clear_or_not_known_is_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="translates en-de, en-fr, de-en; name the target language, --to: one of"):
        translator.translate(["a"])
    assert translator.toward("fr").languages == ["en", "fr"]
    assert translator.toward("fr", "de").languages == ["de", "fr"]  # zero-shot
    with pytest.raises(ConfigError, match="--to: expected a target language among de, fr, en, got 'cs'"):
        translator.toward("cs")
    with pytest.raises(ConfigError, match="--from: expected a source language among en, de, got 'fr'"):
        translator.toward("en", "fr")
    with pytest.raises(ConfigError, match="expected two different languages"):
        translator.toward("en", "en")


def test_directions_of_one_pair_and_of_several_sources() -> None:
    assert choose_direction("m", ["en-de"]) == choose_direction("m", ["en-de"], "en", "de") == ["en", "de"]
    with pytest.raises(ConfigError, match="name the source language, --from: one of en, fr"):
        choose_direction("m", ["en-de", "fr-de"], target="de")
    assert choose_direction("m", ["en-de", "fr-de", "fr-en"], source="en") == ["en", "de"]


def test_the_tag_is_part_of_a_sentences_length_attention_and_probability(translator: Translator) -> None:
    german = translator.toward("de", "en")
    line = sentence(NUMBERS, "en")
    [[best]] = german.translate_clean([line], Decoding())
    maps = german.attentions(line, best)
    assert maps.source[:2] == ["<s>", "<2de>"] and len(maps.source) == 7
    right, wrong = (score_pairs(translator.toward(to, "en"), [line], [best.text])[0] for to in ("de", "fr"))
    assert right and wrong and sum(right.log_probabilities) > sum(wrong.log_probabilities) + 1
    assert german.encode([""]) == [[]] and german.translate([""]) == [""]


def test_the_tag_is_no_word_that_replaces_an_unknown_one(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    german, line = translator.toward("de", "en"), sentence(NUMBERS, "en")
    unknown, weights = german.target.ids.unk, torch.zeros(1, 1, 5, 7)  # columns: BOS, tag, four words, EOS
    weights[..., range(4), range(2, 6)] = 1.0
    ids = german.target.encode([sentence(NUMBERS, "de")])[0]
    written = Translation("", 0.0, [unknown, *ids[1:3], unknown])
    monkeypatch.setattr(Translator, "attentions", lambda *_: Attentions([], [], {"source": weights}))
    monkeypatch.setattr(Translator, "_texts", lambda *_: [written])
    [[best]] = german.translate_clean([line], Decoding(replace_unknown=True))
    source, target = line.split(), sentence(NUMBERS, "de").split()
    assert best.text.split() == [source[0], *target[1:3], source[3]]


def test_the_tag_needs_no_coverage(translator: Translator) -> None:
    german, line = translator.toward("de", "en"), sentence(NUMBERS, "en")
    [[best]] = german.translate_clean([line], Decoding(coverage_penalty=1.0))
    [likelihood] = score_pieces(german, [line], [best.ids])
    attention = german.attentions(line, best).weights["source"][-1].mean(0).sum(0)[2:-1]  # without BOS, tag, EOS
    assert likelihood and len(attention) == 4
    assert best.score == pytest.approx(likelihood.score() + float(attention.clamp(max=1).log().sum()), abs=1e-4)


def test_commands_name_the_language(folder: Path, tmp_path: Path) -> None:
    text, model = tmp_path / "text", folder / "model"
    text.write_text(f"{sentence(NUMBERS, 'en')}\n")
    code, output = run("translate", model, text, "--to", "fr", "--device", "cpu", "--threads", 1)
    assert code == 0 and all(word.startswith("fr") for word in output.split())
    code, output = run("translate", model, text, "--device", "cpu", "--threads", 1)
    assert code == 1 and "name the target language, --to: one of de, fr, en" in output
    options = ("--from", "en", "--to", "fr", "--device", "cpu", "--threads", 1)
    code, output = run("decode", model, text, tmp_path / "out/hypotheses.txt", *options)
    assert code == 0, output
    assert read_json(tmp_path / "out/decoding.json")["languages"] == "en-fr"
    code, output = run("attention", model, text.read_text(), "--out", tmp_path / "maps", *options)
    assert code == 0 and all(word.startswith("fr") for word in output.split())
    assert read_json(tmp_path / "maps/source.json")["columns"][:2] == ["<s>", "<2fr>"]
    code, output = run("translate-text", model, text, tmp_path / "added/translations.txt", *options)
    assert code == 0, output
    assert read_json(tmp_path / "added/decoding.json")["languages"] == "en-fr"


def test_a_served_model_translates_into_the_language_of_the_request(translator: Translator) -> None:
    served = ServedModel("several", translator)
    assert served.description()["pairs"] == ["en-de", "en-fr", "de-en"]
    answer = json.loads(served.toward("fr", None).translate(sentence(NUMBERS, "en"), Decoding()))
    assert all(word.startswith("fr") for word in answer["translations"][0]["text"].split())
    with pytest.raises(Refused, match="wrong value: from, to"):
        served.toward(None, None)


def test_a_system_of_one_pair_starts_from_one_of_several(folder: Path, tmp_path: Path) -> None:
    from nmt.data.encode import encode_corpus

    inherit(folder / "model", tmp_path / "subwords", "en-fr")
    encode_corpus(folder / "clean/en-fr", tmp_path / "subwords", tmp_path / "encoded", "en-fr")
    config = experiment(3)
    train(tmp_path / "encoded", tmp_path / "run", config, 1, "cpu", 1, "table/child", initialise=folder / "model")
    average(tmp_path / "run", tmp_path / "encoded", "last", tmp_path / "model")
    child = Translator.load(tmp_path / "model", "cpu", 1)
    assert child.languages == ["en", "fr"] and child.source.tags
    [text] = child.translate([sentence(NUMBERS, "en")])
    assert all(word.startswith("fr") for word in text.split())


def test_the_card_names_all_directions(folder: Path) -> None:
    card = model_card(folder / "model")
    assert "`en` → `de`, `en` → `fr`, `de` → `en`" in card and "language:\n- en\n- de\n- fr\n" in card


def test_exports_carry_the_tag_or_say_why_not(folder: Path, translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(ConfigError, match="name the target language, --to: one of"):
        export(folder / "model", tmp_path / "none", "ctranslate2")
    export(folder / "model", tmp_path / "french", "ctranslate2", languages=("fr", None))
    exported, line = ExportedModel(tmp_path / "french", "cpu", 1), sentence(NUMBERS, "en")
    assert exported.translate([line]) == translator.toward("fr").translate([line])
    with pytest.raises(ConfigError, match="expected subwords without tags of languages, got tags of de, fr, en"):
        export(folder / "model", tmp_path / "marian", "huggingface")
    with pytest.raises(ConfigError, match="--to: expected --format ctranslate2 with it, got half"):
        export(folder / "model", tmp_path / "half", "half", languages=("fr", None))
    predictor = Predictor(folder / "model")
    assert predictor.predict([line], {"from": "", "to": "fr"}) == exported.translate([line])
