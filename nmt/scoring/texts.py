"""Texts as they are scored: in Unicode's form NFC, so that equal characters are equal."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nmt.corpora.parts import misaligned
from nmt.system.errors import DataError
from nmt.system.lines import read_lines
from nmt.system.warnings import warn
from nmt.text.characters import SPACELESS_LETTER, is_blank
from nmt.text.cleaner import small_i
from nmt.text.languages import UNSPACED, base
from nmt.text.tokenize import detokenize


def composed(lines: Iterable[str]) -> list[str]:
    """Return lines in NFC, where a letter and its accent are one character."""
    return [unicodedata.normalize("NFC", line) for line in lines]


def read_composed(path: Path) -> list[str]:
    """Return the lines of a file in NFC, with a warning if that changes any; raises DataError as `read_lines` does.

    A line that shows nothing, such as a lone joiner, is empty.
    """
    lines = ["" if is_blank(line) else line for line in read_lines(path)]
    result = composed(lines)
    if changed := sum(line != before for line, before in zip(result, lines, strict=True)):
        warn(
            "text not in NFC", path, changed,
            f"{changed:,} of {len(lines):,} lines are not in Unicode's form NFC and are scored in NFC",
            "nothing for these scores; to compare the file itself with others, convert it first, e.g. uconv -x any-nfc",
        )  # fmt: skip
    return result


def as_written(lines: Iterable[str], language: str) -> list[str]:
    """Return lines without the spaces of a segmentation, in Chinese and Japanese; other lines as they are."""
    return [detokenize(line, base(language)) for line in lines] if base(language) in UNSPACED else list(lines)


def without_case(lines: Iterable[str], language: str) -> list[str]:
    """Return lines whose case metrics ignore: they know no Turkish or Azerbaijani I, so it is lowercased here."""
    return [small_i(line, base(language)) for line in lines]


def warn_of_compatibility(path: Path, lines: Sequence[str]) -> None:
    """Warn of references with characters that NFKC replaces, for a model whose text is in NFKC."""
    if changed := sum(unicodedata.normalize("NFKC", line) != line for line in lines):
        warn(
            "references not in NFKC", path, changed,
            f"{changed:,} of {len(lines):,} references have characters that cleaning by unicode: NFKC replaces, so "
            "that no translation has them", "compare tokenised scores, or train with cleaning: {unicode: NFC}",
        )  # fmt: skip


def warn_of_missing_spaces(path: Path, references: Sequence[str]) -> None:
    """Warn of references without spaces between words, whose BLEU would be of whole sentences."""
    text = "".join(references)
    if 2 * len(SPACELESS_LETTER.findall(text)) > len(text):
        warn(
            "text without spaces", path, len(references),
            "most of the text has no spaces between words, so BLEU by 13a compares whole sentences",
            "give --languages, e.g. en-zh, which chooses the tokeniser, or --tokenize char",
        )  # fmt: skip


def warn_of_empty(path: Path, references: Sequence[str]) -> None:
    """Warn of empty references, if there are any."""
    if count := references.count(""):
        warn(
            "empty references", path, count,
            f"{count:,} of {len(references):,} references are empty: all words of their translations are errors, "
            "but chrF skips them",
            "leave such lines out of the test set, or complete them",
        )  # fmt: skip


def warn_of_tabs(path: Path, lines: Sequence[str]) -> None:
    """Warn of a file with tabs in most of its lines, which may be a table of several columns."""
    if 2 * (count := sum("\t" in line for line in lines)) > len(lines):
        warn(
            "lines with tabs", path, count,
            f"{count:,} of {len(lines):,} lines have tabs, and are taken whole, with all columns",
            "if the file is a table, give a file of the one column, e.g. cut -f 2 FILE > NEW",
        )  # fmt: skip


def read_aligned(hypotheses: Path, others: Mapping[str, Path]) -> tuple[list[str], dict[str, list[str]]]:
    """Read hypotheses and the texts that belong to them, by name; all but sources in NFC. Warn of tables.

    Raises:
        DataError: a file is missing or not UTF-8, the hypotheses are empty, or the numbers of lines differ.
    """
    lines = read_composed(hypotheses)
    texts = {
        name: list(read_lines(path)) if name.startswith("source") else read_composed(path)
        for name, path in others.items()
    }
    for name, path in others.items():
        if len(texts[name]) != len(lines):
            raise misaligned({hypotheses: len(lines), path: len(texts[name])})
    if not lines:
        raise DataError(f"{hypotheses}: expected sentences, got an empty file; check the test set")
    for path, text in zip([hypotheses, *others.values()], [lines, *texts.values()], strict=True):
        warn_of_tabs(path, text)
    return lines, texts
