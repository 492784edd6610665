"""Moses punctuation normalisation, tokenisation and detokenisation with sacremoses, a port of the Perl scripts.

Moses was made for European languages. Here joiners and combining marks stay inside words, a symbol keeps the marks on
it, and the punctuation of other scripts comes back attached. Text of languages without spaces between words stays as
it is. `nmt.text.languages` says which language is which.
"""

import re
from functools import cache
from itertools import zip_longest
from typing import Any

from nmt.text.languages import LISTED, SCRIPTED, SPACELESS, UNSPACED

DOT = "\U0010fffd"
"""A private-use character, which cleaned text never has, for each of several dots in a row."""
_DOTS = re.compile(r"\.{2,}")
_CZECH_DASH = re.compile(r"([^\W\d_](?:'|&apos;)) ([-–]) (?=li(?!\S)|mail)", re.IGNORECASE)
_FINNISH = (
    "(?:n|a|ä|ss[aä]|st[aä]|h[uyaö]n|[uyaäö]n|s?een|ll[aä]|lt[aä]|lle|ksi|kse|tta|ine)(?:ni|si|mme|nne|nsa)?"
    "(?:ko|kö|han|hän|pa|pä|kaan|kään|kin)?"
)
"""The endings that detokenizer.perl joins to a Finnish abbreviation, but ``hän``, which is a word."""
_INNER = {
    "ca": (r"(?<=(?<!\S)[dlmnst]) ' (?=[^\W\d_])|(?<=[^\W\d_]) ' (?=(?:[lmnst]|hi|ho|ls|ns)[.]?(?!\S))", "'"),
    "ga": (r"(?<=(?<!\S)[bdm]) ' (?=[^\W\d_])", "'"),
    "fi": (rf"(?<=[^\W_]) : (?={_FINNISH}(?!\S))", ":"),
    "sv": (r"(?<=[^\W_]) : (?=[nst](?!\S))", ":"),
}
"""Marks inside a word that sacremoses takes apart: ``l'home``, ``dona'm``, ``b'fhéidir``, ``EU:ssa``, ``EU:s``."""

Rules = list[tuple[re.Pattern[str], str]]


_INSIDE = "\u200c\u200d\u055a-\u055c\u055e\u055f\u05be\u05f3\u05f4\u066b\u066c\u0970\u0f0b\u0f0c\u104c-\u104f\u1361"
"""Characters of words besides letters, marks and digits: joiners; Armenian, Hebrew and Tibetan marks; the decimal
separators of Arabic digits; the Devanagari sign of abbreviations; Burmese particles; the Ethiopic word space."""
_BETWEEN = "’–—/:&_+·@#=~°"
"""Characters that stay inside a word of a language in `SCRIPTED`, between two letters or digits. So do brackets and
quotation marks: a Korean particle follows what closes."""
_CLOSING = re.compile("[،؛؟۔٪।॥՝։׃።፣፤፥፦፧፨។៕៖៙៚၊།༎༑༔߸߹෴᠂᠃、。，．！？：；）」』】》〉〕％…]+")
"""Punctuation of other scripts that follows a word without a space."""
_OPENING = re.compile(r"[（「『【《〈〔]+")
_ASCII_CLOSING, _ASCII_OPENING = re.compile(r"[.,!?;:%)\]}]+"), re.compile(r"[(\[{¿¡]+")
_CURRENCY = re.compile(r"[$£€¥₩₪₹₺₽฿؋﷼]")
_QUOTES = {"“": "“", "”": "“", "„": "“", "«": "«", "»": "«", "‘": "‘", "’": "‘", "‹": "‹", "›": "‹", '"': '"', "'": "'"}
"""Quotation marks and their kind. The first of a kind opens, the next one closes: Urdu has ”these“."""
_APOSTROPHE, _QUOTE, _CURLY = "\U0010fff0", "\U0010fff1", "\U0010fff2"
"""Private-use letters for an apostrophe, a quotation mark and a typographic apostrophe inside a word."""
_CURLY_INSIDE = re.compile(r"(?<=[^\W\d_])’(?=[^\W\d_])")
_APART = "\u3005\u303b\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters and Korean syllables; Moses takes them apart in text of other languages."""
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
_WIDE_SPACE = re.compile(f"(?<=[{_WIDE}“”‘’…—·]) (?=[{_WIDE}])|(?<=[{_WIDE}]) (?=[“”‘’…—·,.!?;:)])")
"""A space that Chinese and Japanese are not written with."""


