"""The models inside Transformers: Auto classes, pipelines, collators, Trainer, save and load."""

import subprocess
import sys

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

import attnfaith.models as models
from tests.helpers import light_imports

models.register()
TEXTS = ["The film is good. I loved it! Really, a great one.", "Bad acting. I hated Dr. Who.", "", "Great!"]


def pair(name, **options):
    torch.manual_seed(0)
    tokenizer = models.WordTokenizer.train(TEXTS, min_count=1, sentences=name.startswith("HAN"))
    return models.from_preset(name, tokenizer=tokenizer, **options).eval(), tokenizer


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("HANrnn", {"num_labels": 3}),
        ("FLANconv", {"num_labels": 2, "kernels": [(2, 3), (5, 4)]}),
        ("Wen-mlp-deep-gumbel", {"num_labels": 1, "problem_type": "single_label_classification"}),
        ("JW-lstm-dot", {"query": True, "query_segment": 0}),
    ],
)
def test_saved_and_loaded_by_the_auto_classes(name, options, tmp_path):
    model, tokenizer = pair(name, **options)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, models.AttentionClassifierConfig)
    read = config.to_dict()
    differing = {key for key, value in model.config.to_dict().items() if read[key] != value}
    assert differing <= {"_name_or_path", "architectures", "dtype", "transformers_version"}
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(loaded) is models.AttentionClassifier
    assert not loaded.training
    inputs = AutoTokenizer.from_pretrained(tmp_path)(TEXTS, TEXTS[::-1], padding=True, return_tensors="pt")
    torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits, rtol=0, atol=1e-6)
    assert type(AutoModelForSequenceClassification.from_config(config)) is models.AttentionClassifier
    for dtype in (torch.float64, torch.bfloat16):
        other = AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=dtype)
        assert other(**inputs).logits.dtype == dtype


@pytest.mark.parametrize("name", ["HANrnn", "FLANconv"])
def test_pipeline(name, tmp_path):
    model, tokenizer = pair(name, num_labels=3, classifier_dropout=0.0)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    probabilities = torch.softmax(model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits, -1)
    for batch_size in (1, 3):
        for row, result in zip(probabilities, classify(TEXTS, batch_size=batch_size), strict=True):
            scores = {entry["label"]: entry["score"] for entry in result}
            assert [scores[f"LABEL_{i}"] for i in range(3)] == pytest.approx(row.tolist(), abs=1e-5)
    single, _ = pair(name, num_labels=1, problem_type="single_label_classification")
    result = pipeline("text-classification", model=single, tokenizer=tokenizer)(TEXTS[0])
    logit = single(**tokenizer(TEXTS[:1], return_tensors="pt")).logits
    assert result[0]["score"] == pytest.approx(torch.sigmoid(logit).item(), abs=1e-5)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    from_disk = pipeline("text-classification", model=str(tmp_path), top_k=None)(TEXTS)
    for row, result in zip(probabilities, from_disk, strict=True):
        assert sorted(entry["score"] for entry in result) == pytest.approx(sorted(row.tolist()), abs=1e-5)


def test_pipeline_on_pairs():
    model, tokenizer = pair("FLANrnn", query=True)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
    result = classify({"text": TEXTS[0], "text_pair": TEXTS[1]})
    logits = model(**tokenizer(TEXTS[0], TEXTS[1], return_tensors="pt")).logits
    assert result["score"] == pytest.approx(torch.softmax(logits, -1).max().item(), abs=1e-5)


def planted(count, seed, by_sentences):
    """Texts that are about "magnificent" or "dreadful", and otherwise noise."""
    generator = torch.Generator().manual_seed(seed)
    noise = "it was a film with some people and a plot in which they talk".split()
    rows = []
    for i in range(count):
        length = int(torch.randint(6, 25, (1,), generator=generator))
        text = [noise[int(j)] for j in torch.randint(0, len(noise), (length,), generator=generator)]
        text[int(torch.randint(0, length, (1,), generator=generator))] = ("dreadful", "magnificent")[i % 2]
        if by_sentences:
            text = [word + ". The" if index % 5 == 4 else word for index, word in enumerate(text)]
        rows.append((" ".join(text), i % 2))
    return rows


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FLANnoenc", {"num_labels": 2}),
        ("HANrnn", {"num_labels": 2}),
        ("FLANconv", {"num_labels": 1, "problem_type": "single_label_classification"}),
    ],
)
def test_trainer_learns_a_planted_word(name, options, tmp_path):
    torch.manual_seed(0)
    train, held_out = planted(256, 1, name.startswith("HAN")), planted(64, 2, name.startswith("HAN"))
    tokenizer = models.WordTokenizer.train([text for text, _ in train], sentences=name.startswith("HAN"))
    model = models.from_preset(name, tokenizer=tokenizer, **options, input_dropout=0.1, classifier_dropout=0.1)
    features = [[dict(tokenizer(text)) | {"labels": label} for text, label in rows] for rows in (train, held_out)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=60, per_device_train_batch_size=16, learning_rate=1e-2, logging_steps=10,
        lr_scheduler_type="constant", save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = Trainer(
        model, arguments, train_dataset=features[0], eval_dataset=features[1], processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"accuracy": float((_decide(p.predictions) == p.label_ids).mean())},
    )  # fmt: skip
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] / 2
    assert trainer.evaluate()["eval_accuracy"] == 1.0
    trainer.save_model(tmp_path / "best")
    reloaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "best")
    inputs = DataCollatorWithPadding(tokenizer)(features[1][:4])
    torch.testing.assert_close(reloaded(**inputs).logits, model.eval()(**inputs).logits, rtol=1e-5, atol=1e-5)
    attended = reloaded.attend(**{key: inputs[key] for key in ("input_ids", "attention_mask")})
    if not name.startswith("HAN"):  # attention points at the planted word
        planted_ids = tokenizer.convert_tokens_to_ids(["dreadful", "magnificent"])
        top = attended.spans[torch.arange(4), attended.weights.argmax(1), 0]
        reach = 2 if name == "FLANconv" else 0
        for row in range(4):
            near = inputs["input_ids"][row, max(top[row] - reach, 0) : top[row] + reach + 1].tolist()
            assert set(near) & set(planted_ids)


def _decide(logits):
    return logits.argmax(-1) if logits.shape[-1] > 1 else (logits[:, 0] > 0)


def test_embeddings_can_be_resized():
    model, tokenizer = pair("FLANrnn")
    tokenizer.add_tokens(["unheard"])
    model.resize_token_embeddings(len(tokenizer))
    assert model.config.vocab_size == len(tokenizer)
    assert model(**tokenizer("unheard", return_tensors="pt")).logits.isfinite().all()


def test_registration_is_light_and_can_be_repeated():
    heavy = "transformers.modeling_utils matplotlib sklearn datasets captum scipy sentencex".split()
    assert light_imports.of_attnfaith("import attnfaith.models as m; m.register(); m.register()", heavy) == set()
    program = (
        "import attnfaith.models as m; m.register(); m.register();"
        "from transformers import AutoModelForSequenceClassification as A;"
        "model = A.from_config(m.AttentionClassifierConfig(vocab_size=9));"
        "assert type(model) is m.AttentionClassifier;"
        "assert A._model_mapping[m.AttentionClassifierConfig] is m.AttentionClassifier"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
