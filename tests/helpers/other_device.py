"""A simulated second device: code that would mix devices on a GPU fails here on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("cuda", 0)
_MARK = "_attnfaith_elsewhere"
_INDEXED = ("index_fill", "index_add", "index_copy", "index_select", "gather", "scatter", "take_along_dim")


class MixedDevicesError(AssertionError):
    """Tensors of two devices met where PyTorch does not allow it."""


class OtherDevice(TorchFunctionMode):
    """Pretends that some tensors are on a GPU, and all that is made from them; the numbers are computed on the CPU.

    It fails where a GPU would: where tensors of the two devices meet (numbers without dimensions may, but not as an
    index; a tensor on the GPU may be indexed by one on the CPU), where a tensor on the GPU becomes an array, and where
    random numbers for the GPU come from a generator of the CPU.

    Example:
        >>> with OtherDevice() as device:
        ...     there = device.put(torch.ones(2))
        ...     there.device, (there + 1).device, torch.zeros(2, device=there.device).device
        (device(type='cuda', index=0), device(type='cuda', index=0), device(type='cuda', index=0))
    """

    @staticmethod
    def put(value: Any) -> Any:
        """A copy of a tensor, or of a dict of tensors, that counts as being on the GPU; a module in place."""
        if isinstance(value, nn.Module):
            for tensor in (*value.parameters(), *value.buffers()):
                setattr(tensor, _MARK, True)
            return value
        if isinstance(value, dict):
            return {name: OtherDevice.put(item) for name, item in value.items()}
        return _marked(value.clone())

    def __enter__(self) -> OtherDevice:
        """Parameters are made, and copied, without a call that could be seen: they are where their data are."""
        self._new = nn.Parameter.__dict__["__new__"]

        def made(kind: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = self._new.__func__(kind, data, *args, **kwargs)
            return _marked(result) if data is not None and is_there(data) else result

        nn.Parameter.__new__ = staticmethod(made)  # type: ignore[method-assign,assignment]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """As before."""
        nn.Parameter.__new__ = self._new  # type: ignore[method-assign]
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name, tensors = getattr(func, "__name__", ""), list(_tensors((args, kwargs)))
        there = [item for item in tensors if is_there(item)]
        if getattr(func, "__self__", None) is torch.Tensor.device:
            return DEVICE if there else func(*args, **kwargs)
        if name in ("to", "cpu", "type_as"):
            return self._moved(func, name, args, kwargs)
        if name in ("numpy", "__array__") and there:
            raise MixedDevicesError(f"{name}() of a tensor on the GPU")
        if name not in ("copy_", "__get__", "__set__"):
            _check(name, args, tensors, there)
        if "device" in kwargs and kwargs["device"] is not None:
            goes = torch.device(kwargs["device"]).type == DEVICE.type
            if goes and kwargs.get("generator") is not None:
                raise MixedDevicesError(f"{name}() on the GPU with a generator of the CPU")
            result = func(*args, **kwargs | {"device": "cpu"})
            return _marked(result) if goes else result
        result = func(*args, **kwargs)
        if there:
            for entry in _tensors(result):
                setattr(entry, _MARK, True)
        return result

    @staticmethod
    def _moved(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        source, goes = args[0], is_there(args[0])
        options = [*args[1:], *kwargs.values()]
        for index, option in enumerate(options):
            if isinstance(option, Tensor):
                goes = is_there(option)
            elif isinstance(option, torch.device | str):
                goes = torch.device(option).type == DEVICE.type
                options[index] = torch.device("cpu")
        goes = goes and name != "cpu"
        count = len(args) - 1
        result = func(source, *options[:count], **dict(zip(kwargs, options[count:], strict=True)))
        result = result.clone() if result is source and goes != is_there(source) else result
        if goes:
            return _marked(result)
        if is_there(result):
            delattr(result, _MARK)
        return result


def is_there(tensor: Tensor) -> bool:
    """Whether a tensor counts as being on the GPU."""
    return getattr(tensor, _MARK, False)


def _marked(tensor: Tensor) -> Tensor:
    setattr(tensor, _MARK, True)
    return tensor


def _check(name: str, args: Any, tensors: list[Tensor], there: list[Tensor]) -> None:
    here = [item for item in tensors if not is_there(item)]
    if not there or not here:
        return
    if name in ("__getitem__", "__setitem__") and is_there(args[0]):
        here = [item for item in _tensors(args[2:]) if not is_there(item)]  # an index may be on the CPU
    numbers = not name.startswith(_INDEXED) and name != "__getitem__"
    mixed = [item for item in here if item.dim() or not numbers]
    if mixed:
        shapes = [tuple(item.shape) for item in mixed]
        raise MixedDevicesError(f"{name}() of tensors on the GPU and of tensors {shapes} on the CPU")


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
