"""Reports of runs, and of comparisons of runs, as single HTML files that load nothing."""
