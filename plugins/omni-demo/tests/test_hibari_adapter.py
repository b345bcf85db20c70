"""hibari in three pieces reads and sounds as it does in one."""

import numpy as np
import pytest
from omni_demo import weights
from omni_demo.hibari_adapter import AcousticModel, Phonemizer, synthesize

LONG = ", ".join(f"and number {n} walked into the room behind the others" for n in range(30)) + "."
ODD = {
    "control characters": "a\0b \x07 c\x7f\x1b[0m d",
    "directions": "\u202ehello\u202c \u200bworld\ufeff",
    "endless word": "a" * 10_000,
    "endless capitals": "A" * 10_000,
    "endless camel case": "aA" * 2_000,
    "endless digits": "7" * 5_000,
    "digits with apostrophes": "1'" * 500,
    "digits with commas": "1," * 500,
    "large ordinal": "1" * 40 + "th",
    "large amount": "$" + "9" * 60 + ".50 billion",
    "superscript first": "⁴He and ¹⁴C and ❶ and 10⁻⁶",
    "many accents": "Z" + "\u0337\u0301" * 500,
    "long URL": "https://example.com/" + "ab1/" * 200 + "?q=1&r=2#s",
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ==" * 50,
    "brackets": "[a](/b/) [a](//) [](/x/) [x](/😀/) ((((((",
    "many scripts": "Hello 世界, Привет мир, مرحبا, שלום, नमस्ते, 😀👨‍👩‍👧",
    "line ends": "one\r\ntwo\u2028three\u0085four\v five",
}


@pytest.fixture(scope="module")
def phonemizer():
    return Phonemizer(stage="text")


def pieces(phonemizer, text):
    return [piece for sentence in phonemizer.sentences(text) for piece in phonemizer.read(sentence)]


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith paid $9.99 at 9:30am on 10/12/2019; he said: “No way!” Then… 5km more.",
        "One.\n\nTwo! Three? J. K. Rowling wrote; H₂O, CO₂, x⁴.  HELLO!!!\nFour",
        "See https://example.com/a/b?c=d or write to me@example.com. Xyzzyq, grault 42nd.",
        LONG,
    ],
)
def test_phonemes_are_those_of_hibari(phonemizer, hibari, text):
    found = pieces(phonemizer, text)
    assert found == hibari.phonemize(text)
    assert [phonemizer.ids(piece).tolist() for piece in found] == list(map(hibari.ids, found))


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_text_gives_pieces_that_fit(phonemizer, text):
    for piece in pieces(phonemizer, text):
        assert 0 < len(piece) <= 400
        assert phonemizer.ids(piece).dtype == np.int64


def test_a_sentence_without_a_comma_is_split_between_words(phonemizer):
    (sentence,) = phonemizer.sentences("buffalo " * 200)
    found = phonemizer.read(sentence)
    assert len(found) > 1
    assert {word for piece in found for word in piece.split()} == set(phonemizer.read("buffalo"))


@pytest.mark.parametrize(
    ("phonemes", "sounds"),
    [("həlO!", True), ("... — “?”", False), ("\u02c8\u02cc", False), ("", False)],
)
def test_punctuation_and_stress_alone_are_not_heard(phonemizer, phonemes, sounds):
    assert phonemizer.sounds(phonemes) is sounds


@pytest.mark.parametrize("threads", [1, 2])
def test_frames_and_samples_are_those_of_hibari(hibari, threads):
    ids = hibari.ids(hibari.phonemize("Hello there.")[0])
    frames = AcousticModel(stage="acoustic", threads=threads).frames(np.asarray(ids), 1.25)
    samples = synthesize(frames, np.random.default_rng(5))
    expected = hibari.from_ids(ids, 1.25, np.random.default_rng(5))
    assert np.array_equal(samples, expected)


def test_the_bundled_voice_is_the_one_that_hibari_speaks_with(hibari):
    assert hibari.model_path == str(weights.assets() / "hibari.onnx")
