"""What building a table would do: sizes and updates exactly, times as the measured parts say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import run

from nmt.corpora.scenes import write_corpus
from nmt.plan.new_table import new_table
from nmt.plan.plan import Plan
from nmt.reproduce import check as checked
from nmt.reproduce import estimate as estimated
from nmt.reproduce.estimate import Estimate, decoding, spoken


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(estimated, "SAMPLE", 150)
    monkeypatch.setattr(estimated, "MEASURED", 0.0)
    monkeypatch.setattr(checked, "job_seconds", lambda: 2.0)
    write_corpus(tmp_path, "en-de", 300)
    train, valid, test = ([f"{split}.en", f"{split}.de"] for split in ("train", "valid", "test"))
    list(new_table("mine", "en-de", train, valid, test, Path("config.yaml")))
    return tmp_path


@pytest.mark.integration
def test_it_says_what_would_be_built(own: Path, capsys: Any) -> None:
    code, said = run("check", "mine", "--cores", "1")
    assert code == 0, said
    assert "workflow/tables/mine.yaml: 2 rows, 1 training\n" in said
    assert "pairs: train 300, valid 300, held_out 300" in said.replace(",\n", ", ")
    assert "to make: raw, cleaned, subwords, encoded" in said and "2 rows to make" in said
    assert "starts of jobs, scoring, report and tracking: 56 s" in said and "in all: about" in said
    assert not (own / "results").exists()


def test_it_begins_where_the_system_does_not_count_cores(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")  # as on macOS
    plan = Plan.load({"tables": ["mine"]} | yaml.safe_load(Path("config.yaml").read_text()), "config.yaml")
    assert next(checked.check(plan, "mine")) == "workflow/tables/mine.yaml: 2 rows, 1 training"


@pytest.mark.integration
def test_a_vocabulary_that_the_whole_text_cannot_fill_is_told(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = own / "workflow/tables/mine.yaml"
    table.write_text(re.sub(r"size: \d+", "size: 20000", table.read_text()))
    code, said = run("check", "mine", "--cores", "1")
    assert code == 0 and "20,000 pieces are too many for a sample" in said  # nobody can tell of all text
    monkeypatch.setattr(estimated, "SAMPLE", 3000)
    code, said = run("check", "mine", "--cores", "1")
    assert code == 1 and "20000 pieces cannot be learned" in said


@pytest.mark.integration
def test_a_training_of_few_updates_is_measured_and_no_temporary_folder_named(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(*arguments: Any) -> Estimate:
        found.append(estimated.estimate(*arguments))
        return found[-1]

    found: list[Estimate] = []
    monkeypatch.setattr(checked, "estimate", kept)
    (own / "test.en").write_text((own / "test.en").read_text().replace(" a ", " &apos; "))
    table = own / "workflow/tables/mine.yaml"
    table.write_text(table.read_text().replace("epochs: 40", "updates: 2"))
    code, said = run("check", "mine", "--cores", "2")
    assert code == 0 and found[0].updates == 2 and found[0].per_update > 0.001
    assert "sample of mine/held_out.en:" in said


@pytest.mark.integration
def test_what_is_not_estimated_or_counted_is_said_with_its_reason(own: Path) -> None:
    table = own / "workflow/tables/mine.yaml"
    value = yaml.safe_load(table.read_text())
    (plain,) = value["systems"]
    value["systems"][plain] |= {"alignments": "train.links"}
    value["systems"][plain]["training"] |= {"guided_alignment": {}, "updates": 2}
    other = {"corpus": "mine", "languages": "en-de", "training": {"updates": 2}, "subwords": {"size": 90}}
    value["systems"] |= {
        "seeing": other | {"model": {"kind": "multimodal"}},
        "blind": other
        | {
            "languages": "de-en",
            "model": {"kind": "multimodal", "images": "blank", "layers": 1, "width": 16, "heads": 2},
        },
        "more": other | {"forward_translation": {"model": f"mine/{plain}", "text": "mine"}},
    }
    value["rows"] = [{"label": name, "system": name, "at": "last"} for name in value["systems"]]
    table.write_text(yaml.safe_dump(value))
    (own / "train.links").write_text("0-0\n" * 300)
    (own / "test.en").write_text((own / "test.en").read_text().replace(" a ", " &apos; "))
    for split in ("train", "valid", "held_out"):
        (own / f"{split}.npy").touch()
    settings = (own / "config.yaml").read_text().replace("disjoint: all", "disjoint: false")
    (own / "config.yaml").write_text(f"{settings}images: {{mine: {{features: .}}}}\n")
    code, said = run("check", "mine", "--cores", "1")
    assert code == 0 and "its loss on the alignments is not counted" in said and f"{plain} seed 1: " in said, said
    assert "blind seed 1: 2 updates" in said
    assert "seeing: it sees pictures, whose features are not there yet, so its time is not estimated" in said
    assert "more: it learns from translated text, which another model must write first, so" in said
    assert said.count("sample of mine/held_out.en:") == said.count(" marks of a tokeniser") == 1  # of both pairs
    assert "without seeing, more: about" in said and "in all" not in said


@pytest.mark.parametrize("more", [{}, {"cleaning": {"max_words": 50}}])  # of other text, subwords are inherited
def test_a_system_with_a_parent_is_estimated(own: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    table = own / "workflow/tables/mine.yaml"
    value = yaml.safe_load(table.read_text())
    name = next(iter(value["systems"]))
    other = {"corpus": "mine", "languages": "en-de", "training": {"updates": 2}, **more}
    value["systems"] = {"tuned": other | {"initialise": {"system": f"general/{name}"}}}
    value["rows"] = [{"label": "tuned", "system": "tuned", "at": "last"}]
    table.with_name("general.yaml").write_text(table.read_text())
    table.write_text(yaml.safe_dump(value | {"tests": ["held_out"]}))
    if more:  # a parent of much text has more pieces than a little text of the child can fill
        general = table.with_name("general.yaml")
        general.write_text(re.sub(r"size: \d+", "size: 20000", general.read_text()))
        monkeypatch.setattr(estimated, "SAMPLE", 3000)
    code, said = run("check", "mine", "--cores", "1")
    assert "too many for a sample" not in said, said
    assert code == 0 and "tuned seed 1: 2 updates at most" in said and "in all: about" in said, said
    assert f"it starts from general/{name}, whose training is not counted" in said


def test_missing_files_stop_it(own: Path) -> None:
    (own / "test.de").unlink()
    text = "tables: [mine]\ncorpora:\n  mine:\n    train: &a {en: train.en, de: train.de}\n    valid: *a\n    tests:\n"
    files = "{en: test.en, de: test.de}"
    for form, line, key in (
        (files, 7, "de"),
        (f"{{files: {files}}}", 7, "files.de"),
        (f"\n      - {files}", 8, "0.de"),
        (f"[files: {files}]", 7, "0.files.de"),
    ):
        (own / "config.yaml").write_text(f"{text}      held_out: {form}\n")
        where = f"config.yaml, line {line}: corpora.mine.tests.held_out.{key}"
        assert run("check", "mine") == (1, f"nmt: {where}: test.de: no such file; paths start at {own}\n")


@pytest.mark.parametrize("path", ["workflow/tables/mine.yaml", "mine.yaml", "../mine"])
def test_a_path_in_place_of_a_name_is_told(path: str) -> None:
    assert run("check", path) == (1, f"nmt: TABLE: expected the name of a table, such as mine, got the path {path}\n")


@pytest.mark.parametrize(("lines", "limit", "code"), [(300, None, 0), (299, None, 1), (300, 20, 1), (20, 20, 0)])
def test_translations_of_others_have_as_many_lines_as_their_test_set(
    own: Path, lines: int, limit: int | None, code: int
) -> None:
    table = own / "workflow/tables/mine.yaml"
    value = yaml.safe_load(table.read_text())
    value["rows"] = [{"label": "Theirs", "hypotheses": "theirs.de"}]
    table.write_text(yaml.safe_dump(value))
    (own / "theirs.de").write_text("Ein Hund.\n" * lines)
    with (own / "config.yaml").open("a") as settings:
        settings.write(f"limit: {limit or 'null'}\n")
    got, said = run("check", "mine", "--cores", "1")
    wanted = f"{limit or 300} sentences of held_out of mine, got {lines}" if code else f"has {lines} lines, as many as"
    assert got == code and wanted in " ".join(said.split())


def test_durations() -> None:
    assert [spoken(seconds) for seconds in (4.2, 89, 300, 7200)] == ["4 s", "89 s", "5 min", "2.0 h"]
    found = Estimate(per_sentence=0.1)
    assert decoding(found, 10, 1) == pytest.approx(1) and decoding(found, 10, 5) == pytest.approx(3)
