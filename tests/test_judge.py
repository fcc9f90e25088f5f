"""The planted models of `benchmarks.judge` decide as planted, and its counts are right."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

import attnfaith as af
from benchmarks import judge


@pytest.fixture(scope="module")
def tokenizer():
    return judge.tokenizer_of_words()


@pytest.mark.parametrize("difficulty", judge.DIFFICULTIES)
def test_the_importance_of_a_word_is_its_part_of_the_margin(difficulty, tokenizer):
    rng = np.random.default_rng(0)
    task = judge.planted(difficulty, 0.5, rng)
    texts = task.texts(20, rng)
    model = task.model(tokenizer)
    right = 0
    for text, label in zip(texts["text"], texts["label"], strict=True):
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0].detach()
        margin = float((logits - logits.flip(0)).max())
        assert np.isclose(task.importance(text).sum() * 2 * judge.SHARPNESS, margin, atol=1e-4)
        right += int(logits.argmax()) == label
    assert right >= 16  # words that do not decide, and words that speak against it, have a say


def test_every_share_has_the_same_words_and_texts():
    tasks, texts = [], []
    for share in judge.SHARES:
        rng = np.random.default_rng(3)
        tasks.append(judge.planted("hard", share, rng))
        texts.append(tasks[-1].texts(5, rng)["text"].tolist())
    assert all(np.array_equal(task.evidence, tasks[0].evidence) for task in tasks)
    assert all(each == texts[0] for each in texts)
    follows = [np.corrcoef(np.abs(task.evidence), task.scores)[0, 1] for task in tasks]
    assert follows[0] == pytest.approx(1)
    assert all(before > after for before, after in pairwise(follows))


def test_noise_is_of_the_text_and_the_key_alone():
    task = judge.planted("easy", 0.5, np.random.default_rng(0))
    encoded = type("Encoded", (), {"text": "w1 w70 w2"})
    scores = judge.noisy(task, 1.0, [1])
    assert scores(encoded) == scores(encoded) != judge.noisy(task, 1.0, [2])(encoded)
    order = np.argsort(judge.noisy(task, 0.0, [1])(encoded))
    assert np.array_equal(order, np.argsort(task.importance(encoded.text)))


def test_the_true_ranking_has_skill_one_and_noise_costs_it():
    grades = judge.of_rankings("hard", 40, 0)["grades"]
    skills = [grade["erasure: skill"] for grade in grades]
    assert skills[0] == pytest.approx(1)
    assert skills[0] > skills[2] > skills[-1]
    assert abs(skills[-1]) < 0.35
    assert all(set(grade) == {judge.name_of(*key) for key in judge.RANKING_FIGURES} for grade in grades)
    assert not any(np.isnan(value) for grade in grades for value in grade.values())


def test_pairs_are_counted_by_hand():
    runs = [{"grades": [{"f": 3.0}, {"f": 1.0}, {"f": 2.0}]}, {"grades": [{"f": 1.0}, {"f": 1.0}, {"f": float("nan")}]}]
    assert judge.compared(runs, "f", 1, 1) == (0.5, 3)  # right, wrong, equal
    assert judge.compared(runs, "f", -1, 1) == (0.5, 3)
    assert judge.compared(runs, "f", 1, 2) == (1.0, 1)


@pytest.mark.slow
def test_figures_of_models_are_found_and_labels_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(judge, "SHARES", (1.0, 0.0))
    monkeypatch.setattr(
        "sys.argv", ["judge", "--tasks", "1", "--texts", "120", "--store", str(tmp_path / "judge.json")]
    )
    torch.manual_seed(0)
    judge.main()
    stored = json.loads((tmp_path / "judge.json").read_text())
    rows = [row for row in stored["shares"] if row["kind"] == "models" and row["steps"] == 1]
    assert {row["figure"] for row in rows} == {judge.name_of(*key) for key in judge.MODEL_FIGURES}
    assert all(row["pairs"] == 1 for row in rows)
    assert sum(sum(row["labels"].values()) for row in stored["labels"]) == 4
    assert stored["attnfaith"] == af.__version__
    assert "erasure: skill" in capsys.readouterr().out
