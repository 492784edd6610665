"""Translate raw text with this export, without the project that wrote it.

    python translate.py [FILE...] [--out FILE]

It reads the files, or standard input, one sentence per line. It needs the packages ctranslate2, sentencepiece and
sacremoses. From Python:

    from translate import ExportedModel

    ExportedModel("FOLDER").translate(["A red ball."])
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nmt.config.data import Cleaning
from nmt.system.errors import DataError
from nmt.system.lines import decode_lines
from nmt.system.workers import available_cores
from nmt.text.cleaner import Cleaner, restore
from nmt.text.subwords import Vocabulary

SETTINGS = "translate.json"
"""File of an export: languages, cleaning recipe, positions of the model."""
STDIN = Path("-")
CHUNK = 10_000
"""Lines that are translated before they are written."""


@dataclass(frozen=True)
class Best:
    """One of the best translations of a line."""

    text: str
    score: float  # log p / length^penalty
    pieces: list[str]


class ExportedModel:
    """An export for CTranslate2 that takes and gives raw text."""

    def __init__(
        self,
        folder: Path | str,
        device: str = "auto",
        threads: int | None = None,
        compute_type: str = "default",
        patience: float = 1.0,
    ) -> None:
        """Load an export.

        Args:
            folder: the folder of the export.
            device: ``auto``, ``cpu`` or ``cuda``.
            threads: CPU threads, each for a batch of its own; None for all cores.
            compute_type: one of CTranslate2's; ``default`` is the one of the export.
            patience: search stops after beam x patience hypotheses. nmt goes on while a better one may come.

        Raises:
            DataError: a file is missing or damaged.
        """
        import ctranslate2

        folder = Path(folder)
        settings = _settings(folder / SETTINGS)
        self.source_language, self.target_language = settings["languages"].split("-")
        self.patience = patience
        self.longest: int = settings["max_positions"]
        self.recipe = Cleaning(**settings["cleaning"])
        self.cleaner = Cleaner(self.recipe, self.source_language)
        self.source, self.target = (Vocabulary(folder / f"{side}.model") for side in ("source", "target"))
        self._numbers = {piece: i for i, piece in enumerate(self.target.pieces(range(len(self.target))))}
        options = {"inter_threads": threads or available_cores(), "intra_threads": 1}
        try:
            self.engine: Any = ctranslate2.Translator(str(folder), device=device, compute_type=compute_type, **options)
        except (RuntimeError, ValueError) as error:
            raise DataError(f"{folder}: CTranslate2 cannot load it: {error}") from None

    def translate(self, lines: Sequence[str], beam: int = 5, length_penalty: float = 1.0) -> list[str]:
        """Translate raw lines to raw text; empty lines remain empty."""
        return [best[0].text for best in self.nbest(lines, beam, length_penalty)]

    def nbest(
        self, lines: Sequence[str], beam: int = 5, length_penalty: float = 1.0, nbest: int = 1
    ) -> list[list[Best]]:
        """Return the best translations of raw lines, best first; an empty line has one empty translation.

        Args:
            lines: raw sentences.
            beam: size of the beam.
            length_penalty: the score of a translation is log p / length^penalty.
            nbest: translations per line, at most ``beam``.
        """
        results = [[Best("", 0.0, [])] for _ in lines]
        searches = [
            (indices, self._search([pieces for _, pieces in rows], beam, length_penalty, nbest))
            for rows in self._by_length(lines) if (indices := [i for i, _ in rows])
        ]  # fmt: skip
        for indices, found in searches:
            for i, result in zip(indices, found, strict=True):
                best = result.result()
                texts = [self._text(pieces) for pieces in best.hypotheses]
                results[i] = [Best(*parts) for parts in zip(texts, best.scores, best.hypotheses, strict=True)]
        return results

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of output pieces."""
        return [self._numbers[piece] for piece in pieces]

    @property
    def compute_type(self) -> str:
        """The type in which it computes."""
        return str(self.engine.compute_type)

    def _by_length(self, lines: Sequence[str]) -> list[list[tuple[int, list[str]]]]:
        """Clean and encode lines; return groups of equally many pieces, each line with its index, longest first.

        Lines of one length need no padding, and have the same limit for their translations.
        """
        limit = self.longest - 2  # without BOS and EOS
        self.cleaner.prepare(lines)
        encoded = self.source.encode([self.cleaner(line) for line in lines], to=self.target_language)
        if long := sum(len(ids) > limit for ids in encoded):
            _say(f"warning: {long} of {len(lines)} sentences have more than the model's {limit} pieces and are cut")
        groups: dict[int, list[tuple[int, list[str]]]] = defaultdict(list)
        for i, ids in enumerate(encoded):
            groups[min(len(ids), limit)].append((i, self.source.pieces(ids[:limit])))
        return [groups[length] for length in sorted(groups, reverse=True) if length]

    def _search(self, rows: list[list[str]], beam: int, length_penalty: float, nbest: int) -> Any:
        """Start the search for lines of equally many pieces, with the limits of nmt."""
        return self.engine.translate_batch(
            rows, beam_size=beam, num_hypotheses=nbest, length_penalty=length_penalty, return_scores=True,
            patience=self.patience, min_decoding_length=0, max_input_length=0,
            max_decoding_length=min(2 * len(rows[0]) + 10, self.longest - 2),
            max_batch_size=2048, batch_type="tokens", asynchronous=True,
        )  # fmt: skip

    def _text(self, pieces: Sequence[str]) -> str:
        """Turn output pieces into raw text."""
        [text] = self.target.decode([self.ids(pieces)])
        return restore(" ".join(text.splitlines()), self.target_language, self.recipe)


