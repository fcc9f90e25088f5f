"""Each converter, on small objects of the shape that its library documents."""

import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.explanations import from_captum, from_ferret, from_inseq, from_lime, from_shap
from attnfaith.text.encoder import TextEncoder
from tests.helpers import commands, tokenizers

TEXT = "A thin plot, a superb cast."
NONE = -math.inf


@functools.cache
def word_piece():
    return tokenizers.word_piece()


def read(text=TEXT, max_length=None):
    """A text as a BERT reads it: [BOS], word pieces, [EOS]."""
    return TextEncoder(word_piece(), torch.nn.Identity(), max_length).encode([text])[0]


def by_token(explained, text=TEXT, row=0, **options):
    encoded = read(text, **options)
    return list(zip(encoded.tokens, explained.scores(row, encoded), strict=True))


def by_word(explained, text=TEXT, **options):
    """The scores by word, where all tokens of a word have the same one."""
    encoded = read(text, **options)
    scores = {}
    for word, score in zip(encoded.words, explained.scores(0, encoded), strict=True):
        if word is None:
            assert score == NONE  # a special token
        else:
            assert scores.setdefault(word, score) == score
    return list(scores.values())


# ---- SHAP: values [T] or [T, C], tokens as the masker cuts them, base values


class ShapExplanation:
    """What `shap.Explanation` is for texts: one object, an item for each text."""

    def __init__(self, values, base_values, data, output_names=None):
        self.values, self.base_values, self.data = values, base_values, data
        if output_names is not None:
            self.output_names = output_names

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        more = (self.output_names,) if hasattr(self, "output_names") else ()
        return ShapExplanation(self.values[index], self.base_values[index], self.data[index], *more)


PIECES = ["", "A ", "thin ", "plot", ", ", "a ", "superb ", "cast", ".", ""]
VALUES = np.stack([np.arange(10) / 10, -np.arange(10) / 10], axis=1)


def shap(**more):
    return ShapExplanation([VALUES], np.array([[0.0, 0.5]]), [np.array(PIECES)], **more)


def test_shap_values_go_to_the_characters_of_their_tokens():
    assert by_word(from_shap(shap())) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    finer = SimpleNamespace(values=[0.5, 0.25, 0.125], data=["pl", "ot ", "plot"], base_values=0.0)
    (whole,) = TextEncoder(tokenizers.words(), torch.nn.Identity()).encode(["plot plot"])
    assert from_shap([finer]).scores(0, whole) == [0.75, 0.125]


def test_shap_explains_the_predicted_class_unless_told():
    other = ShapExplanation([VALUES], np.array([[0.0, 99.0]]), [np.array(PIECES)], output_names=["bad", "good"])
    assert by_word(from_shap(other))[0] == pytest.approx(-0.1)
    assert by_word(from_shap(other, label="bad"))[0] == by_word(from_shap(other, label=0))[0] == pytest.approx(0.1)
    single = ShapExplanation([VALUES[:, 0]], np.array([0.0]), [np.array(PIECES)])
    assert by_word(from_shap(single))[0] == pytest.approx(0.1)
    assert by_word(from_shap(lambda text: [shap()[0]][0] if text == TEXT else None))[0] == pytest.approx(0.1)
    assert by_word(from_shap(lambda text: shap()))[0] == pytest.approx(0.1)  # of a list of one text
    for bad in (2, -1, True, "god"):
        with pytest.raises(InputError, match=r"Row 0, explanation of SHAP: expected label to be 0\.\.1 or one of bad"):
            by_word(from_shap(other, label=bad))
    with pytest.raises(InputError, match="of one output"):
        by_word(from_shap(single, label=1))
    with pytest.raises(InputError, match="no base_values"):
        by_word(from_shap([SimpleNamespace(values=VALUES, data=PIECES)]))


def test_repeated_words_have_their_own_values_each():
    text = "plot plot plot"
    one = SimpleNamespace(values=[0.1, 0.2, 0.3], data=["plot ", "plot ", "plot"], base_values=0.0)
    assert by_word(from_shap([one]), text) == [0.1, 0.2, 0.3]


