"""Parents that systems start from, as the workflow plans them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.plan.plan import Plan
from nmt.reproduce.budget import with_parents
from nmt.reproduce.runs import Run
from nmt.system.errors import ConfigError

PARENT: dict[str, Any] = {"corpus": "multi30k", "languages": "en-fr", "training": {"updates": 9}}
CHILD: dict[str, Any] = {"corpus": "tatoeba-en-fr", "languages": "en-fr", "training": {"updates": 2}}


def load(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seeds: list[int], at: str = "best", **tables: dict[str, Any]
) -> Plan:
    """The plan of the first table; each is given by its systems, and has a row of each but the parents."""
    monkeypatch.chdir(folder)
    (folder / "workflow" / "tables").mkdir(parents=True)
    for name, systems in tables.items():
        rows = [{"label": key, "system": key, "test": "valid", "at": at} for key in systems if key != "parent"]
        quoted = {"label": "quoted", "published": {"bleu": 1}, "test": "valid"}
        table = {"caption": "c", "tests": ["valid"], "systems": systems, "rows": [*rows, quoted]}
        (folder / "workflow" / "tables" / f"{name}.yaml").write_text(yaml.safe_dump(table))
    settings = {"tables": [next(iter(tables))], "seeds": seeds}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    return Plan.load(settings, "config.yaml")


def test_a_child_takes_the_parent_of_its_seed_or_else_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = {
        "same": {**CHILD, "initialise": {"system": "two/parent"}},
        "other": {**CHILD, "initialise": {"system": "two/parent", "at": "average 3"}, "seeds": [9]},
        "none": CHILD,
    }
    plan = load(
        tmp_path,
        monkeypatch,
        [5, 6],
        one=systems,
        two={
            "parent": {
                **PARENT,
                "seeds": [4, 6],
            }
        },
    )
    parents = {(name, seed): plan.parent("one", name, seed) for name, seed in plan.runs("one")}
    runs = plan.layout.runs("two") / "parent"
    assert parents == {
        ("same", 5): runs / "seed4/best/model",
        ("same", 6): runs / "seed6/best/model",
        ("other", 9): runs / "seed4/average-3/model",
        ("none", 5): None,
        ("none", 6): None,
    }
    needed = plan.inputs("one", "same")
    assert str(plan.layout.encoded(plan.system("two", "parent"))) in needed


def test_parents_are_reproduced_before_their_children_without_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = {
        "grandchild": {**CHILD, "initialise": {"system": "child"}},
        "child": {**CHILD, "initialise": {"system": "two/parent"}},
    }
    plan = load(tmp_path, monkeypatch, [1], one=systems, two={"parent": PARENT, "more": PARENT})
    runs = with_parents([Run(plan, "one", *run) for run in plan.runs("one")])
    assert list(map(str, runs)) == ["two/parent seed 1", "one/child seed 1", "one/grandchild seed 1"]
    assert [len(run.rows) for run in runs] == [0, 1, 1]
    assert not any(path.startswith("results/corpora") for path in runs[0].missing_inputs())


@pytest.mark.parametrize(
    ("parent", "child", "message"),
    [
        ({}, {"model": {"width": 64}}, "systems.child.initialise: expected model.width: 512, as the parent has it"),
        ({}, {"model": {"kind": "recurrent"}}, "expected a parent of kind recurrent, got transformer"),
        ({"training": {"updates": 9, "keep_last": 2}}, {"initialise": {"system": "two/parent", "at": "average 3"}},
         "systems.child.initialise.at: 'average 3' is not kept by two/parent: training.keep_last is 2"),
        ({"training": {"updates": 9}}, {"initialise": {"system": "two/parent", "at": "best and start"}},
         "'best and start' is not kept by two/parent: a system without initialise starts from random"),
        ({"languages": "en-de"}, {}, "expected a parent with subwords of en-fr, got one of en-de"),
        ({"languages": "fr-en", "subwords": {"joint": False}}, {}, "expected a parent with subwords of en-fr"),
        ({"languages": "fr-en"}, {}, None),
        ({"languages": "en-de"}, {"initialise": {"system": "two/parent", "own_subwords": True}}, None),
        ({"corpus": "multi30"}, {}, r"two.yaml: systems.parent: unknown corpus: 'multi30'; did you mean 'multi30k'"),
        ({"word_vectors": {"source": "glove"}}, {}, r"two.yaml: systems.parent: expected a file of .* glove"),
        ({"back_translation": {"model": "one/child", "text": "multi30k-descriptions"}}, {},
         r"systems.child.initialise.system: expected a system that does without child, got two/parent"),
    ],
)  # fmt: skip
def test_parents_that_do_not_fit_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: Any, child: Any, message: str | None
) -> None:
    child = {**CHILD, "initialise": {"system": "two/parent"}, **child}
    tables = {"one": {"child": child}, "two": {"parent": {**PARENT, **parent}}}
    if message is None:
        load(tmp_path, monkeypatch, [1], **tables)
        return
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, monkeypatch, [1], **tables)


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ({"initialise": {"system": "two/parent"}}, None),
        ({"initialise": {"system": "two/parent"}, "model": {"layers": 4}},
         "row 'child': at: 'best and start' needs the layers of the weights that child starts from, got other ones"),
        ({"initialise": {"system": "two/parent", "own_subwords": True}},
         "row 'child' asks for 'best and start', which is not kept: with own_subwords its pieces are not those of"),
        ({}, "row 'child' asks for 'best and start', which is not kept: a system without initialise starts"),
    ],
)  # fmt: skip
def test_the_mean_with_the_start_needs_the_layers_and_pieces_of_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: Any, message: str | None
) -> None:
    tables = {"one": {"child": {**CHILD, **child}}, "two": {"parent": PARENT}}
    if message:
        with pytest.raises(ConfigError, match=message):
            load(tmp_path, monkeypatch, [1], at="best and start", **tables)
        return
    plan = load(tmp_path, monkeypatch, [1], at="best and start", **tables)
    [row] = plan.table("one").rows_of("child")
    assert plan.layout.model("one", row, 1) == Path("results/runs/one/child/seed1/best-and-start/model")
