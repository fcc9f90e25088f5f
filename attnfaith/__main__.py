"""``python -m attnfaith``: the command line."""

from attnfaith.cli import app

app(prog_name="attnfaith")
