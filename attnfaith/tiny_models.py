"""Tiny random models of every family of text classifiers in the installed Transformers.

There is no code for each family: one table of small values is applied to the attributes of any configuration class,
also of nested configurations. What a family needs beyond that is in ``SPECIAL``, with the reason.
"""

from __future__ import annotations

import math
import re
import zlib
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D

from attnfaith.errors import AttnFaithError, InputError
from attnfaith.quiet import quiet_transformers
from attnfaith.transformers_versions import option_names
from attnfaith.validation import did_you_mean, short_repr

WIDTH, HEADS, KEY_VALUE_HEADS, HEAD_WIDTH, INNER, LAYERS, VOCABULARY, POSITIONS = 32, 4, 2, 8, 64, 2, 99, 128
WINDOW = 8  # shorter than the default dummy text, so that a sliding window really hides something

SMALL: dict[str, Any] = {
    **dict.fromkeys(
        "hidden_size d_model n_embd emb_dim dim embedding_size input_embedding_size word_embed_proj_dim "
        "attention_hidden_size pronunciation_embed_dim shape_embed_dim entity_emb_size prediction_head_size "
        "out_hidden_size d_latents true_hidden_size intra_bottleneck_size xpath_unit_hidden_size".split(),
        WIDTH,
    ),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
        "num_self_attention_heads num_cross_attention_heads linear_num_value_heads index_n_heads".split(),
        HEADS,
    ),
    **dict.fromkeys("num_key_value_heads num_kv_heads linear_num_key_heads n_mamba_heads".split(), KEY_VALUE_HEADS),
    **dict.fromkeys(
        "head_dim d_kv d_head kv_channels attention_head_dim attention_head_size qk_nope_head_dim qk_rope_head_dim "
        "v_head_dim linear_key_head_dim linear_value_head_dim query_pre_attn_scalar rotary_dim".split(),
        HEAD_WIDTH,
    ),
    "index_head_dim": 2 * HEAD_WIDTH,  # part of it is rotated, as wide as qk_rope_head_dim; the rest must not be empty
    **dict.fromkeys(
        "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim ffn_hidden_size d_ff dff d_inner hidden_dim n_inner "
        "feed_forward_size moe_intermediate_size shared_expert_intermediate_size output_embedding_size".split(),
        INNER,
    ),
    **dict.fromkeys(
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers depth "
        "num_self_attends_per_block".split(),
        LAYERS,
    ),
    "vocab_size": VOCABULARY,
    **dict.fromkeys(
        "max_position_embeddings n_positions max_seq_len max_2d_position_embeddings "
        "original_max_position_embeddings".split(),
        POSITIONS,
    ),
    "type_vocab_size": 2,
    # special ids of RoBERTa and BART for all families: small, and all different
    **dict.fromkeys(["bos_token_id", "bos_index", "cls_token_id"], 0),
    **dict.fromkeys(["pad_token_id", "pad_index"], 1),
    **dict.fromkeys("eos_token_id eos_index sep_token_id eod_token_id decoder_start_token_id".split(), 2),
    "unk_index": 3,
    **dict.fromkeys(["mask_token_id", "mask_index"], 4),
    **dict.fromkeys(["image_token_id", "image_token_index"], 5),
    **dict.fromkeys(["video_token_id", "boi_token_index", "vision_start_token_id"], 6),
    **dict.fromkeys(["eoi_token_index", "vision_end_token_id"], 7),
    # mixtures of experts; kernels need widths that are multiples of eight
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts"], 8),
    **dict.fromkeys(["num_experts_per_tok", "moe_topk"], 2),
    **dict.fromkeys(["n_shared_experts", "n_group", "topk_group", "first_k_dense_replace"], 1),
    # ranks of low-rank projections
    **dict.fromkeys(["kv_lora_rank", "q_lora_rank", "adapter_rank", "gated_norm_rank", "mamba_dt_rank"], HEAD_WIDTH),
    **dict.fromkeys(["sliding_window", "local_attention", "window_size", "attention_window"], WINDOW),
    **dict.fromkeys(["keep_window_size", "index_topk", "block_size", "chunk_size"], WINDOW),
    # hybrids: the second of the two layers is the one with attention
    **dict.fromkeys(["attn_layer_period", "full_attention_interval", "expert_layer_period"], 2),
    **dict.fromkeys(["attn_layer_offset", "expert_layer_offset"], 1),
    "sliding_window_pattern": 2,
    "mamba_d_state": 8,
    "use_mamba_kernels": False,  # they need a GPU, and Transformers 5.0 raises without them
    # vocabularies other than that of words
    **dict.fromkeys("entity_vocab_size pronunciation_vocab_size shape_vocab_size num_hash_buckets".split(), VOCABULARY),
    "num_latents": 12,
    # images, for models that can read them too
    **dict.fromkeys(["image_size", "input_size"], 16),
    "patch_size": 8,
    "num_position_embeddings": 16,
    "mm_tokens_per_image": 4,
}

