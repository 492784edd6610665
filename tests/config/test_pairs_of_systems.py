"""Systems and rows with several pairs of languages: what is read, refused, and planned."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import InheritedSubwords
from nmt.config.system import System
from nmt.config.table import Table, load_table
from nmt.config.workflow import Workflow
from nmt.corpora.own import write_custom
from nmt.plan import commands
from nmt.plan import layout as plan_layout
from nmt.plan.checks import check_added_text
from nmt.plan.helpers import check_parents
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError

SEVERAL: dict[str, Any] = {"corpus": "multi30k", "languages": ["en-de", "en-fr", "de-en"], "training": {"updates": 1}}
ONE: dict[str, Any] = {"corpus": "multi30k", "languages": "en-de", "training": {"updates": 1}}


def load(folder: Path, **changes: Any) -> Table:
    """Write a table with a system of three pairs and one of a single pair, and read it."""
    table = {
        "caption": "c", "tests": ["test_2016_flickr"], "systems": {"several": SEVERAL, "one": ONE},
        "rows": [{"label": "Several", "system": "several"}, {"label": "One", "system": "one"}],
    } | changes  # fmt: skip
    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump(table))
    return load_table(path)


def test_a_list_of_pairs_is_one_string_inside() -> None:
    system = System.model_validate(SEVERAL)
    assert system.languages == "en-de,en-fr,de-en" and system.pairs == SEVERAL["languages"]
    assert [(one.source, one.target) for one in system.by_pair] == [("en", "de"), ("en", "fr"), ("de", "en")]
    assert System.model_validate(SEVERAL | {"languages": ["en-de"]}) == System.model_validate(ONE)
    assert System.model_validate(SEVERAL | {"languages": ["en-zh-Hant"]}).languages == "en-zh_Hant"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"languages": ["en-de", "en-de"]}, "expected different values, got 'en-de' twice"),
        ({"languages": ["en-de", "fr"]}, r"expected source-target, e\.g\. en-de, or a list"),
        ({"languages": []}, r"expected source-target, e\.g\. en-de, or a list"),
        ({"subwords": {"joint": False}}, "subwords.joint: 3 pairs of languages need one vocabulary"),
        ({"word_vectors": {"source": "glove"}}, "word_vectors is for one pair of languages, got 3"),
        ({"back_translation": {"model": "a/b", "text": "c"}}, "back_translation is for one pair of languages, got 3"),
        (
            {"cleaning": {"filters": [{"kind": "scores", "minimum": -1, "file": "scores.txt"}]}},
            "cleaning.filters: kind: scores is for one pair of languages, got 3",
        ),
        (
            {"cleaning": {"filters": [{"kind": "scores", "minimum": -1, "forward": "t/one"}]}},
            "cleaning.filters: kind: scores is for one pair of languages, got 3",
        ),
        ({"model": {"kind": "multimodal"}}, "model.kind: multimodal is for one pair of languages"),
        ({"training": {"epochs": 2, "pair_temperature": 5}}, "give updates in place of epochs"),
        ({"training": {"updates": 2, "pair_temperature": 0.5}}, "pair_temperature"),
    ],
)
def test_what_does_not_suit_several_pairs_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, systems={"several": SEVERAL | changes}, rows=[{"label": "a", "system": "several"}])


def test_a_row_stands_for_each_pair_or_for_the_one_that_it_names(tmp_path: Path) -> None:
    rows = [
        {"label": "Several", "system": "several"}, {"label": "One", "system": "one", "against": "Several"},
        {"label": "Zero-shot", "system": "several", "pair": "de-fr"},
    ]  # fmt: skip
    table = load(tmp_path, rows=rows)
    assert [row.pair for row in table.rows] == ["en-de", "en-fr", "de-en", None, "de-fr"]
    assert [table.text(row).languages for row in table.rows] == ["en-de", "en-fr", "de-en", "en-de", "de-fr"]
    assert table.row_against(table.rows[3]) == table.rows[0]
    layout = Layout(Path("r"))
    folders = [layout.scores("t", row, "test", 1).parent.name for row in table.rows]
    assert folders == ["test.en-de", "test.en-fr", "test.de-en", "test", "test.de-fr"]
    several, one = table.systems["several"], table.systems["one"]
    assert plan_layout.test_and_pair(several, "test.en-fr") == ("test", "en-fr")
    assert plan_layout.test_and_pair(one, "news.en-fr") == ("news.en-fr", None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"system": "several", "pair": "fr-en"},
            "a source among de, en and a target among de, en, fr, got fr-en",
        ),
        ({"system": "one", "pair": "en-fr"}, "expected a source among en and a target among de, got en-fr"),
        ({"published": {"bleu": 1}, "pair": "en-fr"}, "pair: en-fr needs a system"),
        (
            {"hypotheses": "theirs.de", "text_of": "several"},
            "a file of hypotheses has one pair of languages, .* pair: one of en-de, en-fr, de-en",
        ),
        (
            {"system": "several", "against": "One", "pair": "en-fr"},
            "no other trained row of its test set is called",
        ),
    ],
)
def test_a_pair_that_the_system_cannot_translate_is_refused(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, rows=[{"label": "a", **row}, {"label": "One", "system": "one"}])


def test_cleaned_text_is_shared_with_systems_of_one_pair(tmp_path: Path) -> None:
    table = load(tmp_path)
    several, one, layout = table.systems["several"], table.systems["one"], Layout(Path("r"))
    assert layout.clean(several.by_pair[0]) == layout.clean(one)
    assert layout.encoded(several).parts[-3].startswith("3pairs-") and layout.encoded(several) != layout.encoded(one)
    plan = Plan(Workflow(tables=["t"]), {"t": table})
    for pair in several.by_pair:
        assert plan.system_for(str(plan.layout.clean(pair))).languages == pair.languages
    assert plan.system_for(str(plan.layout.subwords(several))).languages == several.languages
    assert commands.decode_options([], [], "en-fr") == ["--from=en", "--to=fr"]


def test_a_child_inherits_subwords_only_for_targets_that_have_a_tag(tmp_path: Path) -> None:
    child = ONE | {"initialise": {"system": "several"}}
    fits = load(tmp_path, systems={"several": SEVERAL, "one": child})
    assert isinstance(fits.systems["one"].subwords, InheritedSubwords)
    check_parents("t", {"t": fits})
    unfit = load(tmp_path, systems={"several": SEVERAL | {"languages": ["en-fr", "de-en"]}, "one": child})
    with pytest.raises(ConfigError, match="expected a parent with subwords of en-de, got one of en-fr,de-en"):
        check_parents("t", {"t": unfit})


def test_a_model_of_several_pairs_translates_text_for_another_system(tmp_path: Path) -> None:
    added = {"model": "t/several", "at": "last", "text": "multi30k"}
    table = load(tmp_path, systems={"several": SEVERAL, "one": ONE | {"back_translation": added}})
    plan = Plan(Workflow(tables=["t"]), {"t": table})
    check_added_text("t", plan.tables, plan.settings)
    made = plan.translation(str(plan.layout.translations(table.systems["one"])))
    assert made.options == ["--from=de", "--to=en"] and made.language == "de"
    french = load(
        tmp_path, systems={"several": SEVERAL, "one": ONE | {"languages": "en-fr", "back_translation": added}}
    )
    with pytest.raises(
        ConfigError, match="expected a system for fr-en, got t/several, which translates en-de,en-fr,de-en"
    ):
        check_added_text("t", {"t": french}, plan.settings)


def test_each_pair_reads_the_sources_that_have_both_of_its_languages(tmp_path: Path) -> None:
    def text(name: str, *languages: str) -> dict[str, Any]:
        for language in languages:
            (tmp_path / f"{name}.{language}").write_text(f"{name} {language}\n")
        return {"files": {language: str(tmp_path / f"{name}.{language}") for language in languages}}

    both = text("both", "en", "de", "fr")
    corpus = CustomCorpus.model_validate({"train": [text("a", "en", "de"), text("b", "en", "fr"), both], "valid": both})
    for pair, lines in {"en-de": ["a en", "both en"], "en-fr": ["b en", "both en"]}.items():
        (tmp_path / pair).mkdir()
        sources = write_custom("own", corpus, pair, tmp_path / pair, None)
        assert (tmp_path / pair / "train.en").read_text().splitlines() == lines
        assert len(sources["train"]) == 2
