"""The grammar machine and the tables: every language can say everything in its own way."""

from __future__ import annotations

import json
import lzma
import re
import unicodedata

import pytest
from facts import fact
from grammar import Language, Phrase, read_table, world
from sentences import tokens

from deadhead.world import LANGUAGES, SENTENCES, text_of

UPOS = {"ADJ", "ADP", "ADV", "AUX", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "VERB"}


def printed(lang: str, frame: str, features: str, **roles: Phrase | str) -> str:
    return text_of(lang, [token.form for token in tokens(lang, fact(frame, features, **roles))])


MARIA, OMAR = Phrase("name", "maria"), Phrase("name", "omar")
RED_CAR = Phrase("indef", "car", adjective="red")
BOUGHT = {"S": MARIA, "V": "buy", "O": RED_CAR, "P": Phrase("loc", "berlin"), "T": "yesterday"}

# Each of these was written down by hand, not copied from the machine.
BY_HAND = {
    "en": "Maria bought a red car in Berlin yesterday.",
    "de": "Maria kaufte gestern in Berlin ein rotes Auto.",
    "es": "Ayer María compró un coche rojo en Berlín.",
    "zh": "玛丽亚昨天在柏林买了一辆红色的汽车。",
    "hi": "मारिया ने कल बर्लिन में एक लाल कार ख़रीदी।",
    "ur": "ماریا نے کل برلن میں ایک سرخ کار خریدی۔",
    "ar": "اشترت ماريا سيارة حمراء في برلين أمس.",
    "tr": "Maria dün Berlin'de kırmızı bir araba aldı.",
    "sw": "Maria alinunua gari jekundu mjini Berlin jana.",
}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_one_sentence_in_every_language(lang):
    assert printed(lang, "transitive", "past", **BOUGHT) == unicodedata.normalize(
        "NFC", BY_HAND[lang]
    )


