"""What is left behind for a reader: figures, and the pages that hold them."""
