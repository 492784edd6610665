"""A vocabulary whose ids are not those of its sentencepiece model: Marian's, as Hugging Face stores it.

Text is split by the sentencepiece model of its side. A list of pieces, in the order of the ids, says which id each
piece has. Pieces that the list lacks are unknown. The list follows the sentencepiece model in the same file, as a field
that sentencepiece ignores (an extension of its protocol buffer).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.data import SpecialIds
from nmt.system.errors import ConfigError, DataError

MARK = b"nmt pieces in the order of their ids\n"
FIELD = 1000  # number of the field; those from 200 on are free for extensions


def append(model: bytes, pieces: Sequence[str], ids: SpecialIds) -> bytes:
    """Return a sentencepiece model followed by the pieces of a vocabulary in the order of their ids."""
    content = MARK + json.dumps({"ids": ids.model_dump(), "pieces": list(pieces)}, ensure_ascii=False).encode()
    return model + _varint(FIELD << 3 | 2) + _varint(len(content)) + content


def split(path: Path) -> tuple[bytes, list[str] | None, dict[str, int]]:
    """Return the sentencepiece model of a file, the appended pieces (None without any) and the special ids.

    Raises:
        DataError: the appended pieces are damaged.
    """
    model, mark, content = path.read_bytes().rpartition(MARK)
    if not mark:
        return content, None, {}
    try:
        appended = json.loads(content)
        pieces, ids = [str(piece) for piece in appended["pieces"]], SpecialIds(**appended["ids"])
        if max(ids.model_dump().values()) >= len(pieces) or len(set(pieces)) < len(pieces):
            raise ValueError("special ids without a piece, or a piece twice")
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(
            f"{path}: expected pieces after the sentencepiece model, got: {problem}; import it again"
        ) from None
    return model[: -len(_varint(FIELD << 3 | 2) + _varint(len(mark) + len(content)))], pieces, ids.model_dump()


def _varint(number: int) -> bytes:
    """Encode a number as protocol buffers do: seven bits a byte, the lowest first."""
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + _varint(rest) if rest else bytes([head])


class ForeignPieces:
    """Stands for a `sentencepiece.SentencePieceProcessor`, with the ids of a list of pieces.

    Args:
        processor: the processor that splits and joins text.
        pieces: the pieces in the order of their ids.
        ids: ids of the special pieces by name.
    """

    def __init__(self, processor: Any, pieces: Sequence[str], ids: Mapping[str, int]) -> None:
        self._processor, self._pieces, self._ids = processor, pieces, dict(ids)
        self._id_of = {piece: i for i, piece in enumerate(pieces)}
        self._silent = {self._ids[name] for name in ("pad", "bos", "eos")}
        self._special = {pieces[i] for i in self._ids.values()}

    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    def id_to_piece(self, i: int) -> str:
        """Return the piece of an id."""
        return self._pieces[i]

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece; that of the unknown piece if there is none."""
        return self._id_of.get(piece, self._ids["unk"])

    def get_score(self, i: int) -> float:
        """Return the score of a piece in the sentencepiece model, that of its unknown piece for one it lacks."""
        return float(self._processor.get_score(self._processor.piece_to_id(self._pieces[i])))

    def encode(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        """Convert texts to ids. The name of a language before a text, ``>>deu<<``, is one piece."""
        if options:
            raise ConfigError(
                "subwords.dropout: expected 0 for the pieces of an imported model, got more; leave it out"
            )
        codes, bodies = zip(*map(_code, texts), strict=True) if texts else ((), ())
        rows = self._processor.encode(list(bodies), out_type=str)
        return [[self._text_id(piece) for piece in (*code, *row)] for code, row in zip(codes, rows, strict=True)]

    def _text_id(self, piece: str) -> int:
        """Return the id of a piece of a text, which cannot be a special piece."""
        return self._ids["unk"] if piece in self._special else self.piece_to_id(piece)

    def decode(self, row: Sequence[int]) -> str:
        """Join pieces to a text, without the pad, BOS and EOS; an unknown piece becomes ``<unk>``."""
        unknown = self._ids["unk"]
        pieces = ["▁<unk>" if i == unknown else self._pieces[i] for i in row if i not in self._silent]
        return str(self._processor.decode_pieces(pieces))


def _code(text: str) -> tuple[list[str], str]:
    """Split off the name of a language before a text."""
    end = text.find("<<") + 2 if text.startswith(">>") and "<<" in text else 0
    return [text[:end]] if end else [], text[end:]
