"""Subword and word vocabularies with sentencepiece: learn, load, encode, decode."""

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sentencepiece
from pydantic import ValidationError

from nmt.config.data import SpecialIds, Subwords
from nmt.config.problems.words import in_words
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import atomic_directory, check_regular, read_json, sha256, write_json, write_text
from nmt.system.lines import LONGEST, count_lines, read_lines
from nmt.text.bytes import SYMBOLS, are_symbols, readable, recover, to_bytes, to_symbols
from nmt.text.foreign import ForeignPieces, split
from nmt.text.languages import folders_of

SIDES = ("source", "target")
SPECIAL = ("pad", "unk", "bos", "eos")  # the names in `SpecialIds`
START = "▁"  # sentencepiece marks the start of a word with it
STAND_INS = {"▁": "\U0010fffb", "▅": "\U0010fffc", "<": "\U0010fffd"}
"""Private-use characters in place of those that sentencepiece would take for a space, for the mark of a line that it
skips, and for the start of a special piece. Cleaned text has no private-use characters, so they can be turned back."""
_NAME = re.compile("<(?=(?:s|/s|unk|pad)>)")
"""The start of a special piece's name in text; sentencepiece's trainer would take the name for the piece."""
_NAME_OR_TAG = re.compile(r"<(?=(?:s|/s|unk|pad|2\w+)>)")
"""The same for the trainer of a vocabulary with tags."""
_TAG = re.compile(r"<2(\w+)>")
"""The tag of a target language (Johnson and others 2017). It is a control symbol, so no text contains it."""
_LARGER = "larger size, or a character_coverage below 1, e.g. 0.9995, which leaves the rarest characters unknown"
SAMPLE = 2_000_000
"""Maximum number of lines per side to learn a vocabulary from; a longer text is sampled evenly."""


def load_vocabularies(folder: Path, hashes: Mapping[str, str]) -> list["Vocabulary"]:
    """Load the source and target vocabularies of a folder.

    Args:
        folder: folder with ``source.model`` and ``target.model``.
        hashes: recorded `Vocabulary.sha256` by side; a side without one is not checked.

    Raises:
        DataError: a model file is missing, damaged or not the learned one.
    """
    paths = [folder / f"{side}.model" for side in SIDES]
    vocabularies = [Vocabulary(paths[0])]
    joint = paths[1].is_file() and paths[0].read_bytes() == paths[1].read_bytes()
    vocabularies += vocabularies if joint else [Vocabulary(paths[1])]
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if side in hashes and (got := vocabulary.sha256()) != hashes[side]:
            raise DataError(
                f"{folder / f'{side}.model'}: expected the pieces that were learned, sha256 {hashes[side][:12]}…, got "
                f"{len(vocabulary):,} other pieces, {got[:12]}…; the file is damaged or comes from another folder, "
                "make it again"
            )
    return vocabularies


