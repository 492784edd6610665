import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import fakes
import pytest
from sacrebleu.metrics import CHRF, TER

from nmt.config.data import Cleaning
from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.scoring.files import score_output
from nmt.scoring.sacrebleu_metrics import PlainCHRF
from nmt.scoring.score import ENDINGS, Protocol, metrics, score, score_lines
from nmt.scoring.significance import compare
from nmt.scoring.texts import warn_of_compatibility
from nmt.scoring.words import accuracy
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256, write_json
from nmt.system.warnings import read_warnings, recorded

HYPOTHESES = ["ein hund rennt über das gras .", "zwei männer sitzen auf einer bank ."]
REFERENCES = ["ein hund läuft über das gras .", "zwei männer sitzen auf der bank ."]
PLAIN = ["Ein Hund rennt über das Gras.", "zwei männer sitzen auf einer bank."]
PLAIN_REFERENCES = ["Ein Hund läuft über das Gras.", "Zwei Männer sitzen auf der Bank!"]


# What sacrebleu 2.6.0's command line prints for such files: BLEU, chrF, TER.
@pytest.mark.parametrize(
    ("hypotheses", "references", "protocol", "lowercase", "printed"),
    [
        (HYPOTHESES, REFERENCES, "tokenised", True, (48.8923, 76.9167, 14.2857)),
        (HYPOTHESES, HYPOTHESES, "tokenised", True, (100, 100, 0)),
        (["das ist falsch"], ["ein hund ."], "tokenised", True, (0, 5.6818, 100)),
        ([""], ["ein hund"], "tokenised", True, (0, 0, 100)),
        (["a b c d e f"], ["d e f a b c"], "tokenised", False, (50.8133, 38.3333, 16.6667)),
        (PLAIN, PLAIN_REFERENCES, "detokenised", True, (46.2696, 74.7497, 25)),
        (PLAIN, PLAIN_REFERENCES, "detokenised", False, (27.7762, 61.5882, 25)),
    ],
)
def test_scores(
    hypotheses: list[str], references: list[str], protocol: Protocol, lowercase: bool, printed: tuple[float, ...]
) -> None:
    found = score_lines(hypotheses, references, protocol, lowercase)
    assert [found[name]["score"] for name in ("bleu", "chrf", "ter")] == pytest.approx(printed, abs=1e-4)


@pytest.mark.parametrize(
    ("hypotheses", "references", "protocol", "order", "value"),
    [
        (HYPOTHESES, REFERENCES, "tokenised", 1, 100 * 12 / 14),  # of 14 words 12 are right
        (HYPOTHESES, REFERENCES, "tokenised", 2, 100 * (12 / 14 * 8 / 12) ** 0.5),
        (HYPOTHESES, REFERENCES, "tokenised", 3, 100 * (12 / 14 * 8 / 12 * 4 / 10) ** (1 / 3)),
        (["a b"], ["a b c d"], "tokenised", 1, 100 * math.exp(1 - 4 / 2)),  # all right, but half as long
        (["a a a"], ["a b c"], "tokenised", 1, 100 / 3),  # a word counts as often as the reference has it
        (PLAIN, PLAIN_REFERENCES, "detokenised", 1, 100 * 11 / 14),
        ([""], ["ein hund"], "tokenised", 1, 0),
    ],
)
def test_bleu_of_shorter_ngrams(
    hypotheses: list[str], references: list[str], protocol: Protocol, order: int, value: float
) -> None:
    name = f"bleu{order}"
    found = score_lines(hypotheses, references, protocol, also=[name])
    assert found[name]["score"] == pytest.approx(value)
    assert found[name]["signature"].replace(f"|order:{order}", "") == found["bleu"]["signature"]
    precisions, brevity = found["bleu"]["precisions"], found["bleu"]["brevity_penalty"]
    assert found[name]["precisions"] == precisions[:order] and found[name]["brevity_penalty"] == brevity


