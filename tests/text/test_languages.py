"""Tags of languages, and text of many scripts that comes back from cleaning as it was written."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses.corpus import NonbreakingPrefixes

from nmt.config.choices import LANGUAGE, PAIR, joined_subtags
from nmt.config.data import Cleaning, CustomCorpus
from nmt.config.system import System
from nmt.text.clean import Cleaner, clean_line, restore
from nmt.text.languages import LISTED, SPACELESS, base, has_rules

CASED = Cleaning(lowercase=False)
SENTENCES = {
    "th": [
        "แมวนอนอยู่ใต้โต๊ะ",
        "เขาซื้อหนังสือ 3 เล่ม ในราคา 250 บาท",
        "น้ำท่วมกรุงเทพฯ เมื่อปี พ.ศ. 2554",
        "เด็ก ๆ เล่นในสวน และร้องเพลง",
        "เธอถามว่า “คุณจะไปไหน”",
        "เปิด 9.00-17.00 น. (ยกเว้นวันหยุด)",
    ],
    "my": [
        "ကျွန်တော် မြန်မာစာ လေ့လာနေသည်။",
        "သူမသည် ဈေးသို့ သွားပြီး၊ ငါးဝယ်သည်။",
        "ကလေးများ၏ ကျောင်းသည် ဝေးသည်။",
        "၂၀၂၄ ခုနှစ်၌ တွေ့ကြမည်။",
    ],
    "km": [
        "ខ្ញុំរៀនភាសាខ្មែរ។",
        "តើអ្នកសុខសប្បាយទេ?",
        "គាត់ទៅផ្សារ ហើយទិញត្រី៕",
        "ផ្សារ៖ ត្រី សាច់ និងបន្លែ។",
    ],
    "lo": [
        "ຂ້ອຍຮຽນພາສາລາວ",
        "ແມວນອນຢູ່ເທິງຕັ່ງ.",
        "ເຈົ້າຊິໄປໃສ?",
    ],
    "bo": [
        "བོད་སྐད་སློབ་སྦྱོང་བྱེད་ཀྱི་ཡོད། ཁྱེད་རང་གང་དུ་འགྲོ།",
    ],
    "zh": [
        "今天天气很好，我们去公园吧！",
        "他说：“你好。”",
        "我用Python写代码（很快）。",
        "2024年3月5日，气温是25℃。",
        "价格为￥100——很便宜……",
        "在 2008 年，北京举办了奥运会。",
    ],
    "ja": [
        "私は駅で友達を待っている。",
        "「明日は雨が降るでしょう」と彼は言った。",
        "東京タワーの高さは333メートルです。",
        "コーヒー・紅茶、どちらにしますか？",
    ],
    "ko": [
        "나는 역에서 친구를 기다리고 있다.",
        "“내일은 비가 올 거예요.”라고 그가 말했다.",
        "서울의 인구는 약 950만 명이다.",
        "정말? 왜 그래!",
        "그는 '안녕'이라고 말했다.",
    ],
    "ur": [
        "وہ بازار گیا، اور مچھلی خریدی۔",
        "کیا آپ کل آئیں گے؟",
        "اس نے کہا: ”میں تیار ہوں۔“",
        "قیمت ۵۰٪ کم ہوئی؛ سب خوش ہیں۔",
        "یہ کتاب (نئی) ہے۔",
    ],
    "fa": [
        "او نمی\u200cخواهد برود.",
        "کتاب\u200cهای تازه را دیدم.",
        "«آیا می\u200cآیی؟» پرسید.",
        "قیمت ۳٫۱۴ دلار است، نه ۵٪؛ خوب!",
        "خانه\u200cام نزدیک دانشگاه است.",
        "ساعت ۱۰:۳۰ در تاریخ ۱۴۰۳/۰۵/۱۲ آمد.",
    ],
    "ar": [
        "متى وصلت، وأين كنت؟",
        "قال الرجل: «أنا مستعد»؛ ثم ذهب.",
        "السِّعر ٥٠٪ أقل (تقريبًا).",
        "الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ",
        "وُلد عام ١٩٩٥م.",
        "المؤتمر العربي-الأوروبي 2024/2025.",
    ],
    "he": [
        'הוא אמר: "אני מוכן".',
        'צה"ל פרסם הודעה.',
        "הצ'ק נפדה אתמול, נכון?",
        "בית־ספר חדש נפתח.",
        "שָׁלוֹם לכולם!",
    ],
    "bn": [
        "আমি বাংলায় গান গাই।",
        "তুমি কি কাল আসবে?",
        "সে বলল, “আমি প্রস্তুত।”",
        "মূল্য ৫০% কমেছে; সবাই খুশি।",
        "ক্ষুদ্র উৎসব হয়েছিল (গ্রামে)।",
    ],
    "hi": [
        "यह घर बड़ा है।",
        "क्या आप कल आएंगे?",
        'उसने कहा, "मैं तैयार हूँ।"',
        "क्\u200dया बात है!",
    ],
    "si": [
        "ශ්\u200dරේණිය අලුත් ය.",
        "ඔබ හෙට එනවා ද?",
        "ශ්\u200dරී ලංකාව, දූපතකි.",
    ],
    "ta": [
        "நான் தமிழ் பேசுகிறேன்.",
        "நீங்கள் நாளை வருவீர்களா?",
    ],
    "te": [
        "నేను తెలుగు మాట్లాడతాను.",
        "మీరు రేపు వస్తారా?",
    ],
    "ml": [
        "ഞാൻ മലയാളം സംസാരിക്കുന്നു.",
        "അവൻ്റെ വീട് വലുതാണ്.",
    ],
    "hy": [
        "Ինչպե՞ս ես։",
        "Բարև՛, ես հայերեն եմ սովորում։",
        "Նա ասաց՝ «ես պատրաստ եմ»։",
        "Ո՞վ է նա, որտե՞ղ է։",
    ],
    "ka": [
        "მე ქართულს ვსწავლობ.",
        "„გამარჯობა“, თქვა მან.",
    ],
    "am": [
        "ሰላም፣ እንዴት ነህ?",
        "እኔ አማርኛ እማራለሁ።",
    ],
    "ne": [
        "म नेपाली बोल्छु।",
        "तपाईं कहाँ जाँदै हुनुहुन्छ?",
    ],
    "en": [
        "The boy's bike isn't here.",
        '"Wait!" she said.',
        "He paid $5.50 (about 10%).",
        "Our family 👩\u200d👩\u200d👧 went to the sea 🏖️.",
        "A flag 🇫🇷 and a thumb 👍🏽 are here.",
    ],
    "fr": [
        "L'enfant n'a pas d'argent.",
        "Qu'est-ce que c'est ?",
        'Il dit : "oui" !',
    ],
    "de": [
        "Ein Mädchen füttert die Kätzchen.",
        'Er sagt: "Ja!"',
    ],
    "ru": [
        "Я не знаю, что сказать.",
        'Он сказал: "Да!"',
    ],
    "uk": [
        "П'ять хлопців грали.",
        "Обов'язково прийди!",
    ],
    "vi": [
        "Tôi đang học tiếng Việt.",
        "Bạn khỏe không?",
    ],
    "tr": [
        "İstanbul'da yaşıyorum.",
        "Ne yapıyorsun?",
    ],
    "el": [
        "Τι κάνεις;",
        "Πού είναι το βιβλίο;",
    ],
    "yo": [
        "Ó ń lọ sí ọjà.",
        "Ṣé dáadáa ni? Ẹ̀kọ́ dára.",
    ],
}


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_come_back_as_they_were_written(language: str) -> None:
    for sentence in SENTENCES[language]:
        cleaned = clean_line(sentence, language, CASED)
        assert restore(cleaned, language, CASED) == sentence, cleaned


@pytest.mark.parametrize(
    ("language", "raw", "cleaned"),
    [
        ("fa", "او نمی\u200cخواهد برود.", "او نمی\u200cخواهد برود ."),
        ("si", "ශ්\u200dරේණිය අලුත් ය.", "ශ්\u200dරේණිය අලුත් ය ."),
        ("hi", "क्\u200dया है?", "क्\u200dया है ?"),
        ("en", "Our 👩\u200d👩\u200d👧 at the sea 🏖\ufe0f.", "Our 👩\u200d👩\u200d👧 at the sea 🏖\ufe0f ."),
        ("en", "one \u200d two", "one two"),
        ("ar", "متى وصلت، وأين كنت؟", "متى وصلت ، وأين كنت ؟"),
        ("hi", "यह घर बड़ा है।", "यह घर बड़ा है ।"),
        ("hy", "Ինչպե՞ս ես։", "Ինչպե՞ս ես ։"),
        ("vi", "unicode e\u0323\u0300!", "unicode ẹ̀ !"),
    ],
)
def test_joiners_and_marks_stay_inside_words(language: str, raw: str, cleaned: str) -> None:
    assert clean_line(raw, language, CASED) == cleaned
    assert restore(cleaned, language, CASED) == clean_line(raw, language, Cleaning(lowercase=False, tokenize="none"))


@pytest.mark.parametrize(
    ("language", "segmented", "written"),
    [
        ("zh", "孩子 们 在 公园 里 玩 。", "孩子们在公园里玩。"),
        ("ja", "「 明日 は 雨 」 と 言っ た 。", "「明日は雨」と言った。"),
        ("zh", "他 说 ： “ 我 用 Python 。 ”", "他说：“我用 Python 。”"),
        ("zho_Hant", "在 2008 年，北京", "在 2008 年，北京"),
        ("th", "เด็ก ๆ เล่น", "เด็ก ๆ เล่น"),
    ],
)
def test_text_that_was_segmented_comes_back_as_people_write_it(language: str, segmented: str, written: str) -> None:
    assert restore(clean_line(segmented, language, CASED), language, CASED) == written


WORDS = {
    language: sorted(
        {word.strip("“”‘’«»„()[]\"'.,!?;:،؛؟۔।։፣") for sentence in SENTENCES[language] for word in sentence.split()}
    )
    for language in ("ar", "bn", "fa", "he", "hi", "hy", "ko", "si", "ta", "ur", "am", "ne")
}
STOPS = {
    "ar": "،؛؟.!",
    "ur": "،؛؟۔!",
    "fa": "،؛؟.!",
    "hi": "।,?!;",
    "bn": "।,?!;",
    "ne": "।,?!",
    "hy": "։,՝",
    "am": "።፣፤?!",
}


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_any_sentence_of_words_and_stops_comes_back(data: st.DataObject) -> None:
    language = data.draw(st.sampled_from(sorted(WORDS)))
    words = st.sampled_from([word for word in WORDS[language] if any(map(str.isalpha, word))])
    stop = st.sampled_from(["", "", *STOPS.get(language, ".,?!;")])
    forms = st.sampled_from(["{}", "{}", "({})", "“{}”", "«{}»" if language != "hi" else "{}", "[{}]", "50% {}"])
    parts = st.builds(lambda form, word, mark: form.format(word) + mark, forms, words, stop)
    sentence = " ".join(data.draw(st.lists(parts, min_size=1, max_size=6)))
    recipe = Cleaning(lowercase=False, punctuation=False)
    assert restore(clean_line(sentence, language, recipe), language, recipe) == sentence


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("en", "en"), ("eng", "en"), ("fra", "fr"), ("fre", "fr"), ("deu", "de"), ("ger", "de"), ("hin", "hi"),
        ("kor", "ko"), ("zho", "zh"), ("chi", "zh"), ("cmn", "zh"), ("jpn", "ja"), ("zh_Hant", "zh"), ("pt_BR", "pt"),
        ("eng_Latn", "en"), ("zho_Hans_CN", "zh"), ("pes_Arab", "fa"), ("mya", "my"), ("bur", "my"), ("khm", "km"),
        ("hye", "hy"), ("src", "src"),
    ],
)  # fmt: skip
def test_a_tag_means_a_language(tag: str, code: str) -> None:
    assert base(tag) == code
    assert re.fullmatch(LANGUAGE, tag)


@pytest.mark.parametrize(("two", "three"), [("en", "eng"), ("fr", "fra_Latn"), ("de", "ger"), ("ko", "kor")])
def test_three_letters_give_the_text_of_two(two: str, three: str) -> None:
    recipe = Cleaning()
    for sentence in SENTENCES[two]:
        cleaned = Cleaner(recipe, two)(sentence)
        assert Cleaner(recipe, three)(sentence) == cleaned
        assert restore(cleaned, three, recipe) == restore(cleaned, two, recipe)
    hindi = Cleaning(transliterate="hk")
    assert Cleaner(hindi, "hin_Deva")("भारत") == Cleaner(hindi, "hi")("भारत") == "bhArata"


def test_the_languages_of_moses_are_listed() -> None:
    assert set(NonbreakingPrefixes().available_langs.values()) - SPACELESS - {"yue"} == LISTED
    assert has_rules("yue") and not has_rules("swa") and not has_rules("xx")


@pytest.mark.parametrize(
    ("written", "pair"),
    [
        ("en-zh_Hant", "en-zh_Hant"), ("en-zh-Hant", "en-zh_Hant"), ("pt-BR-en-US", "pt_BR-en_US"), ("en-de", "en-de"),
        ("es-419-eng_Latn", "es_419-eng_Latn"),
    ],
)  # fmt: skip
def test_subtags_are_joined_by_underscores(written: str, pair: str) -> None:
    assert joined_subtags(written) == pair and re.fullmatch(PAIR, pair)
    assert System.model_validate({"corpus": "c", "languages": written, "training": {"epochs": 1}}).languages == pair


def test_the_files_of_a_corpus_have_tags_too() -> None:
    corpus = CustomCorpus.model_validate({"train": {"en": "x", "zh-Hant": "y"}, "tests": {"t": {"pt_BR": "z"}}})
    assert list(corpus.train) == ["en", "zh_Hant"] and list(corpus.tests["t"]) == ["pt_BR"]


@pytest.mark.parametrize("pair", ["en", "en-", "EN-de", "en-zh_hant", "english-de", "en_us-de", "en-de-fr", "en/x-de"])
def test_other_words_are_no_pair(pair: str) -> None:
    assert not re.fullmatch(PAIR, joined_subtags(pair))