@pytest.mark.parametrize(
    ("lang", "frame", "features", "roles", "expected"),
    [
        ("en", "transitive", "past", {"S": MARIA, "V": "eat", "O": Phrase("indef", "apple")},
         "Maria ate an apple."),
        ("en", "live", "pres neg", {"S": Phrase("def", "boy", "pl"), "V": "live",
                                    "P": Phrase("loc", "china")},
         "The boys do not live in China."),
        ("de", "transitive", "past", {"S": OMAR, "V": "see", "O": Phrase("def",
                                      "bus", adjective="old")},
         "Omar sah den alten Bus."),
        ("de", "transitive", "past neg", {"S": OMAR, "V": "buy", "O": Phrase("indef", "table")},
         "Omar kaufte keinen Tisch."),
        ("de", "transitive", "fut neg", {"S": OMAR, "V": "buy", "O": Phrase("def", "table")},
         "Omar wird den Tisch nicht kaufen."),
        ("de", "social", "past", {"S": Phrase("def", "woman"), "V": "help", "O": Phrase("def",
                                  "student")},
         "Die Frau half dem Studenten."),
        ("de", "social", "past neg", {"S": OMAR, "V": "invite", "O": MARIA},
         "Omar lud Maria nicht ein."),
        ("de", "transitive", "past", {"S": OMAR, "V": "sell", "O": Phrase("num", "table", "pl",
                                      "expensive", "three")},
         "Omar verkaufte drei teure Tische."),
        ("es", "social", "fut", {"S": Phrase("def", "girl", "pl"), "V": "visit",
                                 "O": Phrase("def", "doctor")},
         "Las niñas visitarán al médico."),
        ("es", "transitive", "past neg", {"S": OMAR, "V": "read", "O": Phrase("num", "letter",
                                          "pl", "white", "ten")},
         "Omar no leyó diez cartas blancas."),
        ("zh", "transitive", "past neg", {"S": OMAR, "V": "read", "O": Phrase("def", "letter")},
         "奥马尔没有读那封信。"),
        ("zh", "work", "pres", {"S": OMAR, "V": "work", "W": Phrase("work", "sony"),
                                "P": Phrase("loc", "beijing")},
         "奥马尔在北京的索尼工作。"),
        ("hi", "transitive", "past", {"S": Phrase("def", "boy"), "V": "eat", "O": Phrase("num",
                                      "banana", "pl", "big", "five")},
         "लड़के ने पाँच बड़े केले खाए।"),
        ("hi", "motion", "past", {"S": Phrase("def", "woman", "pl"), "V": "go",
                                  "G": Phrase("goal", "cairo")},
         "औरतें काहिरा गईं।"),
        ("hi", "social", "past neg", {"S": MARIA, "V": "help", "O": Phrase("def", "boy")},
         "मारिया ने लड़के की मदद नहीं की।"),
        ("ur", "transitive", "fut", {"S": Phrase("def", "girl", "pl"), "V": "read",
                                     "O": Phrase("def", "book")},
         "لڑکیاں کتاب پڑھیں گی۔"),
        ("ur", "social", "past", {"S": MARIA, "V": "thank", "O": Phrase("def", "boy")},
         "ماریا نے لڑکے کا شکریہ ادا کیا۔"),
        ("ar", "transitive", "past", {"S": Phrase("def", "doctor", "pl"), "V": "read",
                                      "O": Phrase("num", "book", "pl", "new", "three")},
         "قرأ الأطباء ثلاثة كتب جديدة."),
        ("ar", "transitive", "past", {"S": Phrase("def", "girl", "pl"), "V": "buy",
                                      "O": Phrase("num", "car", "pl", None, "four")},
         "اشترت الفتيات أربع سيارات."),
        ("ar", "transitive", "past neg", {"S": MARIA, "V": "build", "O": Phrase("indef",
                                          "house", adjective="big")},
         "لم تبن ماريا بيتا كبيرا."),
        ("ar", "review", "very", {"S": Phrase("def", "car"), "A": "good"},
         "كانت السيارة جيدة جدا."),
        ("tr", "transitive", "past", {"S": OMAR, "V": "read", "O": Phrase("def", "book")},
         "Ömer kitabı okudu."),
        ("tr", "social", "fut neg", {"S": OMAR, "V": "help", "O": Phrase("full",
                                     "yusuf", last_name="lopez")},
         "Ömer Yusuf Lopez'e yardım etmeyecek."),
        ("tr", "motion", "past", {"S": Phrase("def", "student"), "V": "return",
                                  "G": Phrase("goal", "new_york"), "R": Phrase("source", "paris")},
         "Öğrenci Paris'ten New York'a döndü."),
        ("tr", "review", "", {"S": Phrase("def", "hotel"), "A": "bad", "P": Phrase("loc", "cairo")},
         "Kahire'deki otel kötüydü."),
        ("sw", "transitive", "past", {"S": Phrase("def", "boy", "pl"), "V": "read",
                                      "O": Phrase("num", "book", "pl", "small", "three")},
         "Wavulana walisoma vitabu vidogo vitatu."),
        ("sw", "transitive", "fut neg", {"S": Phrase("name", "toyota"), "V": "buy",
                                         "O": Phrase("def", "car", adjective="new")},
         "Toyota haitanunua gari jipya."),
        ("sw", "transitive", "past", {"S": MARIA, "V": "see", "O": Phrase("num", "bus", "pl",
                                      "green", "three")},
         "Maria aliona mabasi matatu ya kijani."),
        ("de", "social", "past", {"S": OMAR, "V": "invite", "O": MARIA, "T": "yesterday"},
         "Omar lud Maria gestern ein."),
        ("sw", "review", "neg", {"S": Phrase("def", "food"), "A": "good"},
         "Chakula hakikuwa kizuri."),
        ("sw", "transitive", "past", {"S": MARIA, "V": "sell", "O": Phrase("num", "bag", "pl",
                                      "white", "five")},
         "Maria aliuza mifuko myeupe mitano."),
    ],
)  # fmt: skip
def test_agreement_case_and_order(lang, frame, features, roles, expected):
    assert printed(lang, frame, features, **roles) == unicodedata.normalize("NFC", expected)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_fact_can_be_said(lang):
    for sentence in json.loads(lzma.decompress(SENTENCES.read_bytes()))["sentences"][lang]:
        words = [word.split("/") for word in sentence.split(" ")]
        assert {len(word) for word in words} == {4}, sentence
        assert {tag for _, tag, *_ in words} <= UPOS, sentence
        assert not any(re.search(r"[\s_:+<\[\]|]", form) or not form for form, *_ in words), (
            sentence
        )
        assert re.fullmatch(r"[.?。？۔؟।]", words[-1][0])


def concepts() -> set[str]:
    known = world()
    result = {c for kind in known["types"].values() for c in kind} | {
        c for kind in known["times"].values() for c in kind
    }
    result |= set(known["kinds_of"].values()) | set(known["reviews"]) | {"live", "work"}
    result |= {c for kind in (known["adjectives"] | known["reviews"]).values() for c in kind}
    return result | {verb for verbs in known["verbs"].values() for verb in verbs}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_tables_hold_every_concept_and_nothing_else(lang):
    table = read_table(lang)
    words, shared = set(table["words"]), set(world()["shared"]["words"])
    assert concepts() <= words | shared
    grammar = {
        item
        for pattern in table["syntax"].values()
        for item in re.findall(r"(?:^|(?<= ))[a-z_]+(?![^ <+-])", pattern)
    }
    assert words - concepts() <= grammar
    used = set(re.findall(r":(\w+)", " ".join(table["words"].values())))
    assert used == set(table["paradigms"])


def test_the_most_specific_variant_wins():
    table = {
        "syntax": {"go": "V<S", "go.neg": "no/PART V<S"},
        "paradigms": {"p": "_a _b[x] _c[x.y]"},
        "words": {"one": "NOUN x |  ", "v": "VERB | k:p", "two": "NOUN x y | k"},
    }
    built = Language(table, {})
    assert [t.form for t in built.tokens(fact("go", "", V="v"))] == ["ka"]
    assert [t.form for t in built.tokens(fact("go", "neg", V="v", S="one"))] == ["no", "kb"]
    assert [t.form for t in built.tokens(fact("go", "", V="v", S="two"))] == ["kc"]
