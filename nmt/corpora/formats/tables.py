"""Tables with a column for each language: TSV, CSV, JSON lines and parquet."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from nmt.corpora.formats.packed import is_archive, is_packed, opened, unpacking
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_regular
from nmt.system.lines import LONGEST, decode_lines
from nmt.system.warnings import warn

Row = tuple[str, ...]
"""The sentence of each language that is read, without line ends."""
FIELD = "translation"
"""The key or column with a sentence for each language's code, as in the data sets of Hugging Face."""
BATCH = 1024
"""Rows of parquet in memory at a time."""
WITH_COLUMNS = ("tsv", "csv")
"""Formats whose columns a declaration names."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may stand between the cells of CSV; the first line has the file's own most often."""


def head(path: Path, member: str | None, kind: str) -> list[str]:
    """Return the cells of the first line of a table, or the keys of its first record; of other formats, nothing."""
    if kind == "parquet":
        with _parquet(path) as file:
            names: list[str] = file.schema_arrow.names
        return [] if FIELD in names else names
    if kind not in (*WITH_COLUMNS, "jsonl"):
        return []
    with opened(path, member) as stream:
        if kind == "csv":
            return next(_csv_rows(stream, str(path)), (1, list[str]()))[1]
        line = stream.readline(LONGEST).decode("utf-8-sig", "replace").rstrip("\r\n")
    if kind == "tsv":
        return line.split("\t")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [*(record[FIELD] if isinstance(record.get(FIELD), dict) else record)] if isinstance(record, dict) else []


def read_columns(
    stream: BinaryIO, name: str, kind: str, languages: Sequence[str], columns: Sequence[str] | Mapping[str, str]
) -> Iterator[Row]:
    """Yield the rows of TSV, where nothing but tabs and line ends is special, or of CSV.

    Args:
        stream: the text.
        name: its name in messages.
        kind: ``tsv`` or ``csv``.
        languages: to read, in this order.
        columns: the language of each column; or the name of each language's column in the head line.

    Raises:
        DataError: a row has another number of columns, or the head line lacks a name.
    """
    rows = _csv_rows(stream, name) if kind == "csv" else _tsv_rows(stream, name)
    if isinstance(columns, Mapping):
        head = next(rows, (1, []))[1]
        if missing := [columns[code] for code in languages if columns[code] not in head]:
            raise DataError(
                f"{name}, line 1: expected a column named '{missing[0]}', got {', '.join(head) or 'no line'}; "
                "fix columns: in the source's declaration"
            )
        width, chosen = len(head), [head.index(columns[code]) for code in languages]
    else:
        width, chosen = len(columns), [list(columns).index(code) for code in languages]
    for number, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{name}, line {number}: expected {width} columns, got {len(cells)}; fix the line, or "
                "columns: in the source's declaration"
            )
        yield tuple(cells[column] for column in chosen)


