"""Configuration of noise in training text."""

from pydantic import Field

from nmt.config.corpus.filters import Share
from nmt.config.types import Seed, Strict


class Noise(Strict):
    """Noise in training text, so that a model translates such text too. Each key is the share of pairs that get it.

    The draws depend on the seed and the pair alone, so they are the same in any order.
    """

    title: Share = Field(0.0, description="both sides in Title Case; needs lowercase: false")
    upper: Share = Field(0.0, description="both sides in UPPER CASE; needs lowercase: false")
    typos: Share = Field(0.0, description="a typing error in about one of twenty letters of the source")
    punctuation: Share = Field(0.0, description="the source without the marks at its end")
    tags: Share = Field(0.0, description="both sides in one inline tag, such as <b>…</b>")
    names: Share = Field(0.0, description="a made-up name for each capitalised word that both sides have, such as Tom")
    numbers: Share = Field(0.0, description="other digits for each number that both sides have, but for 1")
    lower: Share = Field(0.0, description="the source in lower case; needs lowercase: false")
    seed: Seed = Field(0, description="another seed draws other pairs")
