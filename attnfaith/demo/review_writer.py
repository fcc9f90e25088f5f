"""Writes one review, its decisive words ``[marked]``."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from attnfaith.demo import lexicon as lex

Thing = TypeVar("Thing")
MARK = re.compile(r"\[(.+?)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_PAIRS = {1: ((2, -1),), 0: ((1, -1), (2, -2)), -1: ((-2, 1),)}  # neither of the two can be left out
_SENTENCES = (2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8)


class KeyedRandom:
    """Draws that depend on a key alone. Only ``random()`` is used: Python keeps its numbers the same for ever.

    Example:
        >>> KeyedRandom(0, 17).pick("abc") == KeyedRandom(0, 17).pick("abc")
        True
    """

    def __init__(self, *key: object) -> None:
        self._random = random.Random("/".join(map(str, key))).random

    def pick(self, things: Sequence[Thing]) -> Thing:
        """One of them."""
        return things[int(self._random() * len(things))]

    def chance(self, share: float) -> bool:
        """True so often."""
        return self._random() < share

    def shuffle(self, things: Iterable[Thing]) -> list[Thing]:
        """All of them in another order."""
        keyed = [(self._random(), place, thing) for place, thing in enumerate(things)]
        return [thing for _, _, thing in sorted(keyed, key=lambda entry: entry[:2])]


class Sentence(NamedTuple):
    """A sentence with slots, and whether an "it" in the next one is read as the product."""

    text: str
    ours: bool = False


class Writer:
    """Writes about one product that it draws.

    Example:
        >>> "[" in Writer(KeyedRandom(0, 17)).review(2)
        True
    """

    def __init__(self, draws: KeyedRandom) -> None:
        self.draws = draws
        self.product, self.other = draws.shuffle(lex.PRODUCTS)[:2]
        article, *parts = lex.PRODUCTS[self.product]
        self.parts = draws.shuffle(parts)
        self.brand, self.rival = draws.shuffle(lex.WORDS["brand"])[:2]
        self.colour, self.hue = draws.shuffle(lex.WORDS["colour"])[:2]
        self.fixed = {
            "product": self.product,
            "product_a": f"{article} {self.product}",
            "other": self.other,
            "other_a": f"{lex.PRODUCTS[self.other][0]} {self.other}",
            "brand": self.brand,
            "rival": self.rival,
            "colour": self.colour,
            "hue": self.hue,
            "is": "is",
        }

    def review(self, strength: int) -> str:
        """A review that says ``strength`` of its product, from -2 to 2."""
        verdict = self._verdict(strength)
        room = max(self.draws.pick(_SENTENCES), len(verdict) + 1) - len(verdict)
        distractors = min(room, self.draws.pick((1, 1, 2, 2, 3)))
        opener = room > distractors and self.draws.chance(0.7)
        facts = self.draws.shuffle(lex.FACTS + lex.ASIDES)[: room - distractors - opener]
        groups = [verdict, *([self._distractor()] for _ in range(distractors))]
        groups += [[Sentence(fact, fact in lex.FACTS)] for fact in facts]
        sentences = [sentence for group in self.draws.shuffle(groups) for sentence in group]
        if opener:
            sentences.insert(0, Sentence(self.draws.pick(lex.OPENERS), True))
        filled, ours = [], False
        for sentence in sentences:
            filled.append(_capital(self._fill(sentence.text, it="it" if ours else f"this {self.product}")))
            ours = sentence.ours
        return " ".join(filled)

    def _verdict(self, strength: int) -> list[Sentence]:
        """One or two sentences that decide."""
        if strength not in _PAIRS or self.draws.chance(0.6):
            whole = self.draws.chance(0.65)
            return [self._sentence(self._own(strength, whole, 0), whole)]
        first, second = self.draws.shuffle(self.draws.pick(_PAIRS[strength]))
        whole = self.draws.chance(0.5)
        c, d = self._own(first, whole, 0), self._own(second, False, 1)
        if self.draws.chance(0.5):
            return [self._sentence(self.draws.pick(lex.BUT).replace("{c}", c).replace("{d}", d))]
        return [self._sentence(c), Sentence(self.draws.pick(lex.HOWEVER) + d + self.draws.pick(lex.ENDS))]

    def _own(self, strength: int, whole: bool, part: int) -> str:
        """The writer's own clause about the product or one of its parts."""
        if whole and self.draws.chance(0.4):
            return self._phrase(strength, self.draws.pick(lex.WHOLE))
        opinion, negated = self._opinion(strength)
        if whole and self.draws.chance(0.25):
            return self._put(self.draws.pick(lex.NOT_KIND if negated else lex.KIND), "", opinion)
        about = self.draws.pick(lex.WHOLE if whole else lex.PART).replace("{part}", self.parts[part])
        return self._put(self.draws.pick(lex.NOT + lex.NOT_I if negated else lex.PLAIN + lex.PLAIN_I), about, opinion)

    def _distractor(self) -> Sentence:
        """A sentence with an opinion that does not decide."""
        strength = self.draws.pick((-2, -1, 0, 1, 2))
        kind = self.draws.pick(("other", "other", "reported", "quoted"))
        clause = self._of_another(strength) if kind == "other" else self._of_someone(strength, kind == "quoted")
        return self._sentence(MARK.sub(r"\1", clause))

    def _of_another(self, strength: int) -> str:
        if self.draws.chance(0.3):
            return self._phrase(strength, self.draws.pick(lex.OTHER))
        opinion, negated = self._opinion(strength)
        if not negated and self.draws.chance(0.2):
            return self._put(self.draws.pick(lex.OTHER_KIND), "", opinion)
        about = self.draws.pick(lex.OTHER + lex.OTHER_PART + lex.SERVICE)
        clause = self.draws.pick(lex.NOT + lex.NOT_I if negated else lex.PLAIN + lex.PLAIN_I)
        return self._put(clause, about, opinion)

    def _of_someone(self, strength: int, quoted: bool) -> str:
        about = self.draws.pick(lex.WHOLE + lex.PART)
        opinion, negated = self._opinion(strength)
        clause = self._put(self.draws.pick(lex.NOT if negated else lex.PLAIN), about, opinion)
        if quoted and self.draws.chance(0.6):
            clause = self._phrase(strength, self.draws.pick(lex.WHOLE))
        frame = self.draws.pick(lex.QUOTED if quoted else lex.REPORTED)
        return frame.replace("{c}", clause).replace("{C}", _capital(clause))

    def _phrase(self, strength: int, about: str) -> str:
        return self.draws.pick(lex.PHRASES[strength]).replace("{x}", about)

    def _opinion(self, strength: int) -> tuple[str, bool]:
        """A marked opinion, and whether it is to be negated."""
        if abs(strength) == 2 and self.draws.chance(0.5):
            word = self.draws.pick(lex.OPINIONS[strength // 2])
            return f"[{self.draws.pick(lex.INTENSIFIERS)}] [{word}]", False
        negated = abs(strength) == 1 and self.draws.chance(0.5)
        return f"[{self.draws.pick(lex.OPINIONS[-strength if negated else strength])}]", negated

    def _put(self, clause: str, about: str, opinion: str) -> str:
        article = "an" if opinion.strip("[")[0] in "aeiou" else "a"
        past = self.draws.chance(0.5) and "old" in about
        clause = clause.replace("{an}", f"{article} {opinion}").replace("{x}", about).replace("{o}", opinion)
        return clause.replace("{is}", "was") if past else clause

    def _sentence(self, clause: str, ours: bool = False) -> Sentence:
        return Sentence(self.draws.pick(lex.STARTS) + clause + self.draws.pick(lex.ENDS), ours)

    def _fill(self, text: str, *, it: str) -> str:
        """Fill the slots; what is not fixed for the review is drawn."""
        own = self.fixed | {"it": it, "It": _capital(it)}

        def value(slot: re.Match[str]) -> str:
            name = slot[1]
            if name in own:
                return own[name]
            if name == "part":
                return self.draws.pick(self.parts)
            drawn = self.draws.pick(lex.WORDS[name.lower()])
            return _capital(drawn) if name[0].isupper() else drawn

        return _SLOT.sub(value, text)


def _capital(text: str) -> str:
    """Raise the first letter, which may stand behind a mark or quotation mark or be an open slot."""
    place = next(place for place, letter in enumerate(text) if letter.isalpha())
    return text[:place] + text[place].upper() + text[place + 1 :]
