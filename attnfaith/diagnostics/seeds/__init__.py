"""Seed variance: how far the attention of models that differ only in their training seed is apart."""