_TWO_ROPES = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("sliding_attention", "full_attention")}
SPECIAL: dict[str, dict[str, Any]] = {
    # block-sparse attention needs texts of 700 tokens and more; for shorter ones the model switches itself to this
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    # the default configuration has no rotary parameters, but its model needs them
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"], "rope_parameters": _TWO_ROPES},
    # as in real models, the last layer is not the first of its block, so that it attends pooled positions
    "funnel": {"block_sizes": [1, 2]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    # the hidden vector is the concatenation of four embeddings of coordinates and two of sizes
    "layoutlmv2": {"coordinate_size": 6, "shape_size": 4},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    # six coordinates share the hidden vector, and that of the layout is a quarter as wide
    "lilt": {"hidden_size": 48},
    # hashed attention draws new random rotations in every forward pass; local attention is deterministic
    "reformer": {
        "attn_layers": ["local", "local"],
        "local_attn_chunk_length": WINDOW,
        "axial_pos_shape": [8, POSITIONS // 8],
        "axial_pos_embds_dim": [8, WIDTH - 8],
    },
    # as set_default_language() does: without it the model requires lang_ids
    "xmod": {"default_language": "en_XX"},
    # one entry for each level of the document tree, each with two embeddings
    "markuplm": {"max_depth": 4},
    # attention reads the layer's input concatenated with the first embeddings, and so is twice as wide; hybrid layers
    # after the first share its weights, and one of them must exist
    "zamba": {
        "attention_hidden_size": 2 * WIDTH,
        "attention_head_dim": 2 * HEAD_WIDTH,
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
    },
}


def model_types() -> list[str]:
    """Return the model types with a text classifier in the installed Transformers.

    Example:
        >>> "bert" in model_types()
        True
    """
    return sorted(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)


def tiny_model(
    model_type: str,
    *,
    num_labels: int = 3,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    attn_implementation: str | None = None,
    scale: float | None = None,
) -> PreTrainedModel:
    """Return a tiny random classifier of one family, in evaluation mode, whose decision depends on its attention.

    With the usual initialisation (a standard deviation of .02) attention is nearly uniform and has hardly any effect.
    Here every matrix is re-initialised so that hidden states and logits are of the order of 1. The same seed gives the
    same weights, in any dtype and any process, and the global random state is not changed.

    Args:
        model_type: one of :func:`model_types`.
        num_labels: the number of classes.
        seed: the seed of the weights.
        dtype: the dtype of the weights.
        attn_implementation: "eager" or "sdpa"; by default the family's own default.
        scale: the gain of every matrix, by default 1.

    Example:
        >>> model = tiny_model("bert")
        >>> model(torch.tensor([[5, 6, 7]])).logits.shape
        torch.Size([1, 3])
    """
    if model_type not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        raise InputError(
            f"Transformers has no text classifier of the type {short_repr(model_type)}."
            f"{did_you_mean(model_type, model_types())} attnfaith.tiny_models.model_types() lists them.",
            code="unknown-name",
        )
    settings: dict[str, Any] = {"dtype": dtype}
    if attn_implementation is not None:
        settings["attn_implementation"] = attn_implementation
    if dtype is torch.float64:
        settings["experts_implementation"] = "eager"  # the default's grouped product does not support float64
    try:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            config = _tiny_config(CONFIG_MAPPING[model_type], SPECIAL.get(model_type, {}), num_labels=num_labels)
            drawn = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
            model = AutoModelForSequenceClassification.from_config(config, **settings)
        _draw_weights(drawn, seed=seed, gain=1.0 if scale is None else scale)
        model.load_state_dict(drawn.state_dict())  # drawn in float32 first: other dtypes would draw other numbers
    except Exception as error:  # a family's code may raise anything; the survey prints it as the reason
        raise AttnFaithError(f"No tiny {model_type!r} could be made: {type(error).__name__}: {error}") from error
    return model.eval()


def _tiny_config(config_class: type[PreTrainedConfig], special: dict[str, Any], **extra: Any) -> PreTrainedConfig:
    default = config_class()
    names = option_names(config_class)
    values = {name: SMALL[name] for name in names & set(SMALL)}
    for name in names:
        value = getattr(default, name, None)
        if isinstance(value, PreTrainedConfig):
            values[name] = _tiny_config(type(value), special.get(name, {}))
        elif name in ("layer_types", "layers_block_type", "mlp_layer_types") and value:
            values[name] = _two_layers(value)
        elif name in ("num_key_value_heads", "num_kv_heads") and value == getattr(default, "num_attention_heads", None):
            values[name] = HEADS  # grouped heads only in families whose default has them: others refuse them
    # in Transformers 5.0 some have none, but their models ask for it; Perceiver never has one, and asks for none
    if not hasattr(default, "pad_token_id") and config_class.model_type != "perceiver":
        values["pad_token_id"] = SMALL["pad_token_id"]
    if default.is_encoder_decoder:
        values.setdefault("decoder_start_token_id", SMALL["decoder_start_token_id"])
    values |= {name: value for name, value in special.items() if not isinstance(value, dict) or name not in values}
    return config_class(**values, **extra)


def _two_layers(kinds: list[str]) -> list[str]:
    """Two layers of different kinds if the family has several, the one with (full) attention last."""
    last = next((kind for kind in ("full_attention", "hybrid", "sparse") if kind in kinds), kinds[-1])
    first = next((kind for kind in kinds if kind != last), last)
    return [first] * (LAYERS - 1) + [last]


_ATTENTION = re.compile(r"att(n|ention)", re.IGNORECASE)
_QUERY_OR_KEY = re.compile(
    r"(^|[._])(q|k|query|key|in_proj|\w?qkv|query_key_value|c_attn|w[qk])(?![a-z])", re.IGNORECASE
)
# Tried on 5 draws of each family: with these, dropping half of the final attention's items moves the logits by a tenth
# of their size or more (599 times of 600; once by .098). Gains of 1.6 and 2.0, or 1.6 and 1.6, fail more often.
_QUERY_KEY_GAIN, _VALUE_GAIN, _EMBEDDING_SIZE = 2.0, 1.3, 0.3
# families that do not divide scores by sqrt(head width): their queries and keys must be smaller
_UNSCALED = {"t5", "mt5", "umt5", "gpt_neo"}


def _draw_weights(model: PreTrainedModel, *, seed: int, gain: float) -> None:
    query_key_gain = _QUERY_KEY_GAIN / (HEAD_WIDTH**0.25 if model.config.model_type in _UNSCALED else 1.0)
    owners = {id(parameter): module for module in model.modules() for parameter in module.parameters(recurse=False)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue  # fixed sinusoidal positions
            owner = owners[id(parameter)]
            key = zlib.crc32(f"{seed}:{name}".encode())
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(key), dtype=torch.float64)
            query_or_key = bool(_ATTENTION.search(name) and _QUERY_OR_KEY.search(name))
            fan_in = _fan_in(owner, parameter)
            if fan_in is None:
                value = parameter.double() + 0.1 * noise
                if query_or_key and "norm" in name.lower():
                    value += query_key_gain - 1.0  # the size of normalised queries and keys is the weight of their norm
            else:
                boost = query_key_gain if query_or_key else _VALUE_GAIN if _ATTENTION.search(name) else 1.0
                value = noise * (gain * boost / math.sqrt(fan_in))
            parameter.copy_(value)
            if isinstance(owner, nn.Embedding) and owner.padding_idx is not None:
                parameter[owner.padding_idx] = 0.0  # as in trained models: padding has no gradient and stays zero


def _fan_in(owner: nn.Module, parameter: nn.Parameter) -> float | None:
    """The number of inputs that each output of a matrix sums; None for biases, norms and other parameters."""
    if parameter.dim() < 2:
        return None
    if isinstance(owner, nn.Embedding):
        # small embeddings: otherwise what attention adds to the residual stream would be negligible
        return _EMBEDDING_SIZE**-2
    if isinstance(owner, Conv1D):
        return parameter.shape[0]
    if isinstance(owner, nn.Linear | nn.modules.conv._ConvNd):
        return math.prod(parameter.shape[1:])
    # A parameter outside any known layer: a stack of experts' matrices is initialised with small noise; other
    # parameters have values with a meaning, and keep them.
    return parameter.shape[-1] if 0 < parameter.float().std() < 0.1 else None
