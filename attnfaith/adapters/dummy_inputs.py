"""Dummy inputs that any family of models accepts, made from its configuration; a cut is checked on them.

Also readers of configurations: values at whatever level they are (`config_value`, `text_configs`), and
how many tokens the model takes (`position_limit`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from attnfaith.errors import InputError

SPECIAL_NAMES = re.compile(r"_token_ids?$|_token_index$|^(pad|bos|eos|unk|mask|cls|sep)_index$")
_LARGEST_COORDINATE = 1000  # the page that the layout families' tokenizers scale to


def make_dummy_inputs(
    model: nn.Module, lengths: Sequence[int] = (9, 6), padding_side: str = "right", seed: int = 0
) -> dict[str, Tensor]:
    """Return random inputs that ``model`` accepts, made from its configuration.

    No id is that of a special token, except the first (the family's start token, if it has one) and, for
    encoder-decoders, the last (their heads read the end token). Row ``r`` depends on ``seed``, ``r`` and its length
    only. A model without a padding token cannot take rows of several lengths, and a decoder without one refuses more
    than one row: such a model gets a single row of the longest length.

    Args:
        model: any text classifier with a ``config``, without wrappers.
        lengths: the number of real tokens of each row, at least 3.
        padding_side: "right" or "left".
        seed: the seed of the draws; the global random state is neither read nor changed.

    Returns:
        ``input_ids`` and ``attention_mask`` (int64, [B, max(lengths)]; wider for the two families that take certain
        widths only), and the other inputs that the family's tokenizer returns, on the model's device.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> make_dummy_inputs(tiny_model("bert"))["attention_mask"].sum(1)
        tensor([9, 6])
    """
    config = getattr(model, "config", None)
    if not hasattr(config, "to_dict"):
        raise InputError(
            f"No inputs can be made up for {type(model).__name__}: it has no Transformers configuration with the size "
            "of its vocabulary. Cut it with real inputs, cut = af.cut(model, example={'input_ids': ..., "
            "'attention_mask': ...}), and pass the cut in place of the model.",
            code="missing-example",
        )
    lengths = tuple(lengths)
    _check(model, config, lengths, padding_side)

    size = _vocabulary_size(model, config)
    pad = config_value(config, "pad_token_id", "pad_index")
    if pad is None or not 0 <= pad < size:
        if any(hasattr(part, "pad_token_id") for part in text_configs(config)):
            lengths = (max(lengths),)
        pad = 0  # not used, or the family has no padding token and reads the attention mask alone
    ordinary = _ordinary_ids(config, size, pad)
    start, end = _start_and_end(config, pad)
    extras = _extras(model, config)

    rows = []
    for number, length in enumerate(lengths):
        generator = Generator().manual_seed(1_000_003 * seed + number)
        ids = ordinary[torch.randint(len(ordinary), (length,), generator=generator)]
        if start is not None:
            ids[0] = start
        if end is not None:
            ids[-1] = end
        row = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        rows.append(row | {name: make(length, generator) for name, (_, make) in extras.items()})
    width = _width(config, max(lengths))
    fill = {"input_ids": pad, "attention_mask": 0} | {name: value for name, (value, _) in extras.items()}
    inputs = {name: torch.stack([_padded(row[name], width, fill[name], padding_side) for row in rows]) for name in fill}
    if getattr(config, "languages", None) and getattr(config, "default_language", None) is None:
        inputs["lang_ids"] = torch.zeros(len(rows), dtype=torch.int64)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return inputs if device.type == "meta" else {name: tensor.to(device) for name, tensor in inputs.items()}


def _check(model: nn.Module, config: Any, lengths: tuple[int, ...], padding_side: str) -> None:
    if padding_side not in ("right", "left"):
        raise InputError(f"padding_side must be 'right' or 'left', got {padding_side!r}.")
    if not lengths or min(lengths) < 3:
        raise InputError(f"Each row needs at least 3 tokens (a start, a text and an end), got lengths={lengths}.")
    limit = position_limit(model)
    if limit is not None and max(lengths) > limit:
        raise InputError(f"{type(model).__name__} takes at most {limit} tokens, got lengths={lengths}.")
    if getattr(config, "attention_type", None) == "block_sparse":
        raise InputError(
            f"{type(model).__name__} has block-sparse attention, which a short text would switch off permanently. Load "
            "it with attention_type='original_full', or pass real inputs as example=."
        )


def text_configs(config: Any) -> Iterator[Any]:
    """The configuration, then the configurations inside it that are about text."""
    yield config
    for name in ("text_config", "encoder", "decoder"):
        part = getattr(config, name, None)
        if hasattr(part, "to_dict"):
            yield from text_configs(part)


def config_value(config: Any, *names: str) -> Any:
    """The first value that is not None, in any of the text configurations; the first id of a list of ids."""
    for part in text_configs(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value[0] if isinstance(value, list | tuple) else value
    return None


def hidden_width(model: nn.Module) -> int | None:
    """How wide the hidden states of a model are, by its configuration; None if it does not say.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> hidden_width(tiny_model("bert"))
        32
    """
    width = config_value(getattr(model, "config", None), "hidden_size", "d_model", "n_embd", "dim")
    return width if isinstance(width, int) and width > 0 else None


def position_limit(model: nn.Module) -> int | None:
    """The largest number of tokens that a model takes, by its configuration and position tables; None without limit.

    Example:
        >>> from attnfaith.tiny_models import tiny_model
        >>> position_limit(tiny_model("roberta")), position_limit(tiny_model("t5"))
        (126, None)
    """
    config: Any = getattr(model, "config", None)
    tables = position_tables(model)
    limits: list[Any] = [  # RoBERTa numbers positions from the id after padding
        table.num_embeddings - table.padding_idx - 1 for table in tables if table.padding_idx is not None
    ]
    relative = any(getattr(config, name, None) for name in ("relative_attention", "relative_attention_num_buckets"))
    if tables or not relative:
        limits.append(config_value(config, "max_position_embeddings", "n_positions", "max_seq_len"))
    return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=None)


def position_tables(model: nn.Module) -> list[nn.Embedding]:
    """The embeddings of absolute positions, learned or fixed."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and ("position" in name or name.endswith("wpe")) and "relative" not in name
    ]


