"""Attention to look at: a sub-layer of a translation with its labels, joined to words if asked, as figure and JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig
from nmt.system.errors import ConfigError
from nmt.system.files import write_text
from nmt.text.subwords import START
from nmt.translation.translator import Attentions, Translation, Translator

Part = Literal["source", "encoder", "decoder"]
Choice = int | Literal["all", "mean"]
PARTS: tuple[Part, ...] = get_args(Part)
TITLES: dict[Part, str] = {
    "source": "Decoder over the source",
    "encoder": "Encoder over itself",
    "decoder": "Decoder over what it wrote",
}
PIECES = 6  # maps of pieces side by side
SPECIAL = {"<s>", "</s>", "<pad>"}


@dataclass(frozen=True)
class SubLayer:
    """The weights of one sub-layer and what their rows and columns are."""

    weights: Tensor  # (layers, heads, rows, columns)
    rows: list[str]  # pieces or words that look
    columns: list[str]  # those looked at


def sub_layer(found: Attentions, part: Part) -> SubLayer:
    """One sub-layer of a model's attentions, with its labels.

    Raises:
        ConfigError: the model has no such sub-layer.
    """
    if part not in found.weights:
        there = ", ".join(found.weights) or "none: it is without attention"
        raise ConfigError(f"--part: expected a sub-layer that this model has ({there}), got {part}")
    rows = found.source if part == "encoder" else found.target[1:]
    columns = found.target[:-1] if part == "decoder" else found.source
    return SubLayer(found.weights[part], rows, columns)


def joined(pieces: SubLayer) -> SubLayer:
    """The same by words: weights summed over the pieces of a word looked at, averaged over those of a word that looks.

    A row is a distribution over the columns, so looking at a word is looking at any of its pieces: a sum. A word that
    is written in several steps has as many distributions; their mean is one again, whatever the number of steps: a
    row's sum stays what it was.
    """
    rows, columns = words(pieces.rows), words(pieces.columns)
    members, sizes = _membership(rows)
    weights = (members / sizes[:, None]) @ pieces.weights @ _membership(columns)[0].T
    return SubLayer(weights, *(["".join(word).removeprefix(START) for word in side] for side in (rows, columns)))


def words(pieces: Sequence[str]) -> list[list[str]]:
    """Pieces grouped by word; BOS and EOS are words, and every piece is one where the vocabulary has whole words."""
    whole = all(piece.startswith(START) and piece != START for piece in pieces if piece not in {*SPECIAL, "<unk>"})
    found: list[list[str]] = []
    for before, piece in zip(["<s>", *pieces], pieces, strict=False):
        if whole or piece.startswith(START) or {before, piece} & SPECIAL:
            found.append([])
        found[-1].append(piece)
    return found


def _membership(groups: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """(groups, pieces), 1 where the piece is in the group; and the groups' sizes."""
    sizes = torch.tensor([len(group) for group in groups])
    return torch.eye(len(groups)).repeat_interleave(sizes, 1), sizes


def select(found: SubLayer, layer: Choice, head: Choice) -> tuple[SubLayer, list[int], list[int | str]]:
    """Some layers and heads of a sub-layer, and their numbers, from 1; the mean over heads is one head, ``mean``.

    Raises:
        ConfigError: there is no such layer or head.
    """
    weights = found.weights
    layers = _numbers("--layer", layer, weights.shape[0], " or all")
    weights = weights[[number - 1 for number in layers]]
    if head == "mean":
        return replace(found, weights=weights.mean(1, keepdim=True)), layers, ["mean"]
    heads = _numbers("--head", head, weights.shape[1], ", mean or all")
    return replace(found, weights=weights[:, [number - 1 for number in heads]]), layers, [*heads]


def _numbers(option: str, choice: Choice, count: int, words: str) -> list[int]:
    if choice == "all":
        return list(range(1, count + 1))
    if not isinstance(choice, int) or not 1 <= choice <= count:
        raise ConfigError(f"{option}: expected 1 to {count}{words}, got {choice}")
    return [choice]


