"""Several processes at the same work, as ``torchrun`` starts them; one by itself otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Processes:
    """Which of how many processes this is.

    Attributes:
        index: this one's number; the first one speaks.
        count: how many there are.

    Example:
        >>> Processes().count
        1
    """

    def __init__(self) -> None:
        self._state: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState

            self._state = PartialState(cpu=_on_cpu())
        self.index = 0 if self._state is None else int(self._state.process_index)
        self.count = 1 if self._state is None else int(self._state.num_processes)

    @property
    def device(self) -> Any:
        """Where this process's model goes."""
        from accelerate import PartialState

        return PartialState().device

    @contextmanager
    def first(self) -> Iterator[None]:
        """The first process goes through alone, then the others; all have come when any leaves."""
        if self._state is None:
            yield
            return
        with self._state.main_process_first():
            yield
        self._state.wait_for_everyone()

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self._state is not None:
            self._state.wait_for_everyone()

    def agreed(self, value: Any) -> Any:
        """The first process's value, in all of them."""
        if self._state is None:
            return value
        from accelerate.utils import broadcast_object_list

        values = [value]
        broadcast_object_list(values)
        return values[0]


def _on_cpu() -> bool:
    """Whether there is nothing but processors: unless told so, accelerate then takes each process to be alone."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return found is None or found.type == "mps"  # several of its processes can talk on the processor only
