"""The shapes in which models multiply attention weights with values."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """How the operands of a product are laid out, and how to bring them to ``[B, H, Q, N]`` and back.

    Attributes:
        kind: "heads" ``[B, H, Q, .]``, "merged" ``[B * H, Q, .]``, "single" ``[B, Q, .]``, "einsum", "pooled"
            (``[B, N, 1]`` weights multiplied with ``[B, N, D]`` and summed), or "columns" (values first, ``[B, D, N]``,
            then weights ``[B, N, Q]``).
        equation: the letters of an einsum: weights, values, output.
        heads: H where the layout merges it with the batch.
    """

    kind: str
    heads: int = 1
    equation: tuple[str, str, str] = ("", "", "")

    def weights(self, tensor: Tensor) -> Tensor:
        """Bring attention weights to ``[B, H, Q, N]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[0], self._order("weights"))
        if self.kind == "pooled":
            return tensor.reshape(tensor.shape[0], 1, 1, -1)
        return self._split(tensor)

    def values(self, tensor: Tensor) -> Tensor:
        """Bring values to ``[B, H, N, D]``."""
        if self.kind == "einsum":
            return self._arrange(tensor, self.equation[1], self._order("values"))
        return tensor.unsqueeze(1) if self.kind == "pooled" else self._split(tensor)

    def read(self, output: Tensor) -> Tensor:
        """Bring the product's result to ``[B, H, Q, D]``."""
        if self.kind == "einsum":
            return self._arrange(output, self.equation[2], self._order("output"))
        return output[:, None, None] if self.kind == "pooled" else self._split(output)

    def write(self, context: Tensor) -> Tensor:
        """Bring ``[B, H, Q, D]`` to the layout of the product's result."""
        if self.kind == "heads":
            return context
        if self.kind == "pooled":
            return context[:, 0, 0]
        if self.kind == "single":
            return context.squeeze(1)
        if self.kind == "columns":
            return context.squeeze(1).transpose(1, 2)
        if self.kind == "merged":
            return context.flatten(0, 1)
        order = self._order("output")
        sizes = [size for size, letter in zip(context.shape, order, strict=True) if letter != "1"]
        present = [letter for letter in order if letter != "1"]
        return context.reshape(sizes).permute([present.index(letter) for letter in self.equation[2]])

    def _split(self, tensor: Tensor) -> Tensor:
        if self.kind == "columns":
            return tensor.transpose(1, 2).unsqueeze(1)
        if self.kind == "heads":
            return tensor
        if self.kind == "single":
            return tensor.unsqueeze(1)
        return tensor.unflatten(0, (-1, self.heads))

    def _order(self, what: str) -> list[str]:
        """The letters of batch, heads, and the two last dimensions; "1" where there are no heads."""
        weights, values, output = self.equation
        shared = [letter for letter in weights if letter in values and letter in output]
        contracted = next(letter for letter in weights if letter in values and letter not in output)
        query = next((letter for letter in weights if letter not in values), "1")
        width = next(letter for letter in values if letter not in weights)
        batch = [*shared, "1"][:2]
        return [
            *batch,
            *{"weights": (query, contracted), "values": (contracted, width), "output": (query, width)}[what],
        ]

    @staticmethod
    def _arrange(tensor: Tensor, letters: str, order: list[str]) -> Tensor:
        present = [letter for letter in order if letter != "1"]
        arranged = tensor.permute([letters.index(letter) for letter in present])
        for place, letter in enumerate(order):
            if letter == "1":
                arranged = arranged.unsqueeze(place)
        return arranged
