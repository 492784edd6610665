"""Moses punctuation normalisation, tokenisation and detokenisation with sacremoses, a port of the Perl scripts."""

import re
from functools import cache
from typing import Any

DOT = "\U0010fffd"
"""A private-use character, which cleaned text never has, for each of several dots in a row."""
_DOTS = re.compile(r"\.{2,}")
_CZECH_DASH = re.compile(r"([^\W\d_](?:'|&apos;)) ([-–]) (?=li(?!\S)|mail)", re.IGNORECASE)

Rules = list[tuple[re.Pattern[str], str]]


def normalize_punctuation(text: str, language: str) -> str:
    """Normalise quotes, dashes and the spaces around punctuation, as normalize-punctuation.perl does."""
    all_rules, ascii_rules = _punctuation_rules(language)
    text += "\n"  # as in the Perl script, whose rule for a full stop before a closing quote needs the line end
    for pattern, replacement in ascii_rules if text.isascii() else all_rules:
        text = pattern.sub(replacement, text)
    return text.strip()


def tokenize(text: str, language: str) -> str:
    """Separate punctuation from words by spaces and escape ``& | < > ' " [ ]``, as tokenizer.perl does."""
    return " ".join(_tokenizer(language).tokenize(text))


def detokenize(text: str, language: str) -> str:
    """Undo `tokenize`, including the escapes, as far as the rules of detokenizer.perl can."""
    if language == "cs":  # sacremoses has this rule, but it raises an error
        text = _CZECH_DASH.sub(r"\1\2", text)
    return str(_detokenizer(language).detokenize(text.split()))


# The functions below import sacremoses, because training and decoding must run without it.


@cache
def _punctuation_rules(language: str) -> tuple[Rules, Rules]:
    """Return all rules in order, and the rules that can match ASCII text."""
    from sacremoses import MosesPunctNormalizer

    # The Perl script turns these quotes into '"'; sacremoses' perl_parity corrects only one of three such rules.
    corrections = {"‘": '"', "‚": '"'}
    substitutions = MosesPunctNormalizer(language, perl_parity=True).substitutions
    rules = [(re.compile(pattern), corrections.get(pattern, replacement)) for pattern, replacement in substitutions]
    return rules, [rule for rule in rules if rule[0].pattern.isascii()]


@cache
def _tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    # sacremoses rebuilds a set of all letters for every abbreviation; this is 40 times as fast.
    letters, lower = frozenset(tokenizer.IsAlpha), frozenset(tokenizer.IsLower)
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    tokenizer.islower = lower.issuperset
    # sacremoses writes dots in a row as letters meanwhile, so a text with DOTMULTI would come back as dots.
    tokenizer.replace_multidots = lambda text: _DOTS.sub(lambda dots: f" {DOT * len(dots[0])} ", text)
    tokenizer.restore_multidots = lambda text: text.replace(DOT, ".")
    return tokenizer


@cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
