"""Pictures of scenes: Pillow draws the shapes of each thing."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from nmt.corpora.scenes.english import clause
from nmt.corpora.scenes.scene import Scene, Thing
from nmt.corpora.scenes.shapes import (
    BACKDROPS,
    CLOTHES,
    COLOURS,
    EYES,
    GROUNDS,
    HEADS,
    INKS,
    LIMBS,
    OLD,
    SHAPES,
    SLEEP,
    TOPS,
)

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SIZE = 224
"""Width and height of a picture, in pixels: the usual input size of image networks."""

_FINE = 2  # draw twice as large, then reduce, so that edges are smooth
_HORIZON = 0.57
_PEN = (40, 40, 40)
_POSES = {"sit": "sit", "run": "run", "jump": "jump", "dance": "dance", "photograph": "photograph", "carry": "lift"}
_ROWS = {1: [(0.0, 0.0)], 2: [(-0.5, 0.0), (0.5, 0.0)]}
_ROWS[3] = [(0.0, -0.75), *_ROWS[2]]
_ROWS[4] = [(-0.5, -0.9), (0.5, -0.9), *_ROWS[2]]
_SCALES = {1: 1.0, 2: 0.68, 3: 0.6, 4: 0.58}

_Colour = tuple[int, int, int]
_Point = tuple[float, float]


@dataclass(frozen=True)
class _Shape:
    """One shape: ``kind`` and ``ink`` are letters of the notation; points lie in a square of 100 by 100."""

    kind: str
    ink: str
    width: float
    points: tuple[_Point, ...]


@dataclass(frozen=True)
class _Square:
    """Position and size, in pixels of the canvas, of a square of 100 by 100."""

    left: float
    top: float
    size: float

    def at(self, x: float, y: float) -> _Point:
        """Convert a point of the square of 100 by 100 to pixels."""
        return self.left + x * self.size / 100, self.top + y * self.size / 100


@dataclass(frozen=True)
class _Spot:
    """Position of a thing: x of its middle, y of its foot, and its size, in hundredths of the picture."""

    thing: Thing
    x: float
    y: float
    size: float
    verb: str | None = None


def draw(scene: Scene) -> "Image":
    """Draw a scene, 224 by 224 RGB. The pictures of a sentence's two senses differ only in the ambiguous thing."""
    from PIL import Image, ImageDraw

    rng = random.Random(clause(scene))
    large = Image.new("RGB", (SIZE * _FINE, SIZE * _FINE))
    pen = ImageDraw.Draw(large)
    _ground(pen, scene.place)
    for spot in _layout(scene):
        _place(pen, replace(spot, thing=_coloured(spot.thing, rng), x=spot.x + rng.uniform(-2, 2)))
    return large.reduce(_FINE)


def _coloured(thing: Thing, rng: random.Random) -> Thing:
    """Give a thing without a colour one of the colours of its kind."""
    colours = thing.noun.colours or ("grey",)
    return replace(thing, colour=thing.colour or rng.choice(colours))


def _layout(scene: Scene) -> list[_Spot]:
    """Return the positions of all things in the scene, from back to front."""
    match scene.pattern:
        case "exists" | "located" | "acting":
            return _related(scene) if scene.relation else _beside(scene, 50, 94, 62)
        case "giving":
            assert scene.receiver
            middle = _Spot(scene.target, 50, 72, 36)
            return [_Spot(scene.subject, 17, 96, 62, "give"), _Spot(scene.receiver, 84, 96, 62), middle]
        case "owning":
            return [_Spot(scene.subject, 24, 94, 62), _Spot(scene.target, 70, 94, 48)]
        case "handling":
            return _handled(scene)


def _handled(scene: Scene) -> list[_Spot]:
    """Place the subject at the left, and the object at the right, in its hands or over its head."""
    subject = _Spot(scene.subject, 26, 95, 66, scene.verb)
    if scene.verb == "carry":
        over_head = 98 - 58 * _scale(scene.subject)
        return [replace(subject, x=50, size=58), _Spot(scene.target, 50, over_head, 38)]
    in_hand = scene.verb in ("hold", "eat", "read", "feed")
    y, size = (72, 44) if in_hand and scene.target.noun.kind == "small" else (95, 54)
    return [subject, _Spot(scene.target, 70, y, size)]


def _related(scene: Scene) -> list[_Spot]:
    """Place the subject and its companion in their relation to the scene's object."""
    anchor = _Spot(scene.target, 50, 92, 56)
    match scene.relation:
        case "on":
            return [anchor, *_beside(scene, 50, 92 - 0.56 * TOPS[scene.target.name], 36)]
        case "under":
            return [replace(anchor, size=76), *_beside(scene, 50, 93, 33)]
        case "behind":
            return [*_beside(scene, 64, 70, 46), replace(anchor, x=34, y=95, size=52)]
        case "front":
            return [replace(anchor, x=60, y=72, size=58), *_beside(scene, 32, 97, 44)]
        case "left":
            return [replace(anchor, x=74, size=46), *_beside(scene, 24, 92, 46)]
        case "right":
            return [replace(anchor, x=26, size=46), *_beside(scene, 76, 92, 46)]
        case _:
            return [replace(anchor, x=35, size=50), *_beside(scene, 74, 92, 44)]


