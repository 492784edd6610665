"""What the workflow asks of a configuration, without Snakemake."""

from pathlib import Path
from typing import Any

import pytest

from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.checks import check_ensembles, check_images, check_tests
from nmt.plan.closing import closing_words, requested_tables
from nmt.plan.helpers import check_own_files
from nmt.plan.load import check_config_files, load_settings
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError

DATA = {"corpus": "mine", "languages": "en-de"}
TABLE = Table.model_validate(
    {
        "caption": "Two systems",
        "tests": ["news", "talks"],
        "systems": {
            "small": {**DATA, "training": {"updates": 1}},
            "large": {**DATA, "training": {"updates": 1}, "model": {"layers": 9}, "seeds": [7]},
            "unused": {**DATA, "training": {"updates": 1}},
        },
        "rows": [
            {"label": "a", "system": "small"},
            {"label": "b", "system": "small", "test": "talks"},
            {"label": "c", "system": "large", "at": "average best 5"},
            {"label": "d", "published": {"bleu": 30}},
        ],
    }
)


def plan(**settings: Any) -> Plan:
    return Plan(Workflow.model_validate({"tables": ["one"], "seeds": [1, 2], **settings}), {"one": TABLE})


def test_only_systems_of_rows_are_trained_with_their_own_seeds_or_all() -> None:
    assert plan().runs("one") == [("small", 1), ("small", 2), ("large", 7)]


def test_scores_of_a_table_and_of_one_run() -> None:
    assert len(plan().scores("one")) == 5
    of_run = [Path(score).parts[-3] for score in plan().scores("one", ("small", 2))]
    assert of_run == ["news", "talks"]
    (large,) = plan().scores("one", ("large", 7))
    assert "large/seed7/average-best-5/news/beam5-" in large


def test_an_ensemble_is_of_all_seeds_and_of_two_at_least() -> None:
    row = {"label": "together", "system": "small", "ensemble": True}
    table = Table.model_validate(TABLE.model_dump() | {"rows": [row], "tests": ["news"]})
    found = Plan(Workflow(tables=["one"], seeds=[1, 2]), {"one": table})
    assert found.runs("one") == [("small", 1), ("small", 2)] and found.ensembles("one") == [("small", "1-2")]
    (scores,) = found.scores("one")
    assert "/small/seed1-2/best/news/beam5-" in scores
    with pytest.raises(ConfigError, match=r"row 'together': expected at least two seeds .* got \[1\]"):
        check_ensembles("one", table, Workflow(tables=["one"], seeds=[1]))


def test_a_test_set_of_another_corpus_is_cleaned_in_its_folder_once_for_all_systems() -> None:
    system = {"languages": "en-fr", "training": {"updates": 1}}
    systems = {name: {"corpus": name, **system} for name in ("multi30k", "tatoeba-en-fr", "multi30k-tatoeba")}
    tests = ["test_2016_flickr", "test_tatoeba", "newstest2014"]
    rows = [{"label": name, "system": name, "test": test} for name in systems for test in tests]
    table = Table.model_validate({"caption": "c", "tests": tests, "systems": systems, "rows": rows})
    check_tests("one", table, Workflow(tables=["one"]))
    made = Plan(Workflow(tables=["one"]), {"one": table})
    held = {test: {str(made.layout.clean(made.tested("one", name, test))) for name in systems} for test in tests}
    assert {test: [Path(folder).parts[-3] for folder in folders] for test, folders in held.items()} == {
        "test_2016_flickr": ["multi30k"], "test_tatoeba": ["tatoeba-en-fr"], "newstest2014": ["newstest-en-fr"]
    }  # fmt: skip
    for folders in held.values():
        assert made.system_for(*folders).languages == "en-fr"


def described(test: str = "test_2016_flickr", **system: Any) -> Table:
    model = {"kind": "multimodal", "backbone": "descriptions", "regions": 4}
    system = {"corpus": "multi30k", "languages": "en-fr", "model": model, "training": {"updates": 1}, **system}
    rows = [{"label": "r", "system": "one"}]
    return Table.model_validate({"caption": "c", "tests": [test], "systems": {"one": system}, "rows": rows})


