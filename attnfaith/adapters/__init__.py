"""Cutting a model at its final attention: the only code that touches the inside of a model."""
