"""Input and output of `nmt translate`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.cli.streams import read_source, run_prompt, write_output


def test_the_prompt_translates_each_line_until_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: Iterator[str] = iter(["one", "two"])

    def typed(prompt: str) -> str:
        assert prompt == "en> "
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    run_prompt(["en", "de"], lambda lines, number: f"{number} {lines[0].upper()}\n")
    assert capsys.readouterr().out == "de> 1 ONE\nde> 2 TWO\n\n"


def test_the_prompt_goes_on_after_a_line_that_is_not_utf8(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter([b"A\xff".decode(errors="surrogateescape"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, ""), "one"])

    def typed(_: str) -> str:
        line = next(lines, EOFError())
        if isinstance(line, Exception):
            raise line
        return line

    monkeypatch.setattr("builtins.input", typed)
    run_prompt(["en", "de"], lambda lines, _: f"{lines[0].upper()}\n")
    told = capsys.readouterr()
    assert (
        told.out == "de> ONE\n\n"
        and told.err.count("nmt: this line: expected UTF-8, got other bytes; set the terminal to UTF-8") == 2
    )


def test_files_need_no_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    write_output("a\nb\n", tmp_path / "a.txt")
    lines, late = read_source([tmp_path / "a.txt", tmp_path / "a.txt"])
    assert list(lines) == ["a", "b", "a", "b"] and not late()
