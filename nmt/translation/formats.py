"""Format translations and likelihoods as the commands write them: tab-separated lines, or JSON lines."""

import json
from collections.abc import Sequence

from nmt.system.files import Json
from nmt.text.subwords import Vocabulary
from nmt.translation.forced import Likelihood
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


def likelihood_line(likelihood: Likelihood | None, vocabulary: Vocabulary, words: bool = False) -> str:
    """Return one line: log-probability, perplexity and number of pieces, then each word, separated by tabs.

    Args:
        likelihood: of a pair; None for a translation that is too long, whose numbers are ``nan``.
        vocabulary: of the target language.
        words: whether to write each cleaned word with its log-probability.
    """
    if likelihood is None:
        return "nan\tnan\t0\n"
    cells = [f"{likelihood.log_probability:.6f}", f"{likelihood.perplexity:.6f}"]
    cells.append(str(len(likelihood.log_probabilities)))
    cells += [f"{word} {part:.6f}" for word, part in likelihood.words(vocabulary)] if words else []
    return "\t".join(cells) + "\n"


def likelihood_json(number: int, likelihood: Likelihood | None, vocabulary: Vocabulary, words: bool = False) -> str:
    """Return one line of JSON: ``{"line": …, "log_probability": …, "perplexity": …, "tokens": …}``.

    Args:
        number: of the pair, from 1.
        likelihood: of the pair; None for a translation that is too long, whose numbers are null.
        vocabulary: of the target language.
        words: whether to add ``words``, pairs of each cleaned word and its log-probability.
    """
    row: Json = {"line": number, "log_probability": None, "perplexity": None, "tokens": 0}
    if likelihood:
        row |= {"log_probability": likelihood.log_probability, "perplexity": likelihood.perplexity}
        row |= {"tokens": len(likelihood.log_probabilities)}
        row |= {"words": likelihood.words(vocabulary)} if words else {}
    return json.dumps(row, ensure_ascii=False) + "\n"
