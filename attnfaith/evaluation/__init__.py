"""Evaluation of rankings over a data set, from the data to the verdict.

An `Evaluator` loads the model and tokenizer (`attribution.model_loading`) and cuts the model (`adapters.cut`). Then
`Evaluator.compute` takes these steps:

1. `run_options` validates the arguments; `data.source` opens the data and checks every column that is read.
2. `dry_run` tries everything on one text. It settles where items are erased, how tokens are hidden (`token_hiding`,
   proved on the made-up texts of `hiding_trials` and `deciding_token`), and which rankings work on this model.
3. `run_manifest` collects options, fingerprints and facts; `storage.run_store` opens the folder of the run, new or to
   be continued, in the first of several `processes`.
4. `runner` reads the data in shards, encodes the texts (`text.encoder`) and puts texts of similar length in a batch.
   Where not all rows are to be read, `keyed_sample` reads them in a random order until the rule of `sampling` stops it.
5. `batch` captures the final attention of its texts once, and computes the scores of each ranking once (`rankings`).
6. Each test in `tests` turns the batch into rows of its table. `removal` erases items at the final attention or at the
   input for them; `score_direction` says which end of a ranking is removed first.
7. `storage.run_store` writes each shard. After the last one, `Test.conclude` computes the tables that need all rows,
   and the finished run gets the counts of `run_manifest`.
8. `results` loads the run. Each test computes its estimates with intervals from its table (`estimates`).
9. `verdict` picks the label by `verdict_rule` and the sentences by `verdict_text`; `comparison` compares two runs.
10. `cli.terminal` prints the verdict on the command line; `report` makes a page, and `model_card` a model card of it.
"""

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.evaluation import tests as tests

__all__ = ["tests"]
__getattr__, __dir__ = lazy_exports(__name__, {"tests": "attnfaith.evaluation.tests"})  # it imports modules from here
