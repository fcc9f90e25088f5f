"""The base classes of all modules: an `evaluate.Metric` that checks its inputs as they are added."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import datasets
import evaluate

from attnfaith.errors import InputError
from attnfaith.metrics.estimates import STATISTICS, TextQuantities, check_statistics, figures_of
from attnfaith.metrics.inputs import Array, Input, columns_of

_SETTINGS = tuple(inspect.signature(evaluate.EvaluationModule).parameters)
_ONE = {"prediction": "predictions", "reference": "references"}  # as ``evaluate`` names the inputs of a single text


class Module(evaluate.Metric, ABC):
    """One test of the debate, for numbers that were computed elsewhere.

    Options may be given when the module is made, and for one call to ``compute``. What is added is kept in memory;
    it is written to disk only if several processes share the work (``num_process``).

    Args:
        **settings: the module's options; those of intervals (``n_resamples``, None for no intervals,
            ``confidence_level`` and ``random_state``); ``per_text``, for a list of each text's numbers; and those of
            `evaluate.Metric`.
    """

    inputs: ClassVar[Mapping[str, Input]] = {}
    options: ClassVar[Mapping[str, Any]] = {}
    paper: ClassVar[str]
    _every_input: ClassVar[set[str]] = {"predictions", "references"}  # of all modules: combined ones get each other's

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Module._every_input.update(cls.inputs)

    def __init__(self, **settings: Any) -> None:
        chosen = {name: settings.pop(name) for name in self._known if name in settings}
        self._refuse_others(settings, _SETTINGS)
        self._chosen = self._settled(chosen)
        settings.setdefault("keep_in_memory", settings.get("num_process", 1) == 1)
        super().__init__(**settings)

    @abstractmethod
    def summarise(
        self, columns: dict[str, list[Array]], options: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Compute the estimates of texts with checked inputs.

        Args:
            columns: the inputs.
            options: the module's own.
            settings: the settings of `figures_of`.
        """

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Refuse inputs of one text that do not fit each other; ``where`` names the text in the message."""

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse invalid options."""

    def compute(self, *, predictions: Any = None, references: Any = None, **arguments: Any) -> dict[str, Any] | None:
        """Compute the estimates of the given texts and of those added before.

        Args:
            predictions: one for each text.
            references: one for each text.
            **arguments: other inputs, options, and settings of intervals.

        Returns:
            Figures by name; None in a process other than the first.
        """
        arguments = {"predictions": predictions, "references": references, **arguments}
        columns = {name: value for name, value in arguments.items() if name in self._every_input and value is not None}
        chosen = {name: value for name, value in arguments.items() if name not in self._every_input}
        self._refuse_others(chosen, self._known)
        before, self._chosen = self._chosen, self._settled(chosen)
        try:
            if any(name in columns for name in self.inputs):
                self.add_batch(**columns)
            if not len(self):
                raise InputError(
                    f"There is nothing to compute from. Give {', '.join(self.inputs)}, or add them before."
                )
            result: dict[str, Any] | None = super().compute()
            return result
        finally:
            self._chosen = before

    def add_batch(self, *, predictions: Any = None, references: Any = None, **other_inputs: Any) -> None:
        """Add several texts.

        Args:
            predictions: one for each text.
            references: one for each text.
            **other_inputs: other inputs.
        """
        columns = {"predictions": predictions, "references": references, **other_inputs}
        self._refuse_others(columns, self._every_input)
        arrays = columns_of(columns, self.inputs, len(self))
        self._check_all(arrays, len(self))
        stored = {name: [declared.stored(row) for row in arrays[name]] for name, declared in self.inputs.items()}
        if len(next(iter(stored.values()))):
            super().add_batch(**stored)

    def add(self, *, prediction: Any = None, reference: Any = None, **other_inputs: Any) -> None:
        """Add one text.

        Args:
            prediction: the prediction of the text.
            reference: the reference of the text.
            **other_inputs: other inputs.
        """
        text = {"predictions": prediction, "references": reference, **other_inputs}
        self.add_batch(**{name: None if value is None else [value] for name, value in text.items()})

    def _info(self) -> evaluate.MetricInfo:
        description, _, details = inspect.cleandoc(self.__doc__ or "").partition("\n\n")
        features = datasets.Features({name: declared.feature for name, declared in self.inputs.items()})
        return evaluate.MetricInfo(
            description=description, citation=self.paper, features=features, inputs_description=details
        )

    def _compute(self, **batch: Any) -> dict[str, Any]:
        columns = columns_of(batch, self.inputs)
        self._check_all(columns)  # again, since an option may have been changed since they were added
        options = {name: self._chosen[name] for name in self.options}
        settings = {name: value for name, value in self._chosen.items() if name not in self.options}
        return self.summarise(columns, options, settings)

    def _check_all(self, columns: Mapping[str, list[Array]], start: int = 0) -> None:
        for index, values in enumerate(zip(*columns.values(), strict=True)):
            self.check(dict(zip(columns, values, strict=True)), f"text {start + index}", self._chosen)

    def _build_data_dir(self) -> str:
        return "" if self.keep_in_memory else str(super()._build_data_dir())

    @property
    def _known(self) -> tuple[str, ...]:
        return (*self.options, *STATISTICS, "per_text")

    def _settled(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Check the chosen settings, and fill in the others from earlier calls or the defaults."""
        before = getattr(self, "_chosen", {**self.options, **STATISTICS, "per_text": False})
        settled = {**before, **chosen}
        check_statistics(**{name: settled[name] for name in STATISTICS})
        self.check_options(settled)
        return settled

    def _refuse_others(self, names: Mapping[str, Any], accepted: Collection[str]) -> None:
        unknown = [name for name in names if name not in accepted]
        if unknown:
            raise InputError(
                f"{type(self).__name__} does not know {', '.join(map(repr, unknown))}. "
                f"Inputs: {', '.join(self.inputs)}. Settings: {', '.join(self._known)}. A setting of one of several "
                "combined modules is given where that module is made.",
                code="unknown-name",
            )


class Metric(Module):
    """A module whose estimates come from one value of each text: the base class for your own."""

    @abstractmethod
    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values of every text from its checked inputs."""

    def summarise(
        self, columns: dict[str, list[Array]], options: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The estimates of all texts."""
        return figures_of(self.measure(columns, options), **settings)
