"""The words and sentences that reviews are made of.

``[word]`` marks a decisive word. ``{it}`` is the reviewed product, ``{x}`` whatever a clause is about, ``{o}`` an
opinion, ``{an}`` an opinion with its article, ``{is}`` a form of *to be*; the others are drawn from the lists below.
"""

from __future__ import annotations

# What an opinion word says by itself, from -2 to 2.
OPINIONS: dict[int, tuple[str, ...]] = {
    2: ("superb", "excellent", "brilliant", "wonderful"),
    1: ("good", "nice", "solid", "pleasant", "decent"),
    0: ("average", "ordinary", "middling", "unremarkable"),
    -1: ("bad", "poor", "weak", "clumsy", "disappointing"),
    -2: ("dreadful", "terrible", "awful", "hopeless"),
}
INTENSIFIERS = ("very", "really", "remarkably")

# Whole phrases, by strength.
PHRASES: dict[int, tuple[str, ...]] = {
    2: ("{x} is [worth] every [penny]", "I would [buy] {x} [again] tomorrow", "I [love] {x}"),
    1: ("I [like] {x}", "I am [glad] that I bought {x}", "I am [pleased] with {x}"),
    0: ("I have [mixed] feelings about {x}", "I am [undecided] about {x}", "I am [neutral] about {x}"),
    -1: ("I would [not] [buy] {x} [again]", "I [expected] [more] of {x}", "I [dislike] {x}"),
    -2: ("{x} is [not] [worth] a [penny]", "I [regret] buying {x}", "{x} is a [waste] of money", "I [hate] {x}"),
}

# Clauses around an opinion about {x}; those with an "I" are kept apart, since only its owner can say them.
PLAIN = (
    "{x} {is} {o}",
    "{x} {is} {o} in every way",
    "{x} has been {o} so far",
    "{x} turned out {o}",
    "even after weeks {x} is {o}",
)
NOT = ("{x} {is} [not] {o}", "{x} {is} [not] {o} at all", "{x} has [not] been {o} so far")
PLAIN_I = ("I find {x} {o}", "I would call {x} {o}", "{o} is what I would call {x}", "{x} {is} {o}, I think")
NOT_I = ("I do [not] find {x} {o}", "I would [not] call {x} {o}")

# What {x} is: the product and its parts, which decide ...
WHOLE = ("{it}", "{it}", "this {product}", "the {product}", "my new {product}", "this {brand}")
PART = ("the {part}", "its {part}", "the {part} of this {product}")
KIND = ("this is {an} {product}", "{an} {product} in my opinion", "{brand} has made {an} {product} here")
NOT_KIND = ("this is [not] {an} {product}", "{brand} has [not] made {an} {product} here")
# ... or something else, which does not.
OTHER = (
    "the old one",
    "my old {product}",
    "my previous {product}",
    "the one from {rival}",
    "the {product} from {rival}",
    "the {product} that {name} has",
    "the cheaper one",
    "the {other} from the same order",
)
OTHER_PART = ("the {part} of my old {product}", "the {part} of the {rival}", "the {part} of the old one")
SERVICE = ("the delivery", "the courier", "their service", "the website", "the hotline", "the wrapping")
OTHER_KIND = (
    "before this I had {an} {product}",
    "{name} has {an} {product} from {rival}",
    "{rival} has made {an} {product} too",
)

# Someone else's opinion of the product; {c} is a clause about it, {C} the same with a capital.
REPORTED = (
    "{name} says that {c}",
    "{name} thinks that {c}",
    "according to {name}, {c}",
    "{c}, or so the advert says",
    "{c}, says {name}",
    "some reviewers write that {c}",
    "I had been told that {c}",
    "my {relative} keeps saying that {c}",
    "in the words of my {relative}, {c}",
)
QUOTED = (
    '"{C}," says {name}',
    '"{C}," says my {relative}',
    '{name} wrote: "{C}"',
    'someone on the web said "{c}"',
    '"{C}," if I may quote my {relative}',
)