class Vocabulary:
    """Learned sentencepiece model that converts text to ids and back.

    Attributes:
        ids: ids of the special pieces.
        whole_words: whether each piece is a whole word.
        bytewise: whether the pieces are symbols of bytes (`nmt.text.bytes`).
        foreign: whether the ids are those of an imported model (`nmt.text.foreign`).
        tags: id of the tag of each target language; empty unless it was learned on several pairs of languages.

    Raises:
        DataError: the model file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        check_regular(path)
        try:
            pieces: Any = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise DataError(f"{path}: expected a sentencepiece model, got: {error}; learn it again") from None
        _, appended, ids = split(path)
        self.foreign = appended is not None
        if appended is None:
            ids = {name: getattr(pieces, f"{name}_id")() for name in SPECIAL}
        self._pieces = pieces if appended is None else ForeignPieces(pieces, appended, ids)
        self.ids = SpecialIds(**ids)
        named = ((_TAG.fullmatch(self._pieces.id_to_piece(i)), i) for i in range(len(self)) if not self.foreign)
        self.tags = {name[1]: i for name, i in named if name and pieces.is_control(i)}
        self._names = _NAME_OR_TAG if self.tags else _NAME
        special = {*self.ids.model_dump().values(), *self.tags.values()}
        learned = [self._pieces.id_to_piece(i) for i in range(len(self)) if i not in special]
        self.whole_words = all(piece.startswith(START) for piece in learned) and not self.foreign
        self.bytewise = are_symbols(piece.replace(START, " ") for piece in learned)

    def __len__(self) -> int:
        return int(self._pieces.vocab_size())

    def sha256(self) -> str:
        """Hash the `listing` of the pieces; ``subwords.json`` records this hash."""
        return hashlib.sha256(self.listing().encode()).hexdigest()

    def listing(self) -> str:
        """Return the pieces and their scores, a line each, as the ``.vocab`` file lists them."""
        rows = (f"{self._pieces.id_to_piece(i)}\t{self._pieces.get_score(i):g}\n" for i in range(len(self)))
        return "".join(rows)

    def encode(
        self, lines: Sequence[str], dropout: float = 0.0, seed: int = 0, to: str | None = None
    ) -> list[list[int]]:
        """Convert each line to ids, without BOS and EOS.

        Args:
            lines: text to encode.
            dropout: probability of skipping a BPE merge, BPE-dropout (Provilkov, Emelianenko and Voita 2020).
            seed: seed of BPE-dropout, below 2^32.
            to: of source sentences, the target language; its tag comes before the pieces of each line that has any, if
                the vocabulary has tags.

        Raises:
            ConfigError: the vocabulary has tags, but none of this language.
        """
        tag, rows = self.tag(to), self._encode(lines, dropout, seed)
        return [[*tag, *row] if row else row for row in rows] if tag else rows

    def tag(self, to: str | None) -> list[int]:
        """Return what comes before the pieces of a source sentence, as `encode` explains."""
        if to is None or not self.tags:
            return []
        if to not in self.tags:
            known = ", ".join(self.tags)
            raise ConfigError(f"expected a target language among {known}, got '{to}'; choose one of them")
        return [self.tags[to]]

    def _encode(self, lines: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        if self.whole_words:  # sentencepiece would merge adjacent unknown words into one
            return [[self._pieces.piece_to_id(START + word) for word in self._words(line)] for line in lines]
        escape = to_symbols if self.bytewise else str if self.foreign else _escape
        texts = [escape(line) for line in lines]
        if not dropout and len(texts) == 1 and not self.foreign:  # for a list, sentencepiece starts threads
            return [list(self._pieces.encode(texts[0]))]
        if not dropout:
            return list(self._pieces.encode(texts))
        sentencepiece.set_random_generator_seed(seed)
        # One thread, because several threads would use the random numbers in an unpredictable order.
        return list(self._pieces.encode(texts, enable_sampling=True, nbest_size=-1, alpha=dropout, num_threads=1))

    def _words(self, line: str) -> list[str]:
        return _escape_words(line, self._names).split()

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Convert each sequence of ids to text; pad, BOS and EOS are dropped, unk becomes ``<unk>``."""
        if self.whole_words:
            silent = {self.ids.pad, self.ids.bos, self.ids.eos, *self.tags.values()}
            texts = [" ".join(self.pieces([i for i in row if i not in silent])).replace(START, "") for row in ids]
        else:
            texts = [self._pieces.decode(list(row)) for row in ids]  # all rows at once would start threads
        return [recover(to_bytes(text)) if self.bytewise else _original(text.strip()) for text in texts]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        r"""Return the pieces of ids as learned, with ``▁`` at the start of a word.

        Bytes of an incomplete character are written as ``\xe0``.
        """
        pieces = [self._pieces.id_to_piece(int(i)) for i in ids]
        if self.bytewise:
            return [readable(piece.replace(START, " ")).replace(" ", START) for piece in pieces]
        return pieces

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids for people: as `pieces`, with the characters of the text."""
        return [_original(piece) for piece in self.pieces(ids)]


def learn(clean: Path | Sequence[Path], out: Path, languages: str, config: Subwords, threads: int = 1) -> None:
    """Learn the vocabularies of both sides from the training text; writes the folder ``out`` atomically.

    Several pairs of languages share one vocabulary, with a tag for each target language. It is learned from all their
    text; a text that several of them have counts once.

    Args:
        clean: folder of the cleaned corpus; of several pairs, the folder of each.
        out: folder to write.
        languages: source and target, e.g. ``en-de``; or several pairs, ``en-de,en-fr``.
        config: kind and size of the vocabularies.
        threads: number of CPU threads.

    Raises:
        ConfigError: the vocabulary size does not fit the text, or several pairs would have separate vocabularies.
        DataError: a text is missing or empty, or the disk is full.
    """
    folders = folders_of(clean, languages)
    texts = [folder / f"train.{language}" for pair, folder in folders.items() for language in pair.split("-")]
    for text in texts:
        if not any(line.strip() for line in read_lines(text)):
            raise DataError(f"{text}: expected training text, got an empty file; clean the corpus again")
    tags = list(dict.fromkeys(f"<2{pair.split('-')[1]}>" for pair in folders)) if len(folders) > 1 else []
    if tags and not config.joint:
        raise ConfigError(f"joint: {len(folders)} pairs of languages share one vocabulary; set it to true")
    if tags:
        texts = list({sha256(text): text for text in reversed(texts)}.values())[::-1]
    with atomic_directory(out, "subwords.json") as folder:
        if config.joint:
            _learn(texts, folder / "source", config, threads, tags)
            for suffix in ("model", "vocab"):
                shutil.copyfile(folder / f"source.{suffix}", folder / f"target.{suffix}")
        else:
            for text, side in zip(texts, SIDES, strict=True):
                _learn([text], folder / side, config, threads)
        for side in SIDES:
            Vocabulary(folder / f"{side}.model")  # raises if a full disk truncated the file
        # The hash of the model file depends on paths and threads; the hash of the .vocab file does not.
        hashes = {side: sha256(folder / f"{side}.vocab") for side in SIDES}
        write_record(folder, config, hashes, languages)


def write_record(folder: Path, config: Subwords, hashes: Mapping[str, str], languages: str) -> None:
    """Write ``subwords.json``, the description of a folder of subword models, as `learn` explains."""
    learned = {"subwords": described(config), "vocab_sha256": dict(hashes)}
    write_json(folder / "subwords.json", learned | {"languages": languages})


def described(config: Subwords) -> dict[str, Any]:
    """Return the settings by which trainings identify their subwords; those that came later only if they are used."""
    later = {"character_coverage", "byte_fallback", "dropout", "segmentations"}
    return config.model_dump(exclude=later - config.non_defaults().keys())


def _learn(texts: list[Path], prefix: Path, config: Subwords, threads: int, tags: Sequence[str] = ()) -> None:
    """Learn one vocabulary; turn sentencepiece's errors into those of `learn`."""
    try:
        with TemporaryDirectory(dir=prefix.parent) as scratch:
            _train(texts, prefix, config, threads, tags, Path(scratch))
    except OSError as error:
        raise DataError(f"{prefix}.model: cannot be written: {error}; make room on the disk, then run again") from None
    except RuntimeError as error:
        names = " and ".join(map(str, texts))
        text = str(error)
        reason = (text.rpartition("] ")[2].strip() or text.strip()).rstrip(".")  # without sentencepiece's source lines
        raise ConfigError(
            f"subwords.size: {config.size} pieces cannot be learned from {names}: {reason}; "
            f"choose a {_LARGER if 'required_chars' in text else 'smaller size, or add text'}"
        ) from None


