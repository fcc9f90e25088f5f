"""Hiding tokens from the whole model, against full forward passes written out."""

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.adapter import adapters
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.evaluation.token_hiding import WAYS, hiding_for
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import MASK_ID, cut_of, hiding_of, model_of, one_of

TEXTS = (13, 9, 6)
PLAIN = ["bert", "roberta", "llama", "opt", "gpt2"]
WINDOWED = ["mistral", "modernbert"]
LONG = (40, 31)  # five windows
PAD_ID = 1


def sets_of(inputs, deciding, count=6, seed=0):
    """Some sets of each text, the deciding token in half of them; texts ``[M]`` and what is kept ``[M, L]``."""
    tokens = inputs["attention_mask"].bool()
    generator = torch.Generator().manual_seed(seed)
    texts = torch.arange(len(tokens)).repeat(count)
    keep = (torch.rand(len(texts), tokens.shape[1], generator=generator) < 0.5) & tokens[texts]
    for row, text in enumerate(texts.tolist()):
        stays, goes = tokens[text].nonzero().flatten().tolist()[1:3][:: 1 if row % 3 else -1]
        keep[row, stays], keep[row, goes] = True, False  # beside the deciding token
        if deciding is not None:
            keep[row, deciding[text]] = row % 2 == 0
    return texts, keep


def full(model, inputs, text, kept, hide, deciding_position, first=0):
    """One forward pass of one text without padding, token by token as `hide` says."""
    single = one_of(inputs, text)
    indices = inputs["attention_mask"][text].nonzero().flatten().tolist()
    kept = [indices.index(index) for index in kept]
    deciding_position = None if deciding_position is None else indices.index(deciding_position)
    length = single["input_ids"].shape[1]
    gone = [index for index in range(length) if index not in kept]
    positions = {"position_ids": torch.arange(first, first + length).unsqueeze(0)}
    hook = None
    if hide == "delete":
        stays = sorted({*kept, deciding_position} - {None})
        single = {name: value[:, stays] for name, value in single.items()}
    elif hide == "attention_mask":
        mask = torch.tensor([[int(index in kept) for index in range(length)]])
        single |= {"attention_mask": mask, **positions}
    elif hide == "zero":
        single |= positions
        factor = torch.tensor([[[float(index in kept)] for index in range(length)]], dtype=torch.float64)
        hook = model.get_input_embeddings().register_forward_hook(lambda _, __, output: output * factor)
    else:
        single |= positions
        ids = single["input_ids"].clone()
        for position in gone:
            if hide == "mask_token" or position != deciding_position:
                ids[0, position] = MASK_ID if hide == "mask_token" else PAD_ID
        single["input_ids"] = ids
    try:
        with torch.no_grad():
            return model(**single).logits[0]
    finally:
        if hook is not None:
            hook.remove()


def assert_hidden(model, inputs, hiding, deciding, hide, tolerance=1e-6, first=0):
    """Every set of every text against its own forward pass, relative to what hiding does."""
    texts, keep = sets_of(inputs, deciding)
    got = hiding.run(inputs, deciding, texts, keep)
    with torch.no_grad():
        whole = model(**inputs).logits
    for row, text in enumerate(texts.tolist()):
        deciding_position = None if deciding is None else int(deciding[text])
        expected = full(model, inputs, text, keep[row].nonzero().flatten().tolist(), hide, deciding_position, first)
        effect = float((expected - whole[text]).abs().max())
        assert effect > 1e-3, "hiding does nothing here: this proves nothing"
        assert float((got[row] - expected).abs().max()) <= tolerance * effect, (hide, text)


def prepared(family, hide=None, lengths=TEXTS, side="right"):
    model, cut = model_of(family), cut_of(family)
    inputs = inputs_of(model, lengths=lengths, seed=2, side=side)
    deciding = cut.adapter.deciding_tokens(cut.capture(**inputs))
    hiding = hiding_of(cut, inputs, hide, left=side == "left")
    return model, inputs, deciding, hiding


