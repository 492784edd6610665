"""Text as bytes for byte-level BPE (Wang, Cho and Gu 2019): each byte of the UTF-8 text is one printable symbol.

Sentencepiece treats the symbols as ordinary letters, so a piece may begin or end inside a character.
"""

from collections.abc import Iterable


def _symbol(byte: int) -> str:
    """Map a byte to its symbol: visible ASCII and the space stay, other bytes become Latin letters beyond Latin-1.

    Sentencepiece splits words between letters and punctuation or digits, so these must stay distinguishable.
    All bytes of a non-ASCII character count as letters, so sentencepiece may merge them with any other letter.
    """
    if 0x20 <= byte < 0x7F:
        return chr(byte)
    return chr(byte + 0x80) if byte >= 0x80 else chr(0x1A0 if byte == 0x7F else 0x180 + byte)


SYMBOLS = "".join(map(_symbol, range(256)))
"""Symbol of each byte: byte b has the symbol ``SYMBOLS[b]``."""

_TO_SYMBOL = dict(enumerate(SYMBOLS))
_TO_BYTE = {ord(symbol): byte for byte, symbol in _TO_SYMBOL.items()}


def to_symbols(text: str) -> str:
    """Convert a text to the symbols of its UTF-8 bytes."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1").translate(_TO_SYMBOL)


def to_bytes(symbols: str) -> bytes:
    """Convert symbols to the bytes that they stand for."""
    return symbols.translate(_TO_BYTE).encode("latin-1")


def are_symbols(pieces: Iterable[str]) -> bool:
    """Return whether pieces contain the symbols of all 256 bytes and no other character."""
    return {character for piece in pieces for character in piece} == set(SYMBOLS)


def recover(data: bytes) -> str:
    """Decode bytes to the text with the most characters, in linear time; the bytes need not be valid UTF-8.

    Valid UTF-8 is decoded as usual. Otherwise the dynamic programme of section 3.1 finds the text:
    f(k) = max over t = 1..4 of f(k - t) + g(k - t + 1, k), where g is 1 if these bytes are one valid character and
    0 otherwise. Bytes outside of all characters are dropped.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    most, last = [0], [""]  # for the first k bytes: f(k), and the chosen character that ends there, or ""
    for end in range(1, len(data) + 1):
        count, character = most[-1], ""
        for start in range(max(0, end - 4), end):
            candidate = _character(data[start:end])
            if candidate and most[start] + 1 > count:
                count, character = most[start] + 1, candidate
        most.append(count)
        last.append(character)
    return "".join(_backtrack(last))[::-1]


def _backtrack(last: list[str]) -> Iterable[str]:
    """Yield the chosen characters, last to first."""
    end = len(last) - 1
    while end:
        yield last[end]
        end -= len(last[end].encode()) or 1


def _character(data: bytes) -> str:
    """Decode the bytes of one character; return "" if they are not exactly one valid character."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""


def readable(symbols: str) -> str:
    r"""Convert symbols to a label: valid characters are decoded, other bytes are written as ``\xe0``."""
    return to_bytes(symbols).decode("utf-8", "backslashreplace")
