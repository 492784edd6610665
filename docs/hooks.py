"""Make the site read pages as GitHub does.

The files outside docs/ that pages link to are carried into the site, below repository/. Lists are indented anew.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT, DOCS = Path(__file__).parents[1], Path(__file__).parent
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)")
ITEM = re.compile(r" *(?:[-*]|\d+\.) +")
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

    return nested(LINK.sub(moved, markdown))


def nested(markdown: str) -> str:
    """Indent what belongs to a list item by four columns, as the site's Markdown needs; GitHub: the marker's width.

    Without it, a block of code ends the list, and each step of a page has the number 1.
    """
    lines, columns, fenced = list[str](), list[int](), False  # columns: where the text of each open item starts
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip())
        while line.strip() and not fenced and columns and indent < columns[-1]:
            columns.pop()
        base = columns[-1] if columns else 0
        lines.append(" " * 4 * len(columns) + line[base:] if line.strip() else "")
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and (item := ITEM.match(line)):
            columns.append(item.end())
    return "\n".join(lines) + "\n"


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