def first_of(family):
    return 2 if family == "roberta" else 0


@pytest.mark.parametrize("family", PLAIN)
def test_what_the_mask_hides_is_left_out_where_that_is_equal(family):
    model, inputs, deciding, hiding = prepared(family)
    proved = hiding.proved(inputs, deciding)
    assert (proved.hide, proved.leave_out, proved.first_position) == ("attention_mask", True, first_of(family))
    assert_hidden(model, inputs, proved, deciding, "attention_mask", first=first_of(family))


@pytest.mark.parametrize("family", PLAIN)
def test_the_plain_masked_pass_is_the_same(family):
    model, inputs, deciding, hiding = prepared(family)
    slow = replace(hiding, leave_out=False, fast=False)
    assert_hidden(model, inputs, slow, deciding, "attention_mask", first=first_of(family))


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_padding_on_the_left_changes_nothing(family):
    model, inputs, deciding, hiding = prepared(family, side="left")
    assert not inputs["attention_mask"][1, 0]
    if family == "bert":  # its table of positions counts left padding: such a text is not the same text
        assert hiding.pad is None
    proved = hiding.proved(inputs, deciding)
    if family == "llama":
        assert_hidden(model, inputs, proved, deciding, "attention_mask")


@pytest.mark.parametrize("family", WINDOWED)
def test_a_window_looks_at_positions_in_the_sequence_so_nothing_may_be_left_out(family):
    """Closing up would bring tokens into a window that were out of it."""
    model, inputs, deciding, hiding = prepared(family, lengths=LONG)
    assert hiding.hide == "attention_mask"
    proved = hiding.proved(inputs, deciding)
    assert not proved.leave_out or proved.reach < min(LONG)
    assert_hidden(model, inputs, proved, deciding, "attention_mask")
    texts, keep = sets_of(inputs, deciding)
    closed = replace(proved, leave_out=True, reach=None, fast=False).run(inputs, deciding, texts, keep)
    assert float((closed - proved.run(inputs, deciding, texts, keep)).abs().max()) > 1e-3


@pytest.mark.parametrize("hide", ["mask_token", "pad", "zero", "delete"])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_the_other_ways(family, hide):
    model, inputs, deciding, hiding = prepared(family, hide)
    assert (hiding.hide, hiding.token) == (hide, {"mask_token": MASK_ID, "pad": PAD_ID}.get(hide))
    assert_hidden(model, inputs, hiding.proved(inputs, deciding), deciding, hide)


@pytest.mark.parametrize("hide", ["delete", "zero", "mask_token"])
def test_the_ways_for_models_that_read_in_order(hide):
    model, inputs, deciding, hiding = prepared("FLANrnn", hide)
    assert deciding is None
    texts, keep = sets_of(inputs, None)
    got = hiding.proved(inputs, None).run(inputs, None, texts, keep)
    for row, text in enumerate(texts.tolist()):
        single = one_of(inputs, text)
        kept = keep[row, : single["input_ids"].shape[1]]
        if hide == "delete":
            single = {name: value[:, kept] for name, value in single.items()}
        elif hide == "mask_token":
            single["input_ids"] = single["input_ids"].masked_fill(~kept, MASK_ID)
        else:
            ids = single.pop("input_ids")
            single |= {"input_ids": ids, "inputs_embeds": model.get_input_embeddings()(ids) * kept[None, :, None]}
        with torch.no_grad():
            assert torch.allclose(got[row], model(**single).logits[0], rtol=0, atol=1e-10)


def test_the_order_and_the_size_of_passes_change_nothing():
    for family in ("bert", "llama", "FLANrnn"):
        _, inputs, deciding, hiding = prepared(family)
        proved = hiding.proved(inputs, deciding)
        texts, keep = sets_of(inputs, deciding)
        whole = proved.run(inputs, deciding, texts, keep)
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(3))
        assert torch.allclose(proved.run(inputs, deciding, texts[order], keep[order]), whole[order], atol=1e-10)
        for budget in (1, 20, 40):
            assert torch.allclose(proved.run(inputs, deciding, texts, keep, budget=budget), whole, atol=1e-10)


