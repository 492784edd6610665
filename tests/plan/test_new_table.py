"""A first table from a user's files: what is found, what is written, and that the plan accepts it."""

import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from commands import run

from nmt.config import yaml
from nmt.config.table import load_table
from nmt.config.workflow import Workflow
from nmt.corpora.catalogue import fetch
from nmt.plan.layout import table_path
from nmt.plan.new_table import _columns, _per_mille, _per_unit, _updates, new_table
from nmt.plan.plan import Plan
from nmt.plan.survey import Survey
from nmt.system.errors import ConfigError, DataError
from nmt.system.lines import read_lines

WORDS = {
    "en": "the dog runs through a green park and sees some cats there",
    "de": "der Hund läuft durch einen grünen Park und sieht dort Katzen",
}


def lines(code: str, count: int) -> list[str]:
    draw = random.Random(1)
    return [f"{' '.join(draw.choices(WORDS[code].split(), k=8))} {number}." for number in range(count)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for code in WORDS:
        (tmp_path / f"a.{code}").write_text("".join(f"{line}\n" for line in lines(code, 400)), encoding="utf-8")
    rows = zip(lines("en", 400), lines("de", 400), strict=True)
    (tmp_path / "a.tsv").write_text("id\tDE\ten\n" + "".join(f"7\t{de}\t{en}\n" for en, de in rows), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("17\tA dog.\t42\tEin Hund.\tCC", ["_", "en", "_", "de", "_"]),  # as Tatoeba exports pairs
        ("A dog.\tEin Hund.\tCC", ["en", "de", "_"]),
        ("7\t8", ["en", "de"]),
        ("German\tEnglish", {"en": "English", "de": "German"}),
        ("id\ttext_en\tDeutsch", {"en": "text_en", "de": "Deutsch"}),
        ("id\tlang_eng\ten-US \tDE", {"en": "en-US ", "de": "DE"}),
        ("source\tEnglish\tGerman", {"en": "English", "de": "German"}),
        ("Source\ttarget", {"en": "Source", "de": "target"}),
        ("English is hard.\tGerman is hard.", ["en", "de"]),
    ],
)
def test_a_table_begins_with_names_or_with_text(tmp_path: Path, head: str, columns: object) -> None:
    (tmp_path / "a.tsv").write_text(f"{head}\n")
    assert _columns(str(tmp_path / "a.tsv"), ["en", "de"]) == columns


def test_csv_begins_with_names_or_with_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;"English";German\n')
    assert _columns(str(tmp_path / "a.csv"), ["en", "de"]) == {"en": "English", "de": "German"}
    (tmp_path / "a.csv").write_text('7,"A dog, and\na cat.",Ein Hund.\n')
    assert _columns(str(tmp_path / "a.csv"), ["en", "de"]) == ["_", "en", "de"]


def test_two_scripts_of_a_language_are_two_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("zh_Hans\tzh_Hant\n")
    assert _columns(str(tmp_path / "a.tsv"), ["zh_Hant", "zh_Hans"]) == {"zh_Hant": "zh_Hant", "zh_Hans": "zh_Hans"}


@pytest.mark.parametrize("name", ["a.zip", "a.jsonl", "a.parquet"])
def test_columns_are_found_in_other_tables_too(project: Path, name: str) -> None:
    rows = list(zip(lines("en", 400), lines("de", 400), strict=True))
    if name == "a.zip":
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("x.tsv", "id\tEnglish\tGerman\n" + "".join(f"7\t{en}\t{de}\n" for en, de in rows))
    elif name == "a.jsonl":
        Path(name).write_text("".join(f'{{"English": "{en}", "German": "{de}"}}\n' for en, de in rows))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table(dict(zip(["English", "German"], zip(*rows, strict=True), strict=True))), name)
    assert "train: 400 pairs" in list(new_table("mine", "en-de", [name], [], [], Path("config.yaml")))


