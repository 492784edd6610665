"""Text as bytes for byte-level BPE (Wang, Cho and Gu 2019): each byte of UTF-8 is one symbol that can be printed.

Sentencepiece learns from symbols as from any letters, so its pieces may begin and end within a character.
"""

from collections.abc import Iterable


def _symbol(byte: int) -> str:
    """ASCII that can be seen, and the space, stay; other bytes become Latin letters beyond Latin-1.

    So punctuation and digits are still told from letters, at which sentencepiece cuts words, and every byte of a
    longer character counts as a letter, which it may join with any other.
    """
    if 0x20 <= byte < 0x7F:
        return chr(byte)
    return chr(byte + 0x80) if byte >= 0x80 else chr(0x1A0 if byte == 0x7F else 0x180 + byte)


SYMBOLS = "".join(map(_symbol, range(256)))
"""The symbol of each byte."""

_TO_SYMBOL = dict(enumerate(SYMBOLS))
_TO_BYTE = {ord(symbol): byte for byte, symbol in _TO_SYMBOL.items()}


def to_symbols(text: str) -> str:
    """The bytes of a text as symbols."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1").translate(_TO_SYMBOL)


def to_bytes(symbols: str) -> bytes:
    """The bytes that symbols stand for."""
    return symbols.translate(_TO_BYTE).encode("latin-1")


def are_symbols(pieces: Iterable[str]) -> bool:
    """Whether pieces are made of the symbols of all 256 bytes, and of nothing else."""
    return {character for piece in pieces for character in piece} == set(SYMBOLS)


def recover(data: bytes) -> str:
    """The text with the most characters that bytes hold, valid UTF-8 or not, in linear time (section 3.1).

    The paper's dynamic programme: f(k) = max over t = 1..4 of f(k - t) + g(k - t + 1, k), where g is 1 for the bytes of
    one valid character and 0 for others. Bytes in no character are left out. Valid bytes give their text.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    most, last = [0], [""]  # for the first k bytes: f(k), and the character that ends there, if it counts
    for end in range(1, len(data) + 1):
        count, character = most[-1], ""
        for start in range(max(0, end - 4), end):
            found = _character(data[start:end])
            if found and most[start] + 1 > count:
                count, character = most[start] + 1, found
        most.append(count)
        last.append(character)
    return "".join(_back(last))[::-1]


def _back(last: list[str]) -> Iterable[str]:
    """The characters chosen, from the last to the first."""
    end = len(last) - 1
    while end:
        yield last[end]
        end -= len(last[end].encode()) or 1


def _character(data: bytes) -> str:
    """The one character that bytes are; nothing where they are none, or several."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""


def readable(symbols: str) -> str:
    r"""Symbols as a label: valid characters as such, other bytes as ``\xe0``."""
    return to_bytes(symbols).decode("utf-8", "backslashreplace")
