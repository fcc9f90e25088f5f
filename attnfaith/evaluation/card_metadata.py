"""Add evaluation results to the metadata of a model card, and leave every other byte of the metadata as it is.

The card classes of ``huggingface_hub`` write all metadata anew when one entry changes: comments, quotes and unknown
fields of a ``model-index`` are lost. So the entry is made by them, and put into the YAML text at its place. The text is
then read again, and refused unless it holds what was there before and the entry.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from huggingface_hub import EvalResult
from huggingface_hub.repocard_data import eval_results_to_model_index

from attnfaith.errors import InputError
from attnfaith.validation import short_repr

OURS = "attnfaith_"
"""How the ``type`` of each metric of this library begins."""
INDEX = "model-index"
_BREAK = re.compile(r"\r\n|\r|\n")


def with_results(
    metadata: str,
    results: Sequence[EvalResult],
    *,
    model_name: str | None,
    new_name: str,
    line_break: str = "\n",
) -> str:
    """The YAML text of a card's metadata with results of one task and data set, added or updated.

    Only metrics of this library (`OURS`) on the same task and data set are replaced.

    Args:
        metadata: the text between the lines ``---``; it may be empty.
        results: all metrics of this library on one task and data set.
        model_name: the entry of ``model-index`` that gets them; None for the only one.
        new_name: the name of the entry, where the card has none yet.
        line_break: between lines.

    Example:
        >>> skill = EvalResult("text-classification", "reviews", "reviews", "attnfaith_skill", 0.5)
        >>> print(with_results("license: mit  # ours", [skill], model_name=None, new_name="flan"))
        license: mit  # ours
        model-index:
        - name: flan
          results:
          - task:
              type: text-classification
            dataset:
              name: reviews
              type: reviews
            metrics:
            - type: attnfaith_skill
              value: 0.5
    """
    data = _parsed(metadata)
    changed, text = copy.deepcopy(data), metadata
    for step in _steps(data, results, model_name, new_name):
        text = step.in_text(text, line_break)
        step.in_data(changed)
    if _equal(changed, data):
        return metadata
    if not _equal(_parsed(text, "after the change "), changed):
        raise InputError(
            f"The metadata of the card are written in a form of YAML to which no entry of {INDEX!r} can be added "
            "safely. Write them as huggingface_hub.ModelCard does, and try again."
        )
    return text


@dataclass(frozen=True)
class _Step:
    """One change of a list: ``path`` leads to it; an item is appended (``index`` None), replaced, or removed."""

    path: tuple[str | int, ...]
    index: int | None
    item: Any = None

    def in_data(self, data: dict[str, Any]) -> None:
        if self.path == (INDEX,) and not data.get(INDEX):
            data[INDEX] = [self.item]
            return
        target: Any = data
        for key in self.path:
            target = target[key]
        if self.index is None:
            target.append(self.item)
        elif self.item is None:
            del target[self.index]
        else:
            target[self.index] = self.item

    def in_text(self, text: str, line_break: str) -> str:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        node = root
        for key in self.path:
            if isinstance(node, yaml.MappingNode):
                node = next((value for name, value in node.value if name.value == key), None)
            else:
                node = node.value[key] if node is not None else None
        if not isinstance(node, yaml.SequenceNode):  # no such key yet, or nothing behind it
            lines = _dumped({INDEX: [self.item]}, line_break)
            if node is not None:
                return _spliced(text, node.start_mark.index, _end(node), line_break + lines.partition(line_break)[2])
            return text + (line_break if text.strip() and not text.endswith(("\n", "\r")) else "") + lines
        if self.index is None:
            return _with_item(text, node, self.item, line_break)
        old = node.value[self.index]
        if self.item is None:
            return _without_item(text, node, self.index)
        return _spliced(text, old.start_mark.index, _end(old), _item(self.item, old, old.start_mark.column, line_break))


def _steps(
    data: dict[str, Any], results: Sequence[EvalResult], model_name: str | None, new_name: str
) -> Iterator[_Step]:
    """The changes of lists that make the metadata say these results."""
    models = data.get(INDEX) or []
    if not isinstance(models, list) or not all(
        isinstance(model, dict) and isinstance(model.get("results"), list) for model in models
    ):
        raise InputError(
            f"{INDEX!r} in the metadata of the card is {short_repr(models)}; expected a list of entries with 'name' "
            "and a list of 'results'. Correct the card."
        )
    names = [model.get("name") for model in models]
    if model_name is None and len(models) > 1:
        raise InputError(
            f"{INDEX!r} in the metadata of the card has {len(models)} entries. Choose one with model_name=: "
            f"{', '.join(map(repr, names))}."
        )
    name = model_name if model_name is not None else names[0] if names else new_name
    (entry,) = eval_results_to_model_index(str(name), list(results))
    (new,) = entry["results"]
    if name not in names:
        yield _Step((INDEX,), None, entry)
        return
    number = names.index(name)
    path = (INDEX, number, "results")
    on_these_data = [
        index for index, item in enumerate(models[number]["results"]) if _task_and_data(item) == _task_and_data(new)
    ]
    with_our_metrics = [
        index for index in on_these_data if any(map(_is_our_metric, models[number]["results"][index]["metrics"]))
    ]
    if not with_our_metrics:
        yield _Step(path, None, new)
        return
    old = models[number]["results"][with_our_metrics[0]]["metrics"]
    if all(map(_is_our_metric, old)):
        if not _equal(models[number]["results"][with_our_metrics[0]], new):
            yield _Step(path, with_our_metrics[0], new)
        return
    # Another tool has put metrics of others on the same data into one entry with ours.
    metrics = (*path, with_our_metrics[0], "metrics")
    metrics_by_type = {metric["type"]: metric for metric in new["metrics"]}
    for index in reversed(range(len(old))):
        metric = metrics_by_type.get(_type_of(old[index]))
        if metric is not None and not _equal(metric, old[index]):
            yield _Step(metrics, index, metric)
        elif metric is None and _is_our_metric(old[index]):
            yield _Step(metrics, index)
    stored = {_type_of(metric) for metric in old}
    yield from (_Step(metrics, None, metric) for kind, metric in metrics_by_type.items() if kind not in stored)


def _task_and_data(result: Any) -> tuple[Any, ...] | None:
    """The task and data of an entry of results; None for one of another form."""
    if not (isinstance(result, dict) and isinstance(result.get("metrics"), list)):
        return None
    task, data = result.get("task"), result.get("dataset")
    if not (isinstance(task, dict) and isinstance(data, dict)):
        return None
    return task.get("type"), *(data.get(name) for name in ("type", "name", "config", "split"))


def _type_of(metric: Any) -> str:
    return str(metric.get("type")) if isinstance(metric, dict) else ""


def _is_our_metric(metric: Any) -> bool:
    return _type_of(metric).startswith(OURS)


def _parsed(text: str, when: str = "") -> dict[str, Any]:
    try:
        shared = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        data = None if shared else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The metadata of the card {when}are not valid YAML: {reason[:300]}. Correct them.") from error
    if shared:  # a change of one place would be a change of the other
        raise InputError("The metadata of the card have an alias (*name) of another part. Write that part out.")
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise InputError(f"The metadata of the card are {short_repr(data)}; expected names and values. Correct them.")
    return data


def _equal(value: Any, expected: Any) -> bool:
    """Whether two values are equal as YAML: NaN is NaN, and 1 is not true."""
    return bool(yaml.safe_dump(value, sort_keys=True) == yaml.safe_dump(expected, sort_keys=True))


def _dumped(value: Any, line_break: str) -> str:
    return str(yaml.dump(value, allow_unicode=True, sort_keys=False, line_break=line_break)).rstrip("\r\n")


def _item(value: Any, sibling: Any, column: int, line_break: str) -> str:
    """An item of a list in the style of another one: on one line as JSON, or in lines that are indented as it is."""
    if getattr(sibling, "flow_style", False):
        return json.dumps(value, ensure_ascii=False)
    first, *following = _dumped([value], line_break).split(line_break)
    return line_break.join([first[2:], *(" " * (column - 2) + line for line in following)])


def _with_item(text: str, node: yaml.SequenceNode, value: Any, line_break: str) -> str:
    if node.flow_style:
        end = node.end_mark.index - 1
        return _spliced(text, end, end, (", " if node.value else "") + json.dumps(value, ensure_ascii=False))
    column, end_of_last = node.start_mark.column, _end(node)
    line_end = _BREAK.search(text, end_of_last)
    end = line_end.start() if line_end else len(text)  # a comment behind the last item stays there
    return _spliced(text, end, end, f"{line_break}{' ' * column}- {_item(value, None, column + 2, line_break)}")


def _without_item(text: str, node: yaml.SequenceNode, index: int) -> str:
    """A list without one of its items; never the only one."""
    item, end = node.value[index], _end(node.value[index])
    if node.flow_style:
        if index:
            return _spliced(text, _end(node.value[index - 1]), end, "")
        return _spliced(text, item.start_mark.index, node.value[1].start_mark.index, "")
    dash = text.rindex("-", 0, item.start_mark.index)
    line_end = _BREAK.search(text, end)
    return _spliced(text, dash - node.start_mark.column, line_end.end() if line_end else len(text), "")


def _end(node: Any) -> int:
    """Where the text of a node ends; PyYAML counts blank lines and comments behind a block as part of it."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    item = node.value[-1]
    return _end(item[1] if isinstance(item, tuple) else item)


def _spliced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]
