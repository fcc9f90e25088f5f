"""The papers' models by name: their configuration, and their training settings as far as the papers state them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.registry import Registry

if TYPE_CHECKING:
    from attnfaith.models.modeling import AttentionClassifier


@dataclass(frozen=True)
class Preset:
    """One model of one paper.

    Attributes:
        source: the paper.
        config: arguments of ``AttentionClassifierConfig``.
        training: the paper's training settings: ``optimizer``, ``learning_rate``, ``max_grad_norm``, ``patience``
            (epochs without a better validation accuracy), ``min_count`` ... Settings that are not in the paper are
            absent.
        datasets: the settings that the paper gives for each data set, as (config, training), which override the others.
    """

    source: str
    config: dict[str, Any]
    training: dict[str, Any]
    datasets: dict[str, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)


MOST_LABELS = 10**6
PRESETS: Registry[str, Preset] = Registry("preset", "attnfaith.models.presets()")


def presets() -> list[str]:
    """The names that ``from_preset`` knows.

    Example:
        >>> presets()[:3]
        ['HANrnn', 'HANconv', 'HANnoenc']
    """
    return list(PRESETS)


def preset(name: str, *, dataset: str | None = None) -> Preset:
    """The settings of a preset, with those for one data set where the paper has several (by default its first).

    Example:
        >>> preset("FLANnoenc", dataset="yelp").training["patience"]
        10
    """
    chosen = PRESETS[validation.text(name, "name", "the name of a preset")]
    dataset = None if dataset is None else validation.text(dataset, "dataset")
    if dataset is not None and dataset not in chosen.datasets:
        datasets = ", ".join(map(repr, chosen.datasets)) or "none"
        raise InputError(
            f"{name} has no settings of its own for the data set {validation.short_repr(dataset)}. Known: {datasets}.",
            code="unknown-name",
        )
    if not chosen.datasets:
        return chosen
    config, training = chosen.datasets[dataset or next(iter(chosen.datasets))]
    return Preset(chosen.source, chosen.config | config, chosen.training | training, chosen.datasets)


def from_preset(
    name: str,
    *,
    num_labels: int = 2,
    vocab_size: int | None = None,
    tokenizer: Any = None,
    dataset: str | None = None,
    **overrides: Any,
) -> AttentionClassifier:
    """A new, untrained model of one of the papers.

    Args:
        name: see ``presets()``.
        num_labels: number of classes; 1 with ``problem_type="single_label_classification"`` is one sigmoid logit.
        vocab_size: number of word ids, ``len(tokenizer)``.
        tokenizer: in place of ``vocab_size``; then the ids of its special tokens are taken over too, so that it need
            not be a ``WordTokenizer``.
        dataset: the data set whose settings to use, if the paper has several ("imdb", "yelp", "amazon", "yahoo").
        **overrides: any argument of ``AttentionClassifierConfig``; ``query=True`` for pairs of texts.

    Example:
        >>> from_preset("HANrnn", num_labels=5, vocab_size=100).config.by_sentences
        True
    """
    from transformers import PreTrainedTokenizerBase

    from attnfaith.models.configuration import CHOICES, AttentionClassifierConfig
    from attnfaith.models.modeling import AttentionClassifier

    settings = preset(name, dataset=dataset).config
    if (vocab_size is None) == (tokenizer is None):
        raise InputError("Pass either vocab_size (such as len(tokenizer)) or tokenizer.")
    validation.whole_number(num_labels, "num_labels", least=1, most=MOST_LABELS)
    if tokenizer is not None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"Expected a Transformers tokenizer, got {type(tokenizer).__name__}.", code="wrong-tokenizer"
            )
        ids = {key: getattr(tokenizer, key, None) for key in ("pad_token_id", "sep_token_id", "sentence_token_id")}
        plain = {tokenizer.unk_token_id, *ids.values()}
        ids["structural_token_ids"] = sorted(set(tokenizer.all_special_ids) - plain)
        settings = settings | {"vocab_size": len(tokenizer)} | ids
    else:
        settings = settings | {"vocab_size": vocab_size}
    unknown = sorted(set(overrides) - set(AttentionClassifierConfig().to_dict()) - {"problem_type"})
    if unknown:
        raise InputError(
            f"AttentionClassifierConfig has no {', '.join(unknown)}; see its documentation.", code="unknown-name"
        )
    # Some versions of Transformers refuse another one with an error of their own, others take it.
    validation.one_of(overrides.get("problem_type"), CHOICES["problem_type"], "problem_type")
    return AttentionClassifier(AttentionClassifierConfig(**(settings | {"num_labels": num_labels} | overrides)))


def _serrano_smith() -> None:
    source = "Serrano & Smith 2019, Is Attention Interpretable?, appendix A.1"
    encoders: dict[str, dict[str, Any]] = {
        "rnn": {"encoder": "gru", "hidden_size": 50},
        "conv": {"encoder": "conv", "kernels": [(3, 50), (5, 50)], "activation": "relu"},
        "noenc": {"encoder": "none"},
    }
    # data set: dropout of words, of sentences, in the classifier of a HAN and of a FLAN; learning rate
    table = {
        "imdb": (0.4445, 0.2202, 0.2457, 0.3457, 4e-4),
        "yelp": (0.7, 0.1, 0.7, 0.7, 1e-4),
        "amazon": (0.6, 0.2, 0.4, 0.4, 2e-4),
        "yahoo": (0.4445, 0.2202, 0.3749, 0.4457, 4e-4),
    }
    for kind in ("HAN", "FLAN"):
        for suffix, encoder in encoders.items():
            datasets = {}
            for name, (words, sentences, han, flan, rate) in table.items():
                dropout = {"input_dropout": words, "classifier_dropout": flan}
                if kind == "HAN":
                    dropout = {"input_dropout": words, "sentence_dropout": sentences, "classifier_dropout": han}
                datasets[name] = (dropout, {"learning_rate": rate})
            patience = 10 if suffix == "noenc" else 5
            PRESETS.register(kind + suffix)(
                Preset(
                    source,
                    {"embedding_size": 200, "by_sentences": kind == "HAN", "attention": "additive"} | encoder,
                    {"optimizer": "adam", "max_grad_norm": 10.0, "patience": patience, "min_count": 5},
                    datasets,
                )
            )


def _shared(channels: int, widths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Distribute channels among kernels as evenly as possible; the first kernels get what is left over."""
    share, remainder = divmod(channels, len(widths))
    return [(width, share + (index < remainder)) for index, width in enumerate(widths)]


