"""METEOR: what Java's jar prints is what we compute; where Java or the jar is missing, a stand-in prints for it."""

import shlex
import subprocess
from pathlib import Path

import fakes
import numpy as np
import pytest

from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.checks import check_tests, check_tools
from nmt.plan.commands import score_options
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.scoring import meteor
from nmt.scoring.meteor import LANGUAGES, Meteor, NltkMeteor
from nmt.scoring.score import score_lines
from nmt.scoring.significance import compare
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json

GERMAN = [
    ("ein mann geht auf der straße .", "ein mann läuft die straße entlang ."),
    ("zwei hunde spielen im schnee", "zwei hund spielt im schnee ."),
    ("ein hund rennt .", "ein hund rennt ."),
    ("", "leer"),
    ("Das ist's: 3,5 km (ca.) – „weit“ ...", "das sind 3.5 km , also weit"),
    ("völlig anders", "kein wort davon"),
    ("a ||| b\tc", "a | b c"),
]
ENGLISH = [
    ("A large dog is running over the grass.", "A big dog runs across the grass ."),
    ("two men are sitting on a bench", "Two men sit on a bench."),
    ("nothing", "in common"),
]


def _missing() -> str | None:
    try:
        Meteor("de")
    except ConfigError as error:
        return str(error)
    return None


needs_jar = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))


