"""The frozen-weights probe: what attention is worth to a model without context."""
