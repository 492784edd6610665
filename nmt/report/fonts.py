"""Installed fonts for the scripts that matplotlib's own font does not have."""

import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

BASE = "DejaVu Sans"  # comes with matplotlib
CJK = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}


def families(text: str) -> list[str]:
    """Font families that together have the characters of a text, for ``font.family``; matplotlib's own comes first.

    As few as cover it, chosen greedily among the installed ones. Warns, once a call, of characters that none has.
    """
    missing = {ord(c) for c in text if not c.isspace()} - _characters(font_manager.findfont(BASE))
    chosen = [BASE]
    while missing:
        family, path = max(_installed(), key=lambda font: len(missing & _characters(font[1])))
        if not (found := missing & _characters(path)):
            warnings.warn(_no_font(missing), stacklevel=3)
            break
        chosen.append(family)
        missing -= found
    return chosen


@cache
def _characters(path: str) -> frozenset[int]:
    """Code points that a font file draws."""
    return frozenset(FT2Font(path).get_charmap())


@cache
def _installed() -> list[tuple[str, str]]:
    """Families and files of the installed fonts, upright and of normal weight, without the font that draws boxes."""
    regular = (f for f in font_manager.fontManager.ttflist if f.style == "normal" and f.weight == 400)
    return sorted({(f.name, f.fname) for f in regular if not f.name.startswith("Last Resort")})


def _no_font(missing: Iterable[int]) -> str:
    characters = "".join(map(chr, sorted(missing)))
    scripts = sorted({unicodedata.name(c, "unnamed").split()[0] for c in characters})
    wanted = {"fonts-noto-cjk" if script in CJK else "fonts-noto-core" for script in scripts}
    return (
        f"no installed font has {characters[:20]} ({', '.join(scripts[:5])}), drawn as boxes; "
        f"install one and draw again, e.g. apt install {' '.join(sorted(wanted))}"
    )
