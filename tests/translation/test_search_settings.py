"""Settings of the search from text to text: prefix, samples, minimum Bayes risk, and what a model does not support."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from commands import run
from copytask import copy_lines
from sacrebleu.metrics import BLEU, CHRF

from nmt.config.decoding import Decoding
from nmt.system.errors import ConfigError
from nmt.translation.translator import Translation, Translator


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, "cpu", 1)


@pytest.mark.parametrize("options", [{"beam": 5}, {"beam": 1}, {"beam": 1, "sampling": True}], ids=str)
def test_every_translation_begins_with_the_prefix(translator: Translator, options: dict[str, Any]) -> None:
    lines = copy_lines(30, 3)
    found = translator.translate(lines, Decoding(prefix=" W3  w1 W2", **options))
    assert all(text.startswith("w3 w1 w2") for text in found)
    assert len(set(found)) > 10
    one = translator.translate(["w4", ""], Decoding(prefix=" ".join(["w1"] * 20), min_length=24, **options))
    assert one[0].startswith("w1 " * 20) and len(one[0].split()) >= 24 and one[1] == ""


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_minimum_bayes_risk_is_the_sample_with_the_highest_mean_utility(translator: Translator, metric: str) -> None:
    drawing, lines = {"beam": 1, "sampling": True, "samples": 12}, copy_lines(5, 3)
    pools = translator.translate_clean(lines, Decoding(nbest=12, **drawing))
    chosen = translator.translate_clean(lines, Decoding(nbest=12, mbr=metric, **drawing))
    scorer = CHRF() if metric == "chrf" else BLEU(tokenize="none", effective_order=True)
    for pool, best in zip(pools, chosen, strict=True):
        texts = [translation.text for translation in pool]
        means = {a: sum(scorer.sentence_score(a, [b]).score for b in texts) / len(texts) for a in texts}
        assert {t.text: t.score for t in best} == pytest.approx(means)
        assert [t.score for t in best] == pytest.approx(sorted(means.values(), reverse=True)) and len(pool) == 12
    single = translator.translate_clean(lines, Decoding(mbr=metric, **drawing))
    assert [row[0].score for row in single] == [row[0].score for row in chosen] and all(len(r) == 1 for r in single)


def test_minimum_bayes_risk_by_bleu_counts_characters_where_words_have_no_spaces(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["我有一只小猫", "我有一只小狗", "我有两只大狗", "你好"]
    monkeypatch.setattr(Translator, "languages", ["en", "zh"])
    monkeypatch.setattr(Translator, "_texts", lambda *_: [Translation(text, 0.0, [1]) for text in texts])
    decoding = Decoding(beam=1, sampling=True, samples=4, nbest=4, mbr="bleu")
    [best] = translator.translate_clean(["w1 w2"], decoding)
    scorer = BLEU(tokenize="char", effective_order=True)
    means = {a: sum(scorer.sentence_score(a, [b]).score for b in texts) / 4 for a in texts}
    assert {t.text: t.score for t in best} == pytest.approx(means) and best[0].text == "我有一只小狗"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": "w1 zebra"}, "prefix: expected words or letters .* got 'w1 zebra', .* reads as 'w1 <unk>'"),
        ({"prefix": "w1 " * 600}, "prefix: expected at most the model's 510 pieces, got 600; shorten it"),
        ({"min_length": 511}, "min_length: expected at most the model's 510 pieces, got 511"),
    ],
    ids=["unknown", "long", "min_length"],
)
def test_what_the_model_does_not_support_is_refused(
    translator: Translator, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(["w1"], Decoding(**options))


def test_the_command_line_has_the_settings(model: Path) -> None:
    plain = ["translate", model, "--device", "cpu", "--threads", 1]
    code, output = run(*plain, "--prefix", "w2", "--no-repeat-ngram", 2, "--min-length", 3, text="w1 w2 w3\n")
    words = output.split()
    assert code == 0 and words[0] == "w2" and len(set(itertools.pairwise(words))) == len(words) - 1 >= 2
    sampling = [*plain, "--sampling", "--samples", 8, "--top-p", 0.9, "--temperature", 0.7, "--nbest", 3, "--scores"]
    code, output = run(*sampling, text="w1 w2 w3\n")
    assert code == 0 and len(output.splitlines()) == 3 and run(*sampling, text="w1 w2 w3\n") == (code, output)
    code, output = run(*sampling, "--mbr", "chrf", text="w1 w2 w3\n")
    assert code == 0 and 0 < float(output.split("\t")[1]) <= 100
