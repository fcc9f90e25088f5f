"""Small texts and models for the training tests."""

import torch

import attnfaith as af
from attnfaith.demo.review_writer import KeyedRandom

NOISE = "it was a film with some people and a plot in which they talk".split()
TELLING = ("dreadful", "ordinary", "magnificent")


def rows(count, seed=0, classes=2):
    """Texts of noise with one telling word each; half of them in two sentences."""
    made = []
    for number in range(count):
        draws = KeyedRandom("rows", seed, number)
        label = number % classes
        words = [draws.pick(NOISE) for _ in range(draws.pick((4, 6, 9, 13)))]
        words.insert(draws.pick(range(len(words) + 1)), TELLING[label if classes == 3 else 2 * label])
        text = " ".join(words) + "."
        made.append({"text": f"They came. {text}" if draws.chance(0.5) else text, "label": label})
    return made


def small(name="FLANrnn", *, labels=2, seed=0, **options):
    """A small model and its tokenizer."""
    tokenizer = af.models.WordTokenizer.train(
        [row["text"] for row in rows(60, classes=3)], min_count=1, sentences=name.startswith("HAN")
    )
    sizes = {"embedding_size": 12, "hidden_size": 8, "kernels": [(3, 6)], "attention_size": 6}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = af.models.from_preset(name, num_labels=labels, tokenizer=tokenizer, **(sizes | options))
    return model, tokenizer


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(first, other):
    return all(torch.equal(value, other[name]) for name, value in first.items())


def accuracy(model, tokenizer, data):
    """Text by text: no batches, no padding."""
    right = 0
    with torch.no_grad():
        for row in data:
            logits = model(**tokenizer(row["text"], return_tensors="pt")).logits[0]
            right += (int(logits.argmax()) if len(logits) > 1 else int(logits[0] > 0)) == row["label"]
    return right / len(data)
