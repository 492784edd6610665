"""All tables and figures of a results folder as one HTML page that needs no other file and no network."""

import os
from dataclasses import dataclass
from pathlib import Path

from nmt.report.html import fill, inline, parts
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json, write_text

UI = "http://127.0.0.1:5000"
"""Where `make ui` shows a store that is a file."""
FROM_LOGS = ("loss", "accuracy", "bleu", "learning-rate")
"""Figures of trainings; the others show models."""


@dataclass(frozen=True)
class Link:
    """Words, and where they lead if that is known."""

    text: str
    address: str | None = None


def page(results: Path, out: Path) -> None:
    """Write every table and figure of a results folder as one page; links lead to MLflow and to provenance.

    Args:
        results: with ``tables/*.json`` and ``figures/``; ``runs/`` where they were kept.
        out: the page.

    Raises:
        DataError: the folder has neither tables nor figures, or a table is not JSON.
    """
    tables = {file.stem: read_json(file) for file in sorted((results / "tables").glob("*.json"))}
    folders = {folder.name for folder in (results / "figures").glob("*") if _images(folder)}
    if not tables and not folders:
        raise DataError(f"{results}: expected tables/*.json or figures/*/, got neither; build a table first: make run")
    names = sorted({*tables, *folders}, key=lambda name: (_synthetic(tables.get(name)), name))
    links = _Links(results, out.parent)
    sections = [_section(name, tables.get(name), links) for name in names]
    count = sum(len(section["figures"]) for section in sections)
    write_text(out, fill("page.html.j2", sections=sections, count=count, tracked=links.explained()))


class _Links:
    """Where a results folder's files and runs are, as seen from the page."""

    def __init__(self, results: Path, page: Path) -> None:
        self.results, self.page = results, page
        self.local = False  # whether a link leads to the page that `make ui` opens

    def file(self, path: Path, text: str | None = None) -> Link:
        """A file, linked if it is there."""
        shown = text or os.path.relpath(path, self.results)
        return Link(shown, os.path.relpath(path, self.page) if path.exists() else None)

    def run(self, table: str, system: str, seed: int | str) -> Link:
        """The run in MLflow of a training, or of an ensemble (``1-2-3``), linked if it is known."""
        marker = self.results / "runs" / table / system / f"seed{seed}" / "tracked.json"
        found = read_json(marker) if marker.is_file() else {}
        if found.get("status") != "published":
            return Link(f"{system} seed {seed}")
        web = found["uri"].startswith("http")
        self.local |= not web
        store = found["uri"].rstrip("/") if web else UI
        return Link(f"{system} seed {seed}", f"{store}/#/experiments/{found['experiment']}/runs/{found['run']}")

    def explained(self) -> str:
        """What a reader needs to know to follow the links."""
        mlflow = f"A run's link leads to MLflow at {UI}, which “make ui” opens. " if self.local else ""
        return f"{mlflow}A run or file without a link is not kept with these results."


def _section(name: str, data: Json | None, links: _Links) -> Json:
    """One table with its figures, or figures alone, as the template wants them."""
    runs = [links.run(name, system, one["seed"]) for system, one in _trainings(data)]
    shown = parts(data) if data else {"title": name, "about": "", "data": None, "rest": []}
    return shown | {
        "name": name, "runs": runs, "synthetic": _synthetic(data),
        "figures": _figures(name, data, links), "rows": _rows(name, data, links),
    }  # fmt: skip


def _trainings(data: Json | None) -> list[tuple[str, Json]]:
    systems = data["systems"] if data else {}
    return [(system, one) for system, found in systems.items() for one in found["trainings"]]


def _synthetic(data: Json | None) -> bool:
    return bool(data and data["synthetic"])


def _rows(name: str, data: Json | None, links: _Links) -> list[Json]:
    """Provenance of each trained row."""
    tables = links.results / "tables"  # what a table's own paths start from
    return [
        {
            "label": row["label"], "test": row["test"], "at": row["at"],
            "runs": [
                links.run(name, row["system"], seed)
                for seed in (["-".join(map(str, row["seeds"]))] if row.get("ensemble") else row["seeds"])
            ],
            "scores": [links.file(Path(os.path.normpath(tables / path))) for path in row["provenance"]],
        }
        for row in (data["rows"] if data else []) if not row["quoted"]
    ]  # fmt: skip


def _images(folder: Path) -> dict[str, list[Path]]:
    """The files of each figure below a folder, SVG first."""
    images: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*"), key=lambda file: (file.suffix != ".svg", file)):
        if file.suffix in (".svg", ".png"):
            images.setdefault(str(file.relative_to(folder).with_suffix("")), []).append(file)
    return images


def _figures(name: str, data: Json | None, links: _Links) -> list[Json]:
    """A table's figures in its order, then others that lie beside them."""
    titles = {figure["name"]: figure["title"] for figure in data["figures"]} if data else {}
    images = _images(links.results / "figures" / name)
    order = [*(figure for figure in titles if figure in images), *sorted(set(images) - set(titles))]
    return [
        {
            "name": figure, "title": titles.get(figure, figure), "source": inline(images[figure][0]),
            "origin": "drawn from the logs of" if figure in FROM_LOGS else "of the models of",
            "files": [links.file(file, file.suffix.removeprefix(".").upper()) for file in images[figure]],
        }
        for figure in order
    ]  # fmt: skip
