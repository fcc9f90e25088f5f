"""Tests of faithfulness over whole data sets: what is read, run, stored and summed up."""

from attnfaith.evaluation import tests

__all__ = ["tests"]
