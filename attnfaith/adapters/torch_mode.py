"""Standing between a model's code and torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

# torch hands its composite attention to a mode in one piece; the same code without that hand-over shows its parts
_MULTI_HEAD = FunctionType(
    F.multi_head_attention_forward.__code__,
    {**vars(F), "has_torch_function": lambda tensors: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)


class FunctionInterceptor(TorchFunctionMode):
    """Sees every torch function that this thread calls while it is entered, composite attentions part by part."""

    @abstractmethod
    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function, or do something else; what is called inside is not seen."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Hand a function on to `handle`."""
        if func is F.multi_head_attention_forward:
            with self.again():
                return _MULTI_HEAD(*args, **(kwargs or {}))
        return self.handle(func, getattr(func, "__name__", ""), args, kwargs or {})

    @contextmanager
    def again(self) -> Iterator[None]:
        """Go on seeing functions inside `handle`."""
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)