@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn"])
def test_nothing_hidden_is_the_text_itself(family):
    model, inputs, deciding, hiding = prepared(family)
    tokens = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = model(**inputs).logits
    proved = hiding.proved(inputs, deciding)
    got = proved.run(inputs, deciding, torch.arange(len(tokens)), tokens)
    assert torch.allclose(got, expected, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("family", ["FLANrnn", "FLANconv", "HANrnn"])
def test_models_that_drop_what_the_mask_hides_are_given_fewer_tokens(family):
    """Both ways are one there: the default keeps its plainer name, and who asks for the mask gets it."""
    cut, model = cut_of(family), model_of(family)
    inputs = inputs_of(model, lengths=TEXTS, seed=2)
    single = one_of(inputs, 0)
    options = {"mask_id": MASK_ID, "left": False}
    default = hiding_for(cut, single, hide=None, **options)
    masked = hiding_for(cut, single, hide="attention_mask", **options)
    assert (default.hide, default.notes) == ("delete", ())
    assert masked.hide == "attention_mask"
    texts, keep = sets_of(inputs, None)
    stops = [number for number in (model.config.sentence_token_id, model.config.sep_token_id) if number is not None]
    keep |= torch.isin(inputs["input_ids"][texts], torch.tensor(stops)) & inputs["attention_mask"].bool()[texts]
    result, expected = (item.run(inputs, None, texts, keep) for item in (masked, default))
    assert torch.allclose(result, expected, rtol=0, atol=1e-10)


class Reader(nn.Module):
    """A user's model: a GRU reads every position, masked or not; the mask is for the attention on top alone."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(64, 8)
        self.reader = nn.GRU(8, 8, batch_first=True)
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 3)
        self.config = SimpleNamespace(pad_token_id=0)

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None):
        states, _ = self.reader(self.words(input_ids))
        scores = self.score(states).squeeze(-1)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, -torch.inf)
        context = (scores.softmax(-1).unsqueeze(1) @ states).squeeze(1)
        return SimpleNamespace(logits=self.head(context))


def test_a_users_recurrent_model_is_recognised_by_trying():
    torch.manual_seed(0)
    model = Reader().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.0)
    ids = torch.randint(1, 64, (2, 9), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    cut = af.cut(model, example=inputs)
    single = one_of(inputs, 0)
    options = {"mask_id": None, "left": False}
    hiding = hiding_for(cut, single, hide=None, **options)
    assert hiding.hide == "delete"
    assert "still changes the logits" in hiding.notes[0]
    with pytest.raises(UnsupportedModelError, match=r"does not hide.*hide='delete' or hide='zero'"):
        hiding_for(cut, single, hide="attention_mask", **options)
    keep = torch.tensor([[True, False, True, True, False, True, True, False, False]])
    got = hiding.proved(inputs, None).run(inputs, None, torch.tensor([1]), keep)
    with torch.no_grad():
        assert torch.allclose(got[0], model(ids[1:, keep[0]]).logits[0], atol=1e-12)


def test_ways_that_do_not_exist_or_lack_their_token_are_refused():
    cut = cut_of("bert")
    single = one_of(inputs_of(model_of("bert"), lengths=(7,)), 0)
    options = {"left": False}
    with pytest.raises(InputError, match=", ".join(WAYS)):
        hiding_for(cut, single, hide="removed", mask_id=4, **options)
    with pytest.raises(InputError, match=r"needs a mask token.*hide='zero' or hide='delete'"):
        hiding_for(cut, single, hide="mask_token", mask_id=None, **options)
    model = tiny_model("gpt2", dtype=torch.float64)
    model.config.pad_token_id = None
    bare = one_of(inputs_of(model, lengths=(7,)), 0)
    with pytest.raises(InputError, match="needs a padding token"):
        hiding_for(af.cut(model, example=bare), bare, hide="pad", mask_id=4, **options)


def test_hiding_leaves_the_model_as_it_was():
    model, inputs, deciding, hiding = prepared("bert", "zero")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts, keep = sets_of(inputs, deciding)
    hiding.run(inputs, deciding, texts, keep)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


# what follows: a hidden deciding token with nothing left to attend to

HARD = [("deberta", None), ("deberta-v2", None), ("gemma2", None), ("mistral", "eager"), ("modernbert", "eager")]
PLAINLY = [("bert", None), ("bert", "eager"), ("llama", "eager"), ("gpt2", None), ("mistral", "sdpa")]


@lru_cache(maxsize=16)
def hard_cut(family, attention):
    """In float32: in float64 the eager attention of some of these families gives NaN where everything is hidden."""
    model = tiny_model(family, attn_implementation=attention)
    if family == "modernbert":
        model.config.classifier_pooling = "cls"
    return af.cut(model)


def hard_hiding(family, attention, *, seed=0, side="right", **options):
    cut = hard_cut(family, attention)
    inputs = inputs_of(cut.model, lengths=(9 + seed,), seed=seed)
    return cut, hiding_for(cut, inputs, hide=None, mask_id=MASK_ID, left=side == "left", **options)


def neighbourless(cut, hiding, length=24, other=31):
    """A padded text, and sets in which the deciding token and all its neighbours are hidden; the far ones stay."""
    inputs = inputs_of(cut.model, lengths=(length, other), seed=3, side="left" if hiding.left else "right")
    deciding = cut.adapter.deciding_tokens(cut.capture(**inputs))
    indices = torch.arange(other)
    distance = (indices - deciding[0]).abs()
    keep = torch.stack([inputs["attention_mask"][0].bool() & (distance >= far) for far in (9, 12, 16, 20)])
    if hiding.protects:
        keep[:, deciding[0]] = True
    assert keep.any(1).all()
    return inputs, deciding, keep


def leaks(cut, hiding):
    """How far the logits move when what is hidden, the padding, or the batch changes; and by hiding itself."""
    inputs, deciding, keep = neighbourless(cut, hiding)
    slow = hiding.slow
    first = torch.zeros(len(keep), dtype=torch.long)
    apart = slow.run(inputs, deciding, first, keep, budget=1)
    whole = slow.run(inputs, deciding, first[:1], inputs["attention_mask"][:1].bool())
    texts = torch.tensor([*first.tolist(), 1])
    together = slow.run(inputs, deciding, texts, torch.cat((keep, inputs["attention_mask"][1:].bool())), budget=10**6)
    moved = [(together[:-1] - apart).abs().max()]
    for row, kept in enumerate(keep):
        ids = inputs["input_ids"].clone()
        hidden = inputs["attention_mask"][0].bool() & ~kept
        hidden[deciding[0]] = False
        ids[0, hidden] = ids[1, hidden]  # others, not another order of the same: a uniform row reads their mean
        after = slow.run({**inputs, "input_ids": ids}, deciding, first[:1], kept[None])
        moved.append((after[0] - apart[row]).abs().max())
    return float(max(moved)), float((apart - whole).abs().max())


@pytest.mark.parametrize(("family", "attention"), HARD)
def test_a_deciding_token_that_would_read_what_is_hidden_is_protected(family, attention):
    cut, hiding = hard_hiding(family, attention)
    assert (hiding.hide, hiding.protects) == ("attention_mask", True)
    assert "never hidden" in hiding.notes[0]
    leak, effect = leaks(cut, hiding)
    assert leak <= 1e-4 * effect
    open_leak, _ = leaks(cut, replace(hiding, protects=False))
    assert open_leak > 1e-2 * effect, "this model never needed the protection: this proves nothing"


@pytest.mark.parametrize(("family", "attention"), PLAINLY)
def test_a_deciding_token_that_reads_nothing_hidden_is_an_item(family, attention):
    cut, hiding = hard_hiding(family, attention)
    assert (hiding.hide, hiding.protects, hiding.notes) == ("attention_mask", False, ())
    leak, effect = leaks(cut, hiding)
    assert leak <= 1e-4 * effect


@pytest.mark.parametrize(("family", "attention"), [*HARD[1:], *PLAINLY[:2]])
def test_what_is_found_is_a_fact_about_the_model(family, attention):
    """Another first text and another side of padding; what may share a batch is a fact about the side."""

    def facts(hiding):
        return (hiding.hide, hiding.protects, hiding.leave_out, hiding.reach, hiding.fast, hiding.first_position)

    expected = facts(hard_hiding(family, attention)[1])
    for seed, side in ((1, "right"), (5, "right"), (2, "left")):
        assert facts(hard_hiding(family, attention, seed=seed, side=side)[1]) == expected


def test_a_window_longer_than_any_text_of_the_run_protects_nothing():
    assert hard_hiding("mistral", "eager", longest=8)[1].protects is False
    assert hard_hiding("mistral", "eager", longest=40)[1].protects is True


def test_without_a_note_where_the_user_protects_the_token_anyway():
    hiding = hard_hiding("mistral", "eager", protect=True)[1]
    assert (hiding.protects, hiding.notes) == (True, ())


def test_a_mask_under_which_logits_are_not_finite_hides_nothing():
    cut = af.cut(tiny_model("opt", dtype=torch.float64, attn_implementation="eager"))
    hiding = hiding_for(cut, inputs_of(cut.model, lengths=(9,)), hide=None, mask_id=MASK_ID, left=False)
    assert (hiding.hide, hiding.protects) == ("delete", True)
    assert "not finite" in " ".join(hiding.notes)


# what follows: a mask that does something else to the deciding token than to hide it as a key


def without_it(hiding, inputs, deciding, ids=None):
    """The logits of the first text with the deciding token and every third other one hidden by the mask."""
    keep = inputs["attention_mask"][:1].bool() & (torch.arange(inputs["input_ids"].shape[1]) % 3 > 0)
    keep[0, deciding[0]] = False
    inputs = inputs if ids is None else {**inputs, "input_ids": ids}
    return hiding.run(inputs, deciding, torch.zeros(1, dtype=torch.long), keep), keep


GONE = [("esm", "its own vector"), ("xlm", "its own vector"), ("xlm", "the others"), ("longformer", "the others")]


@pytest.mark.parametrize(("family", "lost"), GONE)
def test_a_deciding_token_that_the_mask_removes_as_a_query_is_protected(family, lost):
    model, inputs, deciding, hiding = prepared(family)
    assert (hiding.hide, hiding.protects) == ("attention_mask", True)
    assert "as a query too" in hiding.notes[0]
    unprotected = replace(hiding, protects=False).slow
    before, keep = without_it(unprotected, inputs, deciding)
    ids = inputs["input_ids"].clone()
    if lost == "its own vector":
        ids[0, deciding[0]] = ids[0, deciding[0] + 1]
    else:
        ids[0, keep[0]] = ids[0, keep[0]].roll(1) // 2 + 20
    assert torch.equal(without_it(unprotected, inputs, deciding, ids)[0], before), "it is a query: this proves nothing"
    with torch.no_grad():
        visible = [model(**{**inputs, "input_ids": item}).logits[0] for item in (ids, inputs["input_ids"])]
    assert float((visible[0] - visible[1]).abs().max()) > 1e-2


def test_a_deciding_token_that_still_attends_to_itself_is_protected():
    cut, hiding = hard_hiding("xlnet", None)
    assert (hiding.hide, hiding.protects) == ("attention_mask", True)
    assert "attended even where" in hiding.notes[0]
    inputs = inputs_of(cut.model, lengths=(9,))
    with torch.no_grad():
        result = cut.model(**inputs, output_attentions=True).attentions
        inputs["attention_mask"][0, 8] = 0
        hidden = cut.model(**inputs, output_attentions=True).attentions
    assert all(float(weights[0, :, 8, 8].max()) > 1e-2 for weights in (*result, *hidden))
    assert all(float(weights[0, :, :8, 8].max()) == 0 for weights in hidden)


class NeverMasked(nn.Module):
    """A user's model whose other tokens attend to the first, whatever the mask says."""

    def __init__(self):
        super().__init__()
        self.inner = tiny_model("bert", dtype=torch.float64)
        self.config = self.inner.config

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        if attention_mask is not None:
            length = attention_mask.shape[1]
            attention_mask = attention_mask.bool()[:, None, None].repeat(1, 1, length, 1)
            attention_mask[:, :, 1:, 0] = True
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)


