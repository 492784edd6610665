"""Write all tables and figures of a results folder as one HTML page, or as a site; neither needs the network."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from nmt.report.cells import NONE, published, statistic
from nmt.report.grid import telling
from nmt.report.grids import PER_PIECE, headline, shown
from nmt.report.html import fill, inline, marks, parts
from nmt.system.errors import DataError
from nmt.system.files import Json, atomic_directory, read_json, write_text

UI = "http://127.0.0.1:5000"
"""The address at which `make ui` shows a store in a file."""
TRAINING_VIEW = "workflowType=machine_learning"
"""Opens MLflow's pages on trainings, not those on applications of language models."""
SITE = ".nmt-page"
"""Marks the folder of a site, which the next one may replace."""
ORIGINS = {
    **dict.fromkeys((*PER_PIECE, "bleu", "learning-rate"), "drawn from the logs of"),
    **dict.fromkeys(("positions", "positions-across", "mask", "filters"), None),
}
"""Where figures come from, before the names of the runs; those of formulas and corpora need no run."""


@dataclass(frozen=True)
class Link:
    """A text, with the address that it links to, if any."""

    text: str
    address: str | None = None


def page(results: Path, out: Path) -> None:
    """Write every table and figure of a results folder, with links to MLflow and to provenance.

    Args:
        results: folder with ``tables/*.json`` and ``figures/``, and with ``runs/`` if the runs were kept.
        out: a file that ends in ``.html``, for everything on one page; else the folder of a site, which opens with
            ``index.html`` and has a page for each table. A folder that exists must be such a site, which is replaced,
            or empty.

    Raises:
        DataError: the folder has neither tables nor figures, a table is not JSON, or ``out`` has other files.
    """
    tables: dict[str, Json | None] = dict.fromkeys(
        folder.name for folder in (results / "figures").glob("*") if _images(folder)
    )  # None for figures without a table
    tables |= {file.stem: read_json(file) for file in sorted((results / "tables").glob("*.json"))}
    if not tables:
        raise DataError(f"{results}: expected tables/*.json or figures/*/, got neither; build a table first: make run")
    tables = dict(sorted(tables.items(), key=lambda table: (_is_synthetic(table[1]), table[0])))
    if out.suffix == ".html":
        links = _Links(results, out.parent)
        sections = [_section(name, data, links) for name, data in tables.items()]
        entries = [_entry(name, data, f"#{name}") for name, data in tables.items()]
        write_text(out, fill("page.html.j2", entries=entries, sections=sections, tracked=links.explained(), home=None))
    else:
        _site(results, out, tables)


def _site(results: Path, out: Path, tables: dict[str, Json | None]) -> None:
    """Write a site: a page for each table, and one that leads to them."""
    with atomic_directory(out, SITE) as folder:
        (folder / SITE).touch()
        for name, data in tables.items():
            links = _Links(results, out)
            sections = [_section(name, data, links)]  # first, because explained() depends on its links
            html = fill("page.html.j2", entries=[], sections=sections, tracked=links.explained(), home="index.html")
            write_text(folder / f"{name}.html", html)
        entries = [_entry(name, data, f"{name}.html") for name, data in tables.items()]
        write_text(folder / "index.html", fill("page.html.j2", entries=entries, sections=[], tracked="", home=None))


def _entry(name: str, data: Json | None, address: str) -> Json:
    """A table in the summary: its name, one line, its best row, and published beside ours on one scale."""
    if data is None:
        empty = {"report": "", "data": None, "best": None}
        return {"name": name, "address": address, "title": "Figures", "words": name} | empty
    scored = [row for row in data["rows"] if not row["quoted"] and row["test"] == data["tests"][0]]
    best = max(scored, key=lambda row: row["scores"]["tokenised"]["bleu"]["mean"], default=None)
    bleu = best["scores"]["tokenised"]["bleu"] if best else None
    if best and not data.get("comparable", True):  # it is trained and tested on other text than the published system
        best = best | {"published": {}}
    theirs = published(best["published"]["bleu"]) if best and "bleu" in best["published"] else None
    title, labels = headline(data)[0], [row["label"] for row in data["rows"]]
    corpora = [f"{corpus['corpus']} {corpus['languages']}" for corpus in data["data"]]
    return {
        "name": name, "address": address, "title": title, "report": data.get("report") or "", "data": data,
        "best": best and {
            "label": best["label"], "test": _tested(best, data), "bleu": statistic(bleu), "published": theirs,
            "marks": marks([best]),
        },
        "words": " ".join([name, title, data["caption"], data.get("report") or "", *corpora, *labels]).lower(),
    }  # fmt: skip


