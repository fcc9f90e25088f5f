# %% [markdown]
# # Have your own explanation judged
#
# You already explain your classifier: with LIME or SHAP, with a rule, or by asking people. Are these explanations
# better than attention? attnfaith judges **any** explanation that gives each word a score, by one test: remove the
# words with the highest scores first, and see how soon the decision flips.
#
# Here a classifier of product reviews is explained by a LIME of a few lines and by words that people marked.

# %%
from importlib.util import find_spec

import numpy as np
import torch
from transformers import pipeline

import attnfaith as af
from attnfaith.demo.corpus import short_reviews
from attnfaith.training import fit

# %% [markdown]
# ## A model and its texts
#
# A small recurrent network with one attention layer, trained for some seconds on generated reviews. Each review comes
# with `ranges`: the characters of the words that decide. They stand for what a careful reader would mark.

# %%
LABELS = {0: "negative", 1: "mixed", 2: "positive"}
rows = short_reviews(5_360, classes=3)
test, validation, train = rows[:60], rows[60:360], rows[360:]

tokenizer = af.models.WordTokenizer.train([row["text"] for row in train], min_count=2)
torch.manual_seed(0)
model = af.models.from_preset("FLANrnn", num_labels=3, tokenizer=tokenizer, embedding_size=32, id2label=LABELS)
history = fit(model, tokenizer, train, validation, learning_rate=5e-3, epochs=5)
print(f"accuracy on other reviews: {history.best['validation_accuracy']:.2f}")

marked = test[0]
print(marked["text"], "->", [marked["text"][start:end] for start, end in marked["ranges"]])

# %% [markdown]
# **Yours:** `model = AutoModelForSequenceClassification.from_pretrained(...)` with its tokenizer, and any texts. The
# rest of this notebook stays as it is.
#
# ## LIME in a few lines
#
# LIME removes words at random, asks the model again, and fits a linear model to its answers: a word's coefficient is
# its score. An explanation for attnfaith is **a function from a text to scores**. It gets the text as the model reads
# it, with `text`, `tokens`, `words` and more, and returns a score for each token (or for each word).

# %%
classifier = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, batch_size=128)


def lime(text, samples=150):
    words = text.text.split()
    kept = np.random.default_rng(0).random((samples, len(words))) < 0.7
    kept[0] = True  # the text itself says which class is explained
    variants = [" ".join(word for word, keep in zip(words, row, strict=True) if keep) for row in kept]
    answers = [{answer["label"]: answer["score"] for answer in answers} for answers in classifier(variants)]
    predicted = max(answers[0], key=answers[0].get)
    probability = np.array([answer[predicted] for answer in answers])
    near = np.exp(-(((1 - kept.mean(1)) / 0.25) ** 2))  # variants like the text count for more
    root = np.sqrt(near)[:, None]
    design = np.hstack([kept, np.ones((samples, 1))])
    coefficients = np.linalg.lstsq(root * design, root[:, 0] * probability, rcond=None)[0]
    return coefficients[:-1]


# %% [markdown]
# ## The comparison
#
# `explanations=` takes functions, as `lime`, and names of columns that hold a list of scores for each text. A person's
# marks are scores too: 1 for a marked token, else 0. What is not marked then goes in the order of the text.
#
# LIME speaks of the words of the text, so words are removed from the text: `level="input"`.


# %%
ranges = {row["text"]: row["ranges"] for row in test}


def marks(text):
    return [
        float(span is not None and any(span[0] < end and start < span[1] for start, end in ranges[text.text]))
        for span in text.offsets
    ]


mine = {"LIME": lime, "people": marks}

# %% [markdown]
# If the package `lime` is installed, its explanations are judged too. Its scores come back as pairs of a word and a
# weight.

# %%
if find_spec("lime"):
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(class_names=list(LABELS.values()), random_state=0)

    def probabilities(texts):
        answers = [{answer["label"]: answer["score"] for answer in row} for row in classifier(list(texts))]
        return np.array([[answer[name] for name in LABELS.values()] for answer in answers])

    def lime_package(text):
        explained = explainer.explain_instance(text.text, probabilities, top_labels=1, num_samples=300)
        weights = dict(explained.as_list(label=explained.top_labels[0]))
        return [weights.get(text.text[span[0] : span[1]], 0.0) for span in text.offsets]

    mine["LIME (package)"] = lime_package

# %%
results = af.Evaluator(model, tokenizer).compute(
    test,
    explanations=mine,
    level="input",
    tests=["erasure", "rationales"],
    rationale_column="ranges",
    quiet=True,
)
print(results)

# %% [markdown]
# Each explanation of yours has a line of its own in the table, and a sentence with its label by the same rule.
#
# `results.plot("erasure", kind="efficiency")` shows how much of a text each ranking removes until the decision flips:
# less is better.

# %%
results.plot("erasure", kind="efficiency")

# %% [markdown]
# ## Plausible is not faithful
#
# There are two questions about an explanation. Does it name what decides **in the model** (faithful)? Does it name what
# **people** would (plausible)? The test `rationales` answers the second: how well does the top of each ranking agree
# with the marks? Marks come from a column (`rationale_column=`): ranges of characters, 0 or 1 for each word, or numbers
# of words.

# %%
results.plot("rationales", kind="agreement")

# %% [markdown]
# ## What to conclude, and what not
#
# - Compare the intervals, not the last digit: with sixty texts they are wide.
# - The marks of people agree with themselves perfectly, and still need not flip this model's decisions soon: where it
#   goes by other words, that is a fact about the model, not a mistake of the people.
# - A slow explanation is worth its price only if it does better than a cheap one. The column *cost* has what built-in
#   rankings cost; this LIME runs the model 150 times for a text.
