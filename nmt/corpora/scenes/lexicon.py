"""The words: nouns, adjectives, verbs, relations and places, with all forms in English, German and French."""

from dataclasses import dataclass

_NOUNS = """
man           | men        | der Mann Männer Mannes          | un homme hommes              | person steht -
woman         | women      | die Frau Frauen                 | une femme femmes             | person steht -
boy           | boys       | der Junge Jungen Jungen         | un garçon garçons            | person steht -
girl          | girls      | das Mädchen Mädchen Mädchens    | une fille filles             | person steht -
cook          | cooks      | der Koch Köche Kochs            | un cuisinier cuisiniers      | person steht -
clown         | clowns     | der Clown Clowns Clowns         | un clown clowns              | person steht -
astronaut     | astronauts | der Astronaut Astronauten Astronauten | un astronaute astronautes    | person steht -

dog           | dogs       | der Hund Hunde                  | un chien chiens              | animal sitzt fur
cat           | cats       | die Katze Katzen                | un chat chats                | animal sitzt fur
rabbit        | rabbits    | das Kaninchen Kaninchen         | un lapin lapins              | animal sitzt fur
duck          | ducks      | die Ente Enten                  | un canard canards            | animal sitzt feathers
bird          | birds      | der Vogel Vögel                 | un oiseau oiseaux            | animal sitzt feathers
owl           | owls       | die Eule Eulen                  | un hibou hiboux              | animal sitzt fur
horse         | horses     | das Pferd Pferde                | un cheval chevaux            | animal steht fur
cow           | cows       | die Kuh Kühe                    | une vache vaches             | animal steht fur
sheep         | sheep      | das Schaf Schafe                | un mouton moutons            | animal steht fur
pig           | pigs       | das Schwein Schweine            | un cochon cochons            | animal steht fur
elephant      | elephants  | der Elefant Elefanten Elefanten | un éléphant éléphants        | animal steht fur
bear          | bears      | der Bär Bären Bären             | un ours ours                 | animal steht fur

ball          | balls      | der Ball Bälle                  | un ballon ballons            | small liegt paint
apple         | apples     | der Apfel Äpfel                 | une pomme pommes             | small liegt fruit
egg           | eggs       | das Ei Eier                     | un œuf œufs                  | small liegt paint
book          | books      | das Buch Bücher                 | un livre livres              | small liegt paint
key           | keys       | der Schlüssel Schlüssel         | une clé clés                 | small liegt paint
spoon         | spoons     | der Löffel Löffel               | une cuillère cuillères       | small liegt paint
hat           | hats       | der Hut Hüte                    | un chapeau chapeaux          | small liegt paint
shoe          | shoes      | der Schuh Schuhe                | une chaussure chaussures     | small liegt paint
umbrella      | umbrellas  | der Regenschirm Regenschirme    | un parapluie parapluies      | small liegt paint
guitar        | guitars    | die Gitarre Gitarren            | une guitare guitares         | small liegt paint
cup           | cups       | die Tasse Tassen                | une tasse tasses             | small steht paint
bottle        | bottles    | die Flasche Flaschen            | une bouteille bouteilles     | small steht paint
candle        | candles    | die Kerze Kerzen                | une bougie bougies           | small steht paint
bucket        | buckets    | der Eimer Eimer                 | un seau seaux                | small steht paint
box           | boxes      | die Kiste Kisten                | une boîte boîtes             | small steht paint
clock         | clocks     | die Uhr Uhren                   | une horloge horloges         | small steht paint

table         | tables     | der Tisch Tische                | une table tables             | large steht paint
chair         | chairs     | der Stuhl Stühle                | une chaise chaises           | large steht paint
bench         | benches    | die Bank Bänke                  | un banc bancs                | large steht paint
bed           | beds       | das Bett Betten                 | un lit lits                  | large steht paint
car           | cars       | das Auto Autos                  | une voiture voitures         | large steht paint
bicycle       | bicycles   | das Fahrrad Fahrräder           | un vélo vélos                | large steht paint
house         | houses     | das Haus Häuser                 | une maison maisons           | large steht paint
tree          | trees      | der Baum Bäume                  | un arbre arbres              | large steht leaves
ladder        | ladders    | die Leiter Leitern              | une échelle échelles         | large steht paint
tent          | tents      | das Zelt Zelte                  | une tente tentes             | large steht paint
boat          | boats      | das Boot Boote                  | un bateau bateaux            | large liegt paint

coat          | coats      | der Mantel Mäntel               | un manteau manteaux          | garment - paint
dress         | dresses    | das Kleid Kleider               | une robe robes               | garment - paint
jacket        | jackets    | die Jacke Jacken                | une veste vestes             | garment - paint
shirt         | shirts     | das Hemd Hemden                 | une chemise chemises         | garment - paint

park          | parks      | der Park Parks                  | un parc parcs                | place - -
beach         | beaches    | der Strand Strände              | une plage plages             | place - -
street        | streets    | die Straße Straßen              | une rue rues                 | place - -
garden        | gardens    | der Garten Gärten               | un jardin jardins            | place - -
lake          | lakes      | der See Seen                    | un lac lacs                  | place - -
forest        | forests    | der Wald Wälder                 | une forêt forêts             | place - -
kitchen       | kitchens   | die Küche Küchen                | une cuisine cuisines         | place - -
school        | schools    | die Schule Schulen              | une école écoles             | place - -

bat/animal    | bats       | die Fledermaus Fledermäuse      | une chauve-souris chauves-souris | small sitzt dark
bat/sports    | bats       | der Schläger Schläger           | une batte battes             | small liegt dark
bow/weapon    | bows       | der Bogen Bögen                 | un arc arcs                  | small liegt bright
bow/ribbon    | bows       | die Schleife Schleifen          | un nœud nœuds                | small liegt bright
pipe/tobacco  | pipes      | die Pfeife Pfeifen              | une pipe pipes               | small liegt dark
pipe/tube     | pipes      | das Rohr Rohre                  | un tuyau tuyaux              | small liegt dark
bulb/lamp     | bulbs      | die Glühbirne Glühbirnen        | une ampoule ampoules         | small liegt pale
bulb/flower   | bulbs      | die Blumenzwiebel Blumenzwiebeln | un bulbe bulbes              | small liegt pale
seal/animal   | seals      | die Robbe Robben                | un phoque phoques            | small liegt dark
seal/wax      | seals      | das Siegel Siegel               | un sceau sceaux              | small liegt dark
fan/electric  | fans       | der Ventilator Ventilatoren     | un ventilateur ventilateurs  | small steht bright
fan/paper     | fans       | der Fächer Fächer               | un éventail éventails        | small liegt bright
nut/food      | nuts       | die Nuss Nüsse                  | une noix noix                | small liegt dark
nut/metal     | nuts       | die Schraubenmutter Schraubenmuttern | un écrou écrous              | small liegt dark
file/tool     | files      | die Feile Feilen                | une lime limes               | small liegt bright
file/paper    | files      | der Aktenordner Aktenordner     | un classeur classeurs        | small steht bright
kite/toy      | kites      | der Drachen Drachen             | un cerf-volant cerfs-volants | small liegt bright
kite/bird     | kites      | der Milan Milane                | un milan milans              | small sitzt bright
tank/weapon   | tanks      | der Panzer Panzer               | un char chars                | large steht bright
tank/fish     | tanks      | das Aquarium Aquarien           | un aquarium aquariums        | large steht bright
plant/green   | plants     | die Pflanze Pflanzen            | une plante plantes           | large steht bright
plant/factory | plants     | die Fabrik Fabriken             | une usine usines             | large steht bright
trunk/chest   | trunks     | die Truhe Truhen                | une malle malles             | large steht dark
trunk/tree    | trunks     | der Baumstamm Baumstämme        | un tronc troncs              | large liegt dark
"""
"""One sense per line: name | English plural | German article, singular, plural, and genitive of people and n-nouns |
French article, singular, plural | kind, German verb of position, palette. Two senses of an English word have the same
kind and palette, so that no other word of the sentence reveals the sense."""

