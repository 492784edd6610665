"""Attention maps: the attention weights of a translation with their labels, as a figure and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from torch import Tensor

from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig
from nmt.system.errors import ConfigError
from nmt.system.files import write_text
from nmt.system.warnings import say
from nmt.text.subwords import START
from nmt.translation.align import membership
from nmt.translation.translator import Attentions, Translation, Translator

Part = Literal["source", "encoder", "decoder"]
Choice = int | Literal["all", "mean"]
PARTS: tuple[Part, ...] = get_args(Part)
TITLES: dict[Part, str] = {
    "source": "Decoder over the source",
    "encoder": "Encoder over itself",
    "decoder": "Decoder over its own output",
}
LONGEST = 120  # rows or columns of a map that is drawn
PIECES = 6  # maps per line of a figure with one map per piece
SPECIAL = {"<s>", "</s>", "<pad>"}


@dataclass(frozen=True)
class SubLayer:
    """The attention weights of one sub-layer, with the labels of their rows and columns."""

    weights: Tensor  # (layers, heads, rows, columns)
    rows: list[str]  # pieces or words that attend
    columns: list[str]  # pieces or words that are attended to


def sub_layer(attentions: Attentions, part: str) -> SubLayer:
    """Return one sub-layer of a model's attention, with its labels.

    Raises:
        ConfigError: the model has no such sub-layer.
    """
    if part not in attentions.weights:
        names = ", ".join(attentions.weights) or "none: it is without attention"
        raise ConfigError(f"--part: expected a sub-layer that this model has ({names}), got {part}")
    rows = attentions.source if part == "encoder" else attentions.target[1:]
    columns = attentions.target[:-1] if part == "decoder" else attentions.source
    return SubLayer(attentions.weights[part], rows, columns)


def joined(pieces: SubLayer) -> SubLayer:
    """Join subword pieces to words: sum the columns of a word, and average its rows.

    A row is a distribution over the columns. The weight of a word is therefore the sum of the weights of its pieces. A
    word of several pieces has one row per piece; the mean of these rows is a distribution again.
    """
    rows, columns = words(pieces.rows), words(pieces.columns)
    weights = membership(rows, mean=True) @ pieces.weights @ membership(columns).T
    return SubLayer(weights, *(["".join(word).removeprefix(START) for word in side] for side in (rows, columns)))


def words(pieces: Sequence[str]) -> list[list[str]]:
    """Group pieces by word. BOS and EOS are words; in a vocabulary of whole words each piece is a word."""
    whole = all(piece.startswith(START) and piece != START for piece in pieces if piece not in {*SPECIAL, "<unk>"})
    groups: list[list[str]] = []
    for before, piece in zip(["<s>", *pieces], pieces, strict=False):
        if whole or piece.startswith(START) or {before, piece} & SPECIAL:
            groups.append([])
        groups[-1].append(piece)
    return groups


def select(attention: SubLayer, layer: Choice, head: Choice) -> tuple[SubLayer, list[int], list[int | str]]:
    """Select layers and heads of a sub-layer.

    Returns:
        The selected weights, the numbers of the layers and the numbers of the heads, both from 1. The mean over the
        heads counts as one head, ``mean``.

    Raises:
        ConfigError: there is no such layer or head.
    """
    weights = attention.weights
    layers = _numbers("--layer", layer, weights.shape[0], " or all")
    weights = weights[[number - 1 for number in layers]]
    if head == "mean":
        return replace(attention, weights=weights.mean(1, keepdim=True)), layers, ["mean"]
    heads = _numbers("--head", head, weights.shape[1], ", mean or all")
    return replace(attention, weights=weights[:, [number - 1 for number in heads]]), layers, [*heads]


def _numbers(option: str, choice: Choice, count: int, words: str) -> list[int]:
    if choice == "all":
        return list(range(1, count + 1))
    if not isinstance(choice, int) or not 1 <= choice <= count:
        raise ConfigError(f"{option}: expected 1 to {count}{words}, got {choice}")
    return [choice]


def write_over(
    picture: Path, translator: Translator, line: str, decoding: Decoding, out: Path, layer: Choice, head: Choice
) -> Translation:
    """Translate a line with its picture, and draw the decoder's attention over the picture.

    There is one map per head: its weights of the regions, summed over the pieces of the translation. With the mean over
    the heads there is one map per piece of the translation. The weights are also written, as ``.json``.

    Args:
        picture: the file of the picture.
        translator: a multimodal model.
        line: the cleaned source sentence.
        decoding: settings of the search.
        out: path of the ``.png``, ``.svg`` and ``.json``, without the ending.
        layer: number of a layer from 1, or all; with the mean over the heads, all means the last layer.
        head: number of a head from 1, all, or the mean over the heads.

    Raises:
        ConfigError: the model does not attend to the regions of pictures, or has no such layer or head.
        DataError: the picture cannot be read.
    """
    from nmt.data.extract import features_of_picture
    from nmt.report.figures.heatmaps import Overlay, draw_over, readable

    config = translator.model.config
    if not isinstance(config, MultimodalConfig) or config.fusion == "gated":
        raise ConfigError("--image: expected a multimodal model that attends to regions, got another; leave it out")
    square, features = features_of_picture(picture, config, translator.device)
    translation = translator.translate_clean([line], decoding, pictures=lambda _: features)[0][0]
    attentions = translator.attentions(line, translation, features)
    by_piece = head == "mean" and layer == "all"
    attention = SubLayer(attentions.weights["image"], attentions.target[1:], [])
    selected, layers, heads = select(attention, len(attentions.weights["image"]) if by_piece else layer, head)
    if head == "mean":
        maps, titles, across = selected.weights[-1, 0], readable(selected.rows), PIECES  # (T, R)
    else:
        maps, across = selected.weights.sum(2).flatten(0, 1), len(heads)  # (layers * heads, R)
        titles = [f"layer {n}, head {h}" for n in layers for h in heads]
    panels = [Overlay(title, weights) for title, weights in zip(titles, maps.numpy(), strict=True)]
    about = f"model: {translator.folder}; regions: {config.backbone}"
    draw_over(square, panels, f"{line} → {translation.text}", out, min(len(panels), across), about)
    record = {
        "source": line, "translation": translation.text, "picture": str(picture), "layers": layers, "heads": heads,
        "titles": titles, "weights": [[round(weight, 6) for weight in row] for row in maps.tolist()],
    }  # fmt: skip
    write_text(out.with_name(f"{out.name}.json"), json.dumps(record, ensure_ascii=False) + "\n")
    return translation


def write(
    translator: Translator,
    line: str,
    translation: Translation,
    out: Path,
    part: Part = "source",
    layer: Choice = "all",
    head: Choice = "all",
    by_words: bool = False,
) -> None:
    """Draw the attention of a model while it translated a line, and write the weights as JSON.

    Of more than `LONGEST` pieces or words there is no figure, but a message: it would take minutes.

    Args:
        translator: the model.
        line: the cleaned source sentence.
        translation: the translation of the line by this model.
        out: path of the ``.png``, ``.svg`` and ``.json``, without the ending.
        part: the sub-layer.
        layer: number of a layer from 1, or all.
        head: number of a head from 1, all, or the mean over the heads.
        by_words: whether to join subword pieces to words.

    Raises:
        ConfigError: the model has no such sub-layer, layer or head.
    """
    attention = sub_layer(translator.attentions(line, translation), part)
    selected, layers, heads = select(joined(attention) if by_words else attention, layer, head)
    titles = [f"layer {n}, {'mean of heads' if h == 'mean' else f'head {h}'}" for n in layers for h in heads]
    _draw(selected, titles, f"{TITLES[part]}: {line}", out, len(heads) if len(heads) > 1 else None)
    record = {
        "source": line, "translation": translation.text, "score": translation.score, "part": part,
        "layers": layers, "heads": heads, "rows": selected.rows, "columns": selected.columns,
        "weights": [[[[round(w, 6) for w in row] for row in m] for m in ms] for ms in selected.weights.tolist()],
    }  # fmt: skip
    write_text(out.with_name(f"{out.name}.json"), json.dumps(record, ensure_ascii=False) + "\n")


def _draw(selected: SubLayer, titles: Sequence[str], title: str, out: Path, across: int | None) -> None:
    """Draw a map for each title, so many side by side; if they are too large, delete those of an earlier line."""
    from nmt.report.figures.heatmaps import Panel, draw

    rows, columns = selected.rows, selected.columns
    if (pieces := max(len(rows), len(columns))) > LONGEST:
        say(f"{out}.json: its figure would have {pieces} rows or columns, more than {LONGEST}; give a single sentence")
        for ending in (".png", ".svg"):
            out.with_name(out.name + ending).unlink(missing_ok=True)
        return
    maps = zip(titles, selected.weights.flatten(0, 1).numpy(), strict=True)
    draw([Panel(name, weights, rows, columns) for name, weights in maps], title, out, across=across)


def write_each(
    translator: Translator, lines: Sequence[str], results: Sequence[Sequence[Translation]], folder: Path, first: int = 1
) -> None:
    """Draw the attention over the source for each line's best translation. Empty lines have no figure.

    Args:
        translator: the model.
        lines: raw source sentences.
        results: the translations of each line by this model, the best first.
        folder: where to write the files; their names are the numbers of the lines.
        first: number of the first line.

    Raises:
        ConfigError: the model has no attention.
    """
    from tqdm import tqdm

    pairs = zip(tqdm(lines, unit="figure", disable=None), results, strict=True)
    for number, (line, translations) in enumerate(pairs, first):
        if cleaned := translator.clean(line):
            write(translator, cleaned, translations[0], folder / str(number))
