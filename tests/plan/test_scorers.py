"""Filters by the scores of models: the systems that score, their files, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from nmt.config.corpus.filters import ScoresFilter
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.checks import check_scorers
from nmt.plan.helpers import with_helpers
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError

BOTH = {"kind": "scores", "forward": "clean/there", "backward": "clean/back", "minimum": -4}


def table(**systems: Any) -> Table:
    """A table with a row for each system."""
    rows = [{"label": name, "system": name} for name in systems]
    shared = {"corpus": "scenes", "training": {"updates": 1}}
    return Table.model_validate(
        {"caption": "c", "tests": ["test"], "rows": rows}
        | {"systems": {name: shared | system for name, system in systems.items()}}
    )


def tables(*filters: dict[str, Any], **clean: Any) -> dict[str, Table]:
    """A table whose system has filters, and one with systems of both directions that may score."""
    scorers = {"there": {"languages": "en-de"}, "back": {"languages": "de-en"}} | clean
    return {
        "noisy": table(small={"languages": "en-de", "cleaning": {"filters": list(filters)}}),
        "clean": table(**scorers),
    }


def test_the_file_and_the_recipe_of_scores_by_models() -> None:
    known = tables({"kind": "equal"}, BOTH)
    plan = Plan(Workflow.model_validate({"tables": ["noisy"]}), known)
    check_scorers("noisy", known)
    system = plan.system("noisy", "small")
    clean = str(plan.layout.clean(system))
    [file] = plan.score_files(clean)
    assert Path(file).parent == plan.layout.raw(system).parent and plan.own([file]) == []
    found = plan.pair_scores(file)
    assert found.models == [plan.layout.selected("clean", name, 1, "best") for name in ("there", "back")]
    assert (found.raw, found.languages) == (plan.layout.raw(system), "en-de")
    equal, scores = plan.cleaning(clean).filters
    assert scores.model_dump(mode="json", exclude_defaults=True) == {"kind": "scores", "minimum": -4.0, "file": file}
    assert equal == system.cleaning.filters[0]


def test_the_file_depends_on_the_models_and_not_on_the_threshold() -> None:
    changes: list[dict[str, Any]] = [{}, {"minimum": -2}, {"backward": None}, {"at": "last"}, {"seed": 2}]
    system = tables()["noisy"].systems["small"]
    layout = Plan(Workflow.model_validate({"tables": ["noisy"]}), {}).layout
    files = [layout.pair_scores(system, ScoresFilter.model_validate(BOTH | change)) for change in changes]
    assert files[0] == files[1] and len(set(files)) == 4
    assert layout.pair_scores(system, ScoresFilter(kind="scores", minimum=0, file=Path("mine.txt"))) == Path("mine.txt")


def test_systems_that_score_are_trained_before() -> None:
    known = tables(BOTH)
    needed = with_helpers({("noisy", "small"): known["noisy"].systems["small"]}, known)
    assert set(needed) == {("noisy", "small"), ("clean", "there"), ("clean", "back")}


@pytest.mark.parametrize(
    ("change", "clean", "message"),
    [
        ({"forward": "claen/there"}, {}, "no table 'claen'"),
        ({"forward": "clean/their"}, {}, "no system 'their'"),
        ({"forward": "clean/back"}, {}, "expected a system for en-de, got clean/back, which translates de-en"),
        ({"backward": "clean/there"}, {}, "expected a system for de-en, got clean/there, which translates en-de"),
        ({"at": "average 5"}, {"there": {"languages": "en-de", "training": {"updates": 9, "keep_last": 2}}},
         "'average 5' is not kept by clean/there"),
        ({}, {"there": {"languages": "en-de", "cleaning": {"filters": [BOTH | {"forward": "noisy/small"}]}}},
         "expected a system that does without small, got clean/there"),
    ],
)  # fmt: skip
def test_systems_that_cannot_score_are_refused(change: dict[str, Any], clean: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=r"noisy\.yaml: systems\.small\.cleaning\.filters: kind: scores") as error:
        check_scorers("noisy", tables(BOTH | change, **clean))
    assert message in str(error.value)
