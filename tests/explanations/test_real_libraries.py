"""The converters on what the libraries themselves return; each is skipped where its library is not installed."""

import re

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers import tokenizers

TEXTS = ["A thin plot, a superb cast.", "Nobody plays, nobody would see it again!", "A man plays guitar."]


@pytest.fixture(scope="module")
def bert():
    model = tiny_model("bert").eval()
    return model, tokenizers.word_piece()


def probabilities(bert, texts):
    model, tokenizer = bert
    with torch.no_grad():
        return model(**tokenizer(list(texts), padding=True, return_tensors="pt")).logits.softmax(-1).numpy()


def judged(bert, explained):
    evaluator = af.Evaluator(*bert)
    results = evaluator.compute(
        TEXTS, rankings=["attention"], explanations={"theirs": explained}, tests=["erasure"], level="input", quiet=True
    )
    table = results.table("erasure").query("ranking == 'theirs'")
    assert not table["undefined"].any()
    assert len(table) == len(TEXTS)
    return [explained.scores(row, text) for row, text in enumerate(evaluator.encoder.encode(TEXTS))]


def words_of(bert, row):
    return af.Evaluator(*bert).encoder.encode([TEXTS[row]])[0]


def test_lime(bert):
    lime_text = pytest.importorskip("lime.lime_text")
    for bow in (True, False):
        explainer = lime_text.LimeTextExplainer(bow=bow, random_state=0)
        made = [
            explainer.explain_instance(text, lambda texts: probabilities(bert, texts), top_labels=1, num_samples=60)
            for text in TEXTS
        ]
        scores = judged(bert, af.explanations.from_lime(made))
        if bow:
            lists = [one.as_list(label=one.top_labels[0]) for one in made]
            assert judged(bert, af.explanations.from_lime(lists)) == scores
            checked = 0
            for word, weight in lists[1]:
                for match in re.finditer(rf"\b{word}\b", TEXTS[1]):
                    starts = [
                        token
                        for token, span in enumerate(words_of(bert, 1).offsets)
                        if span and span[0] == match.start()
                    ]
                    assert [scores[1][token] for token in starts] == [weight]
                    checked += 1
            assert checked > len(lists[1]) - 1


def test_shap(bert):
    shap = pytest.importorskip("shap")
    explainer = shap.Explainer(
        lambda texts: probabilities(bert, texts), shap.maskers.Text(bert[1]), output_names=["a", "b", "c"], seed=0
    )
    made = explainer(TEXTS, max_evals=60)
    scores = judged(bert, af.explanations.from_shap(made))
    for row, text in enumerate(TEXTS):
        predicted = int(probabilities(bert, [text])[0].argmax())
        finite = [score for score in scores[row] if np.isfinite(score)]
        assert finite == pytest.approx(made[row].values[1:-1, predicted].tolist())
    by_name = judged(bert, af.explanations.from_shap(made, label="b"))
    assert [score for score in by_name[0] if np.isfinite(score)] == pytest.approx(made[0].values[1:-1, 1].tolist())
    assert judged(bert, af.explanations.from_shap(lambda text: explainer([text], max_evals=60)))


def test_captum(bert):
    attr = pytest.importorskip("captum.attr")
    model, tokenizer = bert
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    layer = attr.LayerIntegratedGradients(
        lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits, model.get_input_embeddings()
    )
    made = layer.attribute(batch["input_ids"], target=0, additional_forward_args=(batch["attention_mask"],), n_steps=4)
    scores = judged(bert, af.explanations.from_captum(made, attention_mask=batch["attention_mask"]))
    length = int(batch["attention_mask"][2].sum())
    assert scores[2] == pytest.approx(made[2, :length].double().sum(-1).tolist())


def test_ferret(bert):
    ferret = pytest.importorskip("ferret")
    bert[1].cls_token, bert[1].sep_token = "[BOS]", "[EOS]"
    benchmark = ferret.Benchmark(*bert)
    made = [benchmark.explain(text, target=1, show_progress=False) for text in TEXTS]
    name = made[0][0].explainer
    scores = judged(bert, af.explanations.from_ferret(made, explainer=name))
    assert scores[0] == pytest.approx(list(made[0][0].scores))


def test_inseq(bert, tmp_path):
    inseq = pytest.importorskip("inseq")
    from tokenizers import decoders
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tokenizers.byte_level()
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=2)
    language_model = GPT2LMHeadModel(config).eval()
    loaded = inseq.load_model(language_model, "saliency", tokenizer=tokenizer)
    made = loaded.attribute(TEXTS, generation_args={"max_new_tokens": 2}, show_progress=False).aggregate()
    judged(bert, af.explanations.from_inseq(made))
