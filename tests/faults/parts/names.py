"""Hostile names in every place where a name is shown: terminals, pipes, JSON, pages, figures and errors stay inert."""

from __future__ import annotations

import json
import random
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attnfaith as af
from tests.faults import children, material
from tests.faults.children import Ended, forked
from tests.faults.tally import Part, Tally, times
from tests.helpers import commands

NAMES = {
    "colours and cursor": "\x1b[31mred\x1b[2J\x1b[H",
    "window title": "\x1b]0;title\x07",
    "link": "\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;aGk=\x07",
    "C1 control sequence": "\x9b31mred\x9d0;t\x9c",
    "device status": "\x1b[6n\x1bP$q\x1b\\",
    "right to left": "good\u202e\u2066evil\u2069\u202c\u200f",
    "backspaces": "good\x08\x08\x08\x08evil",
    "carriage return": "unfaithful\rfaithful",
    "line feeds": "a\nError: b\n\nc\v\f\x85\u2028d",
    "rich markup": "[bold red]x[/bold red][link=http://e.org]y[/link][/]",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><b>&amp;",
    "mathtext": "$\\frac{1}{0}$ $x_{$ \\alpha",
    "NUL": "a\x00b",
    "lone surrogate": "a\ud800b\udfff",
    "format": "%s %n {0} {x!r} ${HOME}",
    "long": "w" * 50_000,
    "blank": " \u200b\u00ad ",
    "path": "../../../etc/passwd",
}
"""By kind. Tabs are left out: they do no harm."""
ON_DISK = {name for name, value in NAMES.items() if name not in ("NUL", "long", "path", "lone surrogate")}
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TAGS = {*"style table thead tbody tr td th span div p b i br mark code small strong em a ul li".split()}
_TAGS |= {*"details summary meta html title body head section h1 h2 h3 h4 caption bdi wbr ruby rt pre".split()}
_CONTROLS = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""In JSON and pages: there a carriage return is white space, and bidirectional marks are data."""
LONGEST_ERROR = 6_000
"""Characters of an error message, however long what it is about."""


def inert(message: str, *, styled: bool = False) -> str:
    """The same text; refused if a part of it would act on a terminal.

    Args:
        message: what was written there.
        styled: whether the styles of the library's own (SGR sequences: colours, bold) may be in it.
    """
    plain = _STYLE.sub("", message) if styled else message
    plain = plain.replace("\r\n", "\n") if styled else plain
    result = _ACTIVE.search(plain)
    assert result is None, (
        f"an active character reaches the reader: {plain[max(0, result.start() - 60) : result.end() + 20]!r}"
    )
    if styled:  # a style from a name: the library itself never makes text red on a clear screen
        assert "\x1b[31mred" not in message, "a name colours the terminal"
    return message


class Page(HTMLParser):
    """Refuses a page with anything that could act: scripts, handlers, images, foreign links, raw controls."""

    def __init__(self, html: str) -> None:
        super().__init__()
        assert _CONTROLS.search(html) is None, "a control character in HTML"
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, f"the page has a <{tag}>"
        for name, value in attributes:
            assert not name.startswith("on"), f"the page has a handler {name}"
            assert name not in ("href", "src") or (value or "").startswith("#"), f"the page refers to {value!r}"


def run(scale: float, seed: int) -> Tally:
    """Every kind of name in every place, in every way it is shown."""
    tally, draw = Tally(), random.Random(seed)
    cases = [(kind, name) for kind in NAMES for name in PLACES]
    if scale < 0.3:
        cases = draw.sample(cases, times(len(cases), scale, 10))
    for kind, index in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of matplotlib, where a font has no such letter
            for what, trial in PLACES[index](kind):
                with tally.trial(f"{index}: {what}", kind):
                    trial()
    return tally


def _model(folder: Path, *labels: str) -> Path:
    """The smallest model with other names of its classes."""
    shutil.copytree(material.flan_folder(), folder, dirs_exist_ok=True)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["id2label"] = {str(number): label for number, label in enumerate(labels)}
    config["label2id"] = {label: number for number, label in enumerate(labels)}
    path.write_text(json.dumps(config))
    return folder


def _data(folder: Path, text: str = "a fine film", column: str = "text", more: str = "") -> str:
    path = folder / "data.jsonl"
    rows = [{column: item, "label": int("fine" in item)} for item in commands.texts(12)]
    if more:
        rows = [{**row, more: [0.5] * len(row[column].split())} for row in rows]
    path.write_text("\n".join(json.dumps(row) for row in [{**rows[0], column: text}, *rows[1:]]))
    return str(path)


def _piped(*arguments: Any) -> None:
    ended = forked(children.evaluate, *arguments)
    _judge(ended, json_lines="--json" in arguments)


def _judge(ended: Ended, *, json_lines: bool = False, styled: bool = False) -> None:
    ended.assert_plain()
    assert ended.code in (0, 1, 2, 3), f"exit code {ended.code}: {ended.stderr[-300:]}"
    assert styled or ended.code == 0 or "Error" in ended.stderr, f"refused without a word: {ended.stderr[-300:]}"
    inert(ended.stderr, styled=styled)
    if json_lines and ended.code == 0:
        assert _CONTROLS.search(ended.stdout) is None, "a control character in JSON"
        for line in ended.stdout.splitlines():
            json.loads(line)
    else:
        inert(ended.stdout, styled=styled)
    assert len(ended.stderr) < LONGEST_ERROR, f"a message of {len(ended.stderr):,} characters"


def _terminal(*arguments: Any) -> None:
    folder = material.fresh("terminal")
    ended = forked(children.evaluate_in_terminal, str(folder / "terminal"), *map(str, arguments))
    message = (folder / "terminal").read_bytes().decode("utf-8", "surrogateescape")
    # Progress bars are drawn with carriage returns and cursor movements of rich's own: what follows them is looked at.
    message = re.sub(r"\r|\x1b\[\??[0-9]*[hlKA]", "", message)
    assert message.strip(), f"nothing is said in a terminal: {ended.stderr[-300:]}"
    assert "Traceback" not in message, f"a traceback in a terminal: {message[-300:]}"
    assert ended.code == 0 or "Error" in message, f"refused without a word: {message[-300:]}"
    _judge(Ended(ended.code, message, ended.stderr, ended.hung), styled=True)


Trials = Iterator[tuple[str, Callable[[], None]]]
_QUICK = ("--resamples", "20", "--level", "attention", "--rankings", "attention", "--quiet")


def labels(kind: str) -> Trials:
    """Names of classes, from a model's configuration."""
    folder = material.fresh("labels")
    model, data, run = _model(folder / "m", NAMES[kind], "good"), _data(folder), folder / "run"
    yield "pipe", lambda: _piped("explain", model, "a fine film")
    yield "terminal", lambda: _terminal("explain", model, "a fine film")
    yield "JSON", lambda: _piped("explain", model, "a fine film", "--json")
    yield "error", lambda: _piped("explain", model, "a fine film", "--target", "nothing")
    yield "error in a terminal", lambda: _terminal("explain", model, "a fine film", "--target", "nothing")
    yield "evaluation", lambda: _piped("evaluate", model, data, "--output", run, *_QUICK)
    yield "comparison", lambda: _compared(run, _calm_run())
    yield "page", lambda: _paged(model, "a fine film", folder)
    yield "figures and notebook", lambda: _drawn(run)


