"""A small world in which the right explanation is known: generated reviews, and what `attnfaith demo` runs on them."""
