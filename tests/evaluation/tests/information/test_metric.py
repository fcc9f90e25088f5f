"""Information by rank, from the table of a run of the information test and on planted truth."""

import math

import numpy as np
import pytest

import attnfaith as af
from attnfaith.evaluation.tests.information.test import Information
from attnfaith.functional.information import weighted_kendall
from attnfaith.metrics import RankInformation
from tests.helpers.labelled_models import flipping_model
from tests.helpers.metric_runs import SEED

WORDS = "good bad fine dull long short film plot cast story very not quite never the a".split()
OPTIONS = {"clusters": 4, "kmeans_seeds": 2, "permutations": 30, "fewest": 20}
SCALARS = ("weighted_kendall", "weighted_kendall_corrected", "weighted_kendall_seeds")
COUNTS = ("samples", "ranks", "ranks_by_length", "ranks_by_weight", "clusters", "outputs", "informative")
RANKS = ("mean_weight", "mi", "null", "mi_corrected", "mi_miller_madow", "p", "singletons")


def run(labels):
    """A run of the information test."""
    problem = {"problem_type": "single_label_classification"} if labels == 1 else {}
    model, tokenizer = flipping_model("FLANnoenc", WORDS, num_labels=labels, **problem)
    generator = np.random.default_rng(0)
    data = [{"text": " ".join(generator.choice(WORDS, size=3 + number % 6))} for number in range(60)]
    options = {"n_resamples": 9, "confidence_level": 0.9, "seed": SEED, "quiet": True}
    return af.Evaluator(model, tokenizer).compute(data, tests=[Information(**OPTIONS)], **options)


@pytest.mark.parametrize("labels", [1, 2, 3])
def test_equals_the_summary_of_the_information_test(labels):
    results = run(labels)
    table, summary = results.table("information").query("group == 'all'"), results.summary()
    columns = {"predictions": [], "attention": [], "vectors": []}
    shuffle = np.random.default_rng(1)
    for _, rows in table.sort_values(["text_id", "rank"]).groupby("text_id"):
        index = shuffle.permutation(len(rows))  # the module ranks them itself
        columns["predictions"].append(rows["logits"].iloc[0])
        columns["attention"].append(rows["weight"].to_numpy()[index])
        columns["vectors"].append(np.stack(list(rows["vector"]))[index])
    module = RankInformation(**OPTIONS, n_resamples=9, confidence_level=0.9, random_state=SEED)
    result = module.compute(**columns)
    whole = summary[summary.other == ""].set_index("figure")
    for name in SCALARS:
        for key, end in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            assert result[key] == pytest.approx(whole.loc[name, end], abs=1e-6), key
    for name in (*COUNTS, "output_entropy"):
        assert result[name] == pytest.approx(whole.loc[name, "value"]), name
    for name in RANKS:
        rows = summary[(summary.figure == name) & (summary.other != "")]
        assert result["by_rank"][name] == pytest.approx(rows["value"].tolist(), abs=1e-6), name
    for name, information in (("weighted_kendall", "mi"), ("weighted_kendall_corrected", "mi_corrected")):
        by_rank = result["by_rank"]
        assert result[name] == pytest.approx(weighted_kendall(by_rank["mean_weight"], by_rank[information])), name
    assert result["ranks"] == len(result["by_rank"]["mi"]) == 3
    assert "reason" not in result


def planted(index):
    """Outputs that one of three items says, whose attention is .6, .3 and .1."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=150)
    vectors = rng.normal(size=(150, 3, 2))
    vectors[:, index] += 9 * np.array([[0, 0], [0, 1], [1, 0]])[codes]
    return {"predictions": np.eye(3)[codes], "attention": [[0.6, 0.3, 0.1]] * 150, "vectors": vectors}


def test_attention_on_what_decides_is_distinguished_from_attention_elsewhere():
    module = RankInformation(clusters=3, kmeans_seeds=1, permutations=50)
    right, wrong = (module.compute(**planted(index)) for index in (0, 2))
    assert right["informative"] == wrong["informative"] == 1
    assert right["by_rank"]["mi_corrected"][0] == pytest.approx(right["output_entropy"], abs=0.1)
    assert abs(right["by_rank"]["mi_corrected"][2]) < 0.05
    assert abs(wrong["by_rank"]["mi_corrected"][0]) < 0.05
    assert right["weighted_kendall"] > wrong["weighted_kendall"] + 0.3


def test_too_few_texts_have_no_figures_but_a_reason():
    result = RankInformation().compute(predictions=[[0, 1]] * 5, attention=[[1.0]] * 5, vectors=[[[1.0]]] * 5)
    assert math.isnan(result["weighted_kendall"])
    assert "too few: 100 are needed" in result["reason"]
    same = RankInformation(fewest=4).compute(
        predictions=[[0, 0, 1]] * 9, attention=[[0.6, 0.4]] * 9, vectors=[[[1.0], [2.0]]] * 9
    )
    assert same["reason"] == "the output is the same for all texts"


def test_texts_without_items_or_with_nan_are_undefined():
    given = planted(0)
    given["attention"] = [*given["attention"][:148], [math.nan] * 3, []]
    given["vectors"] = [*given["vectors"][:149], []]
    result = RankInformation(clusters=3, kmeans_seeds=1, permutations=20).compute(**given)
    assert (result["texts"], result["undefined"], result["samples"]) == (150, 2, 148)
    nothing = RankInformation().compute(predictions=[[0.0, 1.0]], attention=[[]], vectors=[[]])
    assert nothing["reason"] == "no text has an item to look at"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"predictions": [[]], "attention": [[1]], "vectors": [[[1]]]}, "predictions of text 0 to be logits"),
        ({"predictions": [[1, 2]], "attention": [[-1]], "vectors": [[[1]]]}, "attention of text 0 to be at least 0"),
        ({"predictions": [[1, 2]], "attention": [[1]], "vectors": [[[1], [2]]]}, "items in every input of text 0"),
        ({"predictions": [[1, 2], [1]], "attention": [[1]] * 2, "vectors": [[[1]]] * 2}, r"logits in all texts, got"),
        ({"predictions": [[1]] * 2, "attention": [[1]] * 2, "vectors": [[[1]], [[1, 2]]]}, "numbers in a vector"),
        ({"clusters": 1}, "clusters to be None, 'paper' or a whole number of at least 2"),
        ({"per_text": True}, "estimates over all texts only"),
    ],
)
def test_bad_input_is_refused(given, message):
    with pytest.raises(af.InputError, match=message):
        RankInformation().compute(**given)