PALETTES = {
    "fur": "brown black white grey",
    "feathers": "white brown yellow grey black",
    "fruit": "red green yellow",
    "leaves": "green yellow red",
    "paint": "red blue green yellow orange purple black white brown grey",
    "dark": "brown grey black",
    "bright": "red blue green yellow black",
    "pale": "white yellow brown",
    "-": "",
}

_ADJECTIVES = """
small  | klein         | petit petite petits petites
big    | groß          | grand grande grands grandes
old    | alt           | vieux vieille vieux vieilles vieil
red    | rot           | rouge rouge rouges rouges
blue   | blau          | bleu bleue bleus bleues
green  | grün          | vert verte verts vertes
yellow | gelb          | jaune jaune jaunes jaunes
orange | orangefarben  | orange orange orange orange
purple | violett       | violet violette violets violettes
black  | schwarz       | noir noire noirs noires
white  | weiß          | blanc blanche blancs blanches
brown  | braun         | marron marron marron marron
grey   | grau          | gris grise gris grises
"""
"""English | German stem | French masculine, feminine, their plurals, and the masculine before a vowel if it differs."""

_VERBS = """
sleep      | sleeping      | schläft schlafen         | dort dorment               | -
sit        | sitting       | sitzt sitzen             | est~assis sont~assis       | -
stand      | standing      | steht stehen             | est~debout sont~debout     | -
run        | running       | rennt rennen             | court courent              | -
jump       | jumping       | springt springen         | saute sautent              | -
dance      | dancing       | tanzt tanzen             | danse dansent              | -
hold       | holding       | hält halten              | tient tiennent             | small
carry      | carrying      | trägt tragen             | porte portent              | small
watch      | looking~at    | betrachtet betrachten    | regarde regardent          | small large animal
photograph | photographing | fotografiert fotografieren | photographie photographient | small large animal
push       | pushing       | schiebt schieben         | pousse poussent            | car bicycle bed table chair bench
wash       | washing       | wäscht waschen           | lave lavent                | car bicycle dog horse cow cup
feed       | feeding       | füttert füttern          | nourrit nourrissent        | animal
eat        | eating        | isst essen               | mange mangent              | apple egg
read       | reading       | liest lesen              | lit lisent                 | book
chase      | chasing       | jagt jagen               | poursuit poursuivent       | cat rabbit duck sheep pig
give       | giving        | gibt geben               | donne donnent              | small
show       | showing       | zeigt zeigen             | montre montrent            | small
"""
"""Name | English | German singular, plural | French singular, plural | kinds or names of its possible objects."""


