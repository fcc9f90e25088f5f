"""What is shown of a run on standard error: a bar on a terminal, elsewhere a line a minute."""

import io

import pytest

from attnfaith.progress import ProgressLog, duration


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, *, quiet=False, seconds=300):
    """A run of five minutes that is told of every second."""
    clock = Clock()
    with ProgressLog("evaluating", quiet=quiet, clock=clock, stream=stream) as log:
        log.say("20 texts: about 5 min on this machine.")
        for second in range(seconds):
            clock.now = float(second)
            log.show(second / seconds, f"{second // 15} of 20 texts", float(seconds - second))
    return stream.getvalue()


def test_off_a_terminal_a_line_a_minute():
    assert shown(io.StringIO()).splitlines() == [
        "20 texts: about 5 min on this machine.",
        "evaluating: 20 %, 4 of 20 texts, after 1 min 0 s, about 4 min left",
        "evaluating: 40 %, 8 of 20 texts, after 2 min 0 s, about 3 min left",
        "evaluating: 60 %, 12 of 20 texts, after 3 min 0 s, about 2 min left",
        "evaluating: 80 %, 16 of 20 texts, after 4 min 0 s, about 1 min left",
    ]


def test_on_a_terminal_a_bar_and_the_forecast_stays(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    text = shown(Terminal(), seconds=100)
    assert "20 texts: about 5 min on this machine." in text
    assert "evaluating" in text
    assert "99 %" in text
    assert "6 of 20 texts" in text


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_quiet_shows_nothing(stream):
    assert shown(stream(), quiet=True) == ""


def test_what_is_not_known_is_left_out():
    clock, stream = Clock(), io.StringIO()
    with ProgressLog("evaluating", clock=clock, stream=stream) as log:
        clock.now = 60.0
        log.show(None, "512 texts", None)
    assert stream.getvalue() == "evaluating: 512 texts, after 1 min 0 s\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (3590, "1 h 0 min"), (86_000, "23 h 53 min"), (86_399, "1 day 0 h")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
