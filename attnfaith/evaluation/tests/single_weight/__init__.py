"""single_weight."""
