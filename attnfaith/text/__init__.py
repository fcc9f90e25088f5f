"""Reading texts: tokens with their words and positions, batches, and annotations of texts."""
