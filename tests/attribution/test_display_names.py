"""Names of rankings in words: one for each, whoever shows it."""

from attnfaith.attribution.display_names import display_name, role_of, style_of
from attnfaith.attribution.method import methods
from attnfaith.plots.labels import labels_for


def test_names_that_read_alike_are_left_as_they_are():
    keys = [("yours", "my_ranking"), ("yours", "my ranking")]
    assert [display_name(key, keys) for key in keys] == ["my_ranking", "my ranking"]
    assert display_name(("yours", "LRP"), [("yours", "LRP"), ("input", "lrp")]) == "LRP"
    assert display_name(("input", "lrp"), [("yours", "LRP"), ("input", "lrp")]) == "lrp"


def test_a_level_is_named_where_a_name_is_at_several():
    keys = [("attention", "gradient"), ("input", "gradient"), ("input", "lrp")]
    names = [display_name(key, keys) for key in keys]
    assert names == ["gradient (attention level)", "gradient (input level)", "LRP"]


def test_figures_and_sentences_use_the_same_names():
    shortened = {key for key, method in methods.items() if method.short_name != method.display_name}
    assert shortened == {("input", "gradient_attention_fixed")}
    for key in methods.keys() - shortened:
        assert labels_for([key])[key].startswith(display_name(key))


def test_scores_of_a_user_have_the_name_and_nothing_else_of_a_method():
    assert display_name(("yours", "lrp")) == "lrp"
    assert role_of(("yours", "greedy")) == "ordinary"
    assert style_of(("yours", "attention")) is None
