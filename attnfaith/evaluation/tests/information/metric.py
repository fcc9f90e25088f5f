"""Metric module of the information test, for attention, vectors and outputs computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.information.measure import ALL, COLUMNS, Measurement, RankedVectors
from attnfaith.evaluation.tests.information.summary import summarise
from attnfaith.evaluation.tests.information.test import Information
from attnfaith.functional.clustering import one_thread
from attnfaith.functional.ranking import order_of
from attnfaith.metrics.inputs import Array, Input, check_same, padded
from attnfaith.metrics.module import Module

_BY_RANK = ("mean_weight", "mi", "null", "mi_corrected", "mi_miller_madow", "p", "singletons")
_COUNTS = ("samples", "ranks", "ranks_by_length", "ranks_by_weight", "clusters", "outputs", "informative")
_OPTIONS = ("clusters", "ranks", "kmeans_seeds", "permutations", "weights", "fewest", "most_ranks")


class RankInformation(Module):
    """Are the items with the highest attention the most informative about the output?

    The vectors of each attention rank are one sample: they are clustered, and the mutual information of their clusters
    and the output is measured, in nats. All texts together have these figures, no single one does. What chance alone
    would say is measured with the outputs permuted. ``random_state`` is the seed of all draws; with ``n_resamples``
    (whatever the number) the intervals come from random halves of the texts, as many as ``permutations``.

    Args:
        predictions: for each text, its logits (a regression's value, or one sigmoid output's logit, is a list of one).
        attention: a weight of each of its items.
        vectors: the vector of each of its items.
        clusters: of each rank's vectors; by default the largest number in 50..200 with which every cluster has two of
            them or more; "paper" for the smallest.
        ranks: how many are looked at; by default as many as the paper's rule allows.
        kmeans_seeds: how often vectors are clustered; information is the mean. By default 5.
        permutations: of the outputs; by default 200.
        weights: how pairs of ranks count in Kendall's tau: "product" (the default), "additive" or "hyperbolic".
        fewest: with fewer texts nothing is measured; by default 100.
        most_ranks: at most so many; by default 32.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those with a number that is NaN, and those without items; they are left out.
        - weighted_kendall, weighted_kendall_corrected: of mean attention by rank and ``mi``, ``mi_corrected``; NaN
          where nothing could be measured, and then ``reason`` says why.
        - weighted_kendall_seeds: the mean of the taus of the single k-means seeds, where there are several; with
          intervals, ``weighted_kendall_seeds_low`` and ``_high`` are the smallest and the largest of them.
        - informative: at how many ranks there is more information than by chance.
        - output_entropy: what there is to know of the output, in nats.
        - samples, ranks, ranks_by_length, ranks_by_weight, clusters, outputs: how many texts (with as many items as
          that) and ranks were looked at, what the paper's two rules allow, and numbers of clusters and outputs.
        - by_rank: lists by rank, the most attended first: ``mean_weight``; ``mi`` as measured; ``null``, by chance;
          ``mi_corrected``, their difference; ``mi_miller_madow``; ``p``, of more than chance, corrected for how many
          ranks there are; ``singletons``, clusters of one vector.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> said = rng.integers(2, size=120)
        >>> vectors = rng.normal(size=(120, 3, 2))
        >>> vectors[:, 0, 0] += 9 * said  # the first item alone says what is decided
        >>> module = RankInformation(clusters=4, kmeans_seeds=1, permutations=50)
        >>> found = module.compute(predictions=np.eye(2)[said], attention=[[0.6, 0.3, 0.1]] * 120, vectors=vectors)
        >>> found["informative"], round(found["weighted_kendall"])
        (1, 1)
    """

    inputs: ClassVar[dict[str, Input]] = {"predictions": Input(1), "attention": Input(1), "vectors": Input(2)}
    options: ClassVar[dict[str, Any]] = {name: getattr(Information(), name) for name in _OPTIONS}
    paper: ClassVar[str] = Information.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the options as the test does."""
        Information(**{name: options[name] for name in self.options})
        if options["per_text"]:
            raise InputError("RankInformation has estimates over all texts only. Leave out per_text.")

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Each weight needs a vector."""
        check_same({name: len(text[name]) for name in ("attention", "vectors")}, "items", where)
        if not text["predictions"].size:
            raise InputError(f"Expected predictions of {where} to be logits, got none.")
        if (text["attention"] < 0).any():
            raise InputError(f"Expected attention of {where} to be at least 0.")

    def summarise(
        self, columns: dict[str, list[Array]], options: Mapping[str, Any], asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Compute the values that the class documents."""
        texts = list(zip(*(columns[name] for name in self.inputs), strict=True))
        for what, sizes in {
            "logits": {len(logits) for logits, _, _ in texts},
            "numbers in a vector": {vectors.shape[1] for _, _, vectors in texts if vectors.size},
        }.items():
            if len(sizes) > 1:
                raise InputError(f"Expected the same number of {what} in all texts, got {sorted(sizes)}.")
        known = [text for text in texts if len(text[1]) and not any(np.isnan(part).any() for part in text)]
        seed = asked["random_state"]
        result: dict[str, Any] = {"texts": len(texts), "undefined": len(texts) - len(known)}
        if not known:
            return result | {"weighted_kendall": float("nan"), "reason": "no text has an item to look at"}
        table = _measured(known, options, seed)
        listed = pd.DataFrame({"text_id": range(len(known)), "aside": None})
        level = asked["confidence_level"]
        figures = summarise(table, listed, weights=options["weights"], confidence_level=level, seed=seed)
        return result | _flat(figures, intervals=asked["n_resamples"] is not None)