def _tested(row: Json, data: Json) -> str:
    """The test set of a row, with its languages if those of the table's rows differ."""
    several = "languages" in telling(data["rows"])
    return f"{row['test']}, {row['languages']}" if several else str(row["test"])


class _Links:
    """Links from the page to the files and runs of a results folder."""

    def __init__(self, results: Path, page: Path) -> None:
        self.results, self.page = results, page
        self.local = False  # whether some link needs the server that `make ui` starts

    def file(self, path: Path, text: str | None = None) -> Link:
        """A link to a file; without an address if the file is missing."""
        address = quote(os.path.relpath(path, self.page)) if path.exists() else None
        return Link(text or os.path.relpath(path, self.results), address)

    def run(self, table: str, system: str, seed: int | str) -> Link:
        """A link to the MLflow run of a training or an ensemble (seed ``1-2-3``); without an address if unknown."""
        text = f"{system} seed {seed}"
        marker = self.results / "runs" / table / system / f"seed{seed}" / "tracked.json"
        record = read_json(marker) if marker.is_file() else {}
        if record.get("status") != "published":
            return Link(text)
        is_url = record["uri"].startswith("http")
        self.local |= not is_url
        store = record["uri"].rstrip("/") if is_url else UI
        address = f"{store}/#/experiments/{record['experiment']}/runs/{record['run']}?{TRAINING_VIEW}"
        return Link(text, address)

    def explained(self) -> str:
        """A note for readers about the links."""
        mlflow = f"Links of runs lead to MLflow at {UI}; start it with “make ui”. " if self.local else ""
        return f"{mlflow}Runs and files without a link were not kept with these results."


def _section(name: str, data: Json | None, links: _Links) -> Json:
    """The variables of the template for one table with its figures, or for figures without a table."""
    systems = data["systems"].items() if data else ()
    runs = [links.run(name, system, training["seed"]) for system, made in systems for training in made["trainings"]]
    of_table = parts(data) if data else {"title": name, "about": "", "data": None, "rest": [], "figure_notes": []}
    return of_table | {
        "name": name, "runs": runs, "synthetic": _is_synthetic(data), "figures": _figures(name, data, links),
        "rows": _rows(name, data, links),
    }  # fmt: skip


def _is_synthetic(data: Json | None) -> bool:
    return bool(data and data["synthetic"])


def _rows(name: str, data: Json | None, links: _Links) -> list[Json]:
    """The provenance of each trained row."""
    if data is None:
        return []
    tables = links.results / "tables"  # paths in a table are relative to this folder
    rows = []
    for row in data["rows"]:
        if not row["quoted"]:
            seeds = ["-".join(map(str, row["seeds"]))] if row.get("ensemble") else row["seeds"]
            runs = [links.run(name, row["system"], seed) for seed in seeds]
            scores = [links.file(Path(os.path.normpath(tables / path))) for path in row["provenance"]]
            rows.append(
                {"label": row["label"], "test": _tested(row, data), "at": row["at"] or NONE, "runs": runs,
                 "scores": scores}
            )  # fmt: skip
    return rows


def _images(folder: Path) -> dict[str, list[Path]]:
    """The files of each figure in a folder, SVG first."""
    images: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*"), key=lambda file: (file.suffix != ".svg", file)):
        if file.suffix in (".svg", ".png"):
            images.setdefault(str(file.relative_to(folder).with_suffix("")), []).append(file)
    return images


def _figures(name: str, data: Json | None, links: _Links) -> list[Json]:
    """The figures of a table in its order, without those that are withheld, then the other figures in the folder."""
    titles = {figure["name"]: figure["title"] for figure in data["figures"]} if data else {}
    images, listed = _images(links.results / "figures" / name), shown(data) if data else []
    order = [figure["name"] for figure in listed if figure["name"] in images]
    order += sorted(set(images) - set(titles))
    return [
        {
            "name": figure, "title": titles.get(figure, figure), "source": inline(images[figure][0]),
            "origin": ORIGINS.get(figure, "of the models of"),
            "files": [links.file(file, file.suffix.removeprefix(".").upper()) for file in images[figure]],
        }
        for figure in order
    ]  # fmt: skip