def test_pseudo_regions_are_of_the_descriptions_whatever_pictures_the_user_has() -> None:
    settings = Workflow.model_validate({"tables": ["one"], "images": {"multi30k": {"features": "/data"}}})
    check_images("one", described(), settings)
    made = Plan(settings, {"one": described()})
    (array,) = made.features(made.system("one", "one"), ["train"])
    assert array == "results/features/multi30k/descriptions/train.npy"
    text, others = made.described("multi30k")
    assert (made.system_for(str(text)).corpus, made.system_for(str(others)).corpus) == (
        "multi30k",
        "multi30k-descriptions",
    )
    assert text.parent.name == others.parent.name == "en-de"  # where the descriptions are in English


def test_ready_features_do_not_go_with_a_part_of_the_text() -> None:
    model = {"kind": "multimodal", "backbone": "resnet50"}
    images = {"multi30k": {"features": "/data"}}
    settings = Workflow.model_validate({"tables": ["one"], "images": images})
    check_images("one", described(model=model), settings)
    with pytest.raises(ConfigError, match="limit: 10 cuts the text of multi30k, but not the ready features"):
        check_images("one", described(model=model), settings.model_copy(update={"limit": 10}))


def test_pictures_do_not_go_with_text_whose_lines_are_left_out() -> None:
    model, files = {"kind": "multimodal", "backbone": "resnet50"}, {"en": "a.en", "de": "a.de"}
    mine = {"train": files, "valid": files, "tests": {"news": files}, "disjoint": True}
    given = {"corpora": {"mine": mine}, "images": {"mine": {"features": "/data"}}}
    settings = Workflow.model_validate({"tables": ["one"], **given})
    with pytest.raises(ConfigError, match="corpora: mine: disjoint leaves out lines of the text, but not their"):
        check_images("one", described(corpus="mine", test="news", model=model), settings)


def test_paths_of_the_user_start_at_home_where_they_say_so() -> None:
    languages = {"en": "~/x.en", "de": "~/x.de"}
    mine = {"corpora": {"c": {"train": languages, "valid": languages}}, "images": {"c": {"features": "~/f"}}}
    settings = Workflow.model_validate({"tables": ["one"], "word_vectors": {"glove": "~/g"}, **mine})
    home = Path.home()
    assert settings.corpora["c"].train["en"] == home / "x.en" and settings.images["c"].features == home / "f"
    assert settings.word_vectors["glove"] == home / "g"


@pytest.mark.parametrize(
    "table", [described("test_2018_flickr", languages="en-de"), described(corpus="scenes", test="test")]
)
def test_pseudo_regions_need_descriptions_of_the_test_sets_images(table: Table) -> None:
    with pytest.raises(ConfigError, match="other descriptions of the images of t"):
        check_images("one", table, Workflow(tables=["one"]))


def test_validation_and_a_sample_of_the_training_text_are_test_sets_too() -> None:
    system = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 1}}
    systems = {"plain": system, "watched": {**system, "training": {"updates": 1, "train_bleu": 50}}}
    tests = ["test", "valid", "train_sample"]
    rows = [{"label": name, "system": name, "test": test} for name in systems for test in tests]
    table = Table.model_validate({"caption": "c", "tests": tests, "systems": systems, "rows": rows})
    check_tests("one", table, Workflow(tables=["one"]))
    made = Plan(Workflow(tables=["one"]), {"one": table})
    plain, watched = ([made.layout.texts(made.tested("one", name, test), test) for test in tests] for name in systems)
    assert plain[0] == plain[1] == watched[1] == (made.layout.raw(table.systems["plain"]), plain[0][1])
    assert [folder.parent.name.split("-")[-1] for folder in plain[2]] == ["sample1000"] * 2
    assert [folder.parent.name.split("-")[-1] for folder in watched[2]] == ["sample50"] * 2
    assert [folder.name for folder in plain[2]] == ["raw", "clean"]


