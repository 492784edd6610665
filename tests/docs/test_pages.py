"""Pages that are named exist, and pages are easy to read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMING = ["nmt", "workflow", "profiles", "tests", "config.yaml", "cluster.yaml", "Makefile", "pyproject.toml"]
NAMING += ["README.md", "CONTRIBUTING.md"]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LONGEST_LINE, MEAN_SENTENCE = 120, 20


def texts(name: str) -> list[Path]:
    place = ROOT / name
    files = [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else [place]
    return [path for path in files if path.suffix not in {".pyc", ".png", ".svg", ".safetensors", ".model"}]


@pytest.mark.parametrize("name", NAMING)
def test_named_pages_exist(name: str) -> None:
    missing = {
        (str(path.relative_to(ROOT)), page)
        for path in texts(name)
        for page in re.findall(r"\bdocs/[\w/.-]+\.md\b", path.read_text(encoding="utf-8"))
        if not (ROOT / page).is_file()
    }
    assert missing == set()


def prose(page: Path) -> list[str]:
    """The lines of a page without code, tables, links' targets and comments; other lines are empty."""
    text = page.read_text(encoding="utf-8")
    for pattern in (r"^(```|~~~).*?^\1$", r"<!--.*?-->", r"^---\n.*?^---$"):
        text = re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in text.split("\n")]
    return ["" if line.startswith(("|", "    ", "!", ":::")) else line for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    long = [(number, len(line)) for number, line in enumerate(prose(page), 1) if len(line) > LONGEST_LINE]
    assert long == []


def sentences(page: Path) -> list[str]:
    """The sentences of a page, headings left out; an item of a list ends its sentence."""
    lines = ["" if line.startswith("#") else line for line in prose(page)]
    text = re.sub(r"^\s*([-*]|\d+\.) ", "\n\n", "\n".join(lines), flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    return [sentence for sentence in re.split(r"[.!?:;]\s|\n\n+", text) if re.search(r"\w", sentence)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    counts = [len(re.findall(r"[^\W_][\w'’-]*", sentence)) for sentence in sentences(page)]
    assert not counts or sum(counts) / len(counts) < MEAN_SENTENCE


def test_the_start_page_leads_to_every_guide_and_every_result() -> None:
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page for folder in ("how-to", "results") for page in (ROOT / "docs" / folder).glob("*.md")]
    assert [page.name for page in pages if f"({page.parent.name}/{page.name})" not in start] == []
