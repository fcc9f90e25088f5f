"""Write results into a model card, on disk or on the hub: a section of text, and entries of its metadata.

Only the section between two comments of this library, and its own entries under ``model-index``, are ever changed.
Each data set has a section of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import EvalResult, HfApi, ModelCard
from huggingface_hub.errors import EntryNotFoundError
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from attnfaith import validation
from attnfaith.addresses import is_address, reaching
from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.errors import InputError, StorageError
from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent
from attnfaith.evaluation.card_metadata import OURS, with_results
from attnfaith.evaluation.verdict_table import RankingTable
from attnfaith.markdown import escape_markdown, markdown_table
from attnfaith.storage.atomic_files import put
from attnfaith.validation import short_repr

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

CARD = "README.md"
TASK = "text-classification"
_COLUMNS = 4  # of the table of rankings: ranking, level, removed, skill
_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class CardNames:
    """The names of the data and of the model in a card's metadata, as in `EvalResult` of ``huggingface_hub``.

    Attributes:
        dataset_name: the name of the data for readers.
        dataset_type: their id on the hub; by default the name.
        dataset_config: their configuration, if they have several.
        dataset_split: the split.
        model_name: the entry of ``model-index`` that gets the results; None for the only one, or a new one.
    """

    dataset_name: str
    dataset_type: str | None = None
    dataset_config: str | None = None
    dataset_split: str | None = None
    model_name: str | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None or name == "dataset_name":
                object.__setattr__(self, name, visible(validation.text(value, name)))

    @property
    def of_data(self) -> dict[str, str | None]:
        """The names of the data, as `EvalResult` takes them."""
        return {
            "dataset_name": self.dataset_name,
            "dataset_type": self.dataset_type or self.dataset_name,
            "dataset_config": self.dataset_config,
            "dataset_split": self.dataset_split,
        }

    @property
    def key(self) -> str:
        """What tells the section of these data from those of others."""
        parts = "\0".join(f"{name}={value}" for name, value in self.of_data.items())
        return hashlib.sha256(parts.encode()).hexdigest()[:12]


def write_card(results: Results, path: str | os.PathLike[str], names: CardNames) -> Path:
    """Add results to a model card on disk, or update them there; a card that is missing is created.

    Args:
        results: of a run.
        path: of the card, or of the folder of the model.
        names: of the data and the model.
    """
    if is_address(path):
        raise InputError(
            f"A card is written to a file; {short_repr(path, 200)} is an address. For a repository on the hub, use "
            "push_to_hub."
        )
    file = Path(validation.path(path, "path")).expanduser()
    file = file / CARD if file.is_dir() else file
    try:
        old = file.read_bytes() if file.exists() else b""
        new = updated_card(old, results, names, new_name=file.resolve().parent.name or "model")
        if new != old:
            mode = file.stat().st_mode if file.exists() else None
            put(file, new)
            if mode is not None:
                file.chmod(mode)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"The card {str(file)!r} cannot be written: {error.strerror or error}.") from error
    return file


def push_card(
    results: Results,
    repo_id: str,
    names: CardNames,
    *,
    revision: str | None,
    create_pr: bool,
    commit_message: str,
    token: str | None,
) -> str | None:
    """Add results to the card of a model on the hub; returns the address of the commit, None if nothing changed.

    Args:
        results: of a run.
        repo_id: of the model.
        names: of the data and the model.
        revision: the branch.
        create_pr: open a pull request instead of a commit on the branch.
        commit_message: of the commit.
        token: of the hub; None for the stored one.
    """
    repo_id = validation.text(repo_id, "repo_id", "the id of a model on the hub, such as 'me/my-model'")
    api = HfApi(token=token)
    advice = "Check the id, the network, and that you are logged in (hf auth login) with the right to write."
    folder = tempfile.mkdtemp()
    try:
        with reaching(f"hf://{repo_id}", StorageError, advice):
            commit = api.model_info(repo_id, revision=revision).sha
            try:
                old = Path(api.hf_hub_download(repo_id, CARD, revision=commit, cache_dir=folder)).read_bytes()
            except EntryNotFoundError:
                old = b""
        new = updated_card(old, results, names, new_name=repo_id.rpartition("/")[2])
        if new == old:
            return None
        with reaching(f"hf://{repo_id}", StorageError, advice):
            return str(
                api.upload_file(
                    path_or_fileobj=new,
                    path_in_repo=CARD,
                    repo_id=repo_id,
                    revision=revision,
                    create_pr=create_pr,
                    commit_message=commit_message,
                    parent_commit=commit,  # so that a change that somebody else makes meanwhile is not overwritten
                ).commit_url
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def updated_card(old: bytes, results: Results, names: CardNames, *, new_name: str) -> bytes:
    """The bytes of a card with results added or updated; unchanged if the card has them already.

    Args:
        old: the bytes of the card; empty if there is none.
        results: of a run.
        names: of the data and the model.
        new_name: the name of the model, where neither the card nor the user has one.
    """
    try:
        card = old.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"The card is not UTF-8: {error}. Save it as UTF-8.") from error
    mark, card = (_BOM, card[1:]) if card.startswith(_BOM) else ("", card)
    new_name = visible(new_name)
    if not card.strip():
        card = f"# {escape_markdown(names.model_name or new_name)}\n"
    ends = re.search(r"\r\n|\n", card)
    line_break = ends[0] if ends else "\n"
    block = REGEX_YAML_BLOCK.search(card)
    metadata, text = (block[2], card[block.end() :]) if block else ("", card)
    evaluations = eval_results(results, names)
    changed = with_results(metadata, evaluations, model_name=names.model_name, new_name=new_name, line_break=line_break)
    text = _with_section(text, section(results, names), names.key, line_break)
    content = f"{block[1]}{changed}{block[3]}{text}" if block else line_break.join(["---", changed, "---", "", text])
    _check(content, evaluations)
    return (mark + content).encode("utf-8")


def eval_results(results: Results, names: CardNames) -> list[EvalResult]:
    """The verdict and the figures behind it as results of ``huggingface_hub``; a figure that is unknown is left out."""
    verdict = results.verdict
    confidence = {"confidence_level": results.manifest["statistics"]["confidence_level"]}
    metrics: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("verdict", "Attention as an explanation", verdict.label, {"texts": results.manifest["counts"]["texts"]})
    ]
    if verdict.level is not None:
        figures, level = SummaryLookup(results.summary()), verdict.level
        attention, control = figures.key_of(level, ATTENTION), figures.control(level)
        metrics_of_figures = (
            ("skill", "Skill of attention", "skill", attention),
            ("removed", "Share removed in the order of attention until the decision flips", "mean_fraction", attention),
            ("random_removed", "Share removed in a random order until the decision flips", "mean_fraction", control),
            ("never_flipped", "Share of decisions that attention never flips", "never_flipped", attention),
        )
        for kind, name, figure, key in metrics_of_figures:
            estimate = SummaryValue() if key is None else figures.get(level, figure, key)
            if estimate.known:
                metrics.append(
                    (kind, name, _rounded(estimate.value), {"level": level, **confidence, **_interval(estimate)})
                )
    return [
        EvalResult(
            task_type=TASK,
            metric_type=f"{OURS}{kind}",
            metric_name=name,
            metric_value=value,
            metric_args=arguments,
            **names.of_data,  # type: ignore[arg-type]
        )
        for kind, name, value, arguments in metrics
    ]


def section(results: Results, names: CardNames) -> list[str]:
    """The lines of the section: a heading, the words of the verdict, a short table, and how it was made."""
    verdict = results.verdict
    lines = [f"## Attention as an explanation: {escape_markdown(_data(names))}", ""]
    lines += [f"**{escape_markdown(verdict.headline)}**", "", _prose(verdict.parts.get("", ())), ""]
    for heading, table, sentences in verdict.sections:
        lines += [f"**{escape_markdown(heading)}.** {_prose(sentences)}".rstrip(), ""]
        lines += [*_short(table), ""] if table is not None else []
    return [*lines, _how_made(results)]


def _data(names: CardNames) -> str:
    details = [part for part in (names.dataset_config, names.dataset_split) if part]
    return names.dataset_name + (f" ({', '.join(details)})" if details else "")


def _prose(sentences: tuple[str, ...]) -> str:
    return escape_markdown(" ".join(sentences))


def _short(table: RankingTable) -> list[str]:
    """The rows of the smallest sets, the best ranking, attention, a random order, and rankings of the user."""
    names = {display_name((level, name)) for level in ("attention", "input") for name in (ATTENTION, CONTROL)}
    references = [row for row in table.rows if row[0].startswith("smallest sets")]
    rankings = [row for row in table.rows if row not in references]
    table_rows = [*references, *(row for row in rankings if row is rankings[0] or row[0] in names or row[1] == YOURS)]
    cells = [[escape_markdown(cell) for cell in row[:_COLUMNS]] for row in table_rows]
    return markdown_table([escape_markdown(name) for name in table.columns[:_COLUMNS]], cells)


def _how_made(results: Results) -> str:
    manifest, statistics = results.manifest, results.manifest["statistics"]
    versions = {"attnfaith": manifest["attnfaith"], **manifest["versions"]}
    used = ", ".join(f"{name} {versions[name]}" for name in ("attnfaith", "torch", "transformers") if name in versions)
    counts = manifest["counts"]
    part = "" if results.part is None else f", part {results.part[0]} of {results.part[1]} of the data"
    line = (
        f"Made with {used}: tests {', '.join(results.tests)} on {counts['texts']:,} texts{part}; seed "
        f"{manifest['run']['seed']}; {percent(statistics['confidence_level'])} intervals from "
        f"{statistics['n_resamples']:,} resamples of the texts."
    )
    return escape_markdown(line)


def _with_section(text: str, lines: list[str], key: str, line_break: str) -> str:
    """A text with the section of a key replaced, or appended at its end."""
    start_mark, end_mark = f"<!-- attnfaith {key} -->", f"<!-- /attnfaith {key} -->"
    new = line_break.join([start_mark, *lines, end_mark])
    starts, ends = text.count(start_mark), text.count(end_mark)
    if (starts, ends) == (0, 0):
        gap = "" if not text or text.endswith(("\n", "\r")) else line_break
        return f"{text}{gap}{line_break}{new}{line_break}"
    start, end = text.find(start_mark), text.find(end_mark)
    if (starts, ends) != (1, 1) or end < start:
        raise InputError(
            f"The card has {starts} lines {start_mark!r} and {ends} lines {end_mark!r}; expected one of each, in this "
            "order. Remove what is left of the section, and try again."
        )
    return text[:start] + new + text[end + len(end_mark) :]


def _check(card: str, expected: list[EvalResult]) -> None:
    """Refuse a card whose metadata ``huggingface_hub`` cannot read, or reads as other results."""
    try:
        stored = getattr(ModelCard(card).data, "eval_results", None) or []
    except ValueError as error:
        raise InputError(
            f"huggingface_hub cannot read the metadata of the card: {' '.join(str(error).split())}. Correct the card."
        ) from error
    entries = {(result.unique_identifier, result.metric_type, str(result.metric_value)) for result in stored}
    assert all(
        (evaluation.unique_identifier, evaluation.metric_type, str(evaluation.metric_value)) in entries
        for evaluation in expected
    )


def _rounded(value: float) -> float:
    return round(float(value), 6)


def _interval(estimate: SummaryValue) -> dict[str, Any]:
    ends = {name: getattr(estimate, name) for name in ("low", "high")}
    return {name: _rounded(value) for name, value in ends.items() if value == value} | {"texts": estimate.texts}