def settings_of(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load_yaml(path.read_text(encoding="utf-8"), str(path))
    return loaded


@pytest.mark.integration
@pytest.mark.parametrize("files", [["a.en", "a.de"], ["a.tsv"]])
def test_a_table_is_written_that_the_plan_accepts_and_whose_splits_are_disjoint(
    project: Path, files: list[str]
) -> None:
    said = "\n".join(new_table("mine", "en-de", files, [], [], Path("config.yaml")))
    assert said.endswith("snakemake --snakefile PATH/TO/Snakefile --cores all table_mine")  # no Snakefile is here
    assert "train: 400 pairs" in said and "en: 9.0 words a line, 95 % of lines up to 9" in said
    assert said.count("warning: about 20 pairs are few") == 2 and "warning: 400 pairs are few, so the model" in said
    assert "equal on both sides, and" not in said and f"      {lines('de', 1)[0]}\n" in said
    plan = Plan.load(settings_of(project / "config.yaml"), "config.yaml")
    table = plan.table("mine")
    text = Path("workflow/tables/mine.yaml").read_text()
    assert "about 9 updates a pass" in text and "# about 360 pairs;" in text  # 360 pairs of 9 words
    small = table.systems["small"]
    assert not small.cleaning.lowercase and 300 < small.subwords.size < 410  # few words on each side, 400 numbers
    fetch("mine", "en-de", project / "raw", custom=plan.settings.corpora["mine"])
    splits = {split: set(read_lines(project / "raw" / f"{split}.en")) for split in ("train", "valid", "held_out")}
    assert sum(map(len, splits.values())) == 400 and len(set().union(*splits.values())) == 400
    assert 8 <= len(splits["valid"]) <= 35 and 8 <= len(splits["held_out"]) <= 35


@pytest.mark.parametrize(
    ("codes", "joint"), [("en-zh_Hant", False), ("en-pt_BR", True), ("hin-mr", True), ("en-tt", False)]
)
def test_a_joint_vocabulary_is_for_languages_of_one_script(project: Path, codes: str, joint: bool) -> None:
    list(new_table("mine", codes, ["a.en", "a.de"], [], [], Path("config.yaml")))
    small = load_table(Path("workflow/tables/mine.yaml")).systems["small"]
    assert small.subwords.joint == joint and small.model.tied == ("all" if joint else "decoder")


def test_text_without_spaces_is_counted_by_characters_which_all_have_a_piece(project: Path) -> None:
    draw = random.Random(1)
    chinese = ["".join(chr(0x4E00 + draw.randrange(400)) for _ in range(20)) + "\n" for _ in range(400)]
    (project / "a.zh").write_text("".join(chinese), encoding="utf-8")
    (project / "b.en").write_text("".join(f"word{draw.randrange(2000)} of text\n" for _ in range(400)))
    said = "\n".join(new_table("mine", "en-zh_Hant", ["b.en", "a.zh"], [], [], Path("config.yaml")))
    assert "zh_Hant: 20.0 characters a line, 95 % of lines up to 20;" in said and "en: 3.0 words a line" in said
    text = Path("workflow/tables/mine.yaml").read_text()
    characters = len(set("".join(chinese)) - {"\n"})
    assert load_table(Path("workflow/tables/mine.yaml")).systems["small"].subwords.size == 2 * characters > 500
    assert "about 7 updates a pass" in text  # 360 pairs of about 17 pieces and both ends


def test_pieces_of_languages_without_spaces_are_estimated_from_characters() -> None:
    assert [_per_unit("en", pieces) for pieces in (100, 500, 4000, 32000)] == [2.4, 2.4, 1.5, 1.3]
    assert [_per_unit(code, 4000) for code in ("zh", "jpn", "th", "my")] == [0.6, 0.6, 0.3, 0.3]
    assert 1.7 < _per_unit("en", 2000) < 1.9  # measured: 1.8, of messages of programs


def test_one_file_as_both_sides_is_warned_of(project: Path) -> None:
    said = "\n".join(new_table("twice", "en-de", ["a.en", "a.en"], [], [], Path("config.yaml")))
    assert "warning: most pairs are equal on both sides" in said


def test_given_splits_are_kept_and_the_settings_keep_their_comments(project: Path) -> None:
    before, after = "# mine\ntables: [scenes]\n", "\ndevice: cpu  # no GPU\n"
    (project / "config.yaml").write_text(f"{before}corpora: {{}}   # none yet\n{after}")
    for split in ("v", "t"):
        for code in WORDS:
            (project / f"{split}.{code}").write_text("".join(f"{line}\n" for line in lines(code, 20)))
    valid, test = ([f"--{name}={name[0]}.{code}" for code in WORDS] for name in ("valid", "test"))
    assert run("new", "mine", "a.en", "a.de", "--languages", "en-de", *valid, *test)[0] == 0
    assert "# 400 pairs;" in Path("workflow/tables/mine.yaml").read_text()
    text = (project / "config.yaml").read_text()
    assert text.startswith(f"{before}corpora:   # none yet\n  mine:\n") and text.endswith(after)
    assert run("new", "more", "a.tsv", "--languages", "de-en")[0] == 0
    corpora = yaml.parse(Workflow, (project / "config.yaml").read_text(), "config.yaml").corpora
    assert list(corpora) == ["more", "mine"] and corpora["mine"].splits["held_out"][0].files["de"] == Path("t.de")
    assert all(source.slice is None for sources in corpora["mine"].splits.values() for source in sources)
    assert load_table(Path("workflow/tables/more.yaml")).systems["small"].languages == "de-en"


def test_the_next_commands_name_other_settings(project: Path) -> None:
    (project / "Snakefile").touch()
    *_, said = new_table("mine", "en-de", ["a.tsv"], [], [], Path("my own.yaml"))
    assert said == (
        "next: nmt check mine --config 'my own.yaml', then: snakemake --cores all table_mine --configfile 'my own.yaml'"
    )
    *_, said = new_table("more", "en-de", ["a.tsv"], [], [], Path("config.yaml"))
    assert said == "next: nmt check more, then: snakemake --cores all table_more"


def test_swapped_languages_and_repetitions_are_told(project: Path) -> None:
    (project / "r.1").write_text("Собака бежит через парк\n" * 60, encoding="utf-8")
    (project / "r.2").write_text("The dog runs through the park\n" * 60)
    said = "\n".join(new_table("r", "en-ru", ["r.1", "r.2"], [], [], Path("config.yaml")))
    assert said.count("warning: most lines are not") == 2 and "repeated: 59" in said


def test_files_whose_endings_are_the_other_way_round_are_refused(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"FILES: expected the file in de first, got a\.en; swap files or languages"):
        list(new_table("mine", "de-en", ["a.en", "a.de"], [], [], Path("config.yaml")))
    with pytest.raises(ConfigError, match=r"--test: expected the file in en first, got a\.de; swap"):
        list(new_table("mine", "en-de", ["a.tsv"], [], ["a.de", "a.en"], Path("config.yaml")))


def test_a_code_that_no_language_has_is_refused_before_anything_is_written(project: Path) -> None:
    with pytest.raises(ConfigError, match="ISO 639 has no language 'jp'"):
        list(new_table("mine", "en-jp", ["a.en", "a.de"], [], [], Path("config.yaml")))
    assert not table_path("mine").exists() and not Path("config.yaml").exists()


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        (["short.tsv"], DataError, "expected at least 50 sentence pairs to cut validation and test text from, got 49"),
        (["a.en"], ConfigError, "say format:|expected a name that ends in"),
        (["a.en", "a.de", "a.tsv"], ConfigError, "expected one file with both languages, or two"),
        (["a.en", "b.de"], ConfigError, "^FILES: b.de: no such file; paths start at"),
        (["few.tsv"], DataError, "expected sentence pairs for train, got 1"),
    ],
)
def test_what_cannot_be_read_writes_nothing(project: Path, files: list[str], error: type, message: str) -> None:
    (project / "few.tsv").write_text("a\tb\n")
    (project / "short.tsv").write_text("".join(f"a {n}\tb\n" for n in range(49)))
    with pytest.raises(error, match=message):
        list(new_table("mine", "en-de", files, [], [], Path("config.yaml")))
    assert not (project / "config.yaml").exists() and not (project / "workflow").exists()


