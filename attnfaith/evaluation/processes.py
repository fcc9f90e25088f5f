"""Coordinate the processes that ``torchrun`` starts; without it there is one process."""

from __future__ import annotations

import os
import time
import uuid
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

            self._state = PartialState(cpu=_on_cpu(), timeout=PATIENCE, **_meeting())
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


def _meeting() -> dict[str, Any]:
    """The arguments with which processes that torchrun started find each other, also after it restarted some of them.

    torchrun gives all attempts one store of keys. A process that is restarted would find there the addresses of
    processes that have ended, and fail, which costs another restart. So each attempt takes a prefix of its own.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = torch.distributed.TCPStore(*address, count, is_master=False, timeout=PATIENCE)  # type: ignore[attr-defined]
    own = torch.distributed.PrefixStore(meet(store, rank, count), store)  # type: ignore[attr-defined]
    return {"store": own, "rank": rank, "world_size": count}


def meet(store: Any, rank: int, count: int, pause: float = 0.05) -> str:
    """Agree on a name with the processes that run now, whatever earlier ones have left in the store.

    The first process makes up a name; every other one answers to it with a name of its own; the first confirms the
    answers. A confirmation of an earlier attempt holds another answer.

    Args:
        store: of keys, that all processes reach.
        rank: of this process.
        count: the number of processes.
        pause: seconds between two looks.
    """
    mine = uuid.uuid4().hex
    if rank == 0:
        store.set("attnfaith/name", mine)
        answers = [_wait_for(store, f"attnfaith/{mine}/{other}", pause) for other in range(1, count)]
        store.set(f"attnfaith/{mine}/all", " ".join(answers))
        return mine
    while True:
        name = _wait_for(store, "attnfaith/name", pause)
        store.set(f"attnfaith/{name}/{rank}", mine)
        if store.check([f"attnfaith/{name}/all"]) and mine in _wait_for(store, f"attnfaith/{name}/all", pause).split():
            return name
        time.sleep(pause)


def _wait_for(store: Any, key: str, pause: float) -> str:
    """The value of a key, as soon as there is one. An interrupt ends the wait, which it does not in ``store.get``."""
    while not store.check([key]):
        time.sleep(pause)
    return str(store.get(key).decode())