def _vocabulary_size(model: Any, config: Any) -> int:
    size = config_value(config, "vocab_size")
    if size is None and _reads_code_points(config):
        return sys.maxunicode + 1
    return int(model.get_input_embeddings().num_embeddings if size is None else size)


def _reads_code_points(config: Any) -> bool:
    return hasattr(config, "num_hash_buckets")  # CANINE: any character, hashed


def _ordinary_ids(config: Any, size: int, pad: int) -> Tensor:
    if _reads_code_points(config):
        return torch.arange(ord("a"), ord("z") + 1)
    special: set[Any] = {pad}
    for part in text_configs(config):
        for name in {*part.to_dict(), *part.attribute_map}:
            if SPECIAL_NAMES.search(name):
                value = getattr(part, name, None)
                special.update(value if isinstance(value, list | tuple) else [value])
    ids = torch.tensor([i for i in range(size) if i not in special], dtype=torch.int64)
    if not len(ids):
        raise InputError(
            f"The configuration leaves no ordinary token: vocab_size={size}, special ids {special}.",
            code="missing-example",
        )
    return ids


def _start_and_end(config: Any, pad: int) -> tuple[int | None, int | None]:
    start = config_value(config, "cls_token_id", "bos_token_id", "bos_index")
    end = config_value(config, "eos_token_id", "eos_index") if getattr(config, "is_encoder_decoder", False) else None
    return (None if start in (pad, end) else start), end


def _width(config: Any, longest: int) -> int:
    segments = getattr(config, "segment_means_seq_len", None)
    if segments is not None and segments != config.num_landmarks:
        return int(segments)  # Nystromformer averages segments of texts that all have this one width
    if hasattr(config, "block_per_row"):  # MRA works in blocks of 32
        return 32 * -(-longest // 32)
    return longest


def _padded(values: Tensor, width: int, fill: int, side: str) -> Tensor:
    padding = values.new_full((width - len(values), *values.shape[1:]), fill)
    return torch.cat([values, padding] if side == "right" else [padding, values])


def _extras(model: nn.Module, config: Any) -> dict[str, tuple[int, Callable[[int, Generator], Tensor]]]:
    """The other inputs that the family's tokenizer returns: for each its padding value, and how to draw a row."""
    accepted = set(inspect.signature(model.forward).parameters)

    def below(*sizes: int) -> Callable[[int, Generator], Tensor]:
        def draw(length: int, generator: Generator) -> Tensor:
            columns = [torch.randint(size, (length,), generator=generator) for size in sizes]
            return torch.stack(columns, dim=-1) if len(columns) > 1 else columns[0]

        return draw

    def boxes(length: int, generator: Generator) -> Tensor:
        size = min(_LARGEST_COORDINATE + 1, config.max_2d_position_embeddings)
        corners = torch.randint(size, (length, 2, 2), generator=generator)
        return corners.sort(dim=1).values.flatten(1)  # x0 <= x1 and y0 <= y1

    def path(padding: int) -> Callable[[int, Generator], Tensor]:
        def draw(length: int, generator: Generator) -> Tensor:
            steps = torch.full((length, config.max_depth), padding)
            steps[:, :3] = torch.randint(padding, (length, min(3, config.max_depth)), generator=generator)
            return steps

        return draw

    def pairs(length: int, _: Generator) -> Tensor:
        return (torch.arange(length) >= length - max(1, length // 3)).long()  # the last third is the second text

    extras: dict[str, tuple[int, Callable[[int, Generator], Tensor]]] = {}
    if getattr(config, "query", False):  # attnfaith's own: one of the two texts is the query
        extras["token_type_ids"] = (0, pairs)
    if hasattr(config, "max_2d_position_embeddings"):
        extras["bbox"] = (0, boxes)
    if hasattr(config, "type_vocab_sizes"):  # TAPAS: segment, column, row, ranks
        extras["token_type_ids"] = (0, below(*config.type_vocab_sizes))
    if hasattr(config, "max_xpath_tag_unit_embeddings"):
        extras["xpath_tags_seq"] = (config.tag_pad_id, path(config.tag_pad_id))
        extras["xpath_subs_seq"] = (config.subs_pad_id, path(config.subs_pad_id))
    if hasattr(config, "shape_vocab_size"):
        extras["input_shape_ids"] = (0, below(config.shape_vocab_size))
        extras["input_pronunciation_ids"] = (0, below(config.pronunciation_vocab_size))
    if getattr(config, "n_langs", 1) > 1 and getattr(config, "use_lang_emb", True):
        extras["langs"] = (config.lang_id, lambda length, generator: torch.full((length,), config.lang_id))
    return {name: extra for name, extra in extras.items() if name in accepted}
