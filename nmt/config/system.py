"""A system: one trained configuration, and the training text that other systems translate for it."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nmt.config.data import Cleaning, Subwords
from nmt.config.decoding import Decoding
from nmt.config.models import ModelConfig, TransformerConfig, has_attention
from nmt.config.selection import START, Selection, why_not_kept
from nmt.config.training import Training, check_activation_checkpointing, check_guided, check_mixing, check_passes
from nmt.config.types import SHA256, TAG, Name, Pairs, Positive, Seed, Seeds, Strict, SystemName, UserPath, matching

PARENT = r"^([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*$"


class AddedText(Strict):
    """Training pairs with one side translated by a model.

    Back-translation translates text of the target language into the source language (Sennrich and others 2016).
    Forward translation translates text of the source language (Zhang and Zong 2016). With an ensemble as the model this
    is sequence-level knowledge distillation (Kim and Rush 2016).
    """

    model: SystemName = Field(
        description="system that translates, as TABLE/SYSTEM; for back-translation one of the opposite direction"
    )
    at: Selection = Field("best", description="checkpoint selection of that system")
    seed: Seed | Annotated[str, matching(r"^\d+(-\d+)+$", "seeds of an ensemble, 1-2-3")] = Field(
        1, description="seed of that system; several as 1-2-3 translate as an ensemble"
    )
    text: Name = Field(description="corpus whose training text is translated; it may lack the other language")
    decoding: Decoding = Field(Decoding(beam=1), description="search; greedy by default")
    copies: Positive = Field(1, description="how often each true pair is repeated, beside one copy of each added pair")
    tag: Annotated[str, matching(TAG, "a word of letters A to Z")] | None = Field(
        None, description="word put before each added source sentence (Caswell and others 2019)"
    )

    @field_validator("seed")
    @classmethod
    def _each_seed_once(cls, seed: int | str) -> int | str:
        seeds = str(seed).split("-")
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"expected different seeds, got {seed}; name each once")
        return seed

    @property
    def table(self) -> str:
        """Name of the model's table."""
        return self.model.split("/")[0]

    @property
    def system(self) -> str:
        """Name of the model's system in its table."""
        return self.model.split("/")[1]

    @property
    def translated(self) -> Self:
        """A copy with only the fields that determine the translations, not how they are mixed in."""
        return self.model_copy(update={"copies": 1, "tag": None})


class LearnedVectors(Strict):
    """Word vectors that word2vec learns (Mikolov and others 2013), for the embeddings of one side."""

    text: Name = Field(description="corpus whose training text, cleaned as the system's, they are learned from")


def _vectors_kind(value: Any) -> str:
    return "<learned>" if isinstance(value, dict | LearnedVectors) else "<name>"


Vectors = Annotated[
    Annotated[Name, Tag("<name>")] | Annotated[LearnedVectors, Tag("<learned>")], Discriminator(_vectors_kind)
]


class Initialise(Strict):
    """The parent of a system: the trained model whose weights its training starts from.

    The parent is a system of a table, or a model directory.
    """

    system: Annotated[str, matching(PARENT, "SYSTEM of this table, or TABLE/SYSTEM")] | None = Field(
        None, description="system of this table, or TABLE/SYSTEM; trained first if it is not there"
    )
    at: Selection = Field("best", description="checkpoint selection of that system")
    folder: UserPath | None = Field(None, description="model directory, instead of a system")
    sha256: Annotated[str, matching(SHA256, "64 hexadecimal digits")] | None = Field(
        None, description="checksum of the folder's weights.safetensors; null: whatever it has"
    )
    own_subwords: bool = Field(
        False, description="learn subwords from the system's own text, even with the settings of the parent's"
    )

    @property
    def parent(self) -> tuple[str, str]:
        """Table and name of the parent, if it is a system; `nmt.config.table.load_table` names the table."""
        table, _, name = str(self.system).rpartition("/")
        return table, name

    @model_validator(mode="after")
    def _names_one_parent(self) -> Self:
        if (self.system is None) == (self.folder is None):
            raise ValueError("expected either system or folder")
        if self.folder and "at" in self.model_fields_set:
            raise ValueError("at selects checkpoints of a system; a folder holds one model, so leave it out")
        if self.system and self.sha256:
            raise ValueError("sha256 is for a folder; leave it out")
        return self


