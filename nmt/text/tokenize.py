"""Moses punctuation normalisation, tokenisation and detokenisation, by sacremoses (a port of the Perl)."""

import re
from functools import cache
from typing import Any

Rules = list[tuple[re.Pattern[str], str]]


def normalize_punctuation(text: str, language: str) -> str:
    """Normalise quotes, dashes and the spaces around punctuation, as normalize-punctuation.perl does."""
    every, ascii_only = _punctuation_rules(language)
    text += "\n"  # the Perl script sees it, and its rule on a full stop before a closing quote needs it
    for pattern, replacement in ascii_only if text.isascii() else every:
        text = pattern.sub(replacement, text)
    return text.strip()


def tokenize(text: str, language: str) -> str:
    """Split punctuation from words by spaces and escape ``& | < > ' " [ ]``, as tokenizer.perl does."""
    return " ".join(_tokenizer(language).tokenize(text))


def detokenize(text: str, language: str) -> str:
    """Undo `tokenize`, escapes included, as far as detokenizer.perl's rules can."""
    return str(_detokenizer(language).detokenize(text.split()))


# sacremoses is imported late: what only trains or decodes must run without it.


@cache
def _punctuation_rules(language: str) -> tuple[Rules, Rules]:
    """All rules in order; and those that can match ASCII text (the others each need some other character)."""
    from sacremoses import MosesPunctNormalizer

    # Single quotes between spaces: '"' in Perl, and sacremoses' perl_parity corrects only one of the three.
    single = {"‘": '"', "‚": '"'}
    substitutions = MosesPunctNormalizer(language, perl_parity=True).substitutions
    every = [(re.compile(pattern), single.get(pattern, replacement)) for pattern, replacement in substitutions]
    return every, [rule for rule in every if rule[0].pattern.isascii()]


@cache
def _tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    # The original builds a set of every letter there is for each abbreviation, forty times slower.
    letters, lower = frozenset(tokenizer.IsAlpha), frozenset(tokenizer.IsLower)
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    tokenizer.islower = lower.issuperset
    return tokenizer


@cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
