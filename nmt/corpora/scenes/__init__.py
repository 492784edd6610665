"""The built-in corpus: scenes from a random grammar, with English, German and French sentences and a picture.

It needs no download. It is synthetic: its scores show that the pipeline works, not how well a model translates. Some
English words have two senses, and only the picture shows which one is meant.
"""

from nmt.corpora.scenes.corpus import ambiguous_words, scenes, sentence, splits, write_corpus, write_pictures
from nmt.corpora.scenes.drawing import draw
from nmt.corpora.scenes.scene import Scene, Thing

__all__ = [
    "Scene",
    "Thing",
    "ambiguous_words",
    "draw",
    "scenes",
    "sentence",
    "splits",
    "write_corpus",
    "write_pictures",
]
