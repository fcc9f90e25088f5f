"""Storage of runs: atomic files, sealed tables, manifests and fingerprints."""