def test_nothing_is_replaced(project: Path) -> None:
    list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    with pytest.raises(ConfigError, match=r"mine\.yaml: exists already"):
        list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    (project / "workflow/tables/mine.yaml").unlink()
    with pytest.raises(ConfigError, match=r"the corpus cannot be added.*key 'mine' twice"):
        list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    with pytest.raises(ConfigError, match="nmt has a corpus of this name"):
        list(new_table("scenes", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    with pytest.raises(ConfigError, match="TABLE: expected another name, because comet_environment installs COMET"):
        list(new_table("environment", "en-de", ["a.tsv"], [], [], Path("config.yaml")))


def test_the_option_that_names_a_missing_file_is_told(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--valid: v\.tsv: no such file"):
        list(new_table("mine", "en-de", ["a.tsv"], ["v.tsv"], [], Path("config.yaml")))


def test_settings_that_cannot_be_written_leave_no_table(project: Path) -> None:
    (project / "link.yaml").symlink_to("elsewhere.yaml")
    for files in (["a.tsv"], ["nothere.tsv"]):  # told before the text is read
        with pytest.raises(DataError, match="expected a file to write, got a link"):
            list(new_table("mine", "en-de", files, [], [], Path("link.yaml")))
    with pytest.raises(OSError, match=r"a\.en"):
        list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("a.en/config.yaml")))
    assert not (project / "workflow/tables/mine.yaml").exists()
    list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))


