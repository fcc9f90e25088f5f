"""``python -m attnfaith``: the command line."""

from attnfaith.cli.app import app

if __name__ == "__main__":
    app(prog_name="attnfaith")
