"""``python -m attnfaith``: the command line."""

from attnfaith.cli import app

if __name__ == "__main__":
    app(prog_name="attnfaith")
