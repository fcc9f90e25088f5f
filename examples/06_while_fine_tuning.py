# %% [markdown]
# # Faithfulness while fine-tuning
#
# Accuracy goes up during training. Does attention become a better or a worse explanation meanwhile? Which checkpoint
# should be kept if both matter? `FaithfulnessCallback` measures that at every evaluation of the `Trainer` of
# Transformers, and logs it beside the loss. Training itself is not changed: the weights are the same with and without
# it.

# %%
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
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
# ## A model and its data
#
# A small ModernBERT and generated reviews. **Yours:** a model and a tokenizer from `from_pretrained`, and data from
# `load_dataset`.

# %%
rows = short_reviews(5_500)
validation, train = rows[:500], rows[500:]

words = sorted({word for row in train for word in re.findall(r"\w+|[^\w\s]", row["text"].lower())})
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate([*special, *words])})


def encoded(rows):
    return [{**tokenizer(row["text"]), "label": row["label"]} for row in rows]


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
    )
)

# %% [markdown]
# ## A Trainer with the callback
#
# It is made of the trainer and some dozens of texts, which are enough to see a trend. They should be texts that the
# model is not trained on.

# %%
arguments = TrainingArguments(
    "training",
    num_train_epochs=5,
    learning_rate=5e-3,
    per_device_train_batch_size=32,
    eval_strategy="epoch",
    logging_strategy="epoch",
    save_strategy="no",
    report_to=[],
)


def accuracy(predictions):
    return {"accuracy": float((np.argmax(predictions.predictions, -1) == predictions.label_ids).mean())}


trainer = Trainer(
    model,
    arguments,
    train_dataset=encoded(train),
    eval_dataset=encoded(validation),
    processing_class=tokenizer,
    compute_metrics=accuracy,
)
trainer.add_callback(af.training.FaithfulnessCallback(trainer, [row["text"] for row in validation[:40]]))
_ = trainer.train()

# %% [markdown]
# The figures are in the log of the trainer, so TensorBoard and others show them too:
#
# - `eval_attention_efficiency`: how near the order of attention comes to the smallest set of words that flips the
#   decision. 1 is perfect.
# - `eval_attention_median_fraction`: the share of words that must be hidden, in the order of attention, until half of
#   the decisions have flipped.
# - `eval_attention_never_flipped`: the share of decisions that never flip.
# - `eval_attention_agreement`: Kendall's tau with gradient x attention.

# %%
log = pd.DataFrame(trainer.state.log_history).groupby("epoch").first()  # an evaluation is two entries of the log
columns = ["eval_accuracy", *(name for name in log if name.startswith("eval_attention"))]
log[columns].round(2)

# %%
figure, axis = plt.subplots(figsize=(5, 2.8), dpi=100, layout="constrained")
axis.plot(log.index, log["eval_accuracy"], "o-", color="0.4", label="accuracy")
axis.plot(log.index, log["eval_attention_efficiency"], "o-", color="#0072B2", label="efficiency of attention")
axis.set(xlabel="epoch", xticks=log.index, ylim=(0, 1))
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ## Choosing a checkpoint by it
#
# The names work as any other metric of the `Trainer`:
#
# ```python
# TrainingArguments(
#     ..., save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="attention_efficiency"
# )
# ```
#
# ## What to conclude, and what not
#
# - An early model decides by little, and its decisions flip easily whatever is hidden. **Efficiency says nothing before
#   the model has learned its task.** Look at accuracy first.
# - Forty texts show a trend, not a difference of two points. For a figure that you report, evaluate the chosen
#   checkpoint on a few hundred texts: `af.Evaluator(model, tokenizer).compute(...)` gives intervals and a verdict.