def _beside(scene: Scene, x: float, y: float, size: float) -> list[_Spot]:
    """Place the subject, and its companion beside it."""
    if scene.companion is None:
        return [_Spot(scene.subject, x, y, size, scene.verb)]
    size *= 0.75
    left = _Spot(scene.subject, x - size * 0.42, y, size, scene.verb)
    return [left, _Spot(scene.companion, x + size * 0.42, y, size, scene.verb)]


def _ground(pen: "ImageDraw", place: str | None) -> None:
    sky, ground = GROUNDS[place]
    whole = SIZE * _FINE
    pen.rectangle((0, 0, whole, whole), fill=sky)
    pen.rectangle((0, whole * _HORIZON, whole, whole), fill=ground)
    if place:
        _paint(pen, _parse(BACKDROPS[place]), ground, _Square(0, 0, whole), outline=0)


def _place(pen: "ImageDraw", spot: _Spot) -> None:
    """Draw all things of a spot, inside the picture."""
    thing = spot.thing
    size = spot.size * _scale(thing)
    upright = thing.noun.kind == "person" and spot.verb != "sleep"
    apart = size * (0.6 if upright else 1.0)
    margin = apart / 2 if thing.count == 1 else apart  # several things: two of them stand side by side
    middle = min(max(spot.x, margin), 100 - margin)
    foot = max(spot.y, size * (1 - min(dy for _, dy in _ROWS[thing.count])))
    unit = SIZE * _FINE / 100
    for dx, dy in _ROWS[thing.count]:
        left = middle + dx * apart - size / 2
        top = foot + (dy - 1.3 if spot.verb == "jump" else dy - 1) * size
        _draw_thing(pen, thing, spot.verb, _Square(left * unit, top * unit, size * unit))


def _scale(thing: Thing) -> float:
    """Return the size of each thing; a single thing of normal size has size 1."""
    scale = {"small": 0.78, "big": 1.2}.get(thing.size or "", 1.0) * _SCALES[thing.count]
    return scale * (0.85 if thing.name in ("boy", "girl") else 1.0)


def _draw_thing(pen: "ImageDraw", thing: Thing, verb: str | None, square: _Square) -> None:
    """Draw one thing or person."""
    if thing.noun.kind == "person":
        shapes = _person(thing, verb)
        colour = thing.wears_colour or ("white" if thing.name in ("cook", "astronaut") else "grey")
    else:
        shapes = _parse(SHAPES[thing.name]) + (_parse(SLEEP) if verb == "sleep" else [])
        colour = thing.colour or "grey"
    _paint(pen, shapes, COLOURS[colour], square)


def _person(thing: Thing, verb: str | None) -> list[_Shape]:
    """Return a person's shapes, asleep on the ground or in the pose of the verb."""
    pose = "stand" if verb in (None, "stand", "sleep") else _POSES.get(verb, "reach")
    limbs = _parse(LIMBS[pose])
    upper = _parse(";".join([CLOTHES[thing.wears or "-"], HEADS[thing.name], OLD if thing.size == "old" else "", EYES]))
    if pose == "sit":
        upper = _moved(upper, lambda x, y: (x, y + 16))
    body = limbs + upper if pose == "stand" else upper + limbs
    if verb == "sleep":
        return _moved(body, lambda x, y: (100 - y, x + 36)) + _moved(_parse(SLEEP), lambda x, y: (x, y + 50))
    return body


@cache
def _parsed(text: str) -> tuple[_Shape, ...]:
    shapes = []
    for part in filter(str.strip, text.split(";")):
        kind, ink, *rest = part.split()
        numbers = [float(number) for number in rest]
        width = numbers.pop(0) if kind == "l" else 0.0
        shapes.append(_Shape(kind, ink, width, tuple(zip(numbers[::2], numbers[1::2], strict=True))))
    return tuple(shapes)


def _parse(text: str) -> list[_Shape]:
    """Parse the notation of `nmt.corpora.scenes.shapes`."""
    return list(_parsed(text))


def _moved(shapes: list[_Shape], to: Callable[[float, float], _Point]) -> list[_Shape]:
    return [replace(shape, points=tuple(to(x, y) for x, y in shape.points)) for shape in shapes]


def _paint(pen: "ImageDraw", shapes: list[_Shape], colour: _Colour, square: _Square, outline: int = _FINE) -> None:
    """Paint shapes into a square; ``colour`` is the thing's colour, ``outline`` a width in pixels."""
    inks = INKS | {"c": colour, "d": _shade(colour, -45), "h": _shade(colour, 60)}
    for shape in shapes:
        ink, points = inks[shape.ink], [square.at(x, y) for x, y in shape.points]
        if shape.kind == "l":
            pen.line(points, fill=ink, width=max(1, round(shape.width * square.size / 100)), joint="curve")
        elif shape.kind == "p":
            pen.polygon(points, fill=ink, outline=_PEN if outline else None, width=outline or 1)
        else:
            (x, y), (x2, y2) = points
            box = (min(x, x2), min(y, y2), max(x, x2), max(y, y2))
            fill = pen.ellipse if shape.kind == "o" else pen.rectangle
            fill(box, fill=ink, outline=_PEN if outline else None, width=outline)


def _shade(colour: _Colour, by: int) -> _Colour:
    red, green, blue = (min(255, max(0, part + by)) for part in colour)
    return red, green, blue
