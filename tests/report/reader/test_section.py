"""The section with the reader: what it shows in a browser, by keyboard, and of hostile texts."""

import json
import re

import pandas as pd
import pytest

import attnfaith as af
from attnfaith.evaluation.stored_texts import STEPS
from attnfaith.report.reader import section
from attnfaith.report.reader.data import reader_data
from tests.helpers import commands
from tests.helpers.browser import driven, page_of
from tests.helpers.small_runs import computed, evaluator_of

PAYLOAD = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = [
    f"fine film {PAYLOAD} plot",
    "<!--<script> dull & plot ]]> ${film} {{ 7 * 7 }} {% if %}",
    "fine \x00 film \x1b[2J\x1b]0;gone\x07 dull",
    "dull \u202egnol\u202c plot \u2066 film \u2028 thin \u2029 cast",
    "fine " + "w" * 50_000 + " plot",
    "__proto__ constructor toString film",
]


@pytest.fixture(scope="module")
def results():
    evaluator, data = evaluator_of("multiclass")
    evaluator.cut.model.config.id2label = {0: PAYLOAD, 1: "dull\u202e", 2: "x" * 5000}
    rows = [*data, *({"text": text, "label": 2} for text in HOSTILE)]
    return computed(evaluator, rows, "erasure")


def test_nothing_of_the_data_can_end_a_script_or_begin_an_element(results):
    page = str(section(results))
    assert re.findall(r"<(/?script[^>]*)>", page) == [
        'script type="application/json" id="reader-data"',
        "/script",
        "script",
        "/script",
    ]
    content = re.search(r'id="reader-data">(.*?)</script>', page, re.S)[1]
    assert not set("<>&\u2028\u2029\x00\x1b\u202e") & set(content)
    assert json.loads(content) == json.loads(json.dumps(reader_data(results)))
    assert not re.search(r"<[^>]* (style|on[a-z]+)=", page), "the policy of the page refuses these"
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", page)


FIGURES = """
  const get = (name) => document.getElementById(`reader-${name}`), found = [];
  const set = (name, value) => { get(name).value = value; get(name).dispatchEvent(new Event("change")); };
  const rankings = [...get("a").options].map((option) => option.textContent);
  for (const [number, name] of rankings.entries()) {
    set("a", number);
    for (const item of [...get("list").children]) {
      item.click();
      get("jump").click();
      found.push({
        ranking: name,
        row: Number(/[0-9]+/.exec(get("heading").textContent)[0]),
        gone: document.querySelectorAll("[data-panel='0'] .reader-gone").length,
        outlined: document.querySelectorAll("[data-panel='0'] .reader-smallest").length,
        items: document.querySelectorAll("[data-panel='0'] [data-item]").length,
        numbers: [...document.querySelectorAll(".reader-number")].map((each) => parseFloat(each.textContent)),
        decided: [...get("bars").children].findIndex((each) => each.className === "is-decided"),
        state: get("state").textContent,
      });
    }
  }
  return found;
"""


def test_the_end_of_the_slider_is_the_flip_of_the_tables(results, tmp_path):
    found = pd.DataFrame(driven(section(results), FIGURES, tmp_path))
    erasure, steps = results.table("erasure"), results.table(STEPS)
    names = [ranking["name"] for ranking in reader_data(results)["levels"][0]["rankings"]]
    keys = dict(zip(names, dict.fromkeys(erasure["ranking"]), strict=True))
    assert len(found) == len(erasure)
    rows = erasure.set_index(["text_id", "ranking"])
    sets = steps[steps["ranking"].isna()].set_index("text_id")["removed"].map(len)
    for _, shown in found.iterrows():
        row = rows.loc[(shown["row"], keys[shown["ranking"]])]
        assert shown["items"] == row["items"]
        assert shown["gone"] == (row["items"] if row["censored"] else row["removed"])
        assert shown["outlined"] == sets.get(shown["row"], 0)
        assert shown["decided"] == (row["prediction"] if row["censored"] else row["new_label"])
        assert ("has flipped" in shown["state"]) is not bool(row["censored"])
        assert sum(shown["numbers"]) == pytest.approx(100, abs=0.2)


KEYS = """
  const get = (name) => document.getElementById(`reader-${name}`);
  const event = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  const press = (key) => get("list").dispatchEvent(event(key));
  const heading = () => get("heading").textContent, listed = () => get("list").children.length;
  const set = (name, value) => { get(name).value = value; get(name).dispatchEvent(new Event("change")); };
  const told = { start: heading(), focus: get("list").tabIndex };
  press("ArrowDown"); told.down = heading(); press("End"); told.end = heading();
  press("ArrowDown"); told.stays = heading();
  press("Home"); told.home = heading(); told.active = get("list").getAttribute("aria-activedescendant");
  told.selected = [...document.querySelectorAll("[aria-selected=true]")].map((each) => each.id);
  get("slider").value = 1; get("slider").dispatchEvent(new Event("input"));
  told.value = get("slider").getAttribute("aria-valuetext"); told.live = get("state").getAttribute("aria-live");
  told.state = get("state").textContent;
  told.titles = [...document.querySelectorAll("[data-panel='0'] [data-item]")].map((each) => each.title);
  told.unnamed = [...document.querySelectorAll("select, input, button")].filter((each) =>
    !each.ariaLabel && !each.labels?.length && !each.textContent.trim()).length;
  told.flips = {};
  for (const when of ["early", "late", "never", ""]) { set("flips", when); told.flips[when] = listed(); }
  set("sort", "flip-last"); told.last = get("list").firstChild.textContent; set("sort", "row");
  told.right = {};
  for (const right of ["1", "0", ""]) { set("right", right); told.right[right] = listed(); }
  told.classes = [...get("class").options].map((option) => {
    set("class", option.value);
    return [option.textContent, listed()];
  });
  set("class", "");
  told.worth = {};
  for (const worth of ["best", "worst", ""]) { set("worth", worth); told.worth[worth] = listed(); }
  return told;
"""


