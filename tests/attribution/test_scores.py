"""What a method returns, over batches."""

from attnfaith.attribution.scores import InexactScores


def test_inexact_scores_of_batches_add_up():
    first, second = InexactScores(0, 8, 0.0, ""), InexactScores(3, 4, 0.25, "more steps help")
    assert first + second == second + first == InexactScores(3, 12, 0.25, "more steps help")
    assert second.message("LRP") == (
        "The scores of LRP are inexact on 3 of 4 texts (completeness gap up to 0.25): more steps help."
    )
