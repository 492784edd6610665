"""The report stage: write a table as Markdown, CSV, JSON and one HTML page, with its figures."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.data import Images
from nmt.config.models import MultimodalConfig
from nmt.config.table import OVERLAYS, Table
from nmt.plan.layout import Layout
from nmt.report import html, markdown
from nmt.report.cells import NLL_SCALE
from nmt.report.corpora import chart
from nmt.report.figures import plots
from nmt.report.figures.heatmaps import Overlay, Panel, draw, draw_over, readable
from nmt.report.figures.profiles import PROFILES, Texts, divided, draw_profile
from nmt.report.records import ALIGNMENTS, Results, keep, read_log
from nmt.report.tables import build
from nmt.system.errors import DataError
from nmt.system.files import Json, atomic_directory, read_json, write_json, write_text
from nmt.system.lines import read_lines

LEGIBLE = range(8, 17)  # source pieces of a sentence that gives a legible figure
WORDS = 6  # words per line of a figure with one map per word
PAPER_WIDTH = 512  # width of the positional encoding in the paper, for figures; wider models use their own


def report(
    name: str, table: Table, layout: Layout, seeds: Sequence[int], images: Mapping[str, Images] | None = None
) -> None:
    """Write a table's figures, copy its records (`nmt.report.records`), and then write the table itself.

    Args:
        name: of the table.
        table: its systems and rows.
        layout: of the results folder.
        seeds: of systems that name no seeds.
        images: the user's pictures, by corpus.

    Raises:
        DataError: a result is missing.
    """
    results = Results(name, table, layout, seeds)
    data = build(results)
    _draw(results, images or {}, data["data"])
    keep(results)
    write_pages(data, layout)


def write_pages(data: Json, layout: Layout) -> None:
    """Write a table as JSON, CSV, Markdown and HTML; its figures must be there."""
    name, out = data["name"], layout.table(data["name"])
    write_json(out.with_name(f"{name}.json"), data)
    write_text(out.with_name(f"{name}.csv"), as_csv(data))
    write_text(out.with_name(f"{name}.md"), markdown.render(data))
    write_text(out.with_name(f"{name}.html"), html.render(data, layout.figures(name)))


def _draw(results: Results, images: Mapping[str, Images], corpora: list[Json]) -> None:
    """Draw all figures of a table into their folder, which is replaced as a whole."""
    table = results.table
    systems = dict.fromkeys(row.system for row in table.rows if row.system)
    curves = {name: [read_log(results.run(name, seed)) for seed in results.seeds_of(name)] for name in systems}
    widths = [table.systems[system].model.width for system in systems]
    with atomic_directory(results.layout.figures(results.name)) as folder:
        for figure in table.figures:
            if figure == "alignment":
                _draw_alignments(results, folder / figure)
            elif figure in OVERLAYS:
                _draw_picture(results, folder / figure, images)
            elif figure in PROFILES:
                draw_profile(figure, _texts(results), folder / figure)
            else:
                shown = widths if figure == "positions-across" else [PAPER_WIDTH, *widths]
                width = max(shown, default=PAPER_WIDTH)  # no system is trained
                plots.draw(figure, curves, width, folder / figure, table.published_curves, table.nll_unit)
        if chart.is_filtered(corpora):
            chart.draw_filters(corpora, folder / chart.NAME)


def _texts(results: Results) -> dict[str, Texts]:
    """The translations of each system's first row on the first test set, by its first seed."""
    texts, table = dict[str, Texts](), results.table
    for row in table.rows:
        if row.system and row.system not in texts and table.test_of(row) == table.tests[0] and not row.ensemble:
            folder, system = next(iter(results.folders(row).values())), table.text(row)
            of_row = (folder / "hypotheses.tok", folder / "references.tok")
            files = (*of_row, results.layout.clean(system) / f"train.{system.target}")
            ours, theirs, training = (divided(read_lines(file), system.target) for file in files)
            counts = Counter(word for line in training for word in line.split())
            texts[row.system] = Texts(list(ours), list(theirs), counts)
    return texts


def _draw_alignments(results: Results, out: Path) -> None:
    """Draw the attention over the source, one panel per system with attention.

    A panel shows the system's first row on the first test set. The sentences are those of the table's sample_lines,
    else the first recorded sentence of a legible length.
    """
    alignments = {
        str(row.system): read_json(results.folders(row)[seed] / ALIGNMENTS, list)
        for row, seed in results.table.attention_rows("alignment", results.seeds)
    }
    recorded = {system: sentences for system, sentences in alignments.items() if sentences}
    lines = results.table.sample_lines or [_legible(next(iter(recorded.values())))["line"]]
    panels = [
        Panel(f"{system}, sentence {line}", np.array(s["weights"]), s["target"], s["source"])
        for line in lines for system, sentences in recorded.items() for s in sentences if s["line"] == line
    ]  # fmt: skip
    draw(panels, "Attention of the decoder, source across, translation down", out)