def test_what_shap_did_not_read_comes_last_and_what_the_model_does_not_read_is_dropped():
    short = SimpleNamespace(values=[0.1, 0.2], data=["A ", "thin "], base_values=0.0)
    assert by_word(from_shap([short])) == [0.1, 0.2, *[NONE] * 6]
    truncated = by_token(from_shap(shap()), max_length=4)
    assert len(truncated) == 4
    assert truncated[1][1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (SimpleNamespace(values=[1.0], data=["other"], base_values=0), "do not follow the text.*'other' is not"),
        (SimpleNamespace(values=[1.0], data=["cast"], base_values=0), "no token is at character 0"),
        (SimpleNamespace(values=[1.0, 2.0], data=["A"], base_values=0), "2 scores for 1 tokens"),
        (SimpleNamespace(values=[1.0], data=np.array([[1.5]]), base_values=0), "tokens of one text"),
        (SimpleNamespace(values=np.ones((1, 2, 2)), data=["A"], base_values=0), "array of shape"),
        ([0.1], "without values, data"),
        (SimpleNamespace(values="x", data=["A"], base_values=0), "to be numbers"),
    ],
)
def test_shap_refused(one, message):
    with pytest.raises(InputError, match=f"Row 0, explanation of SHAP: .*({message})"):
        by_token(from_shap([one]))


# ---- LIME: words with weights; positions of an indexed string


class LimeExplanation:
    """What `lime.explanation.Explanation` of a text is."""

    mode = "classification"

    def __init__(self, text, words, weights, probabilities=None):
        self.weights, self.predict_proba = weights, None if probabilities is None else np.array(probabilities)
        self.domain_mapper = SimpleNamespace(
            indexed_string=SimpleNamespace(
                raw_string=lambda: text,
                word=lambda feature: words[feature][0],
                string_position=lambda feature: np.array(words[feature][1]),
            )
        )

    def as_map(self):
        return self.weights


REPEATED = "plot a plot cast"
LIME_WORDS = [("plot", [0, 7]), ("a", [5]), ("cast", [12])]


def test_lime_lists_are_bags_of_words():
    assert by_word(from_lime([[("plot", -0.5), ("cast", 0.25)]]), REPEATED) == [-0.5, 0.0, -0.5, 0.25]
    assert by_word(from_lime(lambda text: [("a", float(len(text)))]), REPEATED) == [0.0, 16.0, 0.0, 0.0]
    part_of_a_word = by_word(from_lime([[("a", 1.0)]]), "a cast a")
    assert part_of_a_word == [1.0, 0.0, 1.0]
    assert by_word(from_lime([[("plot", 1.0)]]), REPEATED, max_length=3) == [1.0]
    with pytest.raises(InputError, match=r"several weights, so LIME ran with bow=False.*Pass the explanation itself"):
        by_word(from_lime([[("plot", 1.0), ("plot", 2.0)]]), REPEATED)
    with pytest.raises(InputError, match="'dull' is not in the text"):
        by_word(from_lime([[("dull", 1.0)]]), REPEATED)
    with pytest.raises(InputError, match="leave label= out"):
        by_word(from_lime([[("plot", 1.0)]], label=1), REPEATED)
    for bad in ([("plot",)], ["plot"], [("plot", "x")], [1.0]):
        with pytest.raises(InputError, match=r"pairs of a word and its weight|expected a number"):
            by_word(from_lime([bad]), REPEATED)


def test_lime_explanations_are_read_by_their_positions():
    weights = {1: [(0, 0.5), (2, -0.25)]}
    assert by_word(from_lime([LimeExplanation(REPEATED, LIME_WORDS, weights)]), REPEATED) == [0.5, 0.0, 0.5, -0.25]
    apart = [("plot", [0]), ("a", [5]), ("plot", [7]), ("cast", [12])]  # bow=False
    weights = {1: [(0, 0.5), (2, 0.1)]}
    assert by_word(from_lime([LimeExplanation(REPEATED, apart, weights)]), REPEATED) == [0.5, 0.0, 0.1, 0.0]
    with pytest.raises(InputError, match="of another text, 'x'"):
        by_word(from_lime([LimeExplanation("x", apart, weights)]), REPEATED)


