"""rationales."""
