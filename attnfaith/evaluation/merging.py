"""`merge`: join the results of the parts of an evaluation."""

from __future__ import annotations

import os
from collections.abc import Sequence

from attnfaith import validation
from attnfaith.errors import InputError
from attnfaith.evaluation.manifest_schema import check_manifest
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_manifest import finish
from attnfaith.evaluation.tests.base import tests
from attnfaith.storage.parts import join


def merge(
    folders: Sequence[str | os.PathLike[str]], output_dir: str | os.PathLike[str], *, quiet: bool = False
) -> Results:
    """Join the parts of an evaluation to the run that one call over all data would have made, byte for byte.

    Interrupted, the same call continues.

    Args:
        folders: of all parts, in any order: results of `Evaluator.compute` with ``part=``.
        output_dir: a new folder, or an address such as ``s3://bucket/all``.
        quiet: show no progress.

    Raises:
        InputError: a part is missing, given twice, not finished, or of another model, data, settings or version.
        StorageError: a file of a part is damaged; the message names it.
    """
    if not isinstance(folders, list | tuple) or not folders:
        got = validation.short_repr(folders)
        raise InputError(f"Expected folders to be a list of the folders of parts, got {got}.")
    paths = [validation.path(folder, "folders") for folder in folders]
    validation.path(output_dir, "output_dir")
    store = join(paths, output_dir, check_manifest)
    run = store.manifest["run"]
    finish(store, [tests[name](**options) for name, options in run["tests"].items()], seed=run["seed"], quiet=quiet)
    return Results(store.load_again(check_manifest))
