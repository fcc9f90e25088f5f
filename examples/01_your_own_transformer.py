# %% [markdown]
# # Your own Transformer in five minutes
#
# You have fine-tuned a text classifier. Its attention weights can be drawn over the words of a text, and the picture
# looks like an explanation. Is it one? This notebook fine-tunes a small ModernBERT, puts that question to it, and reads
# the answer.
#
# The idea of the test: **hide the most attended words, one after the other, until the decision flips.** If attention
# knows what decides, the decision flips soon. If not, attention does no better than words in a random order.
#
# Everything here runs on a CPU in seconds, without a network. *With a model from the hub* says what to write instead.

# %%
import re

import torch
from transformers import (
    BertTokenizer,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

import attnfaith as af
from attnfaith.demo.corpus import short_reviews

# %% [markdown]
# ## Data
#
# attnfaith generates short product reviews with a label: does the writer like the product? It is not enough to spot
# opinion words. Some opinions are about another product, or are somebody else's.

# %%
LABELS = {0: "negative", 1: "positive"}
rows = short_reviews(5_120)
test, train = rows[:120], rows[120:]

for row in test[:3]:
    print(f"{LABELS[row['label']]}: {row['text']}")

# %% [markdown]
# ## Model and training
#
# A ModernBERT with two narrow layers, trained from scratch with the `Trainer` of Transformers. The first layer sees
# four words to either side, the second the whole text. The vocabulary is the words of the reviews.

# %%
words = sorted({word for row in train for word in re.findall(r"\w+|[^\w\s]", row["text"].lower())})
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate([*special, *words])})

torch.manual_seed(0)
model = ModernBertForSequenceClassification(
    ModernBertConfig(
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
        id2label=LABELS,
    )
)

# %%
arguments = TrainingArguments(
    "training",
    num_train_epochs=4,
    learning_rate=5e-3,
    per_device_train_batch_size=32,
    logging_strategy="epoch",
    save_strategy="no",
    report_to=[],
)
encoded = [{**tokenizer(row["text"]), "label": row["label"]} for row in train]
trainer = Trainer(model, arguments, train_dataset=encoded, processing_class=tokenizer)
_ = trainer.train()

# %% [markdown]
# **With a model from the hub**, these lines replace everything above:
#
# ```python
# from datasets import load_dataset
# from transformers import AutoModelForSequenceClassification, AutoTokenizer
#
# name = "distilbert/distilbert-base-uncased-finetuned-sst-2-english"
# model = AutoModelForSequenceClassification.from_pretrained(name)
# tokenizer = AutoTokenizer.from_pretrained(name)
# test = load_dataset("stanfordnlp/sst2", split="validation")  # its texts are in the column "sentence"
# ```
#
# ## The question
#
# An `Evaluator` takes the model, its tokenizer and texts. Labels are optional: the question is what decides in the
# model, not whether it is right. (For SST-2, add `input_column="sentence"`. A run of several thousand texts is written
# to `output_dir` as it goes, and continues there after an interruption.)

# %%
results = af.Evaluator(model, tokenizer).compute(test, output_dir="run", quiet=True)
print(results)

# %% [markdown]
# ## How to read it
#
# - **The first line is the answer**, and the next lines are its evidence. In brackets are 95 % intervals: with other
#   texts of this kind, the figures would be about there.
# - **Skill** puts attention on a scale. 0 % is a random order of the words. 100 % is the smallest set of words that
#   flips the decision. Below 50 % attention is *unfaithful*, from 80 % on *faithful*, *partly* in between.
# - **The table answers the next question: if not attention, what can be read instead?** It judges each ranking by the
#   same test, with its cost.
#
# The same in a picture: the share of decisions that still stand while words are hidden in the order of each ranking.
# The faster a line falls, the better the ranking knows what decides.

# %%
results.plot("erasure")

# %% [markdown]
# ## One text
#
# Now that the rankings are judged, look at one text: first attention, then a ranking that did better.

# %%
text = test[1]["text"]
af.Attributor(model, tokenizer, method="attention", level="input")(text)

# %%
af.Attributor(model, tokenizer, method="lrp", level="attention")(text)

# %% [markdown]
# ## What to conclude, and what not
#
# - The verdict is about **this model on texts like these**. Another training run, other data, or another architecture
#   needs its own run: it takes minutes.
# - "Unfaithful" does not say that attention is useless *to the model*. It says that a reader should not take the most
#   attended words for the reasons of a decision.
# - A faithful ranking shows what decides in the model. Whether the model decides for good reasons is for you to judge.
#
# The rows behind every figure are tables: `results.table("erasure")` is a DataFrame, and `results.summary()` has all
# estimates with their intervals.
