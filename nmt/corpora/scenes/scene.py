"""Scenes and their things, independent of the language."""

from dataclasses import dataclass, replace
from typing import Literal

from nmt.corpora.scenes.lexicon import NOUNS, SENSES, Noun

Pattern = Literal["exists", "located", "acting", "handling", "giving", "owning"]


@dataclass(frozen=True)
class Thing:
    """One or several equal things or people: *the two small red balls*, *a woman in a blue coat*."""

    name: str
    count: int = 1
    definite: bool = False
    size: str | None = None
    colour: str | None = None
    wears: str | None = None
    wears_colour: str | None = None

    @property
    def noun(self) -> Noun:
        """Its noun in the lexicon."""
        return NOUNS[self.name]

    @property
    def plural(self) -> bool:
        """Whether it is more than one."""
        return self.count > 1

    @property
    def ambiguous(self) -> bool:
        """Whether its English word has two senses."""
        return "/" in self.name


@dataclass(frozen=True)
class Scene:
    """The content of one picture and its sentences.

    Attributes:
        pattern: the kind of sentence: *there is a …*, *a … is under the …*, *a … is sleeping in the …*,
            *a … is holding a …*, *a … is giving a … to the …*, *the …'s … is red*.
        subject: the subject; in *owning* the owner.
        companion: a second subject: *a cat and a dog*.
        verb: name of the verb in the lexicon, if the pattern has one.
        object: the object, the owned thing, or the thing that ``relation`` refers to.
        relation: position of the subject relative to the object.
        receiver: the person who receives or sees the object, in *giving*.
        place: place of the whole scene.
    """

    pattern: Pattern
    subject: Thing
    companion: Thing | None = None
    verb: str | None = None
    object: Thing | None = None
    relation: str | None = None
    receiver: Thing | None = None
    place: str | None = None

    @property
    def plural(self) -> bool:
        """Whether the verb is in the plural."""
        return self.subject.plural or self.companion is not None

    @property
    def target(self) -> Thing:
        """The object of a pattern that has one."""
        assert self.object is not None, self
        return self.object

    @property
    def ambiguous(self) -> Thing | None:
        """The thing whose English word has two senses, or None."""
        return next((thing for thing in (self.subject, self.object) if thing and thing.ambiguous), None)

    @property
    def twin(self) -> "Scene":
        """The scene with the same English sentence and the other sense of its ambiguous word.

        Raises:
            ValueError: no word of the scene is ambiguous.
        """
        if self.subject.ambiguous:
            return replace(self, subject=_other_sense(self.subject))
        if self.object and self.object.ambiguous:
            return replace(self, object=_other_sense(self.object))
        raise ValueError("only a scene with an ambiguous word has a twin")


def _other_sense(thing: Thing) -> Thing:
    first, second = SENSES[thing.name.split("/")[0]]
    return replace(thing, name=second if thing.name == first else first)
