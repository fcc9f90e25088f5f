"""Erasure until the decision flips, against a slow twin that removes one item from one text at a time."""

import itertools
import math

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.methods import methods
from attnfaith.errors import InputError
from attnfaith.evaluation.erasure import COLUMNS, Erasure
from attnfaith.evaluation.rankings import Ranking
from tests.comparing import inputs_of
from tests.evaluation.batches import LENGTHS, TOLERANCE, batch_of, model_of, one_of, ranked, slowly, table

AFFINE = ("FLANrnn", "HANrnn")
RANKINGS = {
    "attention": ranked("attention/random", "attention/attention", "attention/gradient_x_attention"),
    "input": ranked("input/random", "input/gradient_x_input", "input/gradient"),
}


def decided(kind, row):
    """What a row of logits decides."""
    if kind == "multiclass":
        return row.index(max(row))
    if kind == "sigmoid":
        return int(row[0] > 0)
    if kind == "multilabel":
        return [place for place, value in enumerate(row) if value > 0]
    return row[0]


def flipped(kind, before, after, tolerance):
    old, new = decided(kind, before), decided(kind, after)
    return abs(new - old) > tolerance if kind == "regression" else old != new


class Slow:
    """One level of a batch, with loops: which items there are, which may go, and the logits when some have gone."""

    def __init__(self, batch, level):
        self.batch, self.level, self.decision = batch, level, batch.setup.decision
        self.special = batch.setup.settings.special_ids
        self.affine = batch.setup.cut.adapter.mechanism == "pooled"
        self.ids = batch.inputs["input_ids"].tolist()
        mask = batch.capture.mask if level == "attention" else batch.inputs["attention_mask"].bool()
        self.items = [row.nonzero().flatten().tolist() for row in mask]
        by_token = batch.capture.items.kind == "tokens"
        protect = batch.setup.special_tokens == "protect"
        self.own = [None] * len(self.items)
        if not self.affine:
            rows = batch.setup.cut.adapter.deciding_rows(batch.capture)[0]
            self.own = rows[:, 0].tolist()
        self.stays = []
        for text, items in enumerate(self.items):
            stays = set()
            if (protect and by_token) or (self.affine and level == "input"):
                stays |= {item for item in items if self.ids[text][item] in self.special}
            if level == "input" and batch.setup.protect_deciding:
                stays.add(self.own[text])
            self.stays.append(stays & set(items))

    def erasable(self, text):
        return [item for item in self.items[text] if item not in self.stays[text]]

    def last(self, text):
        """Where nothing but marks between sentences would be left, the last step is one less."""
        return len(self.erasable(text)) - (self.level == "input" and self.affine)

    def logits(self, text, removed):
        kept = [item for item in self.items[text] if item not in removed]
        return (self._attention if self.level == "attention" else self._input)(text, kept, len(removed))

    def _attention(self, text, kept, _):
        capture = self.batch.capture
        edited = torch.zeros_like(capture.weights)
        for group, weights in enumerate(capture.weights[text].tolist()):
            left, total = sum(weights[item] for item in kept), sum(weights)
            for item in kept:
                edited[text, group, item] = weights[item] * total / left
        return self.batch.setup.cut.rerun(capture, weights=edited.unsqueeze(1))[text, 0].tolist()

    def _input(self, text, kept, count):
        single = one_of(self.batch.inputs, text)
        own, way = self.own[text], self.batch.setup.hiding.way
        if own is not None and (way != "attention_mask" or count == len(self.erasable(text))):
            kept = sorted({*kept, own})  # an all-zero mask means different things to different models
        if way == "delete":
            single = {name: value[:, kept] for name, value in single.items()}
        else:
            length = len(self.items[text])
            mask = torch.zeros(1, length, dtype=torch.long)
            mask[0, kept] = 1
            single |= {"attention_mask": mask, "position_ids": torch.arange(length).unsqueeze(0)}
        with torch.no_grad():
            return self.batch.setup.cut.model(**single).logits[0].tolist()

    def weights(self, text):
        """The mean weight of each item; of tokens, that of the item they are, or are a word of."""
        weights = self.batch.capture.weights[text].mean(0).tolist()
        if self.level == "attention" or self.batch.capture.items.kind == "tokens":
            return dict(enumerate(weights))
        words = self.batch.setup.cut.model.attend(**self.batch.inputs).word_weights[text].tolist()
        spans = self.batch.capture.items.spans[text].tolist()
        inside = [
            (item, word)
            for item, (start, stop) in enumerate(spans)
            for word in range(start, stop)
            if self.batch.capture.mask[text, item]
        ]
        return {word: weights[item] * words[word] for item, word in inside}

    def orders(self, ranking, text):
        """Highest first; turned round where that is how the decision can change."""
        found = methods[ranking.level, ranking.name].run(self.batch.request).values[text].tolist()
        signs = [1.0]
        if ranking.signed and self.decision.kind == "regression":
            signs = [1.0, -1.0]
        if ranking.signed and self.decision.kind == "multilabel":
            signs = [1.0 if self.batch.logits[text, int(self.batch.target[text])] > 0 else -1.0]
        return [sorted(self.erasable(text), key=lambda item: (-sign * found[item], item)) for sign in signs]

    def walk(self, text, order):
        """The step of the first flip, None without one; the logits there; the smallest distance to a tie so far."""
        before = self.batch.logits[text].tolist()
        for step in range(1, self.last(text) + 1):
            after = self.logits(text, order[:step])
            if flipped(self.decision.kind, before, after, self.decision.tolerance):
                return step, after
        return None, None

    def row(self, ranking, text):
        walks = [(order, *self.walk(text, order)) for order in self.orders(ranking, text)]
        order, step, after = min(walks, key=lambda walk: math.inf if walk[1] is None else walk[1])
        count = len(self.erasable(text))
        weights = self.weights(text)
        return {
            "items": count,
            "removed": step,
            "fraction": math.nan if step is None else step / count,
            "mass": math.nan if step is None else sum(weights[item] for item in order[:step]),
            "new_label": None if step is None else decided(self.decision.kind, after),
            "censored": step is None,
            "prediction": decided(self.decision.kind, self.batch.logits[text].tolist()),
        }