OLD = "old:{0}  train: {{en: a.en, de: a.de}}{0}  valid: {{en: a.en, de: a.de}}"


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("tables: [a]", ["tables: [a]\n"]),
        ("tables: [a]\ncorpora:", ["tables: [a]\ncorpora:\n"]),
        ("corpora: # was: Multi30k\ntables: [a]\n", ["corpora: # was: Multi30k\n", "tables: [a]\n"]),
        ("tables: [a]\ncorpora: {} # none", ["corpora: # none\n"]),
        (
            f"corpora:\n# mine\n    {OLD.format(chr(10) + 4 * ' ')}\ntables: [a]\n",
            ["# mine\n    old:", "tables: [a]\n"],
        ),
        (f"tables: [a]\ncorpora:\n {OLD.format(chr(10) + ' ')}", ["\n old:"]),
    ],
)
def test_a_corpus_is_added_to_all_legal_settings(project: Path, before: str, kept: list[str]) -> None:
    (project / "config.yaml").write_text(before)
    list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    text = (project / "config.yaml").read_text()
    assert all(part in text for part in kept)
    corpora = yaml.parse(Workflow, text, "config.yaml").corpora
    assert corpora.keys() == ({"mine", "old"} if "old:" in before else {"mine"})


@pytest.mark.parametrize("name", ["2024", "null", "no", "1.5", "2024-01-31", "0x_"])
def test_a_name_that_yaml_does_not_read_as_a_word_is_refused(project: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"TABLE: expected a name that YAML reads as a word, got '{name}'"):
        list(new_table(name, "en-de", ["a.tsv"], [], [], Path("config.yaml")))


def test_a_mark_of_byte_order_hides_no_head_line(project: Path) -> None:
    rows = zip(lines("en", 400), lines("de", 400), strict=True)
    (project / "excel.tsv").write_text("\ufeffen\tde\n" + "".join(f"{en}\t{de}\n" for en, de in rows), encoding="utf-8")
    assert "train: 400 pairs" in list(new_table("mine", "en-de", ["excel.tsv"], [], [], Path("config.yaml")))


def test_updates_count_the_padding_of_sources_in_batches_of_similar_targets() -> None:
    words = Counter({(100 if target % 2 else 1, target): 1 for target in range(1, 101)})
    assert _updates(Survey(100, words), 100, [1, 1], 1020) == 10  # ten pairs each, all padded to 102 pieces
    assert _updates(Survey(100, words), 1000, [1, 1], 1020) == 100
    assert _updates(Survey(100, words + Counter({(0, 9): 50})), 100, [1, 1], 1020) == 10


@pytest.mark.parametrize("pairs", [50, 400, 36_000, 60_000, 400_000, 3_000_000, 10**8, 10**9])
def test_validation_and_test_text_have_ten_to_2000_pairs(pairs: int) -> None:
    share = _per_mille(pairs)
    assert 9.5 < pairs * share / 1000 < 1900  # a hash chooses: 2,000 are more than two standard deviations away


def test_a_large_corpus_is_cut_in_parts_of_parts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.plan.new_table._per_mille", lambda pairs: 12.5)
    list(new_table("mine", "en-de", ["a.tsv"], [], [], Path("config.yaml")))
    custom = yaml.parse(Workflow, (project / "config.yaml").read_text(), "config.yaml").corpora["mine"]
    assert [s.slice.per_mille for [s] in custom.splits.values() if s.slice] == [(25.0, 1000), (0, 12.5), (12.5, 25.0)]


def test_pairs_with_an_empty_side_are_counted_once_and_not_cut_out(project: Path) -> None:
    extra = "".join(f"{n}\t\n\t{n}\n\t\n" for n in range(200)) + "same\tsame\n"
    rows = zip(lines("en", 400), lines("de", 400), strict=True)
    (project / "holes.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in rows) + extra, encoding="utf-8")
    said = "\n".join(new_table("mine", "en-de", ["holes.tsv"], [], [], Path("config.yaml")))
    assert "pairs with an empty side: 600, equal on both sides: 1, repeated: 0" in said
    assert said.count("about 20 pairs") == 2
    custom = yaml.parse(Workflow, (project / "config.yaml").read_text(), "config.yaml").corpora["mine"]
    fetch("mine", "en-de", project / "raw", custom=custom)
    splits = [list(read_lines(project / "raw" / f"{s}.{c}")) for s in ("train", "valid", "held_out") for c in WORDS]
    assert all(line.strip() for split in splits for line in split) and sum(map(len, splits)) == 2 * 401
