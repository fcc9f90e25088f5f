# %% [markdown]
# # Is attention interpretable? A HAN from training to verdict
#
# *Is Attention Interpretable?* asked Serrano and Smith in 2019, and answered with an experiment on **hierarchical
# attention networks** (HAN): a network that reads words, weighs them into sentences, weighs the sentences into a text,
# and classifies it. The weights of the sentences look like a ready explanation: "this sentence decided".
#
# This notebook trains such a network and repeats the experiment, with intervals and a verdict.

# %%
import torch

import attnfaith as af
from attnfaith.demo.corpus import reviews
from attnfaith.demo.planted import Planted
from attnfaith.training import fit

# %% [markdown]
# ## Data
#
# Product reviews that attnfaith generates: does the writer like the product? A few words decide that, by a fixed rule,
# and the generator says which. All other sentences are noise, some with opinions that do not count.

# %%
LABELS = {0: "negative", 1: "positive"}
rows = [{**review, "label": int(review["label"] > 2)} for review in reviews(3000) if review["label"] != 2]
test, validation, train = rows[:200], rows[200:400], rows[400:]

for row in test[:2]:
    print(f"{LABELS[row['label']]}, because of {row['words']}: {row['text']}\n")

# %% [markdown]
# ## Model and training
#
# `af.models` has the classifiers of the literature as Transformers models; `HANrnn` is the one of Serrano and Smith,
# with recurrent encoders. `fit` trains any classifier and keeps the best epoch. (The `Trainer` works too.)

# %%
texts = [row["text"] for row in train]
tokenizer = af.models.WordTokenizer.train(texts, min_count=2, sentences=True)
torch.manual_seed(0)
model = af.models.from_preset("HANrnn", num_labels=2, tokenizer=tokenizer, embedding_size=32, id2label=LABELS)
history = fit(model, tokenizer, train, validation, learning_rate=5e-3, epochs=4)
for epoch in history.epochs:
    print(f"epoch {epoch['epoch']}: accuracy {epoch['validation_accuracy']:.2f}")

# %% [markdown]
# **With your own texts:** `train = load_dataset("yelp_polarity", split="train")` and the same lines. Any data set with
# the columns "text" and "label" will do; `fit` takes the names of others. A trained network is saved and loaded like
# any model: `model.save_pretrained(path)`, `AutoModelForSequenceClassification.from_pretrained(path)`.
#
# ## One text
#
# The attention over the sentences of a text. Darker is more.

# %%
attention = af.Attributor(model, tokenizer, method="attention")
attention(test[0]["text"])

# %% [markdown]
# It is tempting to believe that. The experiment tests it: take the weight off the most attended sentence and give it to
# the others; then off the next; and so on until the decision flips.
#
# ## The verdict
#
# Two other orders give the scale: a random one, and the **smallest set** of sentences that flips the decision, which is
# known exactly in this kind of network. We also judge an order that nobody has on real data: the sentences with the
# planted words first. A ranking of yours is one entry of `explanations=`.

# %%
results = af.Evaluator(model, tokenizer).compute(test, explanations={"planted": Planted(test)}, quiet=True)
print(results)

# %% [markdown]
# The same in a picture. Lower is better: the share of decisions that still stand when so many sentences are gone.

# %%
results.plot("erasure")

# %% [markdown]
# Which ranking needs fewer sentences, text by text? Each cell is the share of texts on which the ranking of the row
# needs fewer than the ranking of the column.

# %%
results.plot("erasure", kind="wins")

# %% [markdown]
# ## Single weights
#
# The experiment of the paper begins with one weight: does the decision change more without the most attended sentence
# than without another one, drawn at random? Each point is a text. To the right, the most attended sentence has much
# more weight than the other; above zero, it also mattered more.

# %%
results.plot("single_weight")

# %% [markdown]
# ## What to conclude, and what not
#
# - The label holds for this network, trained once on these texts. Serrano and Smith found attention wanting in networks
#   of the same kind on four large data sets. `af.models.presets()` lists their networks and those of other papers.
# - A sentence that decides contains the reason; it is not the reason. Inside a sentence, the words have attention of
#   their own: `compute(..., level="input")` judges rankings of words.
# - Here many decisions last until the last sentence is gone: nothing in the others speaks for another class.
#   Then even the best order needs most of the text, and skill, which compares with the best, is the figure to read.
# - A ranking that beats attention shows what *this network* goes by. The planted sentences show what it *could* go by.
#   Where the two differ, the network has learned something else, even where it is right.