def check(batch, level):
    """Every row against the twin; returns the counts of flips, of rows, and of flips before the last step."""
    rows = table(Erasure().run(batch))
    slow = Slow(batch, level)
    flips = early = seen = 0
    for text, row in enumerate(batch.rows):
        for ranking in batch.setup.rankings[level]:
            key = (row.number, ranking.level, ranking.name, level)
            if len(slow.erasable(text)) < 2:
                assert key not in rows
                continue
            got, expected = rows[key], slow.row(ranking, text)
            seen += 1
            assert list(got) == [name for name, _ in COLUMNS]
            assert not got["marginal"]
            for name, value in expected.items():
                if isinstance(value, float):
                    assert got[name] == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True), (key, name)
                else:
                    assert got[name] == value, (key, name)
            assert (got["gold"], got["undefined"]) == (None, 0)
            flips += not expected["censored"]
            early += not expected["censored"] and expected["removed"] < expected["items"] - 1
    assert len([key for key in rows if key[3] == level]) == seen
    return flips, seen, early


def assert_telling(flips, seen, early):
    """A good share of the texts flips, many of them before the last two steps."""
    assert flips >= 0.3 * seen, f"only {flips} of {seen} flip"
    assert early >= 0.2 * seen, f"only {early} of {seen} flip before the end"


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama")])
def test_the_final_attention_one_removal_at_a_time(family, kind):
    lengths = tuple(3 * length for length in LENGTHS) if family == "HANrnn" else LENGTHS  # as many sentences
    batch = batch_of(family, kind, rankings={"attention": RANKINGS["attention"]}, lengths=lengths)
    assert_telling(*check(batch, "attention"))