def test_it_is_worked_by_keyboard_and_its_filters_count_as_the_tables_do(tmp_path):
    results = computed(*evaluator_of("sigmoid"), "erasure")  # some of its decisions never flip
    told = driven(section(results), KEYS, tmp_path)
    last = len(results.table("texts")) - 1
    assert told["start"] == told["home"] == "Text of row 0"
    assert (told["down"], told["end"], told["stays"]) == ("Text of row 1", *[f"Text of row {last}"] * 2)
    assert (told["focus"], told["live"], told["unnamed"]) == (0, "polite", 0)
    assert told["selected"] == [told["active"]] == ["reader-text-0"]
    erasure, texts = results.table("erasure"), results.table("texts")
    attention = erasure[erasure["ranking"] == "attention"].set_index("text_id")
    assert told["value"].startswith("1 of ")
    assert told["state"].startswith(f"1 of {attention['items'].loc[0]} tokens erased in the order of attention")
    assert len(told["titles"]) == attention["items"].loc[0]
    assert sum("erased as number 1 of" in title for title in told["titles"]) == 1
    early = (attention["fraction"] <= 0.2).sum()
    late = (attention["fraction"] > 0.2).sum()
    never = attention["censored"].sum()
    assert told["flips"] == {"early": early, "late": late, "never": never, "": len(attention)}
    assert min(early, late, never) > 0
    assert "never flips" in told["last"]
    right = texts["correct"].fillna(False).sum()
    assert told["right"] == {"1": right, "0": len(texts) - right, "": len(texts)}
    assert sum(listed for _, listed in told["classes"][1:]) == len(texts)
    share = erasure["fraction"].where(~erasure["censored"], 1.0)
    least = share.groupby(erasure["text_id"]).min().clip(upper=attention["minimum_high"] / attention["items"])
    more = share[erasure["ranking"] == "attention"].set_axis(attention.index) - least
    assert told["worth"] == {"best": (more <= 0.1).sum(), "worst": (more >= 0.5).sum(), "": len(texts)}


def test_a_search_finds_words_and_rows(results, tmp_path):
    driver = """
      const get = (name) => document.getElementById(`reader-${name}`), told = {};
      const words = ["<script>", "superb", "12", "\\\\x1b[2j", "nothing has this"];
      for (const word of words) {
        get("search").value = word;
        get("class").dispatchEvent(new Event("change"));
        told[word] = [get("list").children.length, get("count").textContent];
      }
      return told;
    """
    told = driven(section(results), driver, tmp_path)
    assert told["<script>"] == [2, "2 texts"]
    assert told["12"] == [1, "1 text"]
    assert told["\\x1b[2j"][0] == 1
    assert told["nothing has this"] == [0, "No text fits these filters."]
    texts = results.table("stored_texts")["text"]
    assert told["superb"][0] == texts.str.contains("superb").sum() > 1


@pytest.mark.parametrize(
    "kind",
    ["multilabel", pytest.param("regression", marks=pytest.mark.slow), pytest.param("sigmoid", marks=pytest.mark.slow)],
)
def test_every_kind_of_decision_is_shown(kind, tmp_path):
    results = computed(*evaluator_of(kind), "erasure")
    found = driven(section(results), FIGURES, tmp_path)
    assert len(found) == len(results.table("erasure"))
    numbers = {"multilabel": 3, "regression": 1, "sigmoid": 2}[kind]
    assert all(len(shown["numbers"]) == numbers for shown in found)


def test_both_levels_of_a_transformer_and_sentences_of_a_han_are_shown(tmp_path):
    driver = """
      const get = (name) => document.getElementById(`reader-${name}`), told = [];
      for (const option of get("level").options) {
        get("level").value = option.value;
        get("level").dispatchEvent(new Event("change"));
        get("jump").click();
        const items = new Set(
          [...document.querySelectorAll("[data-panel='0'] [data-item]")].map((each) => each.dataset.item),
        );
        told.push([option.textContent, items.size, get("state").textContent]);
      }
      return told;
    """
    texts = [{"text": f"{text}. {text}."} for text in commands.texts(24)]
    for number, save in enumerate((commands.save_bert, commands.save_han)):
        folder = save(tmp_path / f"model-{number}")
        results = af.Evaluator(str(folder)).compute(texts, tests=["erasure"], level="both", n_resamples=20, quiet=True)
        told = driven(section(results), driver, tmp_path / str(number))
        assert [name for name, _, _ in told] == ["from the final attention", "at the input"]
        first = results.table("texts").iloc[0]
        assert [shown for _, shown, _ in told] == [first["items"], first["tokens"]]
        assert ("sentence" in told[0][2]) == (number == 1)


def test_a_run_without_texts_says_so_and_what_to_do(results, tmp_path):
    evaluator, data = evaluator_of("multiclass")
    for options in ({"store_texts": False}, {"tests": ["single_weight"]}):
        older = evaluator.compute(data, **{"tests": ["erasure"], "quiet": True, "n_resamples": 20, **options})
        shown = str(section(older))
        assert shown.startswith('<section id="texts"')
        assert "This run holds no single texts" in shown
        assert "--no-texts" in shown
        assert "<script" not in shown
        assert shown.count("<section") == shown.count("</section>") == 1
    assert str(section(results)).count("</section>") == 1
    assert page_of(section(results)).endswith("</html>")
