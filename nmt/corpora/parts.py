"""Parts of a split: the text of one source each, written to the files of the split one after another."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from nmt.corpora.overlap import HeldOut
from nmt.system.errors import DataError


class Part(Protocol):
    """The text of one source in a split."""

    @property
    def name(self) -> str:
        """The source's name in messages."""

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the sentences of each line, one per side; raises DataError if the source is faulty."""

    def describe(self, codes: Sequence[str]) -> dict[str, Any]:
        """Return ``url``, by language, and ``licence``, after the lines were read."""


def misaligned(lines: Mapping[Path, int]) -> DataError:
    """Return the error for files that must have the same number of lines, given each file's number."""
    counts = ", ".join(f"{path} has {count}" for path, count in lines.items())
    return DataError(
        f"misaligned files: expected as many lines in both, but {counts}; line n of one must translate line n of the "
        "other"
    )


def aligned(texts: Sequence[tuple[Path, Iterator[str]]]) -> Iterator[tuple[str, ...]]:
    """Yield line n of all texts together; raises DataError, with the number of lines by name, if one is longer."""
    for number, line in enumerate(zip_longest(*(lines for _, lines in texts))):
        if None in line:
            more = [
                (path, len([item, *lines])) for (path, lines), item in zip(texts, line, strict=True) if item is not None
            ]
            raise misaligned({path: number for path, _ in texts} | {path: number + count for path, count in more})
        yield line


def write_split(
    parts: Sequence[Part], split: str, languages: str, out: Path, limit: int | None, held_out: HeldOut | None = None
) -> list[dict[str, Any]]:
    """Write the sides of a split, without held-out sentences; return URL, licence and numbers of pairs of each part.

    The parts share a ``limit`` equally, and each gives its first lines. All lines are read and checked all the same.
    """
    codes = languages.split("-")
    sources, share = [], None if limit is None else max(1, limit // len(parts))
    with ExitStack() as opened:
        paths = [out / f"{split}.{code}" for code in codes]
        files = [opened.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for part in parts:
            read = dropped = written = 0
            for line in part.lines():
                read += 1
                if held_out and held_out.overlaps(line):
                    dropped += 1
                elif share is None or written < share:
                    for file, sentence in zip(files, line, strict=True):
                        file.write(sentence + "\n")
                    written += 1
            if not read:
                raise DataError(
                    f"{part.name}: expected {split} text, got no pair; the file is empty, or lines:, slice: or codes: "
                    "of the source leave nothing of it"
                )
            described = part.describe(codes)
            counts = {"pairs": read, "dropped": dropped} | ({"lines": written} if written < read - dropped else {})
            sources.append({"url": described.pop("url"), "licence": described.pop("licence")} | counts | described)
    return sources


def named_parts(corpus: str, sources: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return name and number of lines of each part of a split; none if no source has a name of its own.

    Args:
        corpus: name of the corpus, which sources without a name have.
        sources: what `write_split` returns.
    """
    if not any("name" in source for source in sources):
        return []
    return [
        (source.get("name", corpus), source.get("lines", source["pairs"] - source["dropped"])) for source in sources
    ]