def test_lime_explains_the_predicted_class():
    def first(weights, probabilities, **options):
        made = LimeExplanation(REPEATED, LIME_WORDS, weights, probabilities)
        return by_word(from_lime([made], **options), REPEATED)[0]

    one, both = {1: [(0, 0.5)]}, {0: [(0, -0.4)], 1: [(0, 0.5)]}
    assert first(one, [0.2, 0.8]) == 0.5
    assert first(one, [0.8, 0.2]) == -0.5  # of two classes
    assert first(both, [0.8, 0.2]) == -0.4
    assert first(both, [0.8, 0.2], label=1) == 0.5
    with pytest.raises(InputError, match=r"explained the classes \[1\], and the model predicts 2"):
        first(one, [0.1, 0.1, 0.8])
    with pytest.raises(InputError, match=r"explained the classes \[1\], not 0"):
        first(one, [0.2, 0.8], label=0)
    with pytest.raises(InputError, match="Choose one with label="):
        first(both, None)


# ---- captum: tensors over the tokens


def test_captum_tensors_by_token_with_padding_on_either_side():
    count = len(read().ids)
    scores = torch.arange(1.0, count + 1)
    right, left = (torch.nn.functional.pad(scores, pad) for pad in ((0, 3), (3, 0)))
    for given in (scores[None], right[None], left[None], [scores], [right[None]], right[None].bfloat16()):
        assert [score for _, score in by_token(from_captum(given))] == pytest.approx(scores.tolist())
    dimensions = torch.stack([scores, scores / 2], dim=-1)
    for given in (dimensions[None], [dimensions], [dimensions[None]], lambda text: dimensions[None]):
        assert [score for _, score in by_token(from_captum(given))] == pytest.approx((1.5 * scores).tolist())
    noisy = torch.full((1, count + 3), 9.0)
    noisy[0, 2:-1] = scores
    mask = torch.zeros(1, count + 3)
    mask[0, 2:-1] = 1
    assert [score for _, score in by_token(from_captum(noisy, attention_mask=mask))] == scores.tolist()
    with pytest.raises(InputError, match=r"and those beyond are not 0.*attention_mask="):
        by_token(from_captum(noisy))
    with pytest.raises(InputError, match="positions for"):
        by_token(from_captum(noisy, attention_mask=mask[:, 1:]))
    with pytest.raises(InputError, match="1 rows for 2"):
        from_captum(torch.zeros(2, 5), attention_mask=mask)
    with pytest.raises(InputError, match=f"got {count - 4} scores for a text of {count} tokens"):
        by_token(from_captum(scores[None, : count - 4]))
    with pytest.raises(InputError, match="array of shape"):
        by_token(from_captum(torch.zeros(1, 2, 3, 4)))


# ---- ferret and inseq


def ferret(explainer="LIME", text=TEXT, tokens=None, scores=None):
    tokens = tokens or list(read(text).tokens)
    scores = np.arange(len(tokens)) if scores is None else scores
    return SimpleNamespace(text=text, tokens=tokens, scores=scores, explainer=explainer, target=1)


def test_ferret():
    both = [ferret(), ferret("Gradient", scores=np.zeros(len(read().ids)))]
    scores = [score for _, score in by_token(from_ferret([both], explainer="LIME"))]
    assert scores == list(range(len(read().ids)))  # special tokens too
    other = ferret(tokens=["<s>", "▁A", "▁thin", "▁plot", ",", "▁a", "▁super", "b", "▁cast", ".", "</s>"])
    other.tokens[6:8] = ["▁superb", "[SEP]"]
    assert by_word(from_ferret([other])) == [1, 2, 3, 4, 5, 6, 8, 9]
    with pytest.raises(InputError, match=r"by LIME, Gradient\. Choose one with explainer="):
        by_token(from_ferret([both]))
    with pytest.raises(InputError, match=r"by LIME\. Choose"):
        by_token(from_ferret([ferret()], explainer="SHAP"))
    with pytest.raises(InputError, match="of another text"):
        by_token(from_ferret([ferret(text="A cast")]))
    with pytest.raises(InputError, match="without explainer"):
        by_token(from_ferret([{"tokens": []}]))