def test_a_deciding_token_that_the_others_still_attend_to_is_protected():
    model = NeverMasked()
    inputs = inputs_of(model.inner, lengths=(9,))
    hiding = hiding_for(af.cut(model, example=inputs), inputs, hide=None, mask_id=MASK_ID, left=False)
    assert (hiding.hide, hiding.protects) == ("attention_mask", True)
    assert "attended even where" in hiding.notes[0]


@pytest.mark.parametrize("counts", [True, False])
def test_a_mask_that_positions_are_counted_along_is_deletion(counts):
    """Without positions hiding by the mask is equal to deletion too, but nothing moves up."""
    model = tiny_model("bloom")
    if not counts:
        model.transformer.build_alibi_tensor = lambda mask, heads, dtype: torch.zeros(
            len(mask) * heads, 1, mask.shape[1], dtype=dtype
        )
    cut, inputs = af.cut(model), inputs_of(model, lengths=TEXTS, seed=2)
    single = one_of(inputs, 0)
    options = {"mask_id": MASK_ID, "left": False}
    default, masked = (hiding_for(cut, single, hide=hide, **options) for hide in (None, "attention_mask"))
    deleted = hiding_for(cut, single, hide="delete", **options)
    if counts:
        assert (default.hide, default.protects) == ("delete", True)
        assert [note.split()[0] for note in default.notes] == ["This", "Where"]
        assert "moves up" in default.notes[0]
        assert (masked.hide, masked.protects, masked.notes) == ("attention_mask", False, default.notes[:1])
    else:
        assert default == masked
        assert (default.hide, default.protects, default.notes) == ("attention_mask", False, ())
    deciding = cut.adapter.deciding_tokens(cut.capture(**inputs))
    texts, keep = sets_of(inputs, deciding)
    keep[torch.arange(len(texts)), deciding[texts]] = True
    results = [item.run(inputs, deciding, texts, keep) for item in (masked, deleted)]
    assert torch.allclose(*results, rtol=0, atol=1e-4)


