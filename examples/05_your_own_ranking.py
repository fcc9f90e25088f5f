# %% [markdown]
# # Add your own ranking
#
# A *ranking* puts the words of a text in the order in which they are said to matter. attnfaith comes with twenty. If
# you have invented another, register it: it is then judged beside the others, explains texts, and has its line in every
# table and figure.
#
# There are two levels. A ranking of the **attention** level looks at the final attention and what comes after it. One
# of the **input** level looks at the whole model. This notebook adds one of each.

# %%
import re

import torch
from transformers import BertTokenizer, ModernBertConfig, ModernBertForSequenceClassification

import attnfaith as af
from attnfaith.demo.corpus import short_reviews
from attnfaith.training import fit

# %% [markdown]
# ## A model to explain
#
# A small ModernBERT, trained for some seconds on generated reviews. **Yours:** any classifier and its tokenizer from
# `from_pretrained`.

# %%
rows = short_reviews(5_200)
test, validation, train = rows[:80], rows[80:400], rows[400:]
words = sorted({word for row in train for word in re.findall(r"\w+|[^\w\s]", row["text"].lower())})
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate([*special, *words])})

torch.manual_seed(0)
config = ModernBertConfig(
    vocab_size=len(tokenizer),
    hidden_size=32,
    num_hidden_layers=2,
    layer_types=["sliding_attention", "full_attention"],
    local_attention=8,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=128,
    initializer_range=0.1,
    norm_eps=1e-2,
    pad_token_id=tokenizer.pad_token_id,
    cls_token_id=tokenizer.cls_token_id,
    sep_token_id=tokenizer.sep_token_id,
    bos_token_id=None,
    eos_token_id=None,
)
model = ModernBertForSequenceClassification(config)
history = fit(model, tokenizer, train, validation, learning_rate=5e-3, warmup=0.1, epochs=4)
print(f"accuracy: {history.best['validation_accuracy']:.2f}")

# %% [markdown]
# ## The attention level
#
# The function gets three things: `capture`, the texts cut at the final attention (`capture.weights` are
# `[texts, heads, tokens]`); `cut`, which runs the rest of the model on other weights; and `target`, the class that is
# explained. It returns scores `[texts, tokens]`; higher is more important.
#
# Ours multiplies each head's weights with their gradient and keeps what speaks *for* the decision, as Chefer and others
# do in each layer of a Transformer (2021).


# %%
@af.register_method("positive_attention", passes=1, backward=True)
def positive_attention(capture, cut, target):
    weights = capture.weights.detach().unsqueeze(1).requires_grad_()  # one candidate for each text
    probability = cut.rerun(capture, weights=weights).softmax(-1).squeeze(1)
    chosen = probability.gather(1, target.unsqueeze(1)).sum()
    (gradient,) = torch.autograd.grad(chosen, weights)
    return (weights * gradient).clamp(min=0).sum(2).squeeze(1).detach()


# %% [markdown]
# ## The input level
#
# Here the function gets the model and its inputs. Ours is SmoothGrad (Smilkov and others, 2017): the gradient with
# respect to the word vectors, averaged over noisy copies of them, times the vectors.


# %%
@af.register_method("smooth_gradient", level="input", passes=8, backward=True, seeded=True)
def smooth_gradient(model, inputs, target):
    inputs = dict(inputs)
    vectors = model.get_input_embeddings()(inputs.pop("input_ids")).detach()
    generator = torch.Generator().manual_seed(0)
    gradient = torch.zeros_like(vectors)
    for _ in range(8):
        noise = torch.randn(vectors.shape[1:], generator=generator)  # the same for every text of a batch
        noisy = (vectors + 0.1 * vectors.std() * noise).requires_grad_()
        probability = model(inputs_embeds=noisy, **inputs).logits.softmax(-1)
        gradient += torch.autograd.grad(probability.gather(1, target.unsqueeze(1)).sum(), noisy)[0]
    return (vectors * gradient).sum(-1)


# %% [markdown]
# ## Explain one text
#
# The names can now be used wherever a built-in one can.

# %%
af.Attributor(model, tokenizer, method="positive_attention")(test[0]["text"])

# %% [markdown]
# ## Judge them
#
# Always beside attention and the ranking that they want to improve on.

# %%
rankings = ["attention", "gradient_x_attention", "input/gradient_x_input", "positive_attention", "smooth_gradient"]
results = af.Evaluator(model, tokenizer).compute(test, rankings=rankings, level="input", tests=["erasure"], quiet=True)
print(results)

# %%
results.plot("erasure", kind="efficiency")

# %% [markdown]
# ## Is it clearly better?
#
# Look at the interval, not at the place in the table. `summary()` has the paired difference of every two rankings, text
# by text: below 0, the ranking removes a smaller share of the tokens than the other one.

# %%
summary = results.summary()
ours = summary["ranking"].isin(["positive_attention", "smooth_gradient"])
difference = (summary["figure"] == "mean_difference") & (summary["slice"] == "all")
summary.loc[ours & difference, ["ranking", "other", "value", "low", "high"]].round(3)

# %% [markdown]
# ## Rules for a good ranking
#
# - **Each text by itself.** Scores must not depend on which other texts are in the batch, and random numbers must come
#   from a seed. Otherwise a resumed run would disagree with itself.
# - **NaN where a score is not defined**, not 0. It is counted, and the item goes last.
# - If a ranking needs no model at all (a person's, SHAP's), it is an explanation of yours: see the notebook
#   `03_judge_your_own_explanation`.
