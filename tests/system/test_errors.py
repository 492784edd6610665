"""Errors that a user can fix, and text of somebody else in them."""

from pathlib import Path

import pytest

from nmt.system.errors import ConfigError, DataError, fitting, printable


@pytest.mark.parametrize("kind", [ConfigError, DataError])
def test_a_message_obeys_no_terminal(kind: type[Exception]) -> None:
    assert str(kind("a\x1b[2J\x9bb\u202ec\nd\te")) == "a\ufffd[2J\ufffdb\ufffdc\nd\te"


@pytest.mark.parametrize("text", ["Über", "مرحبا", "न\u200dम", "🙂", "a\u200cb", "\u00a0"])
def test_text_of_all_languages_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("error", [KeyError, TypeError, OverflowError, RecursionError, ValueError])
def test_errors_about_content_name_the_file(error: type[Exception]) -> None:
    expected = r"^folder: expected a thing, got one whose files do not fit \(.*\); do this$"
    with pytest.raises(DataError, match=expected), fitting(Path("folder"), "a thing", "do this"):
        raise error("why")


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), fitting(Path("folder"), "a thing", "do this"):
        raise ZeroDivisionError
    with pytest.raises(ConfigError, match="mine"), fitting(Path("folder"), "a thing", "do this"):
        raise ConfigError("mine")