def test_only_what_is_asked_for_is_measured_besides() -> None:
    assert list(score_lines(["a"], ["a"], "tokenised")) == ["bleu", "chrf", "ter", "exact"]
    assert set(score_lines(["a"], ["a"], "tokenised", also=["bleu3"])) == {"bleu", "chrf", "ter", "exact", "bleu3"}


def test_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(DataError, match="one reference for each of 2 hypotheses, got 1; line n of"):
        score_lines(["a", "b"], ["a"], "tokenised")


def test_trailing_spaces_do_not_count() -> None:
    padded = [f"{line}  " for line in HYPOTHESES]
    assert score_lines(padded, REFERENCES, "tokenised") == score_lines(HYPOTHESES, REFERENCES, "tokenised")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Table]:
    layout, table = Layout(tmp_path_factory.mktemp("results")), fakes.table()
    fakes.write_results(layout, "toy", table, [1])
    return layout, table


@pytest.fixture
def folders(results: tuple[Layout, Table]) -> list[Path]:
    layout, table = results
    return [layout.scores("toy", row, "test", 1) for row in table.rows if row.system]


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ENDINGS)
def test_the_command_line_prints_our_scores(folders: list[Path], protocol: Protocol) -> None:
    ours = read_json(folders[0] / "scores.json")
    command = [sys.executable, "-m", *ours["commands"][protocol].split()]
    printed = json.loads(subprocess.run(command, cwd=folders[0], capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 3
    for line, name in zip(printed, ("bleu", "chrf", "ter"), strict=True):
        mine = ours[protocol][name]
        assert line["score"] == round(mine["score"], 2)
        assert line["signature"] == mine["signature"]
        middle, half = line["confidence_mean"], line["confidence_var"]
        assert mine["low"] == pytest.approx(max(0, middle - half), abs=0.011)
        assert mine["high"] == pytest.approx(min(100, middle + half), abs=0.011)


def test_what_is_written(results: tuple[Layout, Table], folders: list[Path]) -> None:
    layout, table = results
    system = table.systems["small"]
    found = read_json(folders[0] / "scores.json")
    raw = layout.raw(system) / "test.de"
    assert (folders[0] / "references.detok").read_bytes() == raw.read_bytes()
    assert found["references_sha256"]["detokenised"] == sha256(raw)
    # "ja" was put at the end of the first two lines.
    assert (folders[0] / "hypotheses.detok").read_text().startswith("ein hund rennt über das gras. ja\n")
    bleu = found["tokenised"]["bleu"]
    assert len(bleu["precisions"]) == 4
    assert bleu["low"] < bleu["score"] < bleu["high"]
    assert "case:lc" in found["detokenised"]["bleu"]["signature"]
    assert "bs:1000|seed:12345" in bleu["signature"]
    assert (found["sentences"], found["provenance"]["seed"], found["test"]) == (8, 1, "test")


def test_a_metric_that_cannot_be_measured_leaves_the_scores_there_are(
    results: tuple[Layout, Table], folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (layout, table), folder = results, folders[0]
    system, row = table.systems["small"], next(row for row in table.rows if row.system)
    places = layout.clean(system), layout.raw(system), "test", system.source, system.target
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ConfigError, match="meteor"):
        score(folder / "hypotheses.txt", *places, layout.model("toy", row, 1), folder, ["meteor"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["hypotheses.tok", "hypotheses.detok"])
def test_translations_are_not_overwritten_by_their_texts(
    results: tuple[Layout, Table], folders: list[Path], name: str
) -> None:
    (layout, table), folder = results, folders[0]
    system, row = table.systems["small"], next(row for row in table.rows if row.system)
    places = layout.clean(system), layout.raw(system), "test", system.source, system.target
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(DataError, match=f"{name}: expected an output file, got the input"):
        score(folder / name, *places, layout.model("toy", row, 1), folder)
    with pytest.raises(DataError, match=f"{name}: expected an output file, got the input"):
        score_output(folder / name, *places, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_signature_of_chrf_has_a_beta_that_is_not_the_default() -> None:
    signatures = []
    for metric in (PlainCHRF(), CHRF(), PlainCHRF(beta=1)):
        metric.corpus_score(["a"], [["a"]])
        signatures.append(str(metric.get_signature()))
    assert signatures[0] == signatures[1] and "|beta:1|" in signatures[2]


def test_output_that_is_almost_all_empty_has_scores() -> None:
    found = score_lines([""] * 9 + ["a"], ["a b c d e"] * 10, "detokenised")
    assert 0 < found["chrf"]["score"] < 5 and found["bleu"]["score"] == 0
    assert found["chrf"]["low"] <= found["chrf"]["score"] <= found["chrf"]["high"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("hypotheses", "references", "ter"),
    [
        (["ein blauer stuhl .", "zwei vögel ."], ["ein blauer stuhl .", ""], 75),  # 3 edits of 4 words
        (["", "a b"], ["", "a b"], 0),
        (["a b", "c"], ["", ""], 100),
        (["", ""], ["", ""], 0),
    ],
)
def test_samples_whose_references_are_all_empty_have_scores(
    hypotheses: list[str], references: list[str], ter: float, folders: list[Path], tmp_path: Path
) -> None:
    for protocol, ending in ENDINGS.items():
        found = score_lines(hypotheses, references, protocol, also=["bleu1", "bleu2", "bleu3"])
        assert found["ter"]["score"] == ter
        assert all(math.isfinite(found[name][key]) for name in found for key in ("score", "low", "high"))
        for number, lines in enumerate((hypotheses, hypotheses[::-1])):
            copy = shutil.copytree(folders[number], tmp_path / str(number), dirs_exist_ok=True)
            (copy / f"hypotheses.{ending}").write_text("".join(f"{line}\n" for line in lines))
            (copy / f"references.{ending}").write_text("".join(f"{line}\n" for line in references))
        compared = compare(tmp_path / "0", tmp_path / "1")[protocol]
        assert all(0 <= compared[name]["p_value"] <= 1 for name in ("bleu", "chrf", "ter"))


def test_empty_references_are_counted_and_joiners_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    write_json(model / "cleaning.json", {"cleaning": {"lowercase": True, "tokenize": "moses"}, "languages": "en-de"})
    write_json(model / "provenance.json", {})
    for path, text in [
        (model / "weights.safetensors", ""),
        (tmp_path / "t.en", "a chair .\ntwo\nthree\n"),
        (tmp_path / "t.de", "ein stuhl .\n\n\u200d\n"),
        (tmp_path / "hypotheses.txt", "ein stuhl .\nzwei\n\u200c\u200d\n"),
    ]:
        path.write_text(text, encoding="utf-8")
    made = {"source_sha256": sha256(tmp_path / "t.en"), "model_sha256": sha256(model / "weights.safetensors")}
    write_json(tmp_path / "decoding.json", made)
    score(tmp_path / "hypotheses.txt", tmp_path, tmp_path, "t", "en", "de", model, tmp_path / "scores")
    record = read_json(tmp_path / "scores/scores.json")
    assert record["empty_references"] == {"tokenised": 2, "detokenised": 2}
    assert record["tokenised"]["ter"]["score"] == pytest.approx(
        100 / 3
    )  # the joiners are no words: one edit of three words
    assert capsys.readouterr().err.count("t.de: 2 of 3 references are empty") == 1


@pytest.mark.integration
def test_processes_and_a_bar_change_no_digit_of_ter(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefgh", k=n)) for n in range(24)]
    hypotheses = [" ".join(draw.sample(line.split(), len(line.split()))) for line in references]
    plain = TER().corpus_score(hypotheses, [references], n_bootstrap=100)
    monkeypatch.setattr("nmt.scoring.sacrebleu_metrics.SERIAL", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    started: list[int] = []
    fork = os.fork
    monkeypatch.setattr("os.fork", lambda: started.append(1) or fork())
    ter = metrics("tokenised", True)["ter"].corpus_score(hypotheses, [references], n_bootstrap=100)
    assert started == [1, 1]
    assert (ter.score, ter._mean, ter._ci) == (plain.score, plain._mean, plain._ci)


def test_the_seed_of_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = score_lines(HYPOTHESES, REFERENCES, "tokenised")
    monkeypatch.setenv("SACREBLEU_SEED", "1")
    assert score_lines(HYPOTHESES, REFERENCES, "tokenised") == before


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_references_in_another_unicode_form_score_the_same(tmp_path: Path, form: str) -> None:
    """In NFD, a letter and its accent are two characters, so that no word with an umlaut would be right."""
    layout, table = Layout(tmp_path), fakes.table()
    fakes.write_results(layout, "toy", table, [1])
    row, system = table.rows[0], table.systems["small"]
    raw = layout.raw(system) / "test.de"
    raw.write_text(unicodedata.normalize(form, raw.read_text()))
    folder = layout.scores("toy", row, "test", 1)
    before = read_json(folder / "scores.json")
    arguments = (folder / "hypotheses.txt", layout.clean(system), layout.raw(system), "test", "en", "de")
    with recorded("score", folder / "scores.json"):
        score(*arguments, layout.model("toy", row, 1), folder)
    after, warnings = read_json(folder / "scores.json"), read_warnings(folder / "scores.json")
    assert after["detokenised"] == before["detokenised"]
    changed = sum(1 for _, german in fakes.PAIRS if unicodedata.normalize("NFD", german) != german)
    assert [(w.file, w.count) for w in warnings] == ([(str(raw), changed)] if form == "NFD" else [])
    assert (folder / "references.detok").read_text() == unicodedata.normalize("NFC", raw.read_text())


def test_references_that_a_recipe_cannot_write_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_compatibility(tmp_path / "test.de", ["ein ﬁlm", "ein Film"])
    assert "1 of 2 references have characters that cleaning by unicode: NFKC replaces" in capsys.readouterr().err


def test_cased_output_is_compared_with_case() -> None:
    assert "case:mixed" in str(_signature("detokenised", lowercase=False))
    assert "case:lc" in str(_signature("detokenised", lowercase=True))


def _signature(protocol: Protocol, lowercase: bool) -> str:
    metric = metrics(protocol, lowercase)["bleu"]
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())


def _score(folder: Path, model: Path, text: str) -> None:
    (folder / "hypotheses.txt").write_text(text)
    score(folder / "hypotheses.txt", folder, folder, "t", "en", "de", model, folder)


@pytest.mark.parametrize(
    ("text", "references", "message"),
    [
        ("ein hund\n", "ein hund\nzwei\n", r"hypotheses\.txt has 1, .*t\.de has 2"),
        ("", "", "expected sentences, got an empty file"),
        ("ein\n", None, r"t\.de: no such file"),
    ],
)
def test_texts_that_do_not_fit(tmp_path: Path, text: str, references: str | None, message: str) -> None:
    model = tmp_path / "model"
    write_json(model / "cleaning.json", {"cleaning": {"lowercase": True, "tokenize": "moses"}, "languages": "en-de"})
    if references is not None:
        (tmp_path / "t.de").write_text(references)
        (tmp_path / "t.en").write_text(references)
    with pytest.raises(DataError, match=message):
        _score(tmp_path, model, text)
    assert not (tmp_path / "scores.json").exists()


def test_translations_of_another_text_or_model_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_json(model / "cleaning.json", {"cleaning": {"lowercase": True, "tokenize": "moses"}, "languages": "en-fr"})
    for path in (tmp_path / "t.en", tmp_path / "t.de", model / "weights.safetensors"):
        path.write_text("ein\n")
    right = {f"{what}_sha256": sha256(tmp_path / "t.en") for what in ("source", "model")}
    right["hypotheses_sha256"] = sha256(tmp_path / "t.en")
    for what, message in [
        ("source", r"made with .*t\.en"),
        ("model", r"made with .*weights"),
        ("hypotheses", r"made with .*hypotheses"),
        ("", "expected translations of en-de, got en-fr"),
    ]:
        write_json(tmp_path / "decoding.json", right | {f"{what}_sha256": "0"})
        with pytest.raises(DataError, match=message):
            _score(tmp_path, model, "ein\n")
    assert not (tmp_path / "scores.json").exists()


@pytest.mark.integration
def test_paired_bootstrap_is_sacrebleus(folders: list[Path]) -> None:
    found = compare(*folders)["tokenised"]
    hypotheses = [str(folder / "hypotheses.tok") for folder in folders]
    command = [sys.executable, "-m", "sacrebleu", str(folders[0] / "references.tok"), "-i", *hypotheses]
    command += ["-m", "bleu", "chrf", "ter", "--tokenize", "none", "--force", "--paired-bs", "-w", "4", "-f", "text"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    scores = [float(score) for score in re.findall(r"│ +([\d.]+) \(", printed)]
    assert [round(found[name]["first"], 4) for name in found] == scores[:3]
    assert [round(found[name]["second"], 4) for name in found] == scores[3:]
    assert [f"{found[name]['p_value']:.4f}" for name in found] == re.findall(r"p = ([\d.]+)", printed)


def test_a_comparison_can_be_printed(folders: list[Path]) -> None:
    found = json.loads(json.dumps(compare(*folders)))
    assert list(found["tokenised"]) == ["bleu", "chrf", "ter"]
    assert found["detokenised"]["ter"]["difference"] > 0


def test_a_system_compared_with_itself(folders: list[Path]) -> None:
    found = compare(folders[0], folders[0], ["bleu"])
    assert list(found["tokenised"]) == ["bleu"]
    assert found["tokenised"]["bleu"]["difference"] == 0
    assert found["tokenised"]["bleu"]["p_value"] == 1


def test_translations_that_are_not_as_many_are_refused(folders: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folders[1], other)
    lines = (other / "hypotheses.detok").read_text().splitlines()
    (other / "hypotheses.detok").write_text("".join(f"{line}\n" for line in lines[:-1]))
    with pytest.raises(DataError, match=rf"misaligned files: .*hypotheses\.detok has {len(lines) - 1}"):
        compare(folders[0], other)


def test_recipes_that_clean_references_differently(folders: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in folders[1].iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    scores = read_json(other / "scores.json")
    scores["references_sha256"]["tokenised"] = "another"
    write_json(other / "scores.json", scores)
    assert "tokenised" not in compare(folders[0], other, ["bleu"])
    assert "detokenised" in compare(folders[0], other, ["bleu"])
    scores["references_sha256"]["detokenised"] = "another"
    write_json(other / "scores.json", scores)
    with pytest.raises(DataError, match=r"same references.*one test set"):
        compare(folders[0], other)


def test_ambiguous_words_are_right_where_the_right_one_alone_is_written(tmp_path: Path) -> None:
    rows = [("bat", "Schläger", "Fledermaus"), ("kite", "Milane", "Drachen"), ("nut", "Nuss", "Schraubenmutter")]
    (tmp_path / "words.tsv").write_text("".join("\t".join(row) + "\n" for row in rows * 2))
    right = ["ein schläger .", "zwei milane .", "die nussschale ."]  # a part of a word is none
    wrong = ["eine fledermaus .", "milane und drachen .", "eine schraubenmutter ."]
    found = accuracy([*right, *wrong], tmp_path / "words.tsv", "de", Cleaning())
    assert (round(found["score"], 3), round(found["wrong"], 3)) == (33.333, 33.333)
    assert 0 <= found["low"] <= found["score"] <= found["high"] <= 100
    with pytest.raises(DataError, match=r"words\.tsv: expected 3 rows of three words, got 6 rows"):
        accuracy(right, tmp_path / "words.tsv", "de", Cleaning())
