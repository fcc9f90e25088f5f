"""Generate one review, with its decisive words ``[marked]``."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from attnfaith.demo import lexicon as lex

Thing = TypeVar("Thing")
MARK = re.compile(r"\[(.+?)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_PAIRS = {1: ((2, -1),), 0: ((1, -1), (2, -2)), -1: ((-2, 1),)}  # pairs of clauses of which neither can be left out
_SENTENCES = (2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8)


class KeyedRandom:
    """Random choices that depend on a key alone. Only ``random()`` is used: its numbers are the same in every Python.

    Example:
        >>> KeyedRandom(0, 17).pick("abc") == KeyedRandom(0, 17).pick("abc")
        True
    """

    def __init__(self, *key: object) -> None:
        self._random = random.Random("/".join(map(str, key))).random

    def pick(self, items: Sequence[Thing]) -> Thing:
        """Choose one of several things."""
        return items[int(self._random() * len(items))]

    def chance(self, share: float) -> bool:
        """True with a probability."""
        return self._random() < share

    def shuffle(self, items: Iterable[Thing]) -> list[Thing]:
        """The things in random order."""
        keyed = [(self._random(), index, item) for index, item in enumerate(items)]
        return [item for _, _, item in sorted(keyed, key=lambda entry: entry[:2])]


class Sentence(NamedTuple):
    """A sentence with slots, and whether an "it" in the next sentence refers to the product."""

    text: str
    ours: bool = False


class Writer:
    """Writes reviews of one randomly chosen product.

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
        """A review whose decisive clauses have the sum ``strength``, from -2 to 2."""
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
        """The one or two decisive sentences."""
        if strength not in _PAIRS or self.draws.chance(0.6):
            about_product = self.draws.chance(0.65)
            return [self._sentence(self._clause(strength, about_product, 0), about_product)]
        first, second = self.draws.shuffle(self.draws.pick(_PAIRS[strength]))
        about_product = self.draws.chance(0.5)
        c, d = self._clause(first, about_product, 0), self._clause(second, False, 1)
        if self.draws.chance(0.5):
            return [self._sentence(self.draws.pick(lex.BUT).replace("{c}", c).replace("{d}", d))]
        return [self._sentence(c), Sentence(self.draws.pick(lex.HOWEVER) + d + self.draws.pick(lex.ENDS))]

    def _clause(self, strength: int, about_product: bool, part: int) -> str:
        """A decisive clause about the product or one of its parts."""
        if about_product and self.draws.chance(0.4):
            return self._phrase(strength, self.draws.pick(lex.WHOLE))
        opinion, negated = self._opinion(strength)
        if about_product and self.draws.chance(0.25):
            return self._put(self.draws.pick(lex.NOT_KIND if negated else lex.KIND), "", opinion)
        subject = self.draws.pick(lex.WHOLE if about_product else lex.PART).replace("{part}", self.parts[part])
        return self._put(self.draws.pick(lex.NOT + lex.NOT_I if negated else lex.PLAIN + lex.PLAIN_I), subject, opinion)

    def _distractor(self) -> Sentence:
        """A sentence with an opinion that is not decisive."""
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
        subject = self.draws.pick(lex.OTHER + lex.OTHER_PART + lex.SERVICE)
        clause = self.draws.pick(lex.NOT + lex.NOT_I if negated else lex.PLAIN + lex.PLAIN_I)
        return self._put(clause, subject, opinion)

    def _of_someone(self, strength: int, quoted: bool) -> str:
        subject = self.draws.pick(lex.WHOLE + lex.PART)
        opinion, negated = self._opinion(strength)
        clause = self._put(self.draws.pick(lex.NOT if negated else lex.PLAIN), subject, opinion)
        if quoted and self.draws.chance(0.6):
            clause = self._phrase(strength, self.draws.pick(lex.WHOLE))
        frame = self.draws.pick(lex.QUOTED if quoted else lex.REPORTED)
        return frame.replace("{c}", clause).replace("{C}", _capital(clause))

    def _phrase(self, strength: int, subject: str) -> str:
        return self.draws.pick(lex.PHRASES[strength]).replace("{x}", subject)

    def _opinion(self, strength: int) -> tuple[str, bool]:
        """A marked opinion, and whether it has to be negated."""
        if abs(strength) == 2 and self.draws.chance(0.5):
            word = self.draws.pick(lex.OPINIONS[strength // 2])
            return f"[{self.draws.pick(lex.INTENSIFIERS)}] [{word}]", False
        negated = abs(strength) == 1 and self.draws.chance(0.5)
        return f"[{self.draws.pick(lex.OPINIONS[-strength if negated else strength])}]", negated

    def _put(self, clause: str, subject: str, opinion: str) -> str:
        article = "an" if opinion.strip("[")[0] in "aeiou" else "a"
        past_tense = self.draws.chance(0.5) and "old" in subject
        clause = clause.replace("{an}", f"{article} {opinion}").replace("{x}", subject).replace("{o}", opinion)
        return clause.replace("{is}", "was") if past_tense else clause

    def _sentence(self, clause: str, ours: bool = False) -> Sentence:
        return Sentence(self.draws.pick(lex.STARTS) + clause + self.draws.pick(lex.ENDS), ours)

    def _fill(self, text: str, *, it: str) -> str:
        """Fill the slots: with the fixed words of the review, or with random ones."""
        fixed = self.fixed | {"it": it, "It": _capital(it)}

        def value(slot: re.Match[str]) -> str:
            name = slot[1]
            if name in fixed:
                return fixed[name]
            if name == "part":
                return self.draws.pick(self.parts)
            word = self.draws.pick(lex.WORDS[name.lower()])
            return _capital(word) if name[0].isupper() else word

        return _SLOT.sub(value, text)


def _capital(text: str) -> str:
    """Capitalise the first letter, which can follow a mark or quotation mark, or be the name of a slot."""
    index = next(index for index, letter in enumerate(text) if letter.isalpha())
    return text[:index] + text[index].upper() + text[index + 1 :]