def test_positions_that_restart_with_token_types_are_not_counted_along_the_mask():
    """TAPAS counts positions within a cell; in a made-up text nearly every token has a cell of its own."""
    _, _, _, hiding = prepared("tapas")
    assert (hiding.hide, hiding.protects, hiding.notes) == ("attention_mask", False, ())


class OneQuery(nn.Module):
    """A user's model with one query: of the last token, whose vector it then changes, or of nobody's."""

    def __init__(self, asks):
        super().__init__()
        self.asks = asks
        self.words, self.places = nn.Embedding(64, 8), nn.Embedding(80, 8)
        self.layers = nn.ModuleList([OneQueryLayer(asks)])
        self.head = nn.Linear(8, 3)
        self.config = SimpleNamespace(pad_token_id=0)

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        tokens = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        last = (input_ids != 0).int().cumsum(1).argmax(1)  # the last that is no padding, masked or not
        states = self.layers[0](self.words(input_ids) + self.places(position_ids), tokens.bool(), last)
        states = states[torch.arange(len(last)), last] if self.asks else states[:, 0]
        return SimpleNamespace(logits=self.head(torch.tanh(states)))


class OneQueryLayer(nn.Module):
    def __init__(self, asks):
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        self.own = None if asks else nn.Parameter(torch.zeros(8))

    def forward(self, states, tokens, last):
        texts = torch.arange(len(last))
        query = states[texts, last] if self.own is None else self.own.expand(len(last), 8)
        scores = self.query(query).unsqueeze(1) @ self.key(states).transpose(1, 2)
        weights = scores.masked_fill(~tokens.unsqueeze(1), -1e30).softmax(-1)
        read = weights @ states
        if self.own is not None:
            return torch.cat((read, torch.zeros_like(read)), dim=1)  # more rows than queries, but not the text's
        states = states.clone()
        states[texts, last] += read.squeeze(1)
        return states


