"""From one row per text to figures with intervals: the parts of `attnfaith.evaluation.summary`."""