def texts(kind: str) -> Trials:
    """Texts, from the command line and from data."""
    folder, text = material.fresh("texts"), NAMES[kind]
    given = text.replace("\x00", "")[:20_000]
    if "\ud800" not in text:
        yield "pipe", lambda: _piped("explain", material.bert_folder(), given + " x")
        yield "terminal", lambda: _terminal("explain", material.bert_folder(), given + " x")
        yield "JSON", lambda: _piped("explain", material.bert_folder(), given + " x", "--json", "--words")
        yield "page", lambda: _paged(material.bert_folder(), given + " x", folder)
    data, run = _data(folder, text), folder / "run"
    yield "evaluation", lambda: _piped("evaluate", material.flan_folder(), data, "--output", run, *_QUICK)
    yield "explanation in Python", lambda: _explained(text)


def columns(kind: str) -> Trials:
    """Names of columns."""
    folder, column = material.fresh("columns"), NAMES[kind]
    data, model = _data(folder, column=column), material.flan_folder()
    yield "error", lambda: _piped("evaluate", model, data, "--output", folder / "a", *_QUICK)
    yield "error in a terminal", lambda: _terminal("evaluate", model, data, "--output", folder / "b", *_QUICK)
    if kind not in ("NUL", "lone surrogate"):  # no argument of a program
        asked = ("--text-column", column[:20_000], "--output", folder / "run")
        yield "evaluation", lambda: _piped("evaluate", model, data, *asked, *_QUICK)
        yield "another column", lambda: _piped("evaluate", model, _data(folder), *asked, *_QUICK)


def rankings(kind: str) -> Trials:
    """Names of a user's own rankings."""
    if kind in ("NUL", "lone surrogate"):  # no argument of a program
        return
    folder = material.fresh("rankings")
    name = NAMES[kind].replace("=", "")[:20_000]
    data, model, run = _data(folder, more="mine"), material.flan_folder(), folder / "run"
    asked = ("evaluate", model, data, "--explanation", f"{name}=mine", "--output", run, *_QUICK)
    yield "pipe", lambda: _piped(*asked)
    yield "terminal", lambda: _terminal(*asked)
    yield "JSON", lambda: _piped(*asked, "--json")
    yield "figures and notebook", lambda: _drawn(run)
    yield "error", lambda: _piped("evaluate", model, data, "--rankings", name, "--output", folder / "x")
    yield "error in a terminal", lambda: _terminal("explain", model, "x", "--method", name)