def test_a_pair_without_training_text_is_translated_where_it_has_a_test_set() -> None:
    de, fr = ({"en": f"{code}.en", code: f"{code}.{code}"} for code in ("de", "fr"))
    own = {"train": [de, fr], "valid": [de, fr], "tests": {"news": [de, {"de": "de.de", "fr": "fr.fr"}]}}
    settings = Workflow.model_validate({"tables": ["one"], "corpora": {"own": own}})

    def check(**row: str) -> None:
        system = {"corpus": "own", "languages": ["de-en", "en-fr"], "training": {"updates": 1}}
        table = {"caption": "c", "tests": [row.get("test", "news")], "rows": [{"label": "r", "system": "many"} | row]}
        check_tests("one", Table.model_validate({**table, "systems": {"many": system}}), settings)

    check(pair="de-fr")
    for row in ({"pair": "de-fr", "test": "valid"}, {"pair": "de-fr", "test": "train_sample"}, {"pair": "en-fr"}):
        with pytest.raises(ConfigError, match="has no test set"):
            check(**row)


def test_users_files_of_the_pair_only() -> None:
    files = {"en": "a.en", "de": "a.de", "fr": "a.fr"}
    made = plan(corpora={"mine": {"train": files, "valid": files, "tests": {"news": files}}})
    raw = str(made.layout.raw(TABLE.systems["small"]))
    assert made.raw_text(raw).own_files == ["a.en", "a.de"] * 3
    assert plan().raw_text(raw).own_files == []
    assert made.own(["a.en", raw, made.layout.results / "features/x.npy", "/data/x.npy"]) == ["a.en", "/data/x.npy"]


def test_users_files_that_choose_a_slice_but_not_those_of_sources_that_are_not_read() -> None:
    files = {"en": "a.en", "de": "a.de", "fr": "a.fr"}
    sliced = {"files": files, "slice": {"by": "fr", "per_mille": [0, 500]}}
    others = [{"en": "b.en", "fr": "b.fr"}, {"source": "c.tmx", "languages": ["en", "fr"]}]
    made = plan(corpora={"mine": {"train": [sliced, *others], "valid": files, "tests": {"news": files}}})
    raw = str(made.layout.raw(TABLE.systems["small"]))
    assert made.raw_text(raw).own_files == ["a.en", "a.de", "a.fr", *["a.en", "a.de"] * 2]


def test_a_path_in_which_snakemake_would_see_a_wildcard_is_refused(tmp_path: Path) -> None:
    (tmp_path / "{a}.txt").write_text("one\n")
    files = dict.fromkeys(("en", "de"), str(tmp_path / "{a}.txt"))
    settings = Workflow.model_validate({"tables": ["one"], "corpora": {"mine": {"train": files, "valid": files}}})
    system = {"corpus": "mine", "languages": "en-de", "training": {"updates": 1}}
    rows = [{"label": "a", "system": "small"}]
    table = Table.model_validate({"caption": "c", "tests": ["valid"], "systems": {"small": system}, "rows": rows})
    with pytest.raises(ConfigError, match=r"corpora\.mine: .*\{a\}\.txt: expected a path without"):
        check_own_files(table.systems.values(), settings)


ELSEWHERE: list[dict[str, Any]] = [
    {"device": "cpu"}, {"processes": 2}, {"mirror": "/elsewhere"}, {"strict": True}, {"container": "docker://a/b"},
    {"tracking": {"live": False}}, {"comet": {"checkpoint": "model.ckpt"}},
]  # fmt: skip


@pytest.mark.parametrize("change", ELSEWHERE)
def test_the_closing_stages_do_not_see_where_work_was_done(change: dict[str, Any]) -> None:
    assert plan(**change).report_settings(["one"]) == plan().report_settings(["one"])


def test_samples_are_of_the_same_sentences_where_their_text_is() -> None:
    system = {"corpus": "multi30k", "languages": "en-de", "training": {"updates": 1}}
    written = {"model": "one/reverse", "text": "multi30k-descriptions"}
    systems = {"small": system, "more": {**system, "back_translation": written}}
    systems |= {"reverse": {**system, "languages": "de-en"}}
    rows = [{"label": "a", "system": "small"}, {"label": "b", "system": "more", "against": "a"}]
    table = {"caption": "c", "tests": ["train_sample"], "systems": systems, "rows": rows}
    with pytest.raises(ConfigError, match="translates train_sample of another corpus, or another sample"):
        check_tests("one", Table.model_validate(table), Workflow(tables=["one"]))
    systems["more"] = {**system, "training": {"updates": 1, "train_bleu": 1000}}
    check_tests("one", Table.model_validate(table), Workflow(tables=["one"]))


