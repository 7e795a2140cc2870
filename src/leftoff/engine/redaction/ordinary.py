"""Whether a string under an ambiguous name (``token``, ``secret``, ``cookie``, ``auth``) is ordinary text."""

from __future__ import annotations

import re

# Up to 24 letters in the case of a word or of two: the, The, DET, PDFs, McDonald. In a long word, six consonants in a
# row are the sign of a random one.
_LETTERS = (
    r"(?!(?=[A-Za-z]{13})[A-Za-z]*?[^\W\d_aeiouyAEIOUY]{6})"
    r"(?:[A-Z]?[a-z]{1,23}|[A-Z]{1,24}s?|[A-Z]?[a-z]{1,11}[A-Z][a-z]{1,11})"
)
_NUMBER = r"\d{1,15}(?:[.,:/-]\d{1,15}){0,5}(?:e[+-]?\d{1,3}|st|nd|rd|th|s)?"
_EDGE = r"(?:[^\w\s=]|_){0,4}"  # "=" is that of a cookie, or the end of base64
_WORD = re.compile(
    rf"[\W_]{{0,4}}|{_EDGE}(?:{_LETTERS}(?:[-'./_&]{_LETTERS}){{0,7}}|{_NUMBER}){_EDGE}", re.ASCII
).fullmatch
_OF_A_TOKENIZER = "ĠĊ▁"  # what tokenizers write for the space before a token


def is_ordinary(text: str) -> bool:
    """Return whether a text is made of words, numbers and punctuation alone."""
    return all(_WORD(_ascii(word)) for word in text.split())


def _ascii(word: str) -> str:
    """Return the word with a letter of ASCII for each other letter that has a case, and without any other character."""
    word = word.lstrip(_OF_A_TOKENIZER)
    if word.isascii():
        return word
    return "".join(c if c < "\x80" else "A" if c.isupper() else "a" if c.islower() else "" for c in word)