def _legible(sentences: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the first sentence of a legible length, else the first sentence."""
    return next((sentence for sentence in sentences if len(sentence["source"]) in LEGIBLE), sentences[0])


def _draw_picture(results: Results, out: Path, images: Mapping[str, Images]) -> None:
    """Draw the attention over a sentence's picture, by layer and head or by word: the first row of a multimodal model.

    Args:
        results: of the table.
        out: path without an ending; its name is that of the figure.
        images: the user's pictures, by corpus.

    Raises:
        DataError: the attention was not recorded, or the picture cannot be read.
    """
    from nmt.data.extract import read_square

    table = results.table
    [(row, seed)] = table.attention_rows(OVERLAYS[0], results.seeds)
    system, folder = table.systems[row.system or ""], results.folders(row)[seed]
    sentence = _legible(read_json(folder / ALIGNMENTS, list))
    of_words = out.name == "picture-words"
    if ("image_rows" if of_words else "image") not in sentence:
        raise DataError(f"{folder / ALIGNMENTS}: expected attention over pictures, got none; delete it and run again")
    line = sentence["line"]
    source, target = (list(read_lines(folder / file))[line - 1] for file in ("sources.txt", "hypotheses.detok"))
    panels = by_word(sentence) if of_words else _by_head(sentence)
    across = min(WORDS, len(panels)) if of_words else len(sentence["image"][0])
    assert isinstance(system.model, MultimodalConfig)
    about = f"model: {results.name}/{row.system}, seed {seed}, {row.at}; regions: {system.model.backbone}"
    about += "; last layer, mean of the heads" if of_words else "; sum over the words"
    picture = read_square(picture_of(results.layout, images, system.corpus, table.tests[0], line))
    draw_over(picture, panels, f"{source} → {target}", out, across, about)


def _by_head(sentence: Json) -> list[Overlay]:
    return [
        Overlay(f"layer {n}, head {h}", np.array(head))
        for n, heads in enumerate(sentence["image"], 1) for h, head in enumerate(heads, 1)
    ]  # fmt: skip


def by_word(sentence: Json) -> list[Overlay]:
    """Return one map for each word of a translation, and one for its end: the mean of the rows of the word's pieces.

    Args:
        sentence: of ``alignments.json``, with ``target`` (pieces) and ``image_rows`` (pieces, regions).
    """
    from nmt.report.figures.attention_maps import words

    groups, rows = words(sentence["target"]), iter(sentence["image_rows"])
    return [
        Overlay(readable(["".join(pieces)])[0], np.mean([next(rows) for _ in pieces], 0))
        for pieces in groups
    ]  # fmt: skip


def picture_of(layout: Layout, images: Mapping[str, Images], corpus: str, test: str, line: int) -> Path:
    """The picture of a test set's line, counted from 1: the user's picture, else the drawn one."""
    given, drawn = images.get(corpus), layout.pictures(corpus)
    folder, names = (given.folder, given.lists[test]) if given and given.folder else (drawn, drawn / f"{test}.txt")
    return folder / list(read_lines(names))[line - 1]


def as_csv(data: Json) -> str:
    """Format the rows of a table as CSV, one column per figure. A cell is empty if its row lacks the figure.

    NLL is in the table's unit, as the published figures are.
    """
    flat = [_flat(row, NLL_SCALE[data.get("nll_unit", "nats")]) for row in data["rows"]]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(row: Json, nll: float) -> Json:
    """The cells of a row by column; our NLL is in nats and is multiplied by ``nll``."""
    flat = {key: row.get(key) for key in ("label", "quoted", "synthetic", "languages", "test", "system", "at")}
    flat["seeds"] = ("-" if row.get("ensemble") else " ").join(map(str, row.get("seeds", [])))
    flat |= {f"published_{metric}": row["published"].get(metric) for metric in ("bleu", "ter", "chrf", "meteor")}
    flat |= {f"published_{metric}": figure for metric, figure in row["published"].items()}
    for protocol, metrics in row.get("scores", {}).items():
        scale = nll if protocol == "training" else 1
        for metric, score in metrics.items():
            parts = {part: score[part] and score[part] * scale for part in ("mean", "deviation", "low", "high")}
            flat[f"{protocol}_{metric}"] = parts.pop("mean")
            flat |= {f"{protocol}_{metric}_{part}": value for part, value in parts.items()}
    flat |= {f"difference_{metric}": value for metric, value in row.get("difference", {}).items()}
    flat["p_value"] = (row.get("against") or {}).get("p_value")
    flat |= {
        key: row.get(key) for key in ("parameters", "training_seconds", "text_seconds", "valid_loss", "valid_bleu")
    }
    flat |= {key: row.get("decoding", {}).get(key) for key in ("beam", "length_penalty")}
    return flat | {"code_version": " ".join(row.get("code_version", [])), "note": row["note"]}
