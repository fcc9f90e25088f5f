# %% [markdown]
# # The debate in one notebook
#
# *Attention is not Explanation* (Jain and Wallace, 2019). *Attention is not not Explanation* (Wiegreffe and Pinter,
# 2019). *Is Attention Interpretable?* (Serrano and Smith, 2019). *The elephant in the interpretability room* (Bastings
# and Filippova, 2020). Behind the titles are different questions, and each has a test. This notebook puts eight to
# **one model**, and says of each what it can tell, and what it cannot.

# %%
import torch

import attnfaith as af
from attnfaith.demo.corpus import short_reviews
from attnfaith.training import fit

# %% [markdown]
# The model: words read by a recurrent network, averaged by one attention layer, and classified. It is the kind of model
# that the debate was about. The texts: generated reviews, whose decisive words are known.

# %%
rows = short_reviews(5_700)
test, validation, train = rows[:200], rows[200:700], rows[700:]
tokenizer = af.models.WordTokenizer.train([row["text"] for row in train], min_count=2)
torch.manual_seed(0)
model = af.models.from_preset("FLANrnn", num_labels=2, tokenizer=tokenizer, embedding_size=32)
history = fit(model, tokenizer, train, validation, learning_rate=5e-3, epochs=3)
print(f"accuracy: {history.best['validation_accuracy']:.2f}")

# %% [markdown]
# One call runs all tests, over one pass through the model.

# %%
tests = [
    "erasure",
    "single_weight",
    "agreement",
    "permutation",
    af.tests.Adversarial(steps=100),
    "information",
    "rationales",
    af.tests.Sanity(depths=3),
]
results = af.Evaluator(model, tokenizer).compute(test, tests=tests, rationale_column="ranges", quiet=True)
print(results.verdict.label)


def says(test):
    print("\n".join(results.verdict.parts[test]))


# %% [markdown]
# ## 1. Erasure: how much must go until the decision flips?
#
# Serrano and Smith. Take the weight off the most attended word and give it to the others, then off the next, and so on.
#
# **It can tell** whether the order of attention is the order of what decides. The label of the verdict rests on this
# test alone. **It cannot tell** why a word decides, and the model runs with attention that it would not choose itself.

# %%
says("")
results.plot("erasure")

# %% [markdown]
# ## 2. Single weights: does the most attended word matter more than another one?
#
# Serrano and Smith, the quicker experiment: one removal.
#
# **It can tell** whether the top of the order is right. **It cannot tell** anything of decisions that rest on several
# words: no single removal flips them.

# %%
says("single_weight")
results.plot("single_weight")

# %% [markdown]
# ## 3. Agreement: do attention and other rankings say the same?
#
# Jain and Wallace compared attention with gradients and with leave-one-out, and found little agreement.
#
# **It can tell** whether the choice of a ranking changes what a reader sees. **It cannot tell** which of them is right:
# gradients and leave-one-out often disagree with each other as well.

# %%
says("agreement")
results.plot("agreement")

# %% [markdown]
# ## 4. Permutation: does it matter which words get the weights?
#
# Jain and Wallace. The same weights, dealt out to the words at random.
#
# **It can tell** whether the output hangs on where attention goes. **It cannot tell** whether attention explains the
# output: where all states are alike, or weights are flat, shuffling changes little whatever the model goes by.

# %%
says("permutation")
results.plot("permutation")

# %% [markdown]
# ## 5. The adversary: how different could attention be, with the same output?
#
# Jain and Wallace. If quite another attention gives the same output, is the one that we see still *the* explanation?
#
# **It can tell** whether attention is determined by the output. **It cannot tell** whether the model could ever have
# arrived at the other attention by training; that is what Wiegreffe and Pinter objected. A model in which several words
# say the same has several good explanations.

# %%
says("adversarial")
results.plot("adversarial")

# %% [markdown]
# ## 6. Information: does what is attended most say most about the output?
#
# Wen, Subbalakshmi and Yang (2022). It measures, in nats, what the vectors at each rank of attention tell about the
# output, over all texts.
#
# **It can tell** that without touching the model. **It cannot tell** anything of a single text, and it needs some
# hundreds of texts: with few, chance alone looks like information. What chance explains is taken off.

# %%
says("information")
results.plot("information")

# %% [markdown]
# ## 7. Rationales: does the top carry the decision, and is it what people would mark?
#
# The questions of ERASER (DeYoung and others, 2020). Here the marks are the words that really decide the label.
#
# **It can tell** how convincing a ranking will look to a reader. **It cannot tell** that it is faithful: a model may
# decide by other words than people do, and be right.

# %%
says("rationales")
results.plot("rationales", kind="agreement")

# %% [markdown]
# ## 8. Sanity: does the ranking notice when the model knows nothing?
#
# Adebayo and others (2018). The weights are shuffled layer by layer, from the top. A ranking that hardly changes shows
# something of the text, not of the model.
#
# **It can tell** that a ranking is *not* an explanation. **It cannot tell** that one is: to change with the model is
# the least that can be asked.

# %%
says("sanity")
results.plot("sanity")

# %% [markdown]
# ## Who was right?
#
# The questions differ, so all can be. In this model other weights can give the same output (5), *and* the order of
# attention can still be far better than chance (1): the adversary asks whether attention is the only explanation,
# erasure whether it is one.
#
# - For **"may I show attention to a user as the reason?"**, read 1 and its table: it also says which ranking to show
#   instead.
# - For **"is attention doing anything?"**, read 4 and 6.
# - For **"does my new explanation make sense?"**, begin with 8, then 1.
# - No test speaks for other models, or for the same model on other texts.
#
# **With your model:** `af.Evaluator(model, tokenizer).compute(data, tests="all")`, with any classifier from
# `from_pretrained` and any data from `load_dataset`. `rationales` compares with people only if a column of marks is
# named, and `level="attention"` keeps a large Transformer cheap.
