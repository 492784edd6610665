"""Marked-up text: translation memories (TMX), files of translators (XLIFF), and test sets of WMT as XML and SGM.

Files are read piece by piece. One that declares entities is refused: a few lines of them can stand for billions of
characters, or for a file of this machine.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO
from xml.parsers import expat

from nmt.corpora.formats.tables import Row, one_line
from nmt.system.errors import DataError
from nmt.system.lines import LONGEST

BLOCK = 2**16
"""Bytes read at a time."""
UNFINISHED = 2**22
"""Most bytes of a mark, such as ``<tuv …>``; the parser holds it in memory."""
SHOWN = 20
"""Most languages of a file that a message lists."""
DEPTH = 100
"""Most elements inside each other."""
CODE = {"bpt", "ept", "ph", "it", "ut"}
"""Elements of a segment whose content is code of a layout, not text."""
UNTRANSLATED = {"new", "needs-translation", "initial"}
"""States of XLIFF in which a target is a copy of the source, or a proposal that nobody has looked at."""
UNSTATED = "und"
"""The language of a side of an XLIFF file that states none, as BCP 47 calls it."""
ESCAPED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_ESCAPE = re.compile("|".join(ESCAPED))
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


class _Segments:
    """Collects the text of the segments of a file; a subclass says what to do with each."""

    def __init__(self, name: str) -> None:
        self.name, self.path, self.inside = name, list[str](), ""
        self.text: list[str] | None = None
        self.code = self.size = 0
        self.rows = list[Row]()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler, self.parser.EntityDeclHandler = self._data, self._entity
        self.parser.SkippedEntityHandler = self._skipped

    def is_segment(self, tag: str) -> bool:
        """Return whether the innermost element is a segment."""
        return tag == "seg"

    def started(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Note an element that begins."""

    def ended(self, tag: str) -> None:
        """Note an element that ends."""

    def segment(self, text: str) -> None:
        """Note the text of a segment."""

    def read(self, stream: BinaryIO) -> Iterator[Row]:
        """Yield the rows; raises DataError if the file is no XML, declares entities or has huge segments."""
        fed = 0
        while block := stream.read(BLOCK):
            fed += len(block)
            self._parse(block)
            if fed - self.parser.CurrentByteIndex > UNFINISHED:
                raise self._error(f"a mark of more than {UNFINISHED:,} bytes")
            yield from self.rows
            self.rows.clear()
        self._parse(b"")
        yield from self.rows

    def _parse(self, block: bytes) -> None:
        """Parse a block; an empty one is the file's end."""
        try:
            self.parser.Parse(block, not block)
        except DataError:  # of a handler below
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:  # the last two are of encodings
            raise DataError(f"{self.name}: expected XML, got {error}; make it as UTF-8 or download it again") from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self.path.append(tag)
        if len(self.path) > DEPTH:
            raise self._error(f"more than {DEPTH} elements inside each other")
        if self.is_segment(tag):
            self.inside, self.text, self.code, self.size = tag, [], 0, 0
        elif tag in CODE:
            self.code += 1
        self.started(tag, attributes)

    def _end(self, _: str) -> None:
        tag = self.path.pop()
        if tag == self.inside and self.text is not None:
            self.segment(one_line("".join(self.text)).strip())
            self.text = None
        elif tag in CODE:
            self.code -= 1
        self.ended(tag)

    def _data(self, text: str) -> None:
        if self.text is not None and not self.code:
            self.text.append(text)
            self.size += len(text)
            if self.size > LONGEST:
                raise self._error(f"a segment of more than {LONGEST:,} characters")

    def _entity(self, *_: object) -> None:
        raise self._error("a file that declares entities, which can stand for any amount of text")

    def _skipped(self, entity: str, _: bool) -> None:
        raise self._error(f"&{entity};, which the file does not define")

    def _error(self, got: str) -> DataError:
        return DataError(
            f"{self.name}, line {self.parser.CurrentLineNumber}: expected segments of text, got {got}; check where "
            "the file comes from"
        )


