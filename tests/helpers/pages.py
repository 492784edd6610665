"""Reads a page of HTML as its tests look at it."""

from html.parser import HTMLParser
from pathlib import Path


class Read(HTMLParser):
    """A page's links, images, places that links can lead to, and text; elements must be closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.links += [found["href"]] if "href" in found else []
        self.images += [found["src"]] if "src" in found else []
        self.ids += [found["id"]] if "id" in found else []
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
