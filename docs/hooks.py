"""Carry the files outside docs/ that pages link to into the site, below repository/, so that links work there too."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT, DOCS = Path(__file__).parents[1], Path(__file__).parent
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)")
SHOWN = {".md", ".html", ".png", ".svg"}  # by browsers and the site; any other file is shown as plain text


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the linked files, and those that they link to."""
    pages = list(files.documentation_pages())
    for page in pages:  # grows
        for target in map(Path, LINK.findall(page.content_string)):
            path = _target(page, target)
            if path.is_file() and not files.get_file_from_path(_place(path)):
                files.append(File.generated(config, _place(path), abs_src_path=str(path)))
                pages += [files.get_file_from_path(_place(path))] if path.suffix == ".md" else []


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links at the files' places in the site."""
    if page.file.src_uri.startswith("repository/"):
        page.meta["search"] = {"exclude": True}

    def moved(match: re.Match[str]) -> str:
        path = _target(page.file, Path(match[0]))
        return os.path.relpath(_place(path), Path(page.file.src_uri).parent) if path.is_file() else match[0]

    return LINK.sub(moved, markdown)


def _target(page: File, link: Path) -> Path:
    """The file in the repository that a page links to; of a folder its README.md."""
    path = Path(os.path.normpath(Path(page.abs_src_path).parent / link))
    return path / "README.md" if path.is_dir() else path


def _place(path: Path) -> str:
    """The place in the site of a file in the repository."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    suffix = "" if path.suffix in SHOWN else ".txt"
    return f"repository/{path.relative_to(ROOT).as_posix()}{suffix}"
