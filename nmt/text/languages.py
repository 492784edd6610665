"""Languages by their tags, and what their writing needs: words without spaces between them, or marks beyond Moses'.

A tag is an ISO 639 code, a script (ISO 15924) and a region (ISO 3166) joined by underscores: ``en``, ``eng``,
``zh_Hant``, ``pt_BR``, ``eng_Latn``. Two tags joined by a hyphen are a pair.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from nmt.system.errors import ConfigError

_CODES = (
    "aar:aa abk:ab afr:af aka:ak alb:sq amh:am ara:ar arg:an arm:hy asm:as ava:av ave:ae aym:ay aze:az bak:ba bam:bm "
    "baq:eu bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg bur:my cat:ca ces:cs cha:ch che:ce chi:zh chu:cu chv:cv "
    "cor:kw cos:co cre:cr cym:cy cze:cs dan:da deu:de div:dv dut:nl dzo:dz ell:el eng:en epo:eo est:et eus:eu ewe:ee "
    "fao:fo fas:fa fij:fj fin:fi fra:fr fre:fr fry:fy ful:ff geo:ka ger:de gla:gd gle:ga glg:gl glv:gv gre:el grn:gn "
    "guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ice:is ido:io iii:ii iku:iu ile:ie "
    "ina:ia ind:id ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khm:km kik:ki kin:rw "
    "kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg mac:mk "
    "mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd "
    "ndo:ng nep:ne nld:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or orm:om oss:os pan:pa per:fa pli:pi pol:pl "
    "por:pt pus:ps que:qu roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl sme:se smo:sm "
    "sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty tam:ta tat:tt tel:te "
    "tgk:tg tgl:tl tha:th tib:bo tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve "
    "vie:vi vol:vo wel:cy wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu "
)
"""The three-letter codes of ISO 639-2, terminological and bibliographic, of languages that have a two-letter code
(the Library of Congress's list, https://www.loc.gov/standards/iso639-2/)."""
_MEMBERS = (
    "acm:ar acq:ar aeb:ar ajp:ar als:sq apc:ar arb:ar ars:ar ary:ar arz:ar ayr:ay azj:az cmn:zh ekk:et fil:tl fuv:ff "
    "gaz:om khk:mn kmr:ku knc:kr lvs:lv npi:ne ory:or pbt:ps pes:fa plt:mg prs:fa quy:qu swh:sw uzn:uz wuu:zh ydd:yi "
    "yue:zh zsm:ms "
)
"""Codes of ISO 639-3 for one language of a group that has a two-letter code, as FLORES-200 and other corpora use them
(SIL's table of macrolanguages, https://iso639-3.sil.org)."""
_TWO_LETTERS = dict(pair.split(":") for pair in (_CODES + _MEMBERS).split())
_NAMES = (
    "af:afrikaans am:amharic ar:arabic as:assamese az:azerbaijani be:belarusian bg:bulgarian bn:bengali bn:bangla "
    "bo:tibetan bs:bosnian ca:catalan cs:czech cs:čeština cy:welsh da:danish da:dansk de:german de:deutsch el:greek "
    "en:english eo:esperanto es:spanish es:español et:estonian eu:basque fa:persian fa:farsi fi:finnish fi:suomi "
    "fr:french fr:français ga:irish gl:galician gu:gujarati ha:hausa he:hebrew hi:hindi hi:हिन्दी hi:हिंदी hr:croatian "
    "hu:hungarian hu:magyar hy:armenian id:indonesian ig:igbo is:icelandic it:italian it:italiano ja:japanese "
    "ja:日本語 ka:georgian kk:kazakh km:khmer kn:kannada ko:korean ko:한국어 ku:kurdish ky:kyrgyz la:latin lo:lao "
    "lt:lithuanian lv:latvian mg:malagasy mk:macedonian ml:malayalam mn:mongolian mr:marathi ms:malay mt:maltese "
    "my:burmese ne:nepali nl:dutch nl:nederlands no:norwegian no:norsk or:odia or:oriya pa:punjabi pl:polish "
    "pl:polski ps:pashto pt:portuguese pt:português ro:romanian ru:russian ru:русский rw:kinyarwanda sa:sanskrit "
    "sd:sindhi si:sinhala sk:slovak sl:slovenian so:somali sq:albanian sr:serbian sv:swedish sv:svenska sw:swahili "
    "ta:tamil te:telugu tg:tajik th:thai ti:tigrinya tk:turkmen tl:tagalog tr:turkish tr:türkçe tt:tatar ug:uyghur "
    "uk:ukrainian ur:urdu uz:uzbek vi:vietnamese wo:wolof xh:xhosa yi:yiddish yo:yoruba zh:chinese zh:中文 zu:zulu "
)
"""English names of languages, and some of their own, as people write them above columns."""
_NAMED = {name: code for code, name in (each.split(":") for each in _NAMES.split())}

SPACELESS = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}
"""Languages written without spaces between words. Moses' rules are not for them: their text stays as it is."""
UNSPACED = {"zh", "ja"}
"""Languages written without spaces between sentences and phrases too."""
SCRIPTED = {
    "am", "ar", "as", "bho", "bn", "ckb", "dv", "fa", "gu", "he", "hy", "ka", "kn", "ko", "ks", "mai", "ml", "mni",
    "mr", "ne", "or", "pa", "ps", "sa", "sd", "si", "ta", "te", "ti", "ug", "ur", "yi",
}  # fmt: skip
"""Languages with spaces between words and a script of their own, whose punctuation is not normalised to Latin marks.
Hindi is normalised, because published tables were made so."""
DOTLESS = {"tr", "az"}
"""Languages whose I is lowercased to ı, and İ to i."""
LISTED = {
    "as", "bn", "ca", "cs", "de", "el", "en", "es", "et", "fi", "fr", "ga", "gu", "hi", "hu", "is", "it", "kn", "lt",
    "lv", "ml", "mni", "mr", "nl", "or", "pa", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "ta", "tdt", "te",
}  # fmt: skip
"""Languages whose abbreviations Moses knows."""


