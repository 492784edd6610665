"""The share of lines in the right language, against py3langid used directly."""

import pytest

from nmt.scoring.score import score_lines
from nmt.system.errors import ConfigError

GERMAN = ["ein mann steht auf der straße .", "zwei hunde spielen im schnee .", "eine frau liest ein buch ."]
FRENCH = ["un homme est assis sur un banc .", "deux enfants jouent dans le jardin ."]


@pytest.mark.integration
def test_it_counts_the_lines_that_py3langid_takes_for_the_language() -> None:
    langid = pytest.importorskip("py3langid.langid")
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    lines = [*GERMAN, *FRENCH, ""]
    expected = [identifier.classify(line)[0] for line in lines[:5]]
    assert expected == ["de"] * 3 + ["fr"] * 2
    found = score_lines(lines, [*GERMAN, *GERMAN], "tokenised", also=["language"], language="de_CH")["language"]
    assert found["score"] == 50 and found["references"] == 100
    assert 0 <= found["low"] < 50 < found["high"] <= 100
    assert "language:de|py3langid:" in found["signature"]


def test_a_language_that_it_does_not_know_is_refused() -> None:
    pytest.importorskip("py3langid")
    with pytest.raises(ConfigError, match="metric language: py3langid does not know 'src'; leave the metric out"):
        score_lines(["a"], ["a"], "tokenised", also=["language"], language="src")
