"""Format translations as `nmt translate` writes them: tab-separated lines, or JSON lines."""

import json
from collections.abc import Sequence

from nmt.text.subwords import Vocabulary
from nmt.translation.translator import Translation


def tab_separated(translations: Sequence[Translation], number: int | None = None, scores: bool = False) -> str:
    """Return one line per translation of a sentence: number, score and text, separated by tabs.

    Args:
        translations: the translations of one sentence, the best first.
        number: of the sentence; None to omit it.
        scores: whether to write the score.
    """
    start = "" if number is None else f"{number}\t"
    return "".join(f"{start}{f'{best.score:.6f}{chr(9)}' if scores else ''}{best.text}\n" for best in translations)


def json_line(source: str, translations: Sequence[Translation], vocabulary: Vocabulary) -> str:
    """Return one line of JSON: ``{"source": …, "translations": [{"text": …, "score": …, "tokens": […]}, …]}``.

    Args:
        source: the raw source sentence.
        translations: the translations of the sentence, the best first.
        vocabulary: of the target language.
    """
    rows = [
        {"text": best.text, "score": round(best.score, 6), "tokens": vocabulary.labels(best.ids)}
        for best in translations
    ]
    return json.dumps({"source": source, "translations": rows}, ensure_ascii=False) + "\n"
