# %% [markdown]
# # Add your own model
#
# attnfaith does not know models by name. It runs a model once, watches for an attention (a softmax whose result is
# multiplied with values), and **cuts** the model there: what makes the weights on one side, what reads them on the
# other. So most hand-written PyTorch models need nothing. The others need an adapter of about twenty lines.
#
# This notebook does both.

# %%
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import attnfaith as af
from attnfaith.demo.corpus import short_reviews

# %%
rows = short_reviews(5_100)
test, train = rows[:100], rows[100:]
tokenizer = af.models.WordTokenizer.train([row["text"] for row in train], min_count=2)


def batch_of(rows):
    texts = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    return {name: texts[name] for name in ("input_ids", "attention_mask")}


def train_plainly(model, epochs=5):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        for start in range(0, len(train), 32):
            part = train[start : start + 32]
            loss = cross_entropy(model(**batch_of(part)), torch.tensor([row["label"] for row in part]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss:.2f}")
    return model.eval()


# %% [markdown]
# ## A model that can be cut as it is
#
# A convolutional network with an attention written out by hand. Its forward takes `input_ids` and `attention_mask`, and
# returns logits `[texts, classes]`.


# %%
class Attentive(nn.Module):
    def __init__(self, words, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Conv1d(width, width, 9, padding=4)
        self.score = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.decide = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        vectors = self.embed(input_ids) * attention_mask.unsqueeze(-1)
        states = torch.relu(self.mix(vectors.transpose(1, 2))).transpose(1, 2)
        scores = self.score(states).squeeze(-1).masked_fill(attention_mask == 0, -torch.inf)
        weights = torch.softmax(scores, -1)
        return self.decide((weights.unsqueeze(-1) * states).sum(1))


torch.manual_seed(0)
model = train_plainly(Attentive(len(tokenizer)))

# %% [markdown]
# Such a model has no configuration from which attnfaith could make up a text, so it needs an `example`: a batch that
# the model can run. `print` says how the model was cut and what was checked. The check matters: the captured weights
# must reproduce the model's own logits, an edit must change them, and padding must not.

# %%
cut = af.cut(model, example=batch_of(test[:4]))
print(cut)

# %% [markdown]
# The cut takes the place of the model everywhere. From here on it is the same as for a Transformer. Everything this
# model decides goes through its attention, so we erase there.

# %%
results = af.Evaluator(cut, tokenizer).compute(test, level="attention", tests=["erasure"], quiet=True)
print(results)

# %% [markdown]
# ## A model that needs an adapter
#
# Here every word gets a gate between 0 and 1, whatever the others have. There is no softmax to be seen, and attnfaith
# refuses to guess.


# %%
class Gated(nn.Module):
    def __init__(self, words, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Conv1d(width, width, 9, padding=4)
        self.gate = nn.Linear(width, 1)
        self.decide = nn.Linear(width, 2)

    def read(self, input_ids, attention_mask):
        mask = attention_mask.unsqueeze(-1).float()
        states = torch.relu(self.mix((self.embed(input_ids) * mask).transpose(1, 2))).transpose(1, 2)
        return states, self.gate(states).squeeze(-1).masked_fill(attention_mask == 0, -torch.inf)

    def forward(self, input_ids, attention_mask):
        states, scores = self.read(input_ids, attention_mask)
        return self.decide((scores.sigmoid().unsqueeze(-1) * states).sum(1))


torch.manual_seed(0)
gated = train_plainly(Gated(len(tokenizer)))

try:
    af.cut(gated, example=batch_of(test[:4]))
except af.UnsupportedModelError as error:
    print(f"UnsupportedModelError: {error}")

# %% [markdown]
# An adapter says the same in your words, in two methods. `capture` runs the model and returns its weights, its mask and
# its logits; what the second half needs goes into `state`. `rerun` turns other weights, `[B, K, 1, N]` (K candidates
# for each of B texts), into logits, `[B, K, classes]`.


# %%
@af.register_adapter(Gated)
class GatedAdapter(af.Adapter):
    def capture(self, **inputs):
        states, scores = self.model.read(inputs["input_ids"], inputs["attention_mask"])
        weights, mask = scores.sigmoid().unsqueeze(1), inputs["attention_mask"].bool()
        return af.Capture(
            weights=weights,
            mask=mask,
            logits=self.model.decide((weights @ states).squeeze(1)),
            items=af.Items.tokens(mask),
            log_weights=nn.functional.logsigmoid(scores.double()).unsqueeze(1),
            state=states,
        )

    def rerun(self, capture, weights):
        return self.model.decide((weights @ capture.state.unsqueeze(1)).squeeze(2))


print(af.cut(gated, example=batch_of(test[:4])))

# %% [markdown]
# The self-check has run on the adapter too: a slip in `rerun` would have been refused here, not found in a table months
# later. Everything else follows from these two methods.

# %%
gated_results = af.Evaluator(af.cut(gated, example=batch_of(test[:4])), tokenizer).compute(
    test, level="attention", tests=["erasure"], quiet=True
)
print(gated_results)

# %% [markdown]
# ## What else there is
#
# - If everything after the attention is linear, an adapter's `affine` method says so: prefixes then come from running
#   sums, and the smallest set is exact.
# - `attended` returns the vectors that the attention averages, for the test `information`.
# - Models of Transformers need none of this: `af.Evaluator(model, tokenizer)`.
