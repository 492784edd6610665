"""Forced decoding, against search and against an explicit loop of the decoder's steps."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import run
from copytask import copy_lines

from nmt.config.decoding import Decoding
from nmt.config.models import RecurrentConfig, TransformerConfig
from nmt.models.build import build
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, sha256, write_json
from nmt.training.average import ensemble
from nmt.training.checkpoint import weights_of, write_tensors
from nmt.translation.forced import score_pairs, score_pieces, totals
from nmt.translation.translator import Translator

SMALL = {"width": 16, "max_positions": 32}
KINDS: dict[str, Any] = {
    "transformer": TransformerConfig.model_validate(SMALL | {"layers": 2, "ffn": 24, "heads": 2, "norm": "pre"}),
    "recurrent": RecurrentConfig.model_validate(SMALL | {"kind": "recurrent", "layers": 2}),
    "local": RecurrentConfig.model_validate(SMALL | {"kind": "recurrent", "attention": {"kind": "local-p"}}),
    "plain": RecurrentConfig.model_validate(SMALL | {"kind": "recurrent", "attention": {"kind": "none"}}),
}


def random_model(model: Path, folder: Path, kind: str, seed: int = 1) -> Path:
    """A model directory like another, with another architecture and random weights."""
    shutil.copytree(model, folder)
    config = read_json(folder / "config.json")
    torch.manual_seed(seed)
    network = build(KINDS[kind], config["vocabulary"]["source"], config["vocabulary"]["target"], 0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    write_tensors(weights_of(network), folder / "weights.safetensors")
    write_json(folder / "config.json", config | {"model": KINDS[kind].model_dump()})
    checksum = sha256(folder / "weights.safetensors")
    write_json(folder / "provenance.json", read_json(folder / "provenance.json") | {"weights_sha256": checksum})
    return folder


def loop(translator: Translator, line: str, ids: list[int]) -> list[float]:
    """The log-probability of each piece and of EOS, one step of the decoder at a time, for one sentence."""
    special, found = translator.source.ids, []
    source = torch.tensor([[special.bos, *translator.source.encode([line])[0], special.eos]])
    with torch.inference_mode():
        state = translator.decoder.start(source)
        for last, piece in zip([special.bos, *ids], [*ids, special.eos], strict=True):
            log_probs, state = translator.decoder.step(state, torch.tensor([last]))
            found.append(float(log_probs[0, piece]))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_search_and_an_explicit_loop(model: Path, tmp_path: Path, kind: str) -> None:
    translator, lines = Translator.load(random_model(model, tmp_path / "m", kind), "cpu", 1), copy_lines(20, 7)
    decoding = Decoding(beam=4, nbest=4, length_penalty=0.6, length_extra=3)
    best = [translations[rank] for rank in (0, 3) for translations in translator.translate_clean(lines, decoding)]
    found = score_pieces(translator, lines * 2, [translation.ids for translation in best])
    for line, translation, likelihood in zip(lines * 2, best, found, strict=True):
        assert likelihood and likelihood.score(0.6) == pytest.approx(translation.score, abs=1e-5)
        assert likelihood.log_probabilities == pytest.approx(loop(translator, line, translation.ids), abs=1e-5)


def test_an_ensemble_has_the_mean_probability(model: Path, tmp_path: Path) -> None:
    members = [random_model(model, tmp_path / str(seed), "transformer", seed) for seed in (1, 2)]
    ensemble(members, tmp_path / "both")
    both, *each = [Translator.load(folder, "cpu", 1) for folder in (tmp_path / "both", *members)]
    [found], *alone = [score_pairs(translator, ["w1 w2"], ["w2 w1 w3"]) for translator in (both, *each)]
    parts = [likelihood.log_probabilities for [likelihood] in alone if likelihood]
    mean = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*parts, strict=True)]
    assert found and found.log_probabilities == pytest.approx(mean, abs=1e-6)


def test_raw_text_is_cleaned_and_batches_do_not_matter(model: Path) -> None:
    translator = Translator.load(model, "cpu", 1)
    lines = copy_lines(300, 9)
    raw = [f"  {line.upper()} " for line in lines]
    together = score_pairs(translator, raw, raw)
    for i in (0, 100, 299):
        [alone] = score_pairs(translator, [lines[i]], [lines[i]])
        one = together[i]
        assert one and alone and one.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-5)
    one = together[0]
    assert one and [word for word, _ in one.words(translator.target)] == [*lines[0].split(), "</s>"]
    assert math.fsum(part for _, part in one.words(translator.target)) == pytest.approx(one.log_probability)
    assert one.perplexity == pytest.approx(math.exp(-one.log_probability / (len(one.ids) + 1)))


def test_empty_and_long_lines(model: Path) -> None:
    translator = Translator.load(model, "cpu", 1)
    limit = translator.model.longest - 2
    long = " ".join(["w1"] * (limit + 1))
    empty, no_translation, cut, too_long, longest = score_pairs(
        translator, ["", "w1", long, "w1", "w1"], ["", "", "w1", long, long[:-3]]
    )
    assert empty and empty.log_probability == 0 and translator.translate([""]) == [""]
    assert no_translation and len(no_translation.log_probabilities) == 1
    assert cut and longest and len(longest.log_probabilities) == limit + 1
    assert too_long is None
    summary = totals([empty, too_long, cut], ["", long, " w1 "])
    assert (summary["pairs"], summary["too_long"], summary["tokens"], summary["characters"]) == (3, 1, 2, 2)
    assert summary["bits_per_character"] == pytest.approx(-cut.log_probability / math.log(2) / 2)
    with pytest.raises(ConfigError, match="for each of 1 lines, got 2"):
        score_pieces(translator, ["w1"], [[4], [5]])


def test_the_command_writes_a_line_for_each_pair(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("W1 w2\nw3\n")
    (tmp_path / "a.de").write_text("w1 w2\nw4\n")
    code, output = run("logprob", model, tmp_path / "a.en", tmp_path / "a.de", "--words", "--device", "cpu")
    first, second, total = output.splitlines()
    log_probability, perplexity, tokens, *words = first.split("\t")
    assert code == 0 and tokens == "3" and [word.split()[0] for word in words] == ["w1", "w2", "</s>"]
    assert float(perplexity) == pytest.approx(math.exp(-float(log_probability) / 3), rel=1e-4)
    assert "2 lines, 5 tokens" in total and "bits per character of 7" in total and second
    code, output = run("logprob", model, tmp_path / "a.en", tmp_path / "a.de", "--json", "--out", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert code == 0 and rows[0]["log_probability"] == pytest.approx(float(log_probability), abs=1e-5)
    assert rows[-1]["total"]["tokens"] == 5 and len(rows) == 3


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (("a.en", b"w1\nw2\n"), ("a.de", b"w1\n"), "a.de has 1, "),
        (("a.en", b""), ("a.de", b""), "a.de: expected sentences, got an empty file"),
        (("a.en", b"w1\n"), ("a.de", b"\xff\n"), "a.de, line 1: expected UTF-8"),
        (("a.de", b"w1\n"), ("a.en", b"w1\n"), "a.de: expected text in 'en', as the model translates en-de"),
        (("a.en", b"w1\n"), ("a.fr", b"w1\n"), "a.fr: expected text in 'de', as the model translates en-de"),
    ],
)
def test_files_that_do_not_fit(
    model: Path, tmp_path: Path, source: tuple[str, bytes], target: tuple[str, bytes], message: str
) -> None:
    for name, content in (source, target):
        (tmp_path / name).write_bytes(content)
    code, output = run("logprob", model, tmp_path / source[0], tmp_path / target[0])
    assert code == 1 and message in output and len(output.splitlines()) == 1