def _train(texts: list[Path], prefix: Path, config: Subwords, threads: int, tags: Sequence[str], scratch: Path) -> None:
    """Run sentencepiece's trainer without normalisation, because cleaning is a separate stage."""
    size, options = config.size, dict[str, Any]()
    texts = [_sampled(text, scratch / f"sample-{n}-{text.name}") for n, text in enumerate(texts)]
    names = _NAME_OR_TAG if tags else _NAME
    texts = [_escaped(text, scratch / f"{n}-{text.name}", config.kind, names) for n, text in enumerate(texts)]
    if tags:
        options["control_symbols"] = list(tags)
    if config.kind == "words":
        words = {word for text in texts for line in read_lines(text) for word in line.split()}
        size = min(size, len(words) + len(SPECIAL) + len(tags))
    if config.kind == "unigram":
        options |= {"hard_vocab_limit": False}
    if config.kind == "char":
        options |= {"required_chars": START}
    if config.kind == "bbpe":
        every_byte = SYMBOLS.replace(" ", "")  # sentencepiece always includes its mark for the space
        options |= {"required_chars": every_byte, "remove_extra_whitespaces": False}
    sentencepiece.SentencePieceTrainer.train(
        input=list(map(str, texts)),
        model_prefix=str(prefix),
        model_type={"words": "word", "bbpe": "bpe"}.get(config.kind, config.kind),
        vocab_size=size,
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        normalization_rule_name="identity",
        max_sentence_length=LONGEST,
        input_sentence_size=0,
        num_threads=1 if config.kind == "unigram" else threads,  # its pieces depend on the number of threads
        pad_id=config.ids.pad,
        unk_id=config.ids.unk,
        bos_id=config.ids.bos,
        eos_id=config.ids.eos,
        unk_surface="<unk>",
        minloglevel=2,
        **options,
    )


