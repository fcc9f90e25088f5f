"""Fine-tuned Transformers on real texts; skipped where the data are not at hand."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.functional.ranking import order_of
from tests.helpers.comparing import assert_same

pytestmark = pytest.mark.examples
REAL = [("minilm-sst2", "sst2-test", 0.85), ("minilm-agnews", "ag_news-test", 0.85)]


def loaded(data_dir, name, dtype=torch.float32):
    folder = data_dir / "models" / name
    return AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype), AutoTokenizer.from_pretrained(
        folder
    )


def texts_of(data_dir, name, count):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(data_dir / f"{name}.parquet").slice(0, count)
    return table["text"].to_pylist(), table["label"].to_pylist()


@pytest.mark.parametrize(("model", "data", "accuracy"), REAL)
def test_prefixes_of_real_texts_are_full_forward_passes_with_the_edit(data_dir, model, data, accuracy):
    model, tokenizer = loaded(data_dir, model)
    texts, labels = texts_of(data_dir, data, 96)
    cut = af.cut(model)
    assert cut.adapter.tail == "one position"
    right = 0
    for start in range(0, len(texts), 16):
        batch = tokenizer(texts[start : start + 16], padding=True, truncation=True, max_length=64, return_tensors="pt")
        capture = cut.capture(**batch)
        right += (capture.logits.argmax(-1) == torch.tensor(labels[start : start + 16])).sum().item()
        if start:
            continue
        order = order_of(capture.weights.mean(1), capture.mask)
        few = [0, 1, 3, 7, 12]
        literal = af.Cut(cut.adapter.with_tail("full forward"), None, "", cut.memory)
        slow = literal.capture(**batch)
        keep = torch.stack([order.argsort(-1) >= k for k in few], 1) & capture.mask.unsqueeze(1)
        assert_same(cut.prefixes(capture, order)[:, few], literal.rerun(slow, keep=keep), capture.logits, 1e-4, least=0)
    assert right / len(texts) >= accuracy


def test_what_flips_the_decisions_of_a_real_model_at_its_final_attention(data_dir):
    """The residual stream carries many decisions past the last attention, whatever is erased there; among rankings,
    the attention's product with its gradient flips more of them than attention, and attention more than chance.
    """
    model, tokenizer = loaded(data_dir, "minilm-sst2")
    texts, _ = texts_of(data_dir, "sst2-test", 150)
    cut = af.cut(model)
    standing = dict.fromkeys(("gradient_x_attention", "attention", "random"), 0)
    for start in range(0, len(texts), 30):
        batch = tokenizer(texts[start : start + 30], padding=True, return_tensors="pt")
        for method in standing:
            request, scores = Attributor(cut, method=method).score(dict(batch))
            capture = request.capture
            labels = cut.prefixes(capture, order_of(scores.values, capture.mask)).argmax(-1)
            for row, length in enumerate(capture.lengths.tolist()):
                standing[method] += int((labels[row, :length] == labels[row, 0]).all())
    product, attention, chance = (count / len(texts) for count in standing.values())
    assert 0.5 < product < attention - 0.05
    assert attention < chance - 0.02
    assert chance < 0.95


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_as_the_weights_lie_on_disk(data_dir, dtype):
    model, tokenizer = loaded(data_dir, "minilm-sst2", dtype)
    whole, _ = loaded(data_dir, "minilm-sst2")
    batch = tokenizer(["a dull , lifeless film", "superb acting"], padding=True, return_tensors="pt")
    cut, reference = af.cut(model), af.cut(whole)
    capture, expected = cut.capture(**batch), reference.capture(**batch)
    order = order_of(expected.weights.mean(1), expected.mask)
    got, exact = cut.prefixes(capture, order).float(), reference.prefixes(expected, order)
    assert (got - exact).abs().max() <= 0.05 * exact.abs().max()


@pytest.mark.parametrize("method", ["occlusion", "omission", "integrated_gradients"])
def test_the_word_that_a_reader_would_name(data_dir, method):
    model, tokenizer = loaded(data_dir, "minilm-sst2")
    attributor = Attributor(model, tokenizer, method=method, level="input", output="log_odds")
    for text, word in [("the cast is superb .", "superb"), ("a tedious film from start to end", "tedious")]:
        words = attributor(text).words()
        assert max(words, key=lambda piece: piece.score).text == word
