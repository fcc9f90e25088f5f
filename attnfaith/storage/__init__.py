"""Storage of runs: `run_store` is a run, `run_folder` its folder; the others are files, tables and manifests."""