def normalize_punctuation(text: str, language: str) -> str:
    """Normalise quotes, dashes and the spaces around punctuation, as normalize-punctuation.perl does.

    The punctuation of languages in `SPACELESS` and `SCRIPTED` is no variant of Latin marks, so their text stays. Moses
    takes ``’`` for an apostrophe between letters from a to z only. In languages that it does not know it is one between
    any letters.
    """
    if language in SPACELESS | SCRIPTED:
        return text
    if language not in LISTED:
        text = _CURLY_INSIDE.sub("'", text)
    all_rules, ascii_rules = _punctuation_rules(language)
    text += "\n"  # as in the Perl script, whose rule for a full stop before a closing quote needs the line end
    for pattern, replacement in ascii_rules if text.isascii() else all_rules:
        text = pattern.sub(replacement, text)
    return text.strip()


def tokenize(text: str, language: str) -> str:
    """Separate punctuation from words by spaces and escape ``& | < > ' " [ ]``, as tokenizer.perl does."""
    if language in SPACELESS:
        return text
    for mark, letter in _marks_inside_words(language):
        text = mark.sub(letter, text)
    tokens = " ".join(_tokenizer(language).tokenize(text))
    return tokens.replace(_APOSTROPHE, "'").replace(_QUOTE, '"').replace(_CURLY, "’")


def detokenize(text: str, language: str) -> str:
    """Undo `tokenize`, including the escapes, as far as the rules of detokenizer.perl can."""
    if language in SPACELESS:
        return _WIDE_SPACE.sub("", text) if language in UNSPACED else text
    if language in SCRIPTED | {"hi"}:
        return _joined(_detokenizer(language).unescape_xml(text.replace(" @-@ ", "-")).split())
    if language == "cs":  # sacremoses has this rule, but it raises an error
        text = _CZECH_DASH.sub(r"\1\2", text)
    if language in _INNER:
        pattern, mark = _INNER[language]
        text = re.sub(pattern.replace("'", "(?:'|&apos;)"), mark, text, flags=re.IGNORECASE)
    return str(_detokenizer(language).detokenize(_attached(text.split())))


def _joined(tokens: list[str]) -> str:
    """Join tokens as languages with a script of their own write them: Moses' rules attach Latin marks alone."""
    text, opened, unclosed = "", True, set[str]()
    for token, following in zip_longest(tokens, tokens[1:], fillvalue=""):
        closes = bool(_CLOSING.fullmatch(token) or _ASCII_CLOSING.fullmatch(token))
        opens = bool(_OPENING.fullmatch(token) or _ASCII_OPENING.fullmatch(token))
        if kind := _QUOTES.get(token):
            closes = kind in unclosed or token == "’"
            opens = not closes
            unclosed ^= {kind} if opens or kind in unclosed else set()
        text += token if opened or closes else f" {token}"
        opened = opens or bool(_CURRENCY.fullmatch(token) and following[:1].isdigit())
    return text


def _attached(tokens: list[str]) -> list[str]:
    """Attach punctuation of other scripts, which Moses does not know, to the words that it belongs to."""
    attached, opened = list[str](), False
    for token in tokens:
        if attached and (opened or _CLOSING.fullmatch(token)):
            attached[-1] += token
        else:
            attached.append(token)
        opened = bool(_OPENING.fullmatch(token))
    return attached


@cache
def _marks_inside_words(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of marks that Moses would take out of a word, and the letters that stand for them meanwhile.

    Moses' rules for apostrophes are for the languages that it knows. Hebrew abbreviations have a quotation mark.
    """
    marks = []
    if language in SCRIPTED or language not in LISTED:
        marks += [(re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])"), _APOSTROPHE), (_CURLY_INSIDE, _CURLY)]
    if language in ("he", "yi"):
        marks.append((re.compile('(?<=[א-ת])"(?=[א-ת])'), _QUOTE))
    return marks


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
    tokenizer.PAD_NOT_ISALNUM = _outside_words(language), r" \1 "
    return tokenizer


def _outside_words(language: str) -> Any:
    """Return the pattern of a symbol or punctuation mark, with the combining marks and joined symbols after it.

    The letters are those of Unicode; sacremoses has a list of an early version, without most combining marks.
    """
    import regex

    other = rf"[^\p{{L}}\p{{M}}\p{{Nd}}\p{{Nl}}\p{{Alphabetic}}{_INSIDE}{_APOSTROPHE}{_QUOTE}{_CURLY}\s.'`,\-]"
    if language != "ko":
        other = rf"(?:{other}|[{_APART}])"
    word = r"[\p{L}\p{M}\p{N}]"
    inside = rf"(?!(?<={word})[{_BETWEEN}(](?={word})|(?<=\S)[)\]”’»](?={word}))" if language in SCRIPTED else ""
    inside += r"(?!(?<=\p{L})·(?=\p{L}))" if language == "ca" else ""
    return regex.compile(rf"{inside}(\p{{Regional_Indicator}}{{2}}|{other}(?:\p{{M}}|\p{{Emoji_Modifier}}|\u200d\S)*)")


@cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
