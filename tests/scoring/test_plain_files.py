"""Scores and comparisons of plain text files, against the scores of the workflow's folders."""

import json
import re
import shlex
import unicodedata
from pathlib import Path

import fakes
import pytest
from commands import run

from nmt.cli.scoring import comparison_lines
from nmt.config.choices import ON_REQUEST
from nmt.config.data import Cleaning
from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.report.grids import NAMES
from nmt.scoring.files import Comparison, score_file
from nmt.scoring.sacrebleu_metrics import ParallelTER
from nmt.scoring.score import score_lines
from nmt.scoring.significance import compare, paired_test
from nmt.scoring.tokenizers import language_of
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json
from nmt.text.cleaner import clean_line

CASED = ["Ein Hund rennt über das Gras.", "Zwei Männer sitzen auf der Bank!"]
METRICS = ("bleu", "chrf", "ter")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Score folders of two systems that lowercase."""
    layout, table = Layout(tmp_path_factory.mktemp("results")), fakes.table()
    fakes.write_results(layout, "toy", table, [1])
    return [layout.scores("toy", row, "test", 1) for row in table.rows if row.system]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("protocol", "ending", "how"),
    [
        ("detokenised", "detok", Comparison()),
        ("tokenised", "tok", Comparison(tokenize="none")),
    ],
)
def test_a_record_scores_what_its_table_says(folders: list[Path], protocol: str, ending: str, how: Comparison) -> None:
    found = score_file(folders[0] / f"hypotheses.{ending}", folders[0] / f"references.{ending}", how)
    recorded = read_json(folders[0] / "scores.json")[protocol]
    for metric in METRICS:
        assert found["scores"][metric] == recorded[metric]


def test_moses_is_the_tokenised_lowercased_score(tmp_path: Path) -> None:
    german = [sentence for _, sentence in fakes.PAIRS]
    texts = [*german, "Ein Hund."], [*german, "Zwei “Hunde”!"]
    hypotheses, reference = (write(tmp_path / name, text) for name, text in zip("hr", texts, strict=True))
    found = score_file(hypotheses, reference, Comparison(tokenize="moses", language="de"))
    cleaned = [[clean_line(line, "de", Cleaning()) for line in text] for text in texts]
    assert found["scores"] == score_lines(cleaned[0], cleaned[1], "tokenised")
    assert found["command"] is None and "tok:none" in found["scores"]["bleu"]["signature"]


def test_a_perfect_file_scores_100(tmp_path: Path) -> None:
    reference = write(tmp_path / "test.de", CASED)
    code, output = run("score", reference, "--reference", reference, "--source", reference, "--json")
    found = json.loads(output)
    assert (code, found["sentences"], found["case"], found["copied"]) == (0, 2, "counted", 2)
    assert [round(found["scores"][name]["score"], 9) for name in (*METRICS, "exact")] == [100, 100, 0, 100]
    code, output = run("score", reference, "--reference", reference)
    assert code == 0 and "BLEU         100.00  [100.00, 100.00]" in output and "tok:13a" in output


def test_case_is_ignored_for_a_system_that_writes_lower_case_only(tmp_path: Path) -> None:
    reference = write(tmp_path / "test.de", CASED)
    lower = write(tmp_path / "lower", [line.lower() for line in CASED])
    mixed = write(tmp_path / "mixed", [CASED[0], CASED[1].lower()])
    for metric in ("bleu", "exact"):
        found = {
            (path.name, lowercase): score_file(path, reference, Comparison(lowercase=lowercase))["scores"][metric]
            for path in (lower, mixed) for lowercase in (None, True, False)
        }  # fmt: skip
        scores = {case: score["score"] for case, score in found.items()}
        assert scores["lower", None] == scores["lower", True] == pytest.approx(100) and scores["lower", False] < 50
        assert scores["mixed", None] == scores["mixed", False] < scores["mixed", True] == pytest.approx(100)
    turkish = write(tmp_path / "test.tr", ["Irmak ve İzmir.", "IŞIK YANIYOR!"])
    small = write(tmp_path / "small", ["ırmak ve izmir.", "ışık yanıyor!"])
    result = score_file(small, turkish, Comparison(language=language_of(turkish)))
    assert all(result["scores"][metric]["score"] == pytest.approx(100) for metric in ("bleu", "chrf", "exact"))
    assert result["scores"]["ter"]["score"] == 0 and result["command"] is None  # sacrebleu's lowercasing knows no ı
    for lowercase, copied in ((None, len(CASED)), (False, 0)):
        assert score_file(lower, reference, Comparison(lowercase=lowercase), reference)["copied"] == copied


def test_files_are_compared_like_folders(folders: list[Path]) -> None:
    first, second = (folder / "hypotheses.detok" for folder in folders)
    code, output = run("compare", first, second, "--reference", folders[0] / "references.detok", "--json")
    found = json.loads(output)
    assert code == 0 and found["case"] == "ignored"
    assert found["metrics"] == compare(*folders)["detokenised"]
    bleu = found["metrics"]["bleu"]
    row = next(line.split() for line in comparison_lines(found) if line.startswith("BLEU "))
    numbers = [f"{bleu['first']:.2f}", f"{bleu['second']:.2f}", f"{bleu['difference']:+.2f}", f"{bleu['p_value']:.3f}"]
    assert row == ["BLEU", *numbers]


def test_a_table_in_place_of_plain_text_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reference = write(tmp_path / "ref", [*CASED, "one\ttwo"])
    score_file(reference, reference, Comparison())
    assert capfd.readouterr().err == ""  # a single tab is text
    table = write(tmp_path / "x.tsv", [f"source\t{line}" for line in [*CASED, "two"]])
    score_file(table, reference, Comparison())
    advice = "if the file is a table, give a file of the one column, e.g. cut -f 2 FILE > NEW"
    told = f"{table}: 3 of 3 lines have tabs, and are taken whole, with all columns; {advice}"
    assert capfd.readouterr().err == f"nmt: warning: {told}\n"


@pytest.mark.parametrize(
    ("hypotheses", "reference", "message"),
    [
        (b"ein\n", b"ein\nzwei\n", r"hyp has 1, .*ref has 2"),
        (b"", b"", r"hyp: expected sentences, got an empty file"),
        (b"ein\n", b"\n", r"ref: expected sentences, got 1 lines without a word"),
        (b"ein\n\xe4in\n", b"ein\nein\n", r"hyp, line 2: expected UTF-8, got byte 0xe4"),
        (b"ein\n", None, r"ref: no such file"),
    ],
)
def test_files_that_cannot_be_compared(
    tmp_path: Path, hypotheses: bytes, reference: bytes | None, message: str
) -> None:
    (tmp_path / "hyp").write_bytes(hypotheses)
    if reference is not None:
        (tmp_path / "ref").write_bytes(reference)
    with pytest.raises(DataError, match=message):
        score_file(tmp_path / "hyp", tmp_path / "ref", Comparison())
    code, output = run("compare", tmp_path / "hyp", tmp_path / "hyp", "--reference", tmp_path / "ref")
    assert code == 1 and output.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score", "{hyp}"], "expected --reference FILE to score plain text, or --clean, --raw"),
        (["score", "{hyp}", "--reference", "{hyp}", "--test", "x"], "expected a plain text file alone, got --test too"),
        (["score", "{hyp}", "--reference", "{hyp}", "--tokenize", "moses"], "--tokenize moses: expected the languages"),
        (["compare", "{hyp}", "{hyp}"], "hyp: expected a score folder, got a file; to compare files, give --reference"),
        (["compare", "{tmp}", "{tmp}", "--cased"], "--lowercase or --cased: expected --reference FILE with it"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, words: list[str], message: str) -> None:
    hyp = write(tmp_path / "hyp", CASED)
    code, output = run(*(word.format(hyp=hyp, tmp=tmp_path) for word in words))
    assert code == 1 and message in output and output.count("\n") == 1


@pytest.mark.parametrize("metric", ["meteor", "language"])
def test_some_metrics_need_a_language(metric: str) -> None:
    with pytest.raises(ConfigError, match=f"--also {metric}: expected the languages of the text, got none; give"):
        Comparison(also=[metric])


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_line_equals_its_source_in_any_unicode_form(tmp_path: Path, form: str) -> None:
    source = write(tmp_path / "source", [unicodedata.normalize(form, line) for line in [*CASED, "Ein Hügel."]])
    hypotheses = write(tmp_path / "hypotheses", [unicodedata.normalize(form, CASED[0]), CASED[1], "A hill."])
    assert score_file(hypotheses, source, Comparison(), source)["copied"] == 2


def test_what_is_said_of_case_holds_for_ter(tmp_path: Path) -> None:
    reference, lower = (
        write(tmp_path / name, lines) for name, lines in [("r", CASED), ("h", [*map(str.lower, CASED)])]
    )
    _, counted = run("score", lower, "--reference", reference, "--cased")
    assert re.search("^TER +0.00 ", counted, re.MULTILINE) and "TER: lower is better; TER ignores case." in counted
    _, ignored = run("score", lower, "--reference", reference)
    assert "Case is ignored; --cased counts it, except in TER." in ignored
    _, cleaned = run("score", lower, "--reference", reference, "--tokenize", "moses", "--languages", "en-de")
    assert "TER: lower is better. Case is ignored.\n" in cleaned


def test_sacrebleus_command_can_be_pasted(tmp_path: Path) -> None:
    hypotheses = write(tmp_path / "my $h (1)", CASED)
    command = score_file(hypotheses, hypotheses, Comparison())["command"]
    assert shlex.split(command)[:4] == ["sacrebleu", str(hypotheses), "-i", str(hypotheses)]


def test_a_metric_that_nobody_builds_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.scoring.score.ON_REQUEST", ("new",))
    with pytest.raises(ConfigError, match="new: expected a metric that"):
        score_lines(["a"], ["a"], "tokenised", also=["new"])


def test_metrics_that_sacrebleu_names_alike_are_tested_apart() -> None:
    first, second, chosen = (
        ["a red ball"],
        ["a ball"],
        {"ter": ParallelTER(), "cased": ParallelTER(case_sensitive=True)},
    )
    found = paired_test(chosen, first, second, ["A red ball"])
    assert found["ter"]["first"] == 0 < found["cased"]["first"]


def test_metrics_are_headed_as_in_tables(tmp_path: Path) -> None:
    reference = write(tmp_path / "test.de", CASED)
    for command in (["score", reference], ["compare", reference, reference]):
        code, output = run(*command, "--reference", reference, "--also", "bleu1", "--also", "chrfpp")
        assert code == 0 and re.findall("^(BLEU-1|chrF\\+\\+)[: ]", output, re.MULTILINE) == ["BLEU-1", "chrF++"] * 2
    assert set(ON_REQUEST) < set(NAMES)


GIVEN = {"label": "Theirs", "hypotheses": "theirs.de"}


@pytest.mark.parametrize(
    ("row", "systems", "message"),
    [
        ({"system": "small"}, {}, "leave system out"),
        ({"at": "last"}, {}, "leave at out"),
        ({"text_of": "smal"}, {}, "text_of names system 'smal'; expected one of small, large"),
        ({"against": "Largo"}, {}, "no other trained row of its test set is called 'Largo'"),
        ({}, {"large": {"corpus": "other", "languages": "en-de", "training": {"epochs": 4}}}, "say whose text"),
    ],
)
def test_rows_of_given_translations_are_checked(row: dict[str, str], systems: dict[str, object], message: str) -> None:
    rows = [*fakes.TABLE["rows"], GIVEN | row]  # type: ignore[misc]
    both = {**fakes.TABLE["systems"], **systems}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=message):
        Table.model_validate(fakes.TABLE | {"rows": rows, "systems": both})


def test_empty_references_are_counted_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hypotheses = write(tmp_path / "hypotheses", ["ein blauer stuhl .", "zwei vögel .", "drei"])
    reference = write(tmp_path / "reference", ["ein blauer stuhl .", "", "\u200d"])
    found = score_file(hypotheses, reference, Comparison())
    assert found["empty_references"] == 2 and found["scores"]["ter"]["score"] == 100  # 4 edits of 4 words
    message = capsys.readouterr().err
    assert "reference: 2 of 3 references are empty" in message and "but chrF skips them" in message
    write(reference, ["ein blauer stuhl .", "zwei", "drei"])
    assert "empty_references" not in score_file(hypotheses, reference, Comparison())
    assert not capsys.readouterr().err
