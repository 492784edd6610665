"""Input and output of `nmt translate`: files, standard streams, and a prompt."""

import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from nmt.system.errors import ConfigError, printable
from nmt.text.languages import base


def check_streams(model: Path, files: Sequence[Path], out: Path | None) -> bool:
    """Check that input and output can be used; returns whether lines come from a prompt. Raises ConfigError."""
    from nmt.system.files import check_not_input, check_writable

    if out:
        check_writable(out)
        check_not_input(out, [model, *files])
    if (sys.stdin is None and not files) or (sys.stdout is None and not out):
        raise ConfigError("expected standard input and output, got one that is closed; name FILES and --out")
    for file in files:
        if str(file) != "-" and not file.exists():
            raise ConfigError(
                f"{file}: no such file; check the path, or for text: echo {shlex.quote(str(file))} | nmt translate "
                f"{shlex.quote(str(model))}"
            )
    at_prompt = not files and sys.stdin.isatty()
    if at_prompt and out:
        raise ConfigError("--out: expected FILES or text on standard input to translate, got a terminal; name a file")
    return at_prompt


def check_endings(languages: Sequence[str], source: Path, target: Path) -> None:
    """Check that names of files that end with a language, like test.de, have the model's; raises ConfigError."""
    from nmt.corpora.formats.packed import bare_suffix

    for path, expected in zip((source, target), languages, strict=True):
        ending = bare_suffix(path.name).removeprefix(".")
        if re.fullmatch("[a-z]{2}", base(ending)) and base(ending) != base(expected):
            raise ConfigError(
                f"{path}: expected text in '{expected}', as the model translates {'-'.join(languages)}, got a name "
                f"that ends with '{ending}'; choose another model, or rename the file"
            )


def run_prompt(languages: Sequence[str], translate_lines: Callable[[list[str], int], str]) -> None:
    """Translate each line that is typed, until the end of the input."""
    source, target = languages
    for number in itertools.count(1):
        try:
            line = input(f"{source}> ")
            line.encode()  # raises for a byte that Python has kept as a surrogate
        except (EOFError, KeyboardInterrupt):
            return click.echo()
        except UnicodeError:
            click.echo(
                "nmt: this line: expected UTF-8, got other bytes; set the terminal to UTF-8, or translate a file",
                err=True,
            )
            continue
        click.echo(f"{target}> {printable(translate_lines([line], number))}", nl=False)


def read_source(files: Sequence[Path]) -> tuple[Iterator[str], Callable[[], bool]]:
    """Return the lines of the files, or of standard input, and whether the next line is late; raises DataError."""
    from nmt.system.lines import decode_lines, read_lines
    from nmt.translation.stream import Pipe

    if not files:
        pipe = Pipe(sys.stdin.buffer)
        return decode_lines(cast(BinaryIO, pipe), "standard input"), pipe.waits
    for path in files:
        if path.is_dir() or not path.exists():
            next(read_lines(path))  # raises
    return (line for path in files for line in read_lines(path)), lambda: False


def write_translations(
    files: Sequence[Path], out: Path | None, settings: Sequence[Any], translate: Callable[[list[str], int], str]
) -> None:
    """Translate the lines of files or standard input, and write each chunk as soon as it is done.

    Args:
        files: the files; none: standard input.
        out: the file to write, which an interrupted run leaves to be continued; None: standard output.
        settings: everything besides the text that the translations depend on.
        translate: turns lines, and the number of the first one from 1, into what is written.
    """
    from tqdm import tqdm

    from nmt.system.locks import exclusive
    from nmt.translation.stream import Resumable, chunks

    source, waits = read_source(files)
    hidden = True if sys.stdout and sys.stdout.isatty() and not out else None  # None: shown on a terminal
    with tqdm(unit="line", disable=hidden, total=_lines_of(files)) as bar:

        def translate_chunk(lines: list[str], first: int) -> str:
            text = translate(lines, first)
            bar.update(first - 1 + len(lines) - bar.n)
            return text

        if out:
            with exclusive(out.parent / f".{out.name}.lock", out, keep=False):
                return Resumable(out, settings).translate(source, translate_chunk, waits)
        first = 1
        for lines in chunks(source, waits):
            write_output(translate_chunk(lines, first), None)
            first += len(lines)


def _lines_of(files: Sequence[Path]) -> int | None:
    """Count the lines of files, for the remaining time on a terminal; None if it is not known."""
    from nmt.system.lines import count_lines

    if not files or not sys.stderr.isatty() or not all(path.is_file() for path in files):
        return None
    return sum(map(count_lines, files))


def write_output(text: str, out: Path | None) -> None:
    """Write text to a file, or to standard output."""
    from nmt.system.files import write_text

    if out:
        write_text(out, text)
    else:
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