@pytest.mark.parametrize("kind", ["multiclass", pytest.param("regression", marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "llama", "bart", *slowly("gpt2")])
def test_the_whole_model_one_removal_at_a_time(family, kind):
    batch = batch_of(family, kind, rankings={"input": RANKINGS["input"]})
    assert batch.setup.hiding.way == ("delete" if family in (*AFFINE, "bart") else "attention_mask")
    assert_telling(*check(batch, "input"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sigmoid", "multilabel"])
@pytest.mark.parametrize("family", ["FLANrnn", "bert", "llama", "bart"])
def test_the_whole_model_for_the_other_kinds_of_decision(family, kind):
    check(batch_of(family, kind, rankings={"input": RANKINGS["input"]}), "input")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bart", "roberta", "opt", "distilbert", "t5"])
def test_the_final_attention_of_more_families(family):
    flips, seen, _ = check(batch_of(family, rankings={"attention": RANKINGS["attention"]}), "attention")
    assert flips >= 0.2 * seen


@pytest.mark.parametrize("family", ["bert", *slowly("llama")])
def test_rankings_of_one_level_erased_at_the_other(family):
    crossed = {"attention": RANKINGS["input"][1:], "input": RANKINGS["attention"][1:]}
    batch = batch_of(family, rankings=crossed)
    for level in crossed:
        check(batch, level)


@pytest.mark.parametrize("family", ["bert", *slowly("llama")])
def test_special_tokens_that_are_protected_stay(family):
    batch = batch_of(family, rankings=RANKINGS, special_tokens="protect")
    special = batch.special
    ordinary = (batch.inputs["attention_mask"].bool() & ~special).sum(1).tolist()
    assert special.any()
    assert ordinary != batch.inputs["attention_mask"].sum(1).tolist()
    for level in RANKINGS:
        flips, seen, _ = check(batch, level)
        assert 0 < flips < seen
        rows = table(Erasure().run(batch))
        assert {key[0]: row["items"] for key, row in rows.items() if key[3] == level} == {
            text: count for text, count in enumerate(ordinary) if count >= 2
        }


@pytest.mark.parametrize("family", ["bert", *slowly("llama", "bart")])
def test_the_deciding_token_can_be_protected(family):
    """At the input level only: at the final attention it is an item like any other."""
    plain = batch_of(family, rankings=RANKINGS)
    batch = batch_of(family, rankings=RANKINGS, protect_deciding=True)
    for level in RANKINGS:
        check(batch, level)
    more, fewer = table(Erasure().run(plain)), table(Erasure().run(batch))
    for key, row in fewer.items():
        assert row["items"] == more[key]["items"] - (key[3] == "input")


def test_texts_with_one_item_have_no_row_and_change_nothing():
    """Sentences of a HAN: one, two, none that may be counted twice; the words of the same texts have their rows."""
    lengths = (3, 12, 3, 9)
    batch = batch_of("HANrnn", rankings=RANKINGS, lengths=lengths)
    assert batch.capture.lengths.tolist()[0] == batch.capture.lengths.tolist()[2] == 1
    rows = table(Erasure().run(batch))
    assert {key[0] for key in rows if key[3] == "attention"} == {1, 3}
    assert {key[0] for key in rows if key[3] == "input"} == {0, 1, 2, 3}
    check(batch, "attention")
    alone = batch_of("HANrnn", rankings={"attention": RANKINGS["attention"]}, lengths=(3, 3))
    assert Erasure().run(alone) == {name: [] for name, _ in COLUMNS}


@pytest.mark.parametrize("family", ["HANrnn", *slowly("FLANrnn", "bert")])
def test_a_batch_is_its_texts_one_by_one_in_any_order(family):
    """Integers, labels and draws; a text's draw hangs on its row number, not on its place in a batch."""
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    together = table(Erasure().run(batch_of(family, rankings=RANKINGS, numbers=numbers)))
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    apart = {}
    for text in reversed(range(len(numbers))):
        single = one_of(inputs, text)
        apart |= table(Erasure().run(batch_of(family, rankings=RANKINGS, numbers=[numbers[text]], inputs=single)))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(apart[key][name], rel=1e-6, nan_ok=True)
            else:
                assert value == apart[key][name], (key, name)


def test_another_seed_draws_another_random_order_and_nothing_else():
    rows = [table(Erasure().run(batch_of("bert", rankings=RANKINGS, seed=seed))) for seed in (0, 1)]
    same = [rows[0][key] == rows[1][key] or "nan" in str(rows[0][key]) for key in rows[0] if key[2] != "random"]
    random = [rows[0][key]["removed"] == rows[1][key]["removed"] for key in rows[0] if key[2] == "random"]
    assert all(same)
    assert not all(random)


@pytest.mark.parametrize("kind", ["multiclass", "sigmoid", "multilabel", "regression"])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "FLANnoenc"])
def test_the_optimum_is_the_least_of_all_sets(family, kind):
    """Every subset of each text, through the tail; and no ranking flips with fewer."""
    names = ("attention/optimal", "attention/random", "attention/greedy", "attention/occlusion", "attention/gradient")
    batch = batch_of(family, kind, rankings={"attention": ranked(*names)}, lengths=(8, 7, 8, 4, 5, 6, 8, 6))
    rows = table(Erasure().run(batch))
    slow = Slow(batch, "attention")
    found = 0
    for text in range(8):
        items, before = slow.erasable(text), batch.logits[text].tolist()
        if len(items) < 2:
            continue
        sizes = []
        for size in range(1, len(items) + 1):
            for removed in itertools.combinations(items, size):
                after = slow.logits(text, removed)
                sizes += [size] if flipped(kind, before, after, TOLERANCE) else []
            if sizes:
                break
        least = min(sizes, default=None)
        best = rows[text, "attention", "optimal", "attention"]
        assert best["removed"] == best["minimum_low"] == best["minimum_high"] == least
        assert best["censored"] == (least is None)
        assert best["ties"] == 0
        for (number, *_), row in rows.items():
            if number == text:
                assert (row["minimum_low"], row["minimum_high"]) == (least, least)
                assert row["flippable"] == (least is not None)
                assert row["censored"] or row["removed"] >= least
        found += least is not None
    assert found >= 2


def test_the_optimum_with_special_tokens_that_stay():
    """Erased by its own order it flips at its own size, also where some items may not go."""
    rankings = {"attention": ranked("attention/optimal", "attention/random")}
    inputs = inputs_of(model_of("FLANrnn"), lengths=LENGTHS, seed=2)
    options = {"inputs": inputs, "special_tokens": "protect", "special_ids": frozenset(range(0, 64, 3))}
    batch = batch_of("FLANrnn", rankings=rankings, **options)
    assert batch.special_items.any(1).sum() >= 6
    rows = table(Erasure().run(batch))
    flips = 0
    for (_, _, name, _), row in rows.items():
        if name == "optimal":
            assert row["removed"] == row["minimum_low"] == row["minimum_high"]
            flips += not row["censored"]
        else:
            assert row["censored"] or row["removed"] >= row["minimum_low"]
    assert flips >= 3
    check(batch_of("FLANrnn", rankings={"attention": RANKINGS["attention"]}, **options), "attention")


def test_marginal_is_what_hangs_by_a_thread():
    """A bias moved until one step is a tie: that text is marginal under the rankings that come through it."""
    cut = af.cut(af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=16).double().eval())
    with torch.no_grad():
        for parameter in cut.model.parameters():
            parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    inputs = inputs_of(cut.model, lengths=(6, 6, 6), seed=2)
    rankings = {"attention": ranked("attention/attention")}
    for near, expected in ((1e-13, True), (1e-6, False)):
        capture = cut.capture(**inputs)
        order = capture.weights[0, 0].argsort(descending=True)
        keep = torch.ones(3, 1, 6, dtype=torch.bool)
        keep[0, 0, order[0]] = False
        logits = cut.rerun(capture, keep=keep)[0, 0]
        with torch.no_grad():  # after the first removal, the two classes differ by next to nothing
            cut.model.classifier.bias[1] += logits[0] - logits[1] + near
        rows = table(Erasure().run(batch_of("FLANnoenc", cut=cut, inputs=inputs, rankings=rankings)))
        assert rows[0, "attention", "attention", "attention"]["marginal"] == expected
        assert not any(row["marginal"] for key, row in rows.items() if key[0] > 0)


