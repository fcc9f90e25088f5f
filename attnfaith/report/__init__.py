"""Reports of runs, and of comparisons of runs, as single HTML files that load nothing.

`run_report` and `comparison_report` make the two kinds of page; `page` fills in the templates and holds the policy of
what a page may load. Parts of a page: `verdict_scale`, `estimate_tables`, `inline_svg` (figures), `settings`,
`command_line` (the command that makes the run again), and the package `reader` (single texts). `output_file` writes it.
"""