def _settings(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected the settings of an export, got {error}; export the model again") from None


def _say(message: str) -> None:
    print(f"translate: {message}", file=sys.stderr)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text}")
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Translate raw text, one sentence per line.")
    parser.add_argument("files", nargs="*", type=Path, help="files to translate; none, or -: standard input")
    parser.add_argument("--out", type=Path, help="file for the translations (default: standard output)")
    parser.add_argument("--beam", type=_count, default=5, help="beam size; 1 is greedy search (default: 5)")
    parser.add_argument("--length-penalty", type=float, default=1.0, help="score: log p / length^penalty (default: 1)")
    parser.add_argument("--patience", type=float, default=1.0, help="search stops after beam x patience hypotheses")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--threads", type=_count, help="CPU threads (default: all cores)")
    parser.add_argument("--compute-type", default="default", help="one of CTranslate2's (default: the export's)")
    return parser.parse_args()


def _open(path: Path) -> tuple[BinaryIO, str]:
    """Open a file to read; return it and its name in messages."""
    return (sys.stdin.buffer, "standard input") if path == STDIN else (path.open("rb"), str(path))


def main() -> None:
    """Translate the files of the command line, or standard input."""
    given = _arguments()
    if given.out and (given.out.is_dir() or given.out.resolve() in [path.resolve() for path in given.files]):
        sys.exit(f"translate: {given.out}: expected an output file, got a folder or an input; name another")
    part = given.out and given.out.with_name(f".{given.out.name}.part")
    try:
        options = given.device, given.threads, given.compute_type, given.patience
        model = ExportedModel(Path(__file__).parent, *options)
        streams = [_open(path) for path in given.files or [STDIN]]
        lines = (line for stream, name in streams for line in decode_lines(stream, name))
        with part.open("wb") if part else sys.stdout.buffer as out:
            while chunk := list(islice(lines, CHUNK)):
                texts = model.translate(chunk, given.beam, given.length_penalty)
                out.write("".join(f"{text}\n" for text in texts).encode())
                out.flush()
        if part:
            part.replace(given.out)
    except KeyboardInterrupt:
        _say("stopped")
        sys.exit(130)
    except ModuleNotFoundError as error:
        sys.exit(f"translate: this needs the package {error.name}; pip install ctranslate2 sentencepiece sacremoses")
    except OSError as error:
        sys.exit(f"translate: {error.filename or 'writing'}: {error.strerror}")
    except (DataError, RuntimeError, ValueError) as error:  # the last two are CTranslate2's
        sys.exit(f"translate: {error}")
    finally:
        if part:
            part.unlink(missing_ok=True)
