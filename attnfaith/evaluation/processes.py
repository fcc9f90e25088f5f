"""Coordinate the processes that ``torchrun`` starts; without it there is one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch

PATIENCE = timedelta(days=30)
"""How long a process waits for the others; their shards can take much longer. If one dies, torchrun ends the others."""


class Processes:
    """The number of this process and of all processes.

    Attributes:
        index: the number of this process, from 0; only process 0 shows progress.
        count: the number of processes.

    Example:
        >>> Processes().count
        1
    """

    def __init__(self) -> None:
        self._state: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState

            self._state = PartialState(cpu=_on_cpu(), timeout=PATIENCE)
        self.index = 0 if self._state is None else int(self._state.process_index)
        self.count = 1 if self._state is None else int(self._state.num_processes)

    @property
    def device(self) -> Any:
        """The device for the model of this process."""
        from accelerate import PartialState

        return PartialState().device

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run the block in the first process, then in the others; return when all have finished."""
        if self._state is None:
            yield
            return
        with self._state.main_process_first():
            yield
        self._state.wait_for_everyone()

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        if self._state is not None:
            self._state.wait_for_everyone()

    def agreed(self, value: Any) -> Any:
        """The value of the first process, in all processes."""
        if self._state is None:
            return value
        from accelerate.utils import broadcast_object_list

        values = [value]
        broadcast_object_list(values)
        return values[0]


def _on_cpu() -> bool:
    """True if there is no GPU.

    accelerate must then be told ``cpu=True``, or it treats each process as a separate run.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator is None or accelerator.type == "mps"  # processes cannot communicate over mps