def paths(kind: str) -> Trials:
    """Folders of models and runs, and files of data."""
    if kind not in ON_DISK:
        return
    name = NAMES[kind].replace("/", "_")[:100]
    folder = material.fresh("paths") / name
    folder.mkdir()
    model, data = _model(folder / "m", "bad", "good"), _data(folder)
    run, flan = folder / "run", material.flan_folder()
    yield "evaluation", lambda: _piped("evaluate", model, data, "--output", run, *_QUICK)
    yield "terminal", lambda: _terminal("evaluate", model, data, "--output", folder / "run2", *_QUICK)
    yield "JSON", lambda: _piped("evaluate", model, data, "--output", run, *_QUICK, "--json")
    yield "error: no model", lambda: _piped("explain", folder / "none", "x")
    yield "error: no data", lambda: _terminal("evaluate", flan, folder / "none.csv", "--output", run, *_QUICK)
    yield "error: no run", lambda: _piped("compare", folder / "none", run)
    yield "comparison", lambda: _compared(run, _calm_run())


def manifests(kind: str) -> Trials:
    """Every word in the manifest of a stored run that came from somebody else."""
    folder = material.fresh("manifest") / "run"
    shutil.copytree(_calm_run(), folder)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())

    def hostile(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: hostile(item) for name, item in value.items()}
        if isinstance(value, list):
            return [hostile(item) for item in value]
        return NAMES[kind] if isinstance(value, str) else value

    manifest = {
        name: hostile(value) if name in ("run", "notes", "versions") else value for name, value in manifest.items()
    }
    path.write_text(json.dumps(manifest))
    yield "comparison", lambda: _compared(_calm_run(), folder)
    yield "comparison in a terminal", lambda: _terminal("compare", folder, _calm_run())
    flan, data = material.flan_folder(), material.reviews(24)
    yield "error when going on", lambda: _piped("evaluate", flan, data, "--output", folder, *_QUICK)


def _calm_run() -> Path:
    folder = material.scratch() / "calm-run"
    if not folder.exists():
        flan, data = material.flan_folder(), material.reviews(24)
        assert forked(children.evaluate, "evaluate", flan, data, "--output", folder, *_QUICK).code == 0
    return folder


def _compared(run: Path, other: Path) -> None:
    _piped("compare", run, other, "--unpaired", "--resamples", "20")
    _piped("compare", run, other, "--unpaired", "--resamples", "20", "--json")


def _paged(model: Path, text: str, folder: Path) -> None:
    page = folder / "page.html"
    _piped("explain", model, text, "--html", page)
    if page.exists():
        Page(page.read_bytes().decode("utf-8"))


def _drawn(run: Path) -> None:
    """Figures are drawn, and mean what they say: no name is read as mathematics or markup."""
    if not run.exists():
        return
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("Agg")
    try:
        results = af.load_results(run)
        inert(str(results)), inert(repr(results))
        if hasattr(results, "_repr_html_"):
            Page(results._repr_html_())
        for kind in ("curves", "efficiency", "wins"):
            for suffix in ("png", "svg"):
                figure = results.plot(kind=kind, path=run.parent / f"figure.{suffix}")
                pyplot.close(figure)
            svg = (run.parent / "figure.svg").read_text(encoding="utf-8")
            assert "<script" not in svg
            assert "onerror=" not in re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    except af.AttnFaithError as error:
        inert(str(error))


def _explained(text: str) -> None:
    try:
        explanation = af.Attributor(*material.loaded(material.bert_folder()))(text)
    except af.AttnFaithError as error:
        message = inert(str(error))
    else:
        message = ""
    assert len(message) < LONGEST_ERROR
    if message:
        return
    Page(explanation._repr_html_())
    inert(repr(explanation))
    json.dumps(explanation.to_dict(), allow_nan=False).encode()


PLACES: dict[str, Callable[[str], Trials]] = {
    "labels": labels,
    "texts": texts,
    "columns": columns,
    "rankings": rankings,
    "paths": paths,
    "stored runs": manifests,
}

PART = Part(
    title="Hostile names",
    promise="Labels, texts, columns, paths, rankings and stored runs may hold terminal escapes, markup, control "
    "or bidirectional characters: what is printed, drawn or written as a page shows them and never obeys "
    "them.",
    run=run,
    slow=True,
)
