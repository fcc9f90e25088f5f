"""The demo: a generated corpus, models trained on it, an evaluation, and a report."""
