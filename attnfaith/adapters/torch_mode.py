"""Intercepting the torch functions that a model calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

# A mode receives torch's composite attention as one call, and would not see the softmax inside. This is the same code
# with the check for a mode switched off, so that it runs through, and its parts are seen.
_MULTI_HEAD = FunctionType(
    F.multi_head_attention_forward.__code__,
    {**vars(F), "has_torch_function": lambda tensors: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)


class FunctionInterceptor(TorchFunctionMode):
    """While entered, receives every torch function that this thread calls; composite attentions part by part."""

    @abstractmethod
    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function, or something else in its place; functions called inside are not intercepted."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass a function on to `handle`."""
        if func is F.multi_head_attention_forward:
            with self.reentered():
                return _MULTI_HEAD(*args, **(kwargs or {}))
        return self.handle(func, getattr(func, "__name__", ""), args, kwargs or {})

    @contextmanager
    def reentered(self) -> Iterator[None]:
        """Intercept functions inside `handle` too: torch leaves a mode while its handler runs."""
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)
