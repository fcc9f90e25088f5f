"""The papers' classifier: ``attend`` computes everything up to the final attention, ``decide`` the logits after it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput

from attnfaith.adapters.adapter import register_adapter
from attnfaith.adapters.affine import AffineAdapter
from attnfaith.errors import InputError
from attnfaith.models.attention_scores import ATTENTIONS, Normaliser
from attnfaith.models.configuration import AttentionClassifierConfig
from attnfaith.models.encoders import ENCODERS
from attnfaith.models.ragged import Layout, split_sentences
from attnfaith.models.word_vectors import Coverage, WordVectors, place_vectors

_CLASSES = ("single_label_classification", "multi_label_classification")  # equivalent for a single logit


class Attended(NamedTuple):
    """The final attention of a batch: its values, scores and weights. Items are in text order, padding follows them.

    Attributes:
        values: [B, N, D] the vectors that are averaged; zeros at padding.
        scores: [B, N] before the normaliser (for "gumbel" divided by the temperature); -inf at padding.
        weights: [B, N] zeros at padding, and all zeros for a text without items.
        log_weights: [B, N] their logarithm, also correct where a weight underflowed; -inf at padding.
        mask: [B, N] bool, True for items.
        spans: [B, N, 2] the half-open range of positions in ``input_ids`` that an item covers; (0, 0) at padding.
        offset: [B, C] what the query adds to the logits; None without a query.
        word_weights: [B, T] weights of the words within their sentences, by position; None without sentences.
    """

    values: Tensor
    scores: Tensor
    weights: Tensor
    log_weights: Tensor
    mask: Tensor
    spans: Tensor
    offset: Tensor | None = None
    word_weights: Tensor | None = None

    @property
    def context(self) -> Tensor:
        """The weighted average of the values, [B, D]; the zero vector for a text without items."""
        return torch.einsum("bn,bnd->bd", self.weights, self.values)


class AttentionClassifier(PreTrainedModel):
    """A classifier that encodes words (or sentences), averages them by attention, and applies one linear layer.

    Padding on either side and the other texts of the batch change nothing: layers only ever see words. A position with
    attention mask 0 is ignored completely. A text without words has the zero vector, so the bias decides.

    Example:
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=50, encoder="none", num_labels=3)).eval()
        >>> model(input_ids=torch.tensor([[7, 8, 9]])).logits.shape
        torch.Size([1, 3])
    """

    config_class = AttentionClassifierConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: AttentionClassifierConfig) -> None:
        super().__init__(config)
        self.loss_type = "ForSequenceClassification"  # Transformers can only infer it from the names of its own classes
        classes = config.num_labels or 1
        encoder, attention = ENCODERS[config.encoder], ATTENTIONS[config.attention]
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.input_dropout = nn.Dropout(config.input_dropout)
        size = config.embedding_size
        if config.by_sentences:
            self.word_encoder = encoder(config, size)
            size = self.word_encoder.size
            self.word_attention = attention(config, size)
            self.word_normaliser = Normaliser(config)
            self.sentence_dropout = nn.Dropout(config.sentence_dropout)
        self.encoder = encoder(config, size)
        size = self.encoder.size
        self.attention = attention(config, size, query=config.query)
        self.normaliser = Normaliser(config)
        self.classifier_dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(size, classes)
        if config.query:
            self.query_encoder = encoder(config, config.embedding_size)
            self.query_classifier = nn.Linear(size, classes, bias=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, (nn.Linear, nn.Conv1d, nn.GRU, nn.LSTM)):
            module.reset_parameters()

    # `resize_token_embeddings` and others of Transformers need the next two methods.
    def get_input_embeddings(self) -> nn.Embedding:
        """The word vectors."""
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word vectors."""
        assert isinstance(value, nn.Embedding)
        self.embeddings = value

    def set_word_vectors(
        self, tokenizer: PreTrainedTokenizerBase, vectors: WordVectors, *, freeze: bool = False
    ) -> Coverage:
        """Load pretrained vectors for the words of a tokenizer; words without one keep their vectors.

        ``freeze`` excludes the embeddings from training. Returns how many words have a pretrained vector, and which
        have not.
        """
        coverage = place_vectors(self.embeddings.weight, tokenizer, vectors)
        self.embeddings.weight.requires_grad_(not freeze)
        return coverage

    def head_weight_bias(self) -> tuple[Tensor, Tensor]:
        """Weight [C, D] and bias [C] of the linear layer: ``logits = W context + b + offset``."""
        return self.classifier.weight, self.classifier.bias

    def attend(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Attended:
        """Run everything up to and including the final attention weights.

        ``inputs_embeds`` [B, T, E] replaces the word vectors; ``input_ids`` beside it shows where sentences end and
        which positions are not words.
        """
        words, query, boundaries = self._read(input_ids, attention_mask, token_type_ids, inputs_embeds)
        word_weights = None
        if self.config.by_sentences:
            inside, layout, spans = split_sentences(words, boundaries)
            items, _ = self.word_encoder(self._vectors(words, input_ids, inputs_embeds), inside)
            _, weights, _ = self.word_normaliser(inside.pad(self.word_attention(items, inside), -torch.inf))
            flat = inside.unpad(weights)
            items = self.sentence_dropout(inside.sum(flat.unsqueeze(1) * items))
            word_weights = weights.new_zeros(words.shape).masked_scatter(words, flat)
        else:
            rows, positions = words.nonzero(as_tuple=True)
            layout = Layout.of(rows, sequences=len(words))
            spans = torch.stack([positions, positions + 1], dim=1)
            items = self._vectors(words, input_ids, inputs_embeds)
        values, _ = self.encoder(items, layout)
        summary = offset = None
        if query is not None:
            query_layout = Layout.of(query.nonzero(as_tuple=True)[0], sequences=len(query))
            _, summary = self.query_encoder(self._vectors(query, input_ids, inputs_embeds), query_layout)
            offset = self.query_classifier(self.classifier_dropout(summary))
        scores = layout.pad(self.attention(values, layout, summary), -torch.inf)
        scores, weights, log_weights = self.normaliser(scores)
        mask = torch.arange(scores.shape[1], device=scores.device) < layout.lengths.unsqueeze(1)
        return Attended(layout.pad(values), scores, weights, log_weights, mask, layout.pad(spans), offset, word_weights)

    def decide(self, context: Tensor, offset: Tensor | None = None) -> Tensor:
        """Classify attended vectors, [B, ..., D] -> logits [B, ..., C]; affine in evaluation mode. Offset: [B, C]."""
        logits = self.classifier(self.classifier_dropout(context))
        if offset is None:
            return logits
        return logits + offset.view(len(offset), *[1] * (logits.dim() - 2), offset.shape[-1])

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Return the logits, and the loss if labels are passed.

        ``attentions`` holds the final weights [B, N] of the items, with sentences preceded by those of the words
        [B, T]; ``hidden_states`` holds the attended representations [B, N, D].
        """
        attended = self.attend(input_ids, attention_mask, token_type_ids, inputs_embeds)
        logits = self.decide(attended.context, attended.offset)
        config = self.config
        attentions: tuple[Tensor, ...] | None = None
        if _given(output_attentions, config.output_attentions):
            attentions = (attended.weights,)
            if attended.word_weights is not None:
                attentions = (attended.word_weights, attended.weights)
        hidden_states = (attended.values,) if _given(output_hidden_states, config.output_hidden_states) else None
        output = SequenceClassifierOutput(
            loss=None if labels is None else self._loss(logits, labels),
            logits=logits,
            hidden_states=hidden_states,
            attentions=attentions,
        )
        return output if _given(return_dict, config.return_dict) else output.to_tuple()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of Transformers' sequence classifiers; a single logit may also be a class, through its sigmoid."""
        if self.config.num_labels == 1 and self.config.problem_type in _CLASSES:
            return F.binary_cross_entropy_with_logits(logits.view(-1), labels.view(-1).to(logits.dtype))
        if labels.is_floating_point():
            labels = labels.to(logits.dtype)
        return self.loss_function(labels=labels, pooled_logits=logits, config=self.config)

    def _vectors(self, words: Tensor, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """The word vectors [M, E] at the positions of a mask [B, T]."""
        if inputs_embeds is not None:
            return self.input_dropout(inputs_embeds[words])
        assert input_ids is not None
        return self.input_dropout(self.embeddings(input_ids[words].long()))

    def _read(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        inputs_embeds: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Masks [B, T] of the words to attend, of the words of the query (None without), and of ends of sentences."""
        config = self.config
        source = input_ids if input_ids is not None else inputs_embeds
        if source is None:
            raise InputError("The model got neither input_ids nor inputs_embeds; pass what the tokenizer returns.")
        if input_ids is None and (config.by_sentences or config.structural_token_ids):
            raise InputError("This model needs input_ids beside inputs_embeds: they show which tokens are not words.")
        if input_ids is not None and input_ids.dim() != 2:
            raise InputError(f"input_ids has shape {tuple(input_ids.shape)}; expected [texts, tokens].")
        if input_ids is not None and input_ids.is_floating_point() and input_ids.numel():  # empty: as torch makes of []
            raise InputError(f"input_ids are {input_ids.dtype}; expected whole numbers.")
        shape, device = source.shape[:2], source.device
        if inputs_embeds is not None and (
            inputs_embeds.dim() != 3 or inputs_embeds.shape != (*shape, config.embedding_size)
        ):
            raise InputError(
                f"inputs_embeds has shape {tuple(inputs_embeds.shape)}; expected {(*shape, config.embedding_size)}."
            )
        for name, value in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
            if value is not None and value.shape != shape:
                raise InputError(f"{name} has shape {tuple(value.shape)}, the texts have {tuple(shape)}.")
        present = torch.ones(shape, dtype=torch.bool, device=device)
        boundaries = torch.zeros_like(present)
        if input_ids is not None:
            if input_ids.numel() and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < config.vocab_size:
                raise InputError(
                    f"input_ids holds {int(input_ids.min())} to {int(input_ids.max())}, and the model knows ids "
                    f"from 0 to {config.vocab_size - 1}; use the tokenizer it was trained with.",
                    code="wrong-tokenizer",
                )
            if attention_mask is None and config.pad_token_id is not None:
                present = input_ids != config.pad_token_id
            for token in (config.sentence_token_id, config.sep_token_id):
                if token is not None:
                    boundaries = boundaries | (input_ids == token)
            for token in config.structural_token_ids:
                present = present & (input_ids != token)
        if attention_mask is not None:
            present = present & attention_mask.bool()
        boundaries = boundaries & present
        words = present & ~boundaries
        if not config.query:
            return words, None, boundaries
        if token_type_ids is None:
            raise InputError(
                "This model reads pairs and got no token_type_ids, which show which text is the query; pass "
                "everything that tokenizer(text, query) returns."
            )
        query = token_type_ids == config.query_segment
        return words & ~query, words & query, boundaries


def _given(argument: bool | None, default: bool | None) -> bool:
    return bool(default if argument is None else argument)


# Replaces the stand-in that `attnfaith.models.auto_classes` registers without loading this module.
AutoModelForSequenceClassification.register(AttentionClassifierConfig, AttentionClassifier, exist_ok=True)
register_adapter(AttentionClassifier)(AffineAdapter)
