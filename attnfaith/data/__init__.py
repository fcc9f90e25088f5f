"""Reading data: containers and files, labels, and rows in shards."""