def one_query(asks):
    torch.manual_seed(0)
    model = OneQuery(asks).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.4)
    rows = [torch.randint(1, 64, (length,)) for length in TEXTS]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    return model, af.cut(model, example=one_of(inputs, 0)), inputs


def test_a_token_decides_where_its_query_is_the_only_one():
    """A global token: the attention has one row, which is no position of the text."""
    cut = cut_of("longformer")
    inputs = inputs_of(model_of("longformer"), lengths=TEXTS, seed=2)
    assert cut.adapter.deciding_tokens(cut.capture(**inputs)).tolist() == [0, 0, 0]
    model, cut, inputs = one_query(asks=True)
    deciding = cut.adapter.deciding_tokens(cut.capture(**inputs))
    assert deciding.tolist() == [length - 1 for length in TEXTS]
    hiding = hiding_for(cut, one_of(inputs, 0), hide=None, mask_id=None, left=False)
    assert (hiding.hide, hiding.protects, hiding.notes) == ("attention_mask", False, ())
    assert_hidden(model, inputs, hiding.proved(inputs, deciding), deciding, "attention_mask")


def test_no_token_decides_where_the_only_query_is_learnt():
    _, cut, inputs = one_query(asks=False)
    capture = cut.capture(**inputs)
    assert cut.adapter.deciding_rows(capture)[0].tolist() == [[0], [0], [0]]
    assert cut.adapter.deciding_tokens(capture) is None