def _tsv_rows(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    quoted = 0
    for number, line in enumerate(decode_lines(stream, name), 1):
        cells = line.split("\t")
        quoted += '""' in line and any(map(_is_quoted, cells))
        yield number, cells
    if quoted:
        warn(
            "quoted cells", name, quoted, f"{quoted:,} lines have cells in quotation marks as in CSV, which are kept",
            "format: csv in the source's declaration takes them off",
        )  # fmt: skip


def _is_quoted(cell: str) -> bool:
    """Whether a program has put a cell in quotation marks, and doubled those inside."""
    inner = cell[1:-1]
    return len(cell) > 3 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', "")


def _csv_rows(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line of each row, and its cells; line ends within a cell become spaces."""
    lines = decode_lines(stream, name)
    first = next(lines, "")
    csv.field_size_limit(LONGEST)
    separator = max(SEPARATORS, key=first.count)
    rows = csv.reader((f"{line}\n" for line in chain([first], lines)), delimiter=separator, strict=True)
    try:
        for cells in filter(None, rows):  # without empty lines
            yield rows.line_num, list(map(one_line, cells))
    except csv.Error as error:
        tabs = ", or end its name in .tsv, where quotation marks are text" if separator == "\t" else ""
        raise DataError(
            f"{name}, line {rows.line_num}: expected CSV with {SEPARATORS[separator]} between cells, got {error}; fix "
            f"the line{tabs}"
        ) from None


def read_jsonl(stream: BinaryIO, name: str, languages: Sequence[str], keys: Mapping[str, str]) -> Iterator[Row]:
    """Yield the sentences of JSON lines, under ``translation`` or at the top.

    Args:
        stream: the text.
        name: its name in messages.
        languages: to read, in this order.
        keys: the key of each language.

    Raises:
        DataError: a line is no JSON object, or lacks a language.
    """
    for number, line in enumerate(decode_lines(stream, name), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name}, line {number}: expected a JSON object, got {error}; fix the line") from None
        nested = isinstance(record, dict) and isinstance(record.get(FIELD), dict)
        found = record[FIELD] if nested else record
        if not isinstance(found, dict) or any(not isinstance(found.get(keys[code]), str) for code in languages):
            raise DataError(
                f"{name}, line {number}: expected text under {' and '.join(keys[code] for code in languages)}, at the "
                f"top or in {FIELD}, got {line[:100]}; fix the line, or columns: in the source's declaration"
            )
        row = tuple(one_line(found[keys[code]]) for code in languages)
        try:
            "".join(row).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{name}, line {number}: expected text, got half of a character, "
                f"{error.object[error.start]!r}; fix the line, or delete it"
            ) from None
        yield row


def read_parquet(path: Path, languages: Sequence[str], keys: Mapping[str, str]) -> Iterator[Row]:
    """Yield the sentences of a parquet file, from a column ``translation`` or a column for each language.

    Args:
        path: the file.
        languages: to read, in this order.
        keys: the column of each language, or its key in ``translation``.

    Raises:
        ConfigError: the package pyarrow is missing.
        DataError: the file is damaged, or lacks a language.
    """
    wanted = [keys[code] for code in languages]
    with _parquet(path) as file:
        names = file.schema_arrow.names
        nested = FIELD in names and file.schema_arrow.field(FIELD).type.num_fields > 0
        if not nested and (missing := [key for key in wanted if key not in names]):
            raise DataError(
                f"{path}: expected a column {FIELD} or {missing[0]}, got {', '.join(names)}; fix columns: in the "
                "source's declaration"
            )
        for batch in file.iter_batches(BATCH, columns=[FIELD] if nested else wanted):
            for record in batch.to_pylist():
                yield _cells(record[FIELD] if nested else record, wanted, path)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import lib, parquet
    except ImportError:
        raise ConfigError(
            f"{path}: expected the package pyarrow, which reads parquet, got none; python3 envs/install.py run sources"
        ) from None
    if is_packed(path) or is_archive(path):
        raise ConfigError(f"{path}: expected parquet that is not packed, got a packed file; unpack it, and name that")
    check_regular(path)
    try:
        with unpacking(path, "parquet"), parquet.ParquetFile(path) as file:
            yield file
    except lib.ArrowException as error:
        raise DataError(f"{path}: expected parquet, got a damaged file ({error}); make it or download it again") from (
            None
        )


def _cells(record: Any, keys: Sequence[str], path: Path) -> Row:
    cells = [record.get(key) if isinstance(record, dict) else None for key in keys]
    for key, cell in zip(keys, cells, strict=True):
        if not isinstance(cell, str) or len(cell) > LONGEST:
            got = f"{len(cell):,} characters" if isinstance(cell, str) else f"{str(record)[:100]}"
            raise DataError(f"{path}: expected one sentence under {key} in each row, got {got}; fix the file")
    return tuple(one_line(cell) for cell in cells if cell is not None)


def one_line(text: str) -> str:
    """Return a sentence of a format that allows line ends inside, with spaces in their place."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