def _measured(texts: list[tuple[Array, Array, Array]], options: Mapping[str, Any], seed: int) -> pd.DataFrame:
    """The rows of `attnfaith.evaluation.tests.information.measure` for texts without NaN."""
    logits, attention, vectors = zip(*texts, strict=True)
    weights, mask = padded(attention)
    order = order_of(weights, mask)[:, : options["most_ranks"]]
    shown = weights.masked_fill(~mask, np.nan).gather(1, order).numpy()
    measurement = Measurement(
        RankedVectors(
            text_ids=np.arange(len(texts)),
            lengths=mask.sum(1).numpy(),
            predictions=np.argmax(logits, axis=1).tolist(),
            logits=np.array(logits),
            weights={ALL: shown},
        ),
        ALL,
        kind="multiclass" if len(logits[0]) > 1 else "regression",
        ranks=options["ranks"],
        clusters=options["clusters"],
        kmeans_seeds=options["kmeans_seeds"],
        draws=options["permutations"],
        fewest=options["fewest"],
        seed=seed,
    )
    ranked = None
    if measurement.units:
        tops = order[:, : measurement.ranks].numpy()
        chosen = [vectors[text][tops[text]] for text in measurement.text_ids]
        ranked = np.stack(chosen, axis=1).astype(np.float32)
    with one_thread():
        rows = list(measurement.rows(ranked, lambda amount: None))
    return pd.DataFrame(rows, columns=[name for name, _ in COLUMNS])


def _flat(figures: pd.DataFrame, *, intervals: bool) -> dict[str, Any]:
    """The estimates of a summary by name, with lists for estimates by rank."""
    single = figures[figures["other"] == ""].set_index("figure")
    result: dict[str, Any] = {}
    for name in ("weighted_kendall", "weighted_kendall_corrected", "weighted_kendall_seeds", "output_entropy"):
        if name in single.index:
            row = single.loc[name]
            result[name] = float(row["value"])
            if intervals and name != "output_entropy":
                result |= {f"{name}_low": float(row["low"]), f"{name}_high": float(row["high"])}
    counts = {name: single.loc[name, "value"] for name in _COUNTS if name in single.index}
    result |= {name: int(value) if np.isfinite(value) else float("nan") for name, value in counts.items()}
    note = str(single.loc["weighted_kendall", "note"])
    if note:
        result["reason"] = note
    ranks = figures[figures["other"] != ""]
    result["by_rank"] = {
        name: ranks.loc[ranks["figure"] == name, "value"].astype(float).tolist()
        for name in _BY_RANK
        if (ranks["figure"] == name).any()
    }
    return result
