"""Hide tokens from a model token by token, one text at a time, to compare `attnfaith.evaluation.token_hiding` with."""

import torch

from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import MASK_ID, cut_of, hiding_of, model_of, one_of

TEXTS = (13, 9, 6)
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