# Two clauses that disagree, in one sentence; or the start of the second where it is a sentence of its own.
BUT = ("{c}, but {d}", "{c}, yet {d}", "although {c}, {d}", "{c}; {d}, though", "{c} - then again, {d}")
HOWEVER = ("", "", "however, ", "on the other hand, ", "then again, ")
STARTS = ("", "", "", "", "", "", "", "", "", "", "honestly, ", "frankly, ", "to be fair, ", "well, ", "I must say: ")
ENDS = (".", ".", ".", ".", "!")

# Sentences that hold no opinion; those in the first two lists are about the product, so that "it" can follow.
OPENERS = (
    "I bought this {product} {when}.",
    "I have had this {product} for {long}.",
    "We got this {product} as a present from {name}.",
    "This {product} is my {nth} from {brand}.",
    "For {long} I had been looking for {product_a}, and then I saw this one.",
    "I ordered the {brand} {product} {when}, in {colour}.",
    "My {relative} needed {product_a}, so we ordered the {brand}.",
)
FACTS = (
    "{It} comes in {colour} and {hue}.",
    "Mine is {colour}.",
    "I use {it} {often}, mostly {where}.",
    "{It} stands next to the {other}.",
    "I keep {it} {where}.",
    "{Number} of my friends have the same {product}.",
    "{It} was made by {brand}, a firm with {number} shops.",
    "{It} weighs {grams} grams (without the box).",
    "My {relative} borrows {it} {often}.",
)
ASIDES = (
    "The parcel came {when}.",
    "Delivery took {number} days.",
    "The manual is in {number} languages.",
    "I paid {grams} crowns for everything.",
    "{name} wanted to know where I got it.",
    "A larger size would have been {grams} crowns.",
    "The photo shows the {colour} one.",
    "I also ordered {other_a}, but that is another story.",
    "Who needs it in {colour}, by the way?",
    "The box was {colour}; I gave it to {name}.",
    "Ask me again in {long}!",
)

# The product, its article, and three of its parts.
PRODUCTS: dict[str, tuple[str, str, str, str]] = {
    "kettle": ("a", "lid", "handle", "switch"),
    "blender": ("a", "blade", "motor", "jug"),
    "lamp": ("a", "shade", "stand", "switch"),
    "backpack": ("a", "zip", "strap", "lining"),
    "keyboard": ("a", "space bar", "cable", "stand"),
    "tent": ("a", "zip", "frame", "floor"),
    "radio": ("a", "sound", "dial", "battery"),
    "toaster": ("a", "timer", "tray", "cable"),
    "watch": ("a", "strap", "display", "battery"),
    "vacuum cleaner": ("a", "hose", "filter", "motor"),
    "office chair": ("an", "seat", "backrest", "frame"),
    "frying pan": ("a", "coating", "handle", "lid"),
    "umbrella": ("an", "handle", "frame", "cover"),
    "coffee machine": ("a", "filter", "jug", "display"),
    "speaker": ("a", "sound", "cable", "volume control"),
    "suitcase": ("a", "lock", "handle", "lining"),
    "drill": ("a", "motor", "grip", "battery"),
    "camera": ("a", "lens", "display", "battery"),
}
WORDS: dict[str, tuple[str, ...]] = {
    "brand": ("Norvik", "Hallam", "Tessen", "Quillo", "Bramwell", "Ostrel", "Kadeno", "Velmar"),
    "name": tuple("Anna Ben Carla David Esra Farid Greta Henry Ines Jonas Kim Lena Marek Nadia Oscar Paula".split()),
    "relative": ("sister", "brother", "neighbour", "flatmate", "aunt", "boss", "mother", "colleague"),
    "colour": ("blue", "green", "grey", "red", "black", "white"),
    "when": ("in March", "last summer", "two weeks ago", "on a Tuesday", "in a sale", "before Christmas", "last year"),
    "long": ("three weeks", "a month", "half a year", "two years", "ten days", "a whole winter"),
    "nth": ("second", "third", "fourth"),
    "often": ("every day", "twice a week", "at weekends", "now and then", "every evening"),
    "where": ("in the kitchen", "at work", "in the garden", "on the balcony", "at my parents' place", "in the hall"),
    "number": ("two", "three", "four", "five", "six", "seven"),
    "grams": ("120", "250", "380", "450", "700", "950"),
}
