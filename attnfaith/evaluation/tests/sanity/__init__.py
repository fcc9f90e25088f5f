"""sanity."""
