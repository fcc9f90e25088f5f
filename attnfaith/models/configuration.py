"""The configuration of `AttentionClassifier`: every model of the papers is one choice of its options."""

from __future__ import annotations

from collections.abc import Sequence

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.transformers_versions import FieldConfig

CHOICES = {
    "encoder": ("gru", "lstm", "conv", "mlp", "none"),
    "attention": ("additive", "dot", "deep"),
    "normaliser": ("softmax", "gumbel", "sparsemax"),
    "activation": ("relu", "tanh", "linear"),
    "query_segment": (0, 1),
    "problem_type": (None, "single_label_classification", "multi_label_classification", "regression"),
}

_MOST = {"vocab_size": 10**8, "embedding_size": 10**5, "hidden_size": 10**5, "deep_layers": 1000}


class AttentionClassifierConfig(FieldConfig):
    """Configuration of `AttentionClassifier`: encoded words or sentences, averaged by attention, and one linear layer.

    ``num_labels=1`` with ``problem_type="single_label_classification"`` is one sigmoid logit, for labels 0 and 1.

    Args:
        vocab_size: number of word ids.
        embedding_size: size of a word vector.
        by_sentences: attend words within each sentence, then sentences (HAN); else all words at once (FLAN).
        encoder: "gru" or "lstm" (bidirectional), "conv", "mlp" or "none"; with sentences it is used at both levels.
        hidden_size: units of "gru" and "lstm" in each direction, or of "mlp".
        kernels: for "conv", pairs (width, channels).
        activation: the activation of "conv" and "mlp": "relu", "tanh" or "linear".
        attention: "additive", "dot" or "deep".
        attention_size: width of the "additive" and "deep" forms; None = as wide as what is attended.
        deep_layers: number of fully connected layers of the "deep" form, the scoring one included.
        dot_scale: divide dot products by the square root of the size; None = only where there is a query.
        normaliser: "softmax", "gumbel" (tempered softmax; with Gumbel noise while training) or "sparsemax".
        temperature: the temperature of "gumbel".
        query: texts come in pairs; one segment is attended, the other is the query. The query is read by an encoder
            of its own, enters the scores of the final attention, and adds its own linear term to the logits.
        query_segment: the token type of the query; 1 for ``tokenizer(premise, hypothesis)`` and
            ``tokenizer(passage, question)``.
        input_dropout: on word vectors, before the (word) encoder.
        sentence_dropout: on sentence vectors, before the sentence encoder.
        classifier_dropout: on what the classifier reads.
        initializer_range: standard deviation of new word vectors.
        sentence_token_id: the token between sentences. It is not a word.
        sep_token_id: the token between the texts of a pair. It is not a word; a sentence ends there.
        structural_token_ids: further tokens that are not words, such as [CLS].

    Example:
        >>> AttentionClassifierConfig(encoder="conv", kernels=[(3, 50), (5, 50)], num_labels=5).num_labels
        5
    """

    model_type = "attnfaith"

    vocab_size: int = 30000
    embedding_size: int = 200
    by_sentences: bool = False
    encoder: str = "gru"
    hidden_size: int = 50
    kernels: Sequence[Sequence[int]] = ((3, 50), (5, 50))
    activation: str = "relu"
    attention: str = "additive"
    attention_size: int | None = None
    deep_layers: int = 2
    dot_scale: bool | None = True
    normaliser: str = "softmax"
    temperature: float = 0.8
    query: bool = False
    query_segment: int = 1
    input_dropout: float = 0.0
    sentence_dropout: float = 0.0
    classifier_dropout: float = 0.0
    initializer_range: float = 0.1
    pad_token_id: int | None = 0
    sep_token_id: int | None = 2
    sentence_token_id: int | None = 3
    structural_token_ids: Sequence[int] = ()

    def __post_init__(self, **kwargs: object) -> None:
        # Transformers refuses a single class. Here one logit is allowed: its sigmoid is the probability of class 1.
        problem_type, self.problem_type = self.problem_type, None
        super().__post_init__(**kwargs)
        self.problem_type = problem_type
        for name, choices in CHOICES.items():
            validation.one_of(getattr(self, name), choices, name)
        for name, largest in _MOST.items():
            validation.whole_number(getattr(self, name), name, least=1, most=largest)
        validation.number(self.temperature, "temperature", above=0)
        pairs = [pair for pair in self.kernels if not isinstance(pair, int) and len(pair) == 2 and min(pair) >= 1]
        if not pairs or len(pairs) < len(self.kernels):
            raise InputError(
                f"kernels is {self.kernels!r}; expected pairs (width, channels), such as [(3, 50), (5, 50)]."
            )
        self.kernels = [tuple(pair) for pair in pairs]
        self.structural_token_ids = list(self.structural_token_ids)