def _printed(folder: Path, pairs: list[tuple[str, str]], options: str) -> str:
    """What the jar itself prints for such files."""
    for name, side in (("hypotheses", 0), ("references", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    command = ["java", "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", str(meteor.jar()), "hypotheses", "references"]
    done = subprocess.run([*command, *shlex.split(options)], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


@needs_jar
@pytest.mark.integration
@pytest.mark.parametrize(
    ("language", "pairs", "options"),
    [
        ("de", GERMAN, "-l de -norm -m 'exact stem' -w '1.0 0.8'"),
        ("de", GERMAN[2:3], "-l de -norm -m 'exact stem' -w '1.0 0.8'"),
        ("de", GERMAN[3:4], "-l de -norm -m 'exact stem' -w '1.0 0.8'"),
        ("fr", GERMAN, "-l fr -norm -m 'exact stem' -w '1.0 0.2'"),
        ("cs", GERMAN, "-l cz -norm -m exact -w 1.0"),
        ("sv", GERMAN, "-l se -lower"),
        ("en", ENGLISH, "-l en -norm"),
    ],
)
def test_the_jar_prints_our_scores(language: str, pairs: list[tuple[str, str]], options: str, tmp_path: Path) -> None:
    metric = Meteor(language)
    if options.endswith("'") and not metric.reduced:
        pytest.skip(f"the paraphrase table for {language} is here")
    hypotheses, references = map(list, zip(*pairs, strict=True))
    counts = metric._extract_corpus_statistics(hypotheses, [references])
    ours = metric._aggregate_and_compute(counts).score
    assert shlex.join(metric.options) == options
    printed = _printed(tmp_path, pairs, options)
    assert float(printed.split("Final score:")[1]) == pytest.approx(ours / 100, abs=1e-9)
    assert metric.id in printed.split()
    each = [float(line.split("\t")[1]) for line in printed.splitlines() if line.startswith("Segment")]
    assert [metric._compute_score_from_stats(row).score / 100 for row in counts] == pytest.approx(each, abs=1e-9)


@needs_jar
@pytest.mark.integration
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_jar_sets_a_language_as_we_do(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = LANGUAGES[language]
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # as if every paraphrase table were there
    full = Meteor(language)
    monkeypatch.undo()
    # Named but missing, the paraphrase table ends the jar after it has printed its settings.
    printed = _printed(tmp_path, GERMAN, f"-l {language} {full.options[2]} -a none")
    assert full.id in printed.split() and not full.reduced
    assert f"-{known.code}-" in full.id


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command `java` that notes its arguments, and prints of each line what the jar does of a dog in the snow."""
    (tmp_path / "meteor-1.5.jar").touch()
    counts = "5.0 6.0 0.0 1.0 3.0 3.0 0.0 0.0 1.0 1.0 " + "0.0 " * 10 + "2.0 4.0 4.0"
    program = f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nsed "s/.*/{counts}/" "$6"\n'
    (tmp_path / "java").write_text(program)
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("METEOR_JAR", str(tmp_path / "meteor-1.5.jar"))
    return tmp_path


DOG = 47.686860739575143  # what the jar prints of the second pair of GERMAN


@pytest.mark.integration
def test_all_lines_by_one_process(stand_in: Path) -> None:
    found = score_lines(["x"] * 300, ["y"] * 300, "tokenised", also=["meteor"], language="de")["meteor"]
    assert (found["score"], found["low"], found["high"]) == pytest.approx((DOG, DOG, DOG), abs=1e-4)
    assert len((stand_in / "calls").read_text().splitlines()) == 1
    assert (found["modules"], found["reduced"]) == ("exact stem", True)
    assert "id:meteor-1.5-wo-de-norm-0.95_1.0_0.55_0.55-ex_st-1.0_0.8|options:-l de -norm -m 'exact stem'" in str(found)


def test_a_paraphrase_table_beside_the_jar_is_used(stand_in: Path) -> None:
    (stand_in / "data").mkdir()
    (stand_in / "data" / "paraphrase-de.gz").touch()
    metric = Meteor("de")
    assert (metric.options, metric.modules, metric.reduced) == (["-l", "de", "-norm"], "exact stem paraphrase", False)
    assert metric.command("a", "b") == "java -Xmx2G -jar meteor-1.5.jar a b -l de -norm"


# Sums of the jar's counts, and the score that it prints for them.
@pytest.mark.parametrize(
    ("language", "counts", "score"),
    [
        ("de", [[7, 7, 1, 1, 3, 3, 1, 1, *[0] * 12, 3, 4, 4]], 32.9),
        ("de", [[5, 6, 0, 1, 3, 3, 0, 0, 1, 1, *[0] * 10, 2, 4, 4]], DOG),
        ("de", [[0, 1, *[0] * 21]], 0),
        ("de", [[4, 4, 1, 1, 3, 3, 1, 1, *[0] * 12, 1, 4, 4]], 100),
        (
            "de",
            [
                [7, 7, 1, 1, 3, 3, 1, 1, *[0] * 12, 3, 4, 4],
                [5, 6, 0, 1, 3, 3, 0, 0, 1, 1, *[0] * 10, 2, 4, 4],
                [4, 5, 1, 1, 2, 2, 1, 1, 1, 1, *[0] * 10, 1, 4, 4],
                [0, 1, *[0] * 21],
            ],
            44.482501861504087,
        ),
    ],
)
def test_the_score_of_counts(
    language: str, counts: list[list[float]], score: float, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Meteor, "_align", lambda *_: np.array(counts, np.float64))
    assert Meteor(language).corpus_score(["x"] * len(counts), [["y"] * len(counts)]).score == pytest.approx(score)


@pytest.mark.integration
def test_java_that_fails_is_told(stand_in: Path) -> None:
    (stand_in / "java").write_text("#!/bin/sh\necho 'Exception: no memory' >&2\nexit 1\n")
    with pytest.raises(DataError, match=r"meteor-1\.5\.jar: expected 23 numbers for each of 1 lines; Java said: Excep"):
        Meteor("de").corpus_score(["a"], [["a"]])


def test_what_is_missing_is_one_message(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"METEOR 1\.5 does not know the language 'hi'; it knows cs, da, de"):
        Meteor("hi")
    monkeypatch.setenv("METEOR_JAR", "nowhere.jar")
    with pytest.raises(ConfigError, match=r"METEOR_JAR: expected the path of meteor-1.5.jar, got 'nowhere.jar'"):
        Meteor("de")
    monkeypatch.delenv("METEOR_JAR")
    monkeypatch.setattr(meteor, "JAR", "nowhere.jar")
    with pytest.raises(
        ConfigError,
        match=r"package pycocoevalcap, which is not installed; python3 envs/install.py run meteor.*leave meteor out$",
    ):
        Meteor("de")
    monkeypatch.setenv("PATH", str(stand_in / "data"))
    with pytest.raises(ConfigError, match=r"meteor needs Java, but there is no command 'java'.*leave meteor out$"):
        Meteor("de")


def _table(metrics: list[str], languages: str = "en-de") -> Table:
    system = {"corpus": "multi30k", "languages": languages, "training": {"updates": 1}}
    return Table.model_validate(
        {
            "caption": "c", "tests": ["test_2016_flickr"], "systems": {"s": system}, "metrics": metrics,
            "rows": [{"label": "a", "system": "s"}],
        }
    )  # fmt: skip


def test_a_run_that_lacks_tools_stops_before_it_trains(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(Workflow(tables=["one"]), {"one": _table(["bleu", "meteor"]), "two": _table(["bleu"])})
    assert [score_options(table.requested_metrics) for table in plan.tables.values()] == [["--also=meteor"], []]
    check_tools(plan.tables.values())
    monkeypatch.setenv("PATH", str(stand_in / "data"))
    check_tools([plan.tables["two"]])
    with pytest.raises(ConfigError, match="needs Java"):
        check_tools([plan.tables["one"]])


def test_a_language_that_meteor_lacks_is_refused_with_the_table() -> None:
    scenes = {"corpus": "copy", "languages": "src-tgt", "training": {"updates": 1}}
    table = _table(["meteor"]).model_dump() | {"systems": {"s": scenes}, "tests": ["test"]}
    with pytest.raises(ConfigError, match=r"workflow/tables/one\.yaml: metrics: METEOR 1\.5 does not know .*'tgt'"):
        check_tests("one", Table.model_validate(table), Workflow(tables=["one"]))


@pytest.mark.integration
def test_two_systems_are_compared_by_it(stand_in: Path) -> None:
    layout, what = Layout(stand_in), fakes.table(metrics=["bleu", "bleu1", "meteor"])
    fakes.write_results(layout, "toy", what, [1])
    first, second = (layout.scores("toy", row, "test", 1) for row in what.rows[:2])
    found = compare(first, second)
    assert list(found["tokenised"]) == list(found["detokenised"]) == ["bleu", "chrf", "ter", "bleu1", "meteor"]
    assert (found["tokenised"]["meteor"]["first"], found["tokenised"]["meteor"]["p_value"]) == (pytest.approx(DOG), 1)
    commands = read_json(first / "scores.json")["commands"]["detokenised"].splitlines()
    assert commands[1].startswith("java -Xmx2G -jar meteor-1.5.jar hypotheses.detok references.detok -l de -norm -m")


def test_nltk_meteor() -> None:
    """The example of NLTK's own documentation, and a mean of sentences."""
    try:
        metric = NltkMeteor()
    except ConfigError as error:
        pytest.skip(str(error))
    hypothesis = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    assert metric.corpus_score([hypothesis], [[reference]]).score == pytest.approx(69.44, abs=0.005)
    both = metric.corpus_score([hypothesis, "no such"], [[reference, "words here"]])
    assert both.score == pytest.approx(69.44 / 2, abs=0.005)
    assert "kind:nltk|stem:porter" in str(metric.get_signature())


def test_nltk_without_wordnet_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nltk.corpus", None)
    with pytest.raises(
        ConfigError,
        match=r"meteor_nltk needs the package nltk, which is not installed; python3 envs/install.py run meteor",
    ):
        NltkMeteor()