class System(Strict):
    """One trained configuration: data, subwords, model and training."""

    corpus: Name = Field(description="name of a corpus: built in, in nmt/corpora/corpora.yaml, or in config.yaml")
    languages: Pairs = Field(
        description="source and target language, e.g. en-de; or several pairs for one model, e.g. [en-de, en-fr] "
        "(docs/how-to/several-languages.md)"
    )
    back_translation: AddedText | None = Field(
        None,
        description="training pairs to add, whose source side is a translation (docs/how-to/add-translated-text.md)",
    )
    forward_translation: AddedText | None = Field(
        None, description="training pairs to add, whose target side is a translation"
    )
    cleaning: Cleaning = Field(Cleaning(), description="how raw text is cleaned")
    subwords: Subwords = Field(Subwords(), description="how text becomes ids")
    initialise: Initialise | None = Field(
        None,
        description="trained model to start from; its cleaning, subwords and model come along, key by key "
        "(docs/how-to/fine-tune.md)",
    )
    word_vectors: dict[Literal["source", "target"], Vectors] = Field(
        {},
        description="word vectors that the embeddings of a side start from: their name in config.yaml, or text to "
        "learn them from",
    )
    alignments: UserPath | None = Field(
        None,
        description="file of word alignments of the training text for training.guided_alignment, in Pharaoh format, "
        "with one line for each pair of the raw or of the cleaned text; words are those of the cleaned text",
    )
    model: ModelConfig = Field(TransformerConfig(), description="architecture and size")
    training: Training = Field(description="how the model is trained")
    seeds: Seeds | None = Field(None, description="a training per seed; null: the seeds of config.yaml")

    @property
    def pairs(self) -> list[str]:
        """The pairs of languages that it translates; most systems have one."""
        return self.languages.split(",")

    @property
    def by_pair(self) -> list[Self]:
        """The same for each pair alone; for the folders of a pair's text."""
        return [self.of_pair(pair) for pair in self.pairs]

    def of_pair(self, pair: str | None) -> Self:
        """Return the same for a pair alone, which may be one that it was not trained on; None: for its only pair."""
        return self if pair in (None, self.languages) else self.model_copy(update={"languages": pair})

    def why_not_translated(self, pair: str) -> str | None:
        """Return why a pair cannot be scored, or None: it needs a source and a target that the system knows."""
        sources, targets = (sorted({known.split("-")[side] for known in self.pairs}) for side in (0, 1))
        source, target = pair.split("-")
        if source in sources and target in targets and source != target:
            return None
        return f"expected a source among {', '.join(sources)} and a target among {', '.join(targets)}, got {pair}"

    @property
    def source(self) -> str:
        """Source language code of a system with one pair."""
        return self._sides[0]

    @property
    def target(self) -> str:
        """Target language code of a system with one pair."""
        return self._sides[1]

    @property
    def _sides(self) -> list[str]:
        [pair] = self.pairs
        return pair.split("-")

    @property
    def added(self) -> AddedText | None:
        """The text that is added last; with both kinds, forward translations come first, back-translations last."""
        return self.back_translation or self.forward_translation

    @property
    def added_direction(self) -> Literal["back", "forward"]:
        """The direction in which `added` was translated."""
        return "back" if self.back_translation else "forward"

    @property
    def translated_pair(self) -> str:
        """The pair of languages in which `added` is translated."""
        return f"{self.target}-{self.source}" if self.added_direction == "back" else self.languages

    @property
    def without_last_added(self) -> Self:
        """The same system without `added`, trained on the text that it is added to."""
        return self.model_copy(update={f"{self.added_direction}_translation": None})

    @property
    def mixtures(self) -> list[Self]:
        """This system, then each system with one addition fewer, down to a single addition; empty without any."""
        return [self, *self.without_last_added.mixtures] if self.added else []

    @property
    def text_to_translate(self) -> Self:
        """The same on the text, in one language, that is translated for it; for the folders of that text."""
        assert self.added
        language = self.target if self.added_direction == "back" else self.source
        return self.without_added(corpus=self.added.text, languages=language)

    @property
    def texts_of_vectors(self) -> dict[Literal["source", "target"], Self]:
        """By side, the same on the text that its word vectors are learned from; for the folders of that text."""
        return {
            side: self.without_added(corpus=vectors.text, languages=self.source if side == "source" else self.target)
            for side, vectors in self.word_vectors.items()
            if isinstance(vectors, LearnedVectors)
        }

    def without_added(self, **changes: object) -> Self:
        """Return the system without added text, with further fields changed."""
        return self.model_copy(update={"back_translation": None, "forward_translation": None, **changes})

    @model_validator(mode="after")
    def _suits_several_pairs(self) -> Self:
        """Reject what belongs to the text of a single pair."""
        several = len(self.pairs) > 1
        of_one = ("back_translation", "forward_translation", "word_vectors", "alignments")
        for key in (key for key in of_one if several and getattr(self, key)):
            raise ValueError(f"{key} is for one pair of languages, got {len(self.pairs)}; leave it out")
        if several and self.cleaning.scores:
            raise ValueError(
                f"cleaning.filters: kind: scores is for one pair of languages, got {len(self.pairs)}; leave it out"
            )
        if several and not self.subwords.joint:
            raise ValueError(
                f"subwords.joint: {len(self.pairs)} pairs of languages need one vocabulary; set it to true"
            )
        if several and self.model.kind == "multimodal":
            raise ValueError("model.kind: multimodal is for one pair of languages; choose transformer or recurrent")
        if several and self.training.mixing:
            check_mixing(self.training.mixing, self.pairs)
        return self

    @model_validator(mode="after")
    def _tying_needs_joint(self) -> Self:
        if self.model.tied == "all" and not self.subwords.joint:
            raise ValueError("model.tied: all needs subwords.joint: true")
        return self

    @model_validator(mode="after")
    def _losses_fit_the_model(self) -> Self:
        check_passes(self.model, self.training)
        check_activation_checkpointing(self.model, self.training)
        check_guided(self.model, self.training)
        if bool(self.alignments) != bool(self.training.guided_alignment):
            raise ValueError(
                "alignments (a file) and training.guided_alignment (a loss) need each other; give both or neither"
            )
        return self

    @model_validator(mode="after")
    def _sample_has_one_segmentation(self) -> Self:
        if self.training.train_bleu and self.subwords.dropout:
            raise ValueError(
                "training.train_bleu does not work with subwords.dropout, which splits the training text at random; "
                "leave it out, and score the test set train_sample in a row"
            )
        return self


def why_unselectable(at: str, system: System) -> str | None:
    """Return why a system will not have the weights that a checkpoint selection asks for, or None if it may."""
    if at.endswith(START) and system.initialise is None:
        return "a system without initialise starts from random weights; choose another at"
    if at.endswith(START) and system.initialise and system.initialise.own_subwords:
        return "with own_subwords its pieces are not those of the weights it starts from; choose another at"
    return why_not_kept(at, system.training)


def why_unsupported(decoding: Decoding, system: System) -> str | None:
    """Return why a system does not support the settings of a decoding, or None if it does."""
    if decoding.replace_unknown and system.subwords.kind != "words":
        return "decoding.replace_unknown needs subwords.kind: words"
    if decoding.replace_unknown and not has_attention(system.model):
        return "decoding.replace_unknown needs a model with attention"
    if decoding.coverage_penalty and not has_attention(system.model):
        return "decoding.coverage_penalty needs a model with attention"
    if decoding.images and system.model.kind != "multimodal":
        return "decoding.images needs model.kind: multimodal"
    return None
