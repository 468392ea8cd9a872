"""What was said in English somewhere, told in Chinese where it is known; everything else is quoted."""

from __future__ import annotations

from numaware.diagnose.texts.chinese.inputs import SENTENCES
from numaware.diagnose.texts.sentences import Sentences
from numaware.diagnose.texts.template import Specs

_SENTENCES = Sentences(SENTENCES)


def retold(text: str) -> str:
    """The sentence; `source: sentence` keeps its source."""
    known = _SENTENCES.told(text, retold)
    if known:
        return known
    source, colon, rest = text.partition(": ")
    chinese = retold(rest) if colon else rest
    return f"{source}：{chinese}" if chinese != rest else text


SPECS: Specs = {"retold": retold}
