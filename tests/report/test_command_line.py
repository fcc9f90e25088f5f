"""The command in a report makes the same run again."""

import shlex

import pytest

import attnfaith as af
from attnfaith.report.command_line import command_line, is_whole, placeholders
from tests.helpers import commands


def again(line, data, output):
    """The words of a command, with its data and another folder."""
    words = shlex.split(line)
    assert words[:2] == ["attnfaith", "evaluate"]
    words[words.index("DATA")] = str(data)
    words[words.index("run/")] = str(output)
    return words[1:]


@pytest.mark.parametrize(
    "asked",
    [
        [],
        ["--rankings", "default,greedy", "--level", "input", "--hide", "zero", "--seed", "3", "--no-labels"],
        [
            *("--tests", "erasure,permutation,rationales", "--option", "permutation.permutations=7", "--bounds"),
            *("--option", "rationales.shares=0.1,0.5", "--target", "gold", "--explain", "logit", "--steps", "5"),
            *("--max-texts", "15", "--max-length", "7", "--special-tokens", "protect", "--confidence", "0.9"),
            *("--rankings", "attention,input/gradient", "--explanation", "a b=my scores"),
        ],
    ],
    ids=["default", "input", "many"],
)
def test_it_makes_the_same_run(asked, tmp_path):
    model = commands.save_flan(tmp_path / "my model")
    rows = [
        (text, int("fine" in text), "[" + ", ".join(["0.5"] * len(text.split())) + "]") for text in commands.texts(20)
    ]
    data = commands.write_csv(tmp_path / "data.csv", rows, ("text", "label", "my scores"))
    made = commands.run("evaluate", model, data, "--output", tmp_path / "first", *commands.FEW, *asked)
    assert made.exit_code == 0, made.stderr
    first = af.load_results(tmp_path / "first")
    assert is_whole(first)
    assert placeholders(first) == ["DATA"]
    result = commands.run(*again(command_line(first), data, tmp_path / "second"))
    assert result.exit_code == 0, result.stderr
    second = af.load_results(tmp_path / "second")
    for entry in ("run", "facts", "statistics"):
        assert second.manifest[entry] == first.manifest[entry]
    assert str(second) == str(first)


@pytest.mark.parametrize("rankings", ["default", "all", ["attention", "gradient_x_input"], ["default", "omission"]])
def test_rankings_of_a_transformer(rankings, tmp_path):
    """At two levels names mean more than one ranking; the words in the command mean the same ones."""
    evaluator = af.Evaluator(str(commands.save_bert(tmp_path / "bert")))
    rows = [{"text": text} for text in commands.texts(2)]
    first = evaluator.compute(rows, rankings=rankings, tests=["agreement"], quiet=True)
    assert is_whole(first)
    words = command_line(first).split()
    asked = words[words.index("--rankings") + 1].split(",") if "--rankings" in words else ["default"]
    second = evaluator.compute(rows, rankings=asked, tests=["agreement"], quiet=True)
    for entry in ("run", "facts"):
        assert second.manifest[entry] == first.manifest[entry]
    if isinstance(rankings, str):
        assert asked == [rankings]


def test_what_a_function_computed_cannot_be_given(tmp_path):
    model = commands.save_flan(tmp_path / "flan")
    rows = [{"text": text} for text in commands.texts(3)]
    results = af.Evaluator(str(model)).compute(
        rows, rankings=["attention"], explanations={"mine": lambda encoded: [1.0] * len(encoded.tokens)}, quiet=True
    )
    assert not is_whole(results)
    assert "--explanation" not in command_line(results)


def test_a_model_that_a_program_made_has_a_placeholder(results):
    assert command_line(results).startswith("attnfaith evaluate MODEL DATA ")
    assert placeholders(results) == ["MODEL", "DATA"]
