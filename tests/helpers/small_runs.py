"""Small runs from end to end: texts, models of every kind of decision, and tests with options that make them quick."""

import torch

import attnfaith as af
from attnfaith.evaluation.tests.base import tests
from tests.helpers import commands

TEXTS = [*(" ".join(dict.fromkeys(text.split())) for text in commands.texts(40)), "fine", "", "dull plot"]
"""No word twice in a text: equal scores would be in the order that rounding gives them, which a batch may change."""
ROWS = [
    {"text": text, "label": int("fine" in text), "marks": [int(word == "fine") for word in text.split()]}
    for text in TEXTS
]
"""The last but two is one word long, the last but one is set aside."""
KINDS = {
    "sigmoid": ({"num_labels": 1, "problem_type": "single_label_classification"}, {}, 1),
    "multiclass": ({"num_labels": 3}, {}, 2),
    "multilabel": ({"num_labels": 3, "problem_type": "multi_label_classification"}, {}, [0, 2]),
    "regression": ({"num_labels": 1, "problem_type": "regression"}, {"tolerance": 0.05}, 0.5),
}
"""Of decisions: a configuration, what an Evaluator must be told, and a label."""
_QUICK = {
    "adversarial": {"steps": 40, "rate": 0.05},
    "information": {"fewest": 10, "clusters": 4, "kmeans_seeds": 1, "permutations": 20},
    "sanity": {"draws": 1},
}
QUICK = {name: kind(**_QUICK.get(name, {})) for name, kind in tests.items()}
"""Every test there is."""


def evaluator_of(kind):
    """A FLAN without encoder that decides in this way, and texts with labels."""
    config, options, label = KINDS[kind]
    tokenizer = af.models.WordTokenizer.train([" ".join(commands.WORDS)], min_count=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = af.models.from_preset("FLANnoenc", tokenizer=tokenizer, **config)
    commands.spread(model)
    data = [{"text": text, "label": label} for text in commands.texts(30)]
    return af.Evaluator(model, tokenizer, **options), data


def computed(evaluator, data, *names, **options):
    """The results of some tests; all of them where none is named."""
    chosen = [QUICK[name] for name in names or QUICK]
    return evaluator.compute(data, tests=chosen, **{"n_resamples": 99, "quiet": True, **options})
