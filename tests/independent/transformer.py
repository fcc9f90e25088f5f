"""Both levels of erasure for one text of a Transformer, from full forward passes, one removal at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from tests.independent.decisions import Logits, Rule, erased, ordered, row_of, walk
from tests.independent.passes import Attentions, run
from tests.independent.texts import END, FIRST, START

UNSIGNED = ("attention", "given")


def inputs_of(ids: Sequence[int], hidden: frozenset[int] = frozenset()) -> dict[str, Tensor]:
    """The inputs of a model for one text, with tokens masked."""
    mask = [int(index not in hidden) for index in range(len(ids))]
    return {"input_ids": torch.tensor([list(ids)]), "attention_mask": torch.tensor([mask])}


class Text:
    """One text in a model: what its decision reads, and its logits with items erased or tokens hidden.

    Args:
        model: in evaluation mode, with the "eager" attention, and parameters that need no gradients.
        ids: of the tokens.
        rule: how logits decide.
        given: a score for each token.
        mechanism: of the model, from `mechanism_of`.
    """

    def __init__(
        self, model: nn.Module, ids: Sequence[int], rule: Rule, given: Sequence[float], mechanism: str
    ) -> None:
        self.model, self.ids, self.rule, self.given = model, list(ids), rule, list(given)
        self.mechanism = mechanism
        self._erased: dict[frozenset[int], Logits] = {}
        self._hidden: dict[frozenset[int], Logits] = {}
        self.blind: set[frozenset[int]] = set()
        first = Attentions(len(self.ids))
        self.logits: Logits = self._run(first)
        self.final, self.by_token = first.count - 1, first.by_token

    def inputs(self, ids: Sequence[int] | None = None, hidden: frozenset[int] = frozenset()) -> dict[str, Tensor]:
        """The model's inputs, with tokens masked."""
        return inputs_of(self.ids if ids is None else ids, hidden)

    def _run(self, attentions: Attentions, inputs: dict[str, Tensor] | None = None) -> Logits:
        with torch.no_grad():
            result = run(self.model, self.inputs() if inputs is None else inputs, attentions, self.mechanism)
        return [float(value) for value in result]

    @cached_property
    def _read(self) -> tuple[list[int], Tensor, Tensor]:
        """The query rows that the logits read, the weights ``[H, Q, N]``, and the gradient of the explained number."""
        leaves: list[Tensor] = []

        def leaf(weights: Tensor) -> Tensor:
            leaves.append(weights.detach().requires_grad_())
            return leaves[0]

        logits = run(self.model, self.inputs(), Attentions(len(self.ids), edit=leaf, final=self.final), self.mechanism)
        factors = torch.linspace(0.7, 1.9, len(logits), dtype=logits.dtype)
        (moved,) = torch.autograd.grad((factors * logits).sum(), leaves[0], retain_graph=True)
        rows = (moved != 0).any(-1).any(0).nonzero().flatten().tolist()
        (gradient,) = torch.autograd.grad(self._explained(logits), leaves[0])
        return rows, leaves[0].detach(), gradient

    def _explained(self, logits: Tensor) -> Tensor:
        target = self.rule.explained(logits.tolist())
        if self.rule.kind == "regression":
            return logits[target]
        if self.rule.kind == "multilabel":
            return torch.sigmoid(logits[target])
        if self.rule.kind == "sigmoid":
            return torch.sigmoid(logits[0] if target == 1 else -logits[0])
        return torch.exp(logits[target]) / torch.exp(logits).sum()

    @property
    def rows(self) -> list[int]:
        """The query rows that the decision reads."""
        return self._read[0]

    @property
    def deciding(self) -> int | None:
        """The one token that decides; where the only query is that of a global token, it is the first."""
        queries = self._read[1].shape[1]
        if queries == 1:
            return 0
        return self.rows[0] if len(self.rows) == 1 and queries == len(self.ids) else None

    @cached_property
    def weights(self) -> list[float]:
        """Of each item: the mean over the heads and rows that the decision reads."""
        picked = self._read[1][:, self.rows, : len(self.ids)]
        return [sum(column) / len(column) for column in picked.flatten(0, 1).T.tolist()]

    def scores(self, ranking: str) -> list[float]:
        """Of each item, by a ranking."""
        rows, weights, gradient = self._read
        if ranking == "given":
            return self.given
        if ranking == "attention":
            return self.weights
        product = gradient if ranking == "gradient" else gradient * weights
        return [sum(column) for column in product[:, rows, : len(self.ids)].flatten(0, 1).T.tolist()]

    def erased(self, removed: frozenset[int]) -> Logits:
        """The logits after erasing items from the final attention."""
        if removed not in self._erased:
            kept, rows = frozenset(range(len(self.ids))) - removed, self.rows

            def edit(weights: Tensor) -> Tensor:
                edited = weights.clone()
                for head in range(len(weights)):
                    for row in rows:
                        row_weights = weights[head, row, : len(self.ids)].tolist()
                        edited[head, row, : len(self.ids)] = torch.tensor(
                            erased(row_weights, kept), dtype=weights.dtype
                        )
                return edited

            self._erased[removed] = self._run(Attentions(len(self.ids), edit=edit, final=self.final))
        return self._erased[removed]

    def smallest(self, fixed: frozenset[int]) -> int | None:
        """The size of the smallest set of items whose erasure flips the decision, by trying all of them."""
        items = [index for index in range(len(self.ids)) if index not in fixed]
        for size in range(1, len(items) + 1):
            for removed in combinations(items, size):
                if self.rule.flips(self.logits, self.erased(frozenset(removed))):
                    return size
        return None

    @cached_property
    def way(self) -> str:
        """How tokens are hidden: by leaving their keys out of every attention, where that hides them; else the mask."""
        for way in ("keys", "mask") if self.by_token and self.deciding is not None else ("mask",):
            if self._invisible(way):
                return way
        return "none"

    def _invisible(self, way: str) -> bool:
        """Whether other tokens in the place of hidden ones change nothing."""
        for start in (0, 1, 2):
            hidden = frozenset(range(start, len(self.ids), 2 + start)) - {self.deciding}
            hidden = frozenset(index for index in hidden if self.ids[index] not in (START, END))
            others = [
                FIRST + (number * 7 + 3) % 80 if index in hidden else number for index, number in enumerate(self.ids)
            ]
            before, after = (self._pass(ids, hidden, way)[0] for ids in (self.ids, others))
            scale = max(abs(value) for value in before)
            if max(abs(left - other) for left, other in zip(before, after, strict=True)) > 1e-6 * scale:
                return False
        return True

    def _pass(self, ids: Sequence[int], hidden: frozenset[int], way: str) -> tuple[Logits, bool]:
        """The logits with tokens hidden, and whether the deciding row had something to attend everywhere."""
        if way == "delete":
            kept = [number for index, number in enumerate(ids) if index not in hidden or index == self.deciding]
            return self._run(Attentions(len(kept)), self.inputs(kept)), True
        if way == "mask":
            return self._run(Attentions(len(ids)), self.inputs(ids, hidden)), True
        attentions = Attentions(len(ids), hidden)
        result = self._run(attentions, self.inputs(ids))
        return result, self.deciding not in attentions.blind

    def hidden(self, removed: frozenset[int], way: str) -> Logits:
        """The logits after hiding tokens from the whole model."""
        if removed not in self._hidden:
            self._hidden[removed], sees = self._pass(self.ids, removed, way)
            if not sees:
                self.blind.add(removed)
        return self._hidden[removed]

    def row(self, level: str, ranking: str, fixed: frozenset[int], delete: bool = False) -> dict[str, Any]:
        """What a row of the library's table should say.

        Args:
            level: "attention" or "input".
            ranking: "attention", "gradient", "gradient_x_attention" or "given".
            fixed: what is protected.
            delete: whether hiding is deletion.
        """
        items = [index for index in range(len(self.ids)) if index not in fixed]
        way = "delete" if delete else self.way
        floor, last = fixed, len(items)
        if level == "input":
            special = {index for index, number in enumerate(self.ids) if number in (START, END)}
            floor = fixed | (special if self.deciding is None else {self.deciding})
            last -= not floor

        def logits_of(removed: frozenset[int], everything: bool) -> Logits:
            if level == "attention":
                return self.erased(removed)
            return self.hidden(removed - floor if everything else removed, way)

        signs = self.rule.directions(self.logits, signed=ranking not in UNSIGNED)
        orders = [ordered(self.scores(ranking), items, sign) for sign in signs]
        walks = [walk(self.rule, self.logits, order, last, logits_of) for order in orders]
        return row_of(self.rule, self.logits, walks, self.weights)