class _Memory(_Segments):
    """Translation units of a TMX file."""

    units: tuple[str, ...] = ("tu",)
    uncounted = ""

    def __init__(self, name: str, languages: Sequence[str], codes: Mapping[str, str]) -> None:
        super().__init__(name)
        self.languages, self.matches = languages, _matcher(languages, codes)
        self.unit, self.language, self.skipped = dict[str, str](), "", 0
        self.complete, self.found = 0, dict[str, None]()

    def started(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "tu":
            self.unit = {}
        elif tag == "tuv":
            self.set_language(attributes.get("xml:lang") or attributes.get("lang") or "")

    def set_language(self, code: str) -> None:
        """Note the language of the next segment."""
        self.language = self.matches(code)
        if len(self.found) < SHOWN:
            self.found[code] = None

    def segment(self, text: str) -> None:
        self.unit.setdefault(self.language, text)

    def ended(self, tag: str) -> None:
        if tag in self.units:
            if all(language in self.unit for language in self.languages):
                self.rows.append(tuple(self.unit[language] for language in self.languages))
                self.complete += 1
            else:
                self.skipped += 1


class _Exchange(_Memory):
    """Units of an XLIFF 1 file, or segments of an XLIFF 2 file, that are translated; proposals are not read."""

    units = ("trans-unit", "segment")
    uncounted = "; a target that is empty or marked as new does not count"

    def __init__(self, name: str, languages: Sequence[str], codes: Mapping[str, str]) -> None:
        super().__init__(name, languages, codes)
        self.sides, self.state = {"source": UNSTATED, "target": UNSTATED}, ""
        self.of_version_2 = self.sides

    def is_segment(self, tag: str) -> bool:
        return tag in self.sides and len(self.path) > 1 and self.path[-2] in self.units

    def started(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "xliff":
            codes = attributes.get("srcLang", UNSTATED), attributes.get("trgLang", UNSTATED)
            self.of_version_2 = dict(zip(self.sides, codes, strict=True))
        elif tag == "file":
            self.sides = {side: attributes.get(f"{side}-language") or self.of_version_2[side] for side in self.sides}
        elif tag in self.units:
            self.unit, self.state = {}, attributes.get("state", "")
        elif self.is_segment(tag):
            self.set_language(attributes.get("xml:lang") or self.sides[tag])
            self.state = attributes.get("state", self.state)

    def segment(self, text: str) -> None:
        if self.inside == "source" or (text and self.state not in UNTRANSLATED):
            super().segment(text)


def read_memory(
    stream: BinaryIO,
    name: str,
    kind: str,
    languages: Sequence[str],
    codes: Mapping[str, str],
    skipped: Callable[[int], object] = lambda _: None,
) -> Iterator[Row]:
    """Yield the units of a translation memory that have all languages; of several variants, the first.

    Args:
        stream: the file.
        name: its name in messages.
        kind: ``tmx`` or ``xliff``, whose targets count if they are translated.
        languages: to read, in this order.
        codes: the file's own language codes. A code without a region matches any region: ``en`` is ``EN-us`` too.
        skipped: is called with the number of units that lack a language.

    Raises:
        DataError: the file is damaged or hostile, or no unit has all languages.
    """
    memory = (_Memory if kind == "tmx" else _Exchange)(name, languages, codes)
    yield from memory.read(stream)
    if memory.skipped and not memory.complete:
        raise DataError(
            f"{name}: expected translation units in {' and '.join(languages)}, got none with all of them"
            f"{memory.uncounted}; the file's languages are {', '.join(memory.found) or 'not stated'}: choose among "
            "them, or say codes: in the source's declaration"
        )
    if memory.skipped:
        skipped(memory.skipped)


class _TestSet(_Segments):
    """Documents of a test set in WMT's XML: the source's segments, and those of the first reference."""

    def __init__(self, name: str, languages: Sequence[str], codes: Mapping[str, str]) -> None:
        super().__init__(name)
        self.languages, self.matches = languages, _matcher(languages, codes)
        self.document, self.side, self.number = dict[str, dict[str, str]](), "", ""

    def started(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "doc":
            self.document = {}
        elif tag in ("src", "ref"):
            language = self.matches(attributes.get("lang", ""))
            self.side = "" if language in self.document else language
            self.document.setdefault(self.side, {})
        elif tag == "seg":
            self.number = attributes.get("id", "")

    def segment(self, text: str) -> None:
        side = self.document.setdefault(self.side, {})
        number = self.number or str(len(side) + 1)
        if self.side and number in side:
            raise self._error(f"two segments with the id {number!r} in one document")
        side[number] = text

    def ended(self, tag: str) -> None:
        if tag in ("src", "ref"):
            self.side = ""  # segments outside are translations of systems
        if tag != "doc":
            return
        sides = [self.document.get(language, {}) for language in self.languages]
        if any(side.keys() != sides[0].keys() for side in sides) or not sides[0]:
            counts = ", ".join(f"{len(side)} in {code}" for code, side in zip(self.languages, sides, strict=True))
            raise self._error(f"a document with other segments in each language: {counts}")
        self.rows += [tuple(side[number] for side in sides) for number in sides[0]]


def read_test_set(stream: BinaryIO, name: str, languages: Sequence[str], codes: Mapping[str, str]) -> Iterator[Row]:
    """Yield the segments of a test set in WMT's XML; of several references, the first.

    Segments with the same ``id`` belong together; one without an ``id`` has its place in the document as its id.

    Raises:
        DataError: the file is damaged or hostile, a document lacks segments in a language, or has an id twice.
    """
    return _TestSet(name, languages, codes).read(stream)


def sgm_segments(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the segments of WMT's SGM, which is no XML: other characters than ``&`` and ``<`` stand for themselves.

    Raises:
        DataError: a segment does not end.
    """
    begun = ""
    for line in lines:
        text = f"{begun} {line}" if begun else line
        found = list(_SEGMENT.finditer(text))
        yield from (_ESCAPE.sub(lambda mark: ESCAPED[mark[0]], match[1]).strip() for match in found)
        rest = text[found[-1].end() :] if found else text
        begun = rest if re.search(r"<seg\b", rest, re.IGNORECASE) else ""
        if len(begun) > LONGEST:
            break
    if begun:
        raise DataError(f"{name}: expected </seg> after each <seg>, got {begun[:60]}; make the file again")


def _matcher(languages: Sequence[str], codes: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function from a file's language code to ours; codes that are not asked for give an empty string."""
    wanted = {codes.get(language, language).lower().replace("_", "-"): language for language in languages}

    def match(code: str) -> str:
        code = code.lower().replace("_", "-")
        return wanted.get(code) or wanted.get(code.partition("-")[0], "")

    return match
