"""The table of licences: complete, true to the installed packages, and nothing strict in the pipeline's lock."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STRICT = re.compile(r"(?<!L)GPL|SSPL|EUPL|CC-BY-(?:NC|SA)|proprietary|unknown", re.IGNORECASE)
"""Licences stricter than the LGPL and the MPL; and none that nobody has read."""


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("envs_licences", ROOT / "envs" / "licences.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_all_packages_of_the_locks_and_says_what_the_installed_ones_say(script: Any) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.table(script.rows(page)) == page, "run: .venv/bin/python envs/licences.py > the page"


def test_strict_licences_are_in_the_transliteration_extra_alone(script: Any) -> None:
    rows, locks = script.rows(script.PAGE.read_text(encoding="utf-8")), script.locked()
    strict = {name: locks[name] for name, licence in rows.items() if STRICT.search(licence)}
    assert strict == {"aksharamukha": ["transliteration"], "pykakasi": ["transliteration"]}
    assert rows["tqdm"] == "MPL-2.0 AND MIT" and not STRICT.search("MPL-2.0, LGPL-2.1-or-later")


def test_a_licence_that_changes_is_seen(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    monkeypatch.setitem(script.STATED, "click", "AGPL-3.0")
    changed = script.table(script.rows(page))
    assert "| click | AGPL-3.0 |" in changed and changed != page