def test_labels_and_targets_are_carried_and_undefined_and_tied_scores_counted():
    @af.register_method("half_of_it", level="attention")
    def half_of_it(capture, cut, target):
        scores = torch.where(torch.arange(capture.shape[2]) % 2 == 0, 1.0, torch.nan)
        return scores.expand(capture.shape[0], -1).clone()

    try:
        rankings = {"attention": ranked("attention/half_of_it")}
        batch = batch_of(
            "FLANrnn",
            rankings=rankings,
            labels=[0, 1, 2, 0, None, 1, 2, 0],
            target="gold",
            lengths=(12, 7, 9, 4, 10, 5, 8, 6),
        )
        with pytest.raises(TypeError):  # no label, no target
            Erasure().run(batch)
        batch = batch_of("FLANrnn", rankings=rankings, labels=[0, 1, 2, 0, 1, 1, 2, 0], target="gold")
        rows = table(Erasure().run(batch))
        for text, label in enumerate([0, 1, 2, 0, 1, 1, 2, 0]):
            row = rows[text, "attention", "half_of_it", "attention"]
            assert (row["gold"], row["target"]) == (label, label)
            assert row["undefined"] == LENGTHS[text] // 2
            assert row["ties"] == (LENGTHS[text] + 1) // 2 - 1
    finally:
        del methods["attention", "half_of_it"]


def test_a_reference_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="'paper' or None"):
        Erasure(reference="released-code")


