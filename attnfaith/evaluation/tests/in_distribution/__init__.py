"""in_distribution."""