def folders_of(clean: Path | Sequence[Path], languages: str) -> dict[str, Path]:
    """Return the folder of cleaned text of each pair of languages.

    Args:
        clean: the folders, in the order of the pairs; a single one may stand alone.
        languages: pairs joined by commas, e.g. ``en-de,en-fr``.

    Raises:
        ConfigError: there are not as many folders as pairs.
    """
    folders, pairs = [clean] if isinstance(clean, Path) else list(clean), languages.split(",")
    if len(folders) != len(pairs):
        raise ConfigError(
            f"--languages {languages}: expected a folder of cleaned text for each of {len(pairs)} pairs, in their "
            f"order, got {len(folders)}: {', '.join(map(str, folders))}"
        )
    return dict(zip(pairs, folders, strict=True))


def base(tag: str) -> str:
    """Return the code by which rules are chosen: ``eng_Latn`` → ``en``, ``zh_Hant`` → ``zh``, ``kor`` → ``ko``."""
    code = tag.partition("_")[0]
    return _TWO_LETTERS.get(code, code)


def is_spaceless(tag: str) -> bool:
    """Return whether a language is written without spaces between words."""
    return base(tag) in SPACELESS


def is_listed(tag: str) -> bool:
    """Return whether ISO 639 lists the language of a tag; every code of three letters counts, as they are thousands."""
    return len(base(tag)) == 3 or base(tag) in _TWO_LETTERS.values()


def has_rules(tag: str) -> bool:
    """Return whether Moses or this project has rules for the text of a language."""
    return base(tag) in SPACELESS | SCRIPTED | LISTED


def columns_named(head: Sequence[str], codes: Sequence[str]) -> dict[str, str]:
    """Return the name of each language's column, or nothing if not all have one.

    Names are such as ``en``, ``eng``, ``en-US``, ``text_en``, ``English``; or else ``source`` and ``target``.
    """
    languages = {
        cell: {cell.strip().lower(), *(_NAMED.get(word, base(word)) for word in _words(cell))} for cell in head
    }
    for wanted in (
        [{code.lower()} for code in codes],
        [{base(code)} for code in codes],
        [{"source", "src"}, {"target", "tgt", "trg"}],
    ):
        matches = [[cell for cell in head if languages[cell] & names] for names in wanted]
        chosen = [min(cells, key=len) for cells in matches if cells]
        if len(set(chosen)) == len(codes):
            return dict(zip(codes, chosen, strict=True))
    return {}


def _words(cell: str) -> list[str]:
    """The words of a column's name; none of a cell with more than two, which is a sentence."""
    words = re.split(r"[\s_.-]+", cell.strip().lower())
    return words if len(words) <= 2 else []
