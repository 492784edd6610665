"""The structure of nmt/: who may import whom (contracts in pyproject.toml), and how large its parts may be."""

import ast
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION, MODULES_OF_A_FOLDER = 400, 60, 14
MODULES = sorted((ROOT / "nmt").rglob("*.py"))
PACKAGES = sorted(path.parent for path in MODULES if path.name == "__init__.py")


def test_imports_keep_the_contracts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlinter.cli.logging_config.dictConfig", lambda _: None)  # it silences all other loggers
    failed = lint_imports(str(ROOT / "pyproject.toml"), no_cache=True)
    assert not failed, capsys.readouterr().out


@pytest.mark.integration
def test_modules_and_functions_are_short() -> None:
    long = {}
    for path in MODULES:
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if (lines := len(text.splitlines())) > LINES_OF_A_MODULE:
            long[str(name)] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LINES_OF_A_FUNCTION:
                    long[f"{name}:{node.name}"] = lines
    assert long == {}


def test_folders_have_few_modules() -> None:
    counts = {str(package.relative_to(ROOT)): len(list(package.glob("[!_]*.py"))) for package in PACKAGES}
    assert {name: count for name, count in counts.items() if count > MODULES_OF_A_FOLDER} == {}


def test_tests_mirror_the_packages() -> None:
    packages = {path.name for path in PACKAGES if path.parent == ROOT / "nmt"}
    assert {name for name in packages if not list((ROOT / "tests" / name).glob("test_*.py"))} == set()