@dataclass(frozen=True)
class Noun:
    """One sense of a noun; English, German and French forms are (singular, plural).

    Attributes:
        name: the English word; after an ambiguous word follow a slash and the sense.
        german_gender, french_gender: ``m``, ``f`` or ``n``.
        genitive: German genitive singular, for owners; None for masculine and neuter nouns that own nothing.
        weak: whether it is a German n-noun: der Bär, den Bären, dem Bären.
        kind: person, animal, small, large, garment or place.
        rests: the German verb of position: liegt, steht or sitzt.
        colours: its possible colours.
    """

    name: str
    english: tuple[str, str]
    german_gender: str
    german: tuple[str, str]
    genitive: str | None
    weak: bool
    french_gender: str
    french: tuple[str, str]
    kind: str
    rests: str
    colours: tuple[str, ...]


@dataclass(frozen=True)
class Adjective:
    """English word, German stem, French (m, f, m plural, f plural, m before a vowel)."""

    english: str
    german: str
    french: tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Verb:
    """English present participle; German and French third person (singular, plural); possible objects."""

    english: str
    german: tuple[str, str]
    french: tuple[str, str]
    objects: frozenset[str]


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.splitlines() if line.strip()]


def _noun(name: str, plural: str, german: str, french: str, behaviour: str) -> Noun:
    kind, rests, palette = behaviour.split()
    article, one, many, *genitive = german.split()
    gender = {"der": "m", "die": "f", "das": "n"}[article]
    owner = genitive[0] if genitive else one if gender == "f" else None
    weak = gender == "m" and owner == many and not many.endswith("s")
    french_article, *french_forms = french.split()
    return Noun(
        name=name,
        english=(name.split("/")[0], plural),
        german_gender=gender,
        german=(one, many),
        genitive=owner,
        weak=weak,
        french_gender={"un": "m", "une": "f"}[french_article],
        french=_pair(french_forms),
        kind=kind,
        rests=rests,
        colours=tuple(PALETTES[palette].split()),
    )


def _pair(forms: list[str]) -> tuple[str, str]:
    one, many = (form.replace("~", " ") for form in forms)
    return one, many


def _adjective(english: str, german: str, french: str) -> Adjective:
    masculine, feminine, masculines, feminines, *before_vowel = french.split()
    forms = (masculine, feminine, masculines, feminines, before_vowel[0] if before_vowel else masculine)
    return Adjective(english, german, forms)


def _verb(english: str, german: str, french: str, objects: str) -> Verb:
    done_to = frozenset(objects.split()) - {"-"}
    return Verb(english.replace("~", " "), _pair(german.split()), _pair(french.split()), done_to)


NOUNS: dict[str, Noun] = {cells[0]: _noun(*cells) for cells in _rows(_NOUNS)}
ADJECTIVES: dict[str, Adjective] = {cells[0]: _adjective(*cells) for cells in _rows(_ADJECTIVES)}
VERBS: dict[str, Verb] = {cells[0]: _verb(*cells[1:]) for cells in _rows(_VERBS)}

SENSES: dict[str, tuple[str, str]] = {
    name.split("/")[0]: (name, other)
    for name, other in zip(NOUNS, list(NOUNS)[1:], strict=False)
    if "/" in name and name.split("/")[0] == other.split("/")[0]
}
"""Ambiguous English word → the names of its two nouns."""

RELATIONS: dict[str, tuple[str, str, str]] = {
    "on": ("on", "auf", "sur"),
    "under": ("under", "unter", "sous"),
    "behind": ("behind", "hinter", "derrière"),
    "front": ("in front of", "vor", "devant"),
    "next": ("next to", "neben", "à côté de"),
    "left": ("to the left of", "links von", "à gauche de"),
    "right": ("to the right of", "rechts von", "à droite de"),
}
"""English, German (all with the dative) and French."""

PLACES: dict[str, tuple[str, str, str]] = {
    "park": ("in", "in", "dans"),
    "beach": ("on", "an", "sur"),
    "street": ("on", "auf", "dans"),
    "garden": ("in", "in", "dans"),
    "lake": ("by", "an", "au bord de"),
    "forest": ("in", "in", "dans"),
    "kitchen": ("in", "in", "dans"),
    "school": ("in front of", "vor", "devant"),
}
"""The prepositions of each place: English, German and French."""

NUMBERS: dict[int, tuple[str, str, str]] = {
    2: ("two", "zwei", "deux"),
    3: ("three", "drei", "trois"),
    4: ("four", "vier", "quatre"),
}