# Both papers have the same settings: Wen et al. state that theirs come from Jain & Wallace. The width of attention is
# not in the papers; here it is half of the width of the attended vectors, as in Jain & Wallace's program.
_JAIN_TRAINING = {
    "optimizer": "adam",
    "amsgrad": True,
    "learning_rate": 1e-3,
    "weight_decay": 1e-5,
    "weight_decay_exclude": "attention",
    "batch_size": 32,
}


def _jain_wallace() -> None:
    encoders: dict[str, dict[str, Any]] = {
        "lstm": {"encoder": "lstm", "hidden_size": 128, "attention_size": 128},
        "conv": {"encoder": "conv", "kernels": _shared(128, (1, 3, 5, 7)), "activation": "relu", "attention_size": 64},
        "average": {"encoder": "mlp", "hidden_size": 128, "activation": "tanh", "attention_size": 64},
    }
    for encoder, config in encoders.items():
        for attention in ("additive", "dot"):
            PRESETS.register(f"JW-{encoder}-{attention}")(
                Preset(
                    "Jain & Wallace 2019, Attention is not Explanation",
                    {"embedding_size": 300, "attention": attention, "dot_scale": True} | config,
                    _JAIN_TRAINING,
                )
            )


def _wen() -> None:
    encoders: dict[str, dict[str, Any]] = {
        "lstm": {"encoder": "lstm", "hidden_size": 128, "attention_size": 128},
        "conv": {
            "encoder": "conv",
            "kernels": _shared(128, (1, 3, 5, 7, 15)),
            "activation": "relu",
            "attention_size": 64,
        },
        "mlp": {"encoder": "mlp", "hidden_size": 128, "activation": "tanh", "attention_size": 64},
    }
    for encoder, config in encoders.items():
        for attention in ("additive", "deep", "dot"):
            for normaliser in ("softmax", "gumbel"):
                PRESETS.register(f"Wen-{encoder}-{attention}-{normaliser}")(
                    Preset(
                        "Wen, Subbalakshmi & Yang 2022, Revisiting Attention Weights as Explanations",
                        {"embedding_size": 300, "attention": attention, "normaliser": normaliser, "temperature": 0.8}
                        | {"dot_scale": None}  # equation 1 divides, equation 5 does not
                        | config,
                        _JAIN_TRAINING,
                    )
                )


_serrano_smith()
_jain_wallace()
_wen()
