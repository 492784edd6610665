"""The built-in corpus: scenes that a grammar makes up, their English, German and French sentences and pictures.

It needs no download, and it is synthetic: scores on it say that the pipeline works, not how well a model translates.
Some English words have two senses that only the picture tells apart.
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