def _sampled(text: Path, out: Path) -> Path:
    """Return a file of at most `SAMPLE` lines: the text itself or a sample; sentencepiece reads it all into memory."""
    if (lines := count_lines(text)) <= SAMPLE:
        return text
    with text.open("rb") as stream, out.open("wb") as sample:
        sample.writelines(line for n, line in enumerate(stream) if (n + 1) * SAMPLE // lines > n * SAMPLE // lines)
    return out


def _escaped(text: Path, out: Path, kind: str, names: re.Pattern[str]) -> Path:
    """Return a file that means nothing but text to sentencepiece's trainer: the text itself, or a rewritten copy."""
    escape: Callable[[str], str] = partial(_escape_words if kind == "words" else _escape_names, names=names)
    escape = to_symbols if kind == "bbpe" else escape
    if all(escape(line) == line for line in read_lines(text)):
        return text
    with out.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{escape(line)}\n" for line in read_lines(text))
    return out


def _escape(text: str) -> str:
    return text.replace("▁", STAND_INS["▁"]).replace("▅", STAND_INS["▅"])


def _escape_words(text: str, names: re.Pattern[str]) -> str:
    """Escape a text for a vocabulary of words, in which the name of a special piece can be a word."""
    return names.sub(STAND_INS["<"], _escape(text))


def _escape_names(text: str, names: re.Pattern[str]) -> str:
    """Escape a text for the trainer of pieces: the space hides the name of a special piece from it."""
    return names.sub("< ", _escape(text))


def _original(text: str) -> str:
    """Undo `_escape` and `_escape_words`."""
    for original, stand_in in STAND_INS.items():
        text = text.replace(stand_in, original)
    return text


def inherit(parent: Path, out: Path, languages: str, dropout: float = 0.0, segmentations: int = 1) -> None:
    """Copy subword models, to encode other text with them; writes the folder ``out`` atomically.

    Args:
        parent: folder of subword models, or a model directory.
        out: folder to write; its content is that of `learn`.
        languages: source and target of the text, e.g. ``en-de``.
        dropout: BPE-dropout of the text.
        segmentations: with dropout, how often the text is encoded.

    Raises:
        ConfigError: dropout does not fit the kind of subwords.
        DataError: a file of the parent is missing or damaged.
    """
    learned = _learned(parent)
    vocabularies = load_vocabularies(parent, learned["vocab_sha256"])
    try:
        config = Subwords(**learned["subwords"] | {"dropout": dropout, "segmentations": segmentations})
    except ValidationError as error:
        raise ConfigError(f"{parent}, with dropout {dropout}: {in_words(error.errors()[0])}") from None
    with atomic_directory(out, "subwords.json") as folder:
        for side, vocabulary in zip(SIDES, vocabularies, strict=True):
            shutil.copyfile(parent / f"{side}.model", folder / f"{side}.model")
            write_text(folder / f"{side}.vocab", vocabulary.listing())
        write_record(folder, config, learned["vocab_sha256"], languages)


def _learned(parent: Path) -> Any:
    """Return the description of a folder's subwords."""
    path = parent / "subwords.json"
    return read_json(path) if path.is_file() else read_json(parent / "provenance.json")["subwords"]