def test_the_inputs_of_a_table_need_no_tool_of_another() -> None:
    settings = plan().settings
    assert requested_tables(settings, []) == requested_tables(settings, ["all"]) == ["one"]
    assert requested_tables(settings, ["table_two"]) == ["two"]
    assert requested_tables(settings, ["inputs_two"]) == requested_tables(settings, ["comet_two"]) == []
    assert requested_tables(settings, ["comet_two", "inputs_three"], ("table", "comet")) == ["two"]


@pytest.mark.parametrize(("device", "claims"), [("cpu", False), ("auto", True), ("cuda", True)])
def test_a_gpu_is_claimed_unless_the_cpu_is_asked_for(device: str, claims: bool) -> None:
    assert ("gpu" in plan(device=device).settings.device_resources) == claims


def test_each_process_of_a_training_has_a_gpu_and_is_a_task_of_its_job() -> None:
    alone, two = plan(device="auto").settings, plan(device="auto", processes=2).settings
    assert alone.training_resources == alone.device_resources
    assert two.training_resources == {"device": "auto", "gpu": 2, "tasks": 2, "mpi": "srun"}
    assert "gpu" not in plan(device="cpu", processes=2).settings.training_resources


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no system 'smal'; did you mean 'small'"):
        plan().system("one", "smal")
    with pytest.raises(ConfigError, match="no table 'two'; expected one of: one"):
        plan().system("two", "small")


def test_a_test_set_that_is_not_there_is_refused_before_training() -> None:
    system = {"corpus": "multi30k", "languages": "en-de", "training": {"updates": 1}}
    rows = [{"label": "a", "system": "small"}]
    table = Table.model_validate(
        {"caption": "c", "tests": ["test_2016_flikr"], "systems": {"small": system}, "rows": rows}
    )
    with pytest.raises(ConfigError, match=r"row 'a': multi30k en-de has no test set.*did you mean 'test_2016_flickr'"):
        check_tests("one", table, Workflow(tables=["one"]))


def test_closing_words_have_paths_for_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "my project"
    (project / "results/tables").mkdir(parents=True)
    (project / "results/tables/one.md").write_text("# One\n")
    monkeypatch.chdir(project)  # as --directory does
    assert "nmt page" not in closing_words(plan(), [], tmp_path)  # it would find no table
    (project / "results/tables/one.json").write_text("{}")
    said = closing_words(plan(), [], tmp_path)
    assert "table    'my project/results/tables/one.html'   for" in said
    assert "nmt page 'my project/results' report.html" in said
    assert "figures  results/figures/one\n" in closing_words(plan(), [], project)


def test_a_name_of_digits_is_a_word_though_snakemake_reads_a_number(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("tables: [one]\n")
    text = {"en": "a.en", "de": "a.de"}
    corpora = {"mine": {"train": [text], "valid": text, "tests": {2016: text}}}
    found = load_settings({"tables": ["one"], "corpora": corpora}, str(tmp_path / "config.yaml"))
    assert list(found.corpora["mine"].tests) == ["2016"]


def test_files_of_the_command_line_are_read_before_snakemake_does(tmp_path: Path) -> None:
    good, number = tmp_path / "good.yaml", tmp_path / "number.yaml"
    good.write_text("tables: [one]\n")
    number.write_text("tables: [one]\nseeds: [010]\n")
    check_config_files(["-n", "--configfile", str(good), "--cores", "none.yaml"])
    for words, message in (
        (["--configfile", str(good), str(tmp_path / "god.yaml")], "god.yaml: no such file; .* did you mean 'good'"),
        ([f"--configfile={tmp_path}"], "expected a file of settings, got: Is a directory"),
        (["--configfiles", str(number)], r"number.yaml, line 2: .* 010, which YAML reads as 8"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_config_files(words)
