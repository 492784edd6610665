"""Input and output of `nmt translate`: files, standard streams, and a prompt."""

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from nmt.system.errors import ConfigError, printable
from nmt.text.languages import base


def check_streams(files: Sequence[Path], out: Path | None) -> bool:
    """Check that input and output can be used; returns whether lines come from a prompt. Raises ConfigError."""
    from nmt.system.files import check_not_input, check_writable

    if out:
        check_writable(out)
        check_not_input(out, files)
    if (sys.stdin is None and not files) or (sys.stdout is None and not out):
        raise ConfigError("expected standard input and output, got one that is closed; name FILES and --out")
    at_prompt = not files and sys.stdin.isatty()
    if at_prompt and out:
        raise ConfigError("--out: expected FILES or text on standard input to translate, got a terminal; name a file")
    return at_prompt


def check_endings(languages: Sequence[str], source: Path, target: Path) -> None:
    """Check that names of files that end with a language, like test.de, have the model's; raises ConfigError."""
    for path, expected in zip((source, target), languages, strict=True):
        ending = path.suffix.removeprefix(".")
        if re.fullmatch("[a-z]{2}", base(ending)) and base(ending) not in (base(expected), "gz", "xz"):
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
        except (EOFError, KeyboardInterrupt):
            return click.echo()
        click.echo(f"{target}> {printable(translate_lines([line], number))}", nl=False)


def read_source(files: Sequence[Path]) -> list[str]:
    """The lines of the files, or of standard input if there are none."""
    from nmt.system.lines import decode_lines, read_lines

    if files:
        return [line for path in files for line in read_lines(path)]
    return list(decode_lines(sys.stdin.buffer, "standard input"))


def write_output(text: str, out: Path | None) -> None:
    """Write text to a file, or to standard output."""
    from nmt.system.files import write_text

    if out:
        write_text(out, text)
    else:
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