def planted(decisive=3.0, score=0.0, classes=2, dtype=torch.float64):
    """A FLAN without encoder whose word 5 speaks for class 1, while the bias speaks for class 0 and nothing else does.

    The attention scores every word alike but word 5, which has ``score`` more.
    """
    model = af.models.from_preset("FLANnoenc", num_labels=classes, vocab_size=64, embedding_size=4).to(dtype).eval()
    names = dict(model.named_parameters())
    with torch.no_grad():
        for parameter in names.values():
            parameter.zero_()
        model.get_input_embeddings().weight[5, 0] = 1.0
        model.classifier.weight[1, 0] = decisive
        model.classifier.bias[0] = 1.0
    return model, names


@pytest.mark.parametrize("length", [4, 7, 11])
def test_one_decisive_word_is_the_right_answer_in_closed_form(length):
    """Uniform weights: the word gives class 1 ``decisive / N``. Only without it class 0 wins."""
    model, _ = planted(decisive=2.0 * length)
    cut = af.cut(model, check=False)
    ids = torch.full((2, length), 9)
    ids[0, 2] = ids[1, length - 1] = 5
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    names = ("gradient_x_attention", "occlusion", "optimal", "greedy", "attention", "gradient", "random")
    rankings = {"attention": ranked(*(f"attention/{name}" for name in names))}
    batch = batch_of("FLANnoenc", cut=cut, inputs=inputs, rankings=rankings)
    assert batch.capture.weights.allclose(torch.tensor(1 / length, dtype=torch.float64))
    rows = table(Erasure().run(batch))
    for text, place in ((0, 2), (1, length - 1)):
        for name in ("gradient_x_attention", "occlusion", "optimal", "greedy", "gradient"):
            row = rows[text, "attention", name, "attention"]
            assert (row["removed"], row["fraction"], row["new_label"]) == (1, 1 / length, 0), name
            assert row["mass"] == pytest.approx(1 / length)
        ties = rows[text, "attention", "attention", "attention"]  # all alike: by position
        assert (ties["removed"], ties["ties"]) == (place + 1, length - 1)
        order = cut_order(batch, text)
        assert rows[text, "attention", "random", "attention"]["removed"] == order.index(place) + 1


def cut_order(batch, text):
    scores = batch.scores(Ranking("random", "attention"), "attention")[text].tolist()
    return sorted(range(len(scores)), key=lambda item: -scores[item])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.0, 50.0, 200.0, 900.0])
def test_scores_spread_so_far_that_their_weights_underflow(spread, dtype):
    """Word 6 drowns all others; once it is gone, the others are weighed among themselves, by their scores."""
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=4).to(dtype).eval()
    seen = {}

    def capture_with(scores, pushes, bias):
        """A capture of a single text with these scores, through the model's own tail."""
        from dataclasses import replace

        cut = seen.setdefault("cut", af.cut(model, check=False))
        ids = torch.arange(5, 5 + len(scores)).unsqueeze(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            for place, push in enumerate(pushes):
                model.get_input_embeddings().weight[5 + place, 0] = push
            model.classifier.weight[1, 0] = 1.0
            model.classifier.bias[0] = bias
        capture = cut.capture(input_ids=ids, attention_mask=torch.ones_like(ids))
        logs = torch.tensor([[scores]], dtype=torch.float64).log_softmax(-1)
        weights = logs.exp().to(dtype)
        made = replace(capture, weights=weights, log_weights=logs)
        return cut, replace(made, logits=cut.rerun(made, weights=weights.unsqueeze(1))[:, 0])

    scores = [spread + 1.0, 1.0, 2.0, 0.0, -spread]
    pushes = [4.0, 1.0, 3.0, -2.0, 5.0]
    bias = 2.0
    cut, capture = capture_with(scores, pushes, bias)
    for order in itertools.permutations(range(5)):
        got = cut.prefixes(capture, torch.tensor([order]))[0]
        sets = torch.ones(1, 6, 5, dtype=torch.bool)
        for step in range(1, 6):
            sets[0, step, list(order[:step])] = False
        also = cut.rerun(capture, keep=sets)[0]
        for step in range(6):
            kept = order[step:]
            top = max((scores[item] for item in kept), default=0.0)
            shares = [math.exp(scores[item] - top) for item in kept]
            value = sum(s * pushes[item] for s, item in zip(shares, kept, strict=True)) / sum(shares) if kept else 0.0
            for found in (got[step], also[step]):
                assert found.tolist() == pytest.approx([bias, value], abs=1e-5 if dtype == torch.float32 else 1e-12)