class Described(nn.Module):
    """A user's model with a head of its own on a BERT, cut by an adapter of the user's."""

    def __init__(self):
        super().__init__()
        self.inner = tiny_model("bert", dtype=torch.float64)
        self.config = self.inner.config

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)


def test_a_user_adapter_is_tried_and_not_treated_as_a_recurrent_network():
    model = Described()

    @af.register_adapter(Described)
    class Adapter(af.Adapter):
        def __init__(self, model):
            super().__init__(model)
            self.other = af.cut(model.inner).adapter

        def capture(self, **inputs):
            return self.other.capture(**inputs)

        def rerun(self, capture, weights):
            return self.other.rerun(capture, weights)

    try:
        cut = af.cut(model)
        inputs = inputs_of(model, lengths=TEXTS, seed=2)
        hiding = hiding_for(cut, one_of(inputs, 0), hide="attention_mask", mask_id=MASK_ID, left=False)
        assert hiding_for(cut, one_of(inputs, 0), hide=None, mask_id=MASK_ID, left=False) == hiding
        texts, keep = sets_of(inputs, None)
        keep[:, 0] = True  # nobody says which token decides
        expected = hiding_for(cut_of("bert"), one_of(inputs, 0), hide=None, mask_id=MASK_ID, left=False)
        deciding = torch.zeros(len(TEXTS), dtype=torch.long)
        assert torch.allclose(
            hiding.run(inputs, None, texts, keep), expected.run(inputs, deciding, texts, keep), atol=1e-9
        )
    finally:
        del adapters[Described]