def write_over(
    picture: Path, translator: Translator, line: str, decoding: Decoding, out: Path, layer: Choice, head: Choice
) -> Translation:
    """Translate a line with its picture, and draw where the decoder looked on it.

    Each head has a map, its weights on the regions summed over the pieces written; with the mean over heads, each piece
    written has one. Also writes the weights drawn, as ``.json``.

    Args:
        picture: a file.
        translator: a multimodal model.
        line: cleaned.
        decoding: how to search.
        out: path without an ending, of the ``.png``, ``.svg`` and ``.json``.
        layer: its number from 1, or all; with the mean over heads all is the last.
        head: its number from 1, all, or the mean over them.

    Raises:
        ConfigError: the model does not look at the regions of pictures, or has no such layer or head.
        DataError: the picture cannot be read.
    """
    from nmt.data.extract import of_picture
    from nmt.report.heatmaps import Overlay, draw_over, readable

    config = translator.model.config
    if not isinstance(config, MultimodalConfig) or config.fusion == "gated":
        raise ConfigError("--image: expected a multimodal model that looks at regions, got another; leave it out")
    square, features = of_picture(picture, config, translator.device)
    translation = translator.translate_clean([line], decoding, pictures=lambda _: features)[0][0]
    looked = translator.attentions(line, translation, features)
    by_piece = head == "mean" and layer == "all"
    found = SubLayer(looked.weights["image"], looked.target[1:], [])
    chosen, layers, heads = select(found, len(looked.weights["image"]) if by_piece else layer, head)
    if head == "mean":
        maps, titles, across = chosen.weights[-1, 0], readable(chosen.rows), PIECES  # (T, R)
    else:
        maps, across = chosen.weights.sum(2).flatten(0, 1), len(heads)  # (layers * heads, R)
        titles = [f"layer {n}, head {h}" for n in layers for h in heads]
    panels = [Overlay(title, weights) for title, weights in zip(titles, maps.numpy(), strict=True)]
    draw_over(square, panels, f"{line} → {translation.text}", out, across=min(len(panels), across))
    making = {
        "source": line, "translation": translation.text, "picture": str(picture), "layers": layers, "heads": heads,
        "titles": titles, "weights": [[round(weight, 6) for weight in row] for row in maps.tolist()],
    }  # fmt: skip
    write_text(out.with_name(f"{out.name}.json"), json.dumps(making, ensure_ascii=False) + "\n")
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
    """Draw where a model looked while it translated a line, and write the weights drawn.

    Args:
        translator: the model.
        line: cleaned.
        translation: of the line, by this model.
        out: path without an ending, of the ``.png``, ``.svg`` and ``.json``.
        part: which sub-layer.
        layer: its number from 1, or all.
        head: its number from 1, all, or the mean over them.
        by_words: join subwords.

    Raises:
        ConfigError: the model has no such sub-layer, layer or head.
    """
    from nmt.report.heatmaps import Panel, draw

    found = sub_layer(translator.attentions(line, translation), part)
    chosen, layers, heads = select(joined(found) if by_words else found, layer, head)
    titles = [f"layer {n}, {'mean of heads' if h == 'mean' else f'head {h}'}" for n in layers for h in heads]
    maps = chosen.weights.flatten(0, 1).numpy()
    panels = [Panel(title, weights, chosen.rows, chosen.columns) for title, weights in zip(titles, maps, strict=True)]
    draw(panels, f"{TITLES[part]}: {line}", out, across=len(heads) if len(heads) > 1 else None)
    making = {
        "source": line, "translation": translation.text, "score": translation.score, "part": part,
        "layers": layers, "heads": heads, "rows": chosen.rows, "columns": chosen.columns,
        "weights": [[[[round(w, 6) for w in row] for row in m] for m in ms] for ms in chosen.weights.tolist()],
    }  # fmt: skip
    write_text(out.with_name(f"{out.name}.json"), json.dumps(making, ensure_ascii=False) + "\n")


def write_each(
    translator: Translator, lines: Sequence[str], results: Sequence[Sequence[Translation]], folder: Path, first: int = 1
) -> None:
    """Draw the attention over the source of each line's best translation; skips empty lines.

    Args:
        translator: the model.
        lines: raw.
        results: translations of each line, by this model, the best first.
        folder: of the files, whose names are the numbers of the lines.
        first: number of the first line.

    Raises:
        ConfigError: the model has no attention.
    """
    from tqdm import tqdm

    pairs = zip(tqdm(lines, unit="figure", disable=None), results, strict=True)
    for number, (line, translations) in enumerate(pairs, first):
        if cleaned := translator.clean(line):
            write(translator, cleaned, translations[0], folder / str(number))