def inseq(**more):
    tokens = [SimpleNamespace(token=token, id=1) for token in ["▁A", "▁thin", "▁plot", "</s>"]]
    return SimpleNamespace(
        source=tokens, target=[], source_attributions=torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]]), **more
    )


def test_inseq():
    text = "A thin plot"
    output = SimpleNamespace(sequence_attributions=[inseq()])
    assert by_word(from_inseq(output), text) == [3, 7, 11]
    assert by_word(from_inseq([inseq()], step=1), text) == [2, 4, 6]
    assert by_word(from_inseq(lambda text: output), text) == [3, 7, 11]
    decoder = SimpleNamespace(
        source=None,
        source_attributions=None,
        target=[SimpleNamespace(token=token) for token in ["ĠA", "Ġthin", "Ġplot", "Ġgood"]],
        target_attributions=torch.tensor([[1.0, 2], [3, 4], [5, 6], [math.nan, 9]]),
        attr_pos_start=3,
    )
    assert by_word(from_inseq([decoder]), text) == [3, 7, 11]
    granular = SimpleNamespace(source=inseq().source, source_attributions=torch.zeros(4, 2, 5))
    with pytest.raises(InputError, match=r"aggregate\(\)"):
        by_word(from_inseq([granular]), text)
    with pytest.raises(InputError, match=r"step to be 0\.\.1"):
        by_word(from_inseq([inseq()], step=2), text)
    with pytest.raises(InputError, match="of one text, got those of 2"):
        by_word(from_inseq([SimpleNamespace(sequence_attributions=[inseq(), inseq()])]), text)


# ---- in an evaluation


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    folder = commands.save_flan(tmp_path_factory.mktemp("flan") / "flan")
    evaluator = af.Evaluator(str(folder))
    evaluator.shard_size = 4
    return evaluator


def test_a_converted_ranking_is_the_column_with_its_scores(evaluator):
    """By the number of its row, in every batch, shard and part, whatever is set aside."""
    texts = [*commands.texts(10), "", *commands.texts(3, seed=1)]
    scores = [[float(len(word)) for word in text.split()] for text in texts]
    lime = [[(word, float(len(word))) for word in dict.fromkeys(text.split())] for text in texts]
    width = max(map(len, scores))
    tensor = torch.tensor([row + [0.0] * (width - len(row)) for row in scores])
    rows = [{"text": text, "mine": row} for text, row in zip(texts, scores, strict=True)]
    mine = {"column": "mine", "lime": from_lime(lime), "captum": from_captum(tensor)}
    mine["called"] = from_lime(lambda text: lime[texts.index(text)])
    for options in ({"batch_size": 3}, {"part": (2, 4)}, {"max_texts": 6}):
        results = evaluator.compute(
            rows, rankings=["attention"], explanations=mine, tests=["erasure"], n_resamples=20, quiet=True, **options
        )
        table = results.table("erasure").query("ranking_level == 'yours'")
        columns = [column for column in table.columns if column != "ranking"]
        one, *others = [part[columns].reset_index(drop=True) for _, part in table.groupby("ranking")]
        assert len(one) > 2
        assert all(one.equals(other) for other in others)


def test_another_number_of_explanations_than_rows(evaluator):
    with pytest.raises(InputError, match="There are 2 explanations of LIME for 3 rows"):
        evaluator.compute(["a film"] * 3, explanations={"lime": from_lime([[], []])}, quiet=True)
    with pytest.raises(InputError, match="Row 1, explanation of captum: attributions: got 1 scores for a text of 2"):
        evaluator.compute(
            ["a film"] * 2, explanations={"x": from_captum([torch.ones(2), torch.ones(1, 1)])}, quiet=True
        )
    for bad in ("x", {}, 5, None):
        with pytest.raises(InputError, match="Expected an explanation of SHAP for each row"):
            from_shap(bad)


def test_words_cannot_be_found_in_pairs():
    (encoded,) = TextEncoder(word_piece(), torch.nn.Identity()).encode([("A man", "a man")])
    with pytest.raises(InputError, match="a pair of texts"):
        from_lime([[("man", 1.0)]]).scores(0, encoded)
    values = torch.arange(float(len(encoded.ids)))
    assert list(from_captum(values[None]).scores(0, encoded)) == values.tolist()
