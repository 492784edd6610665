"""Find installed fonts for scripts that matplotlib's own font lacks."""

import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

BASE = "DejaVu Sans"  # matplotlib contains it
CJK = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}


def families(text: str) -> list[str]:
    """Choose font families that together cover a text, for matplotlib's ``font.family``.

    matplotlib's own font comes first. Installed fonts are then added greedily. One warning per call names the
    characters that no font covers.
    """
    missing = {ord(c) for c in text if not c.isspace()} - _characters(font_manager.findfont(BASE))
    chosen = [BASE]
    while missing:
        family, path = max(_installed(), key=lambda font: len(missing & _characters(font[1])))
        if not (covered := missing & _characters(path)):
            warnings.warn(_no_font(missing), stacklevel=3)
            break
        chosen.append(family)
        missing -= covered
    return chosen


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points of a font file."""
    return frozenset(FT2Font(path).get_charmap())


@cache
def _installed() -> list[tuple[str, str]]:
    """Family and file of each installed regular font; fonts of last resort draw only boxes and are left out."""
    regular = (f for f in font_manager.fontManager.ttflist if f.style == "normal" and f.weight == 400)
    return sorted({(f.name, f.fname) for f in regular if not f.name.startswith("Last Resort")})


def _no_font(missing: Iterable[int]) -> str:
    """The warning that names the missing characters and the packages with fonts for them."""
    characters = "".join(map(chr, sorted(missing)))
    scripts = sorted({unicodedata.name(c, "unnamed").split()[0] for c in characters})
    packages = {"fonts-noto-cjk" if script in CJK else "fonts-noto-core" for script in scripts}
    return (
        f"no installed font has {characters[:20]} ({', '.join(scripts[:5])}), so they are drawn as boxes; "
        f"install a font and draw again, e.g. apt install {' '.join(sorted(packages))}"
    )
