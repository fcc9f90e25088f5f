"""Make the notebooks of this folder and store what they print: ``python -m examples.build``, or ``... 01`` for one.

A source is a script whose lines ``# %%`` and ``# %% [markdown]`` begin a cell of code or of text. It is the one place
to edit: a notebook is made from it, and executed in a kernel of its own.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient
from nbformat import NotebookNode, v4
from PIL import Image

FOLDER = Path(__file__).parent
SOURCES = tuple(sorted(FOLDER.glob("[0-9][0-9]_*.py")))
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore:IProgress not found,ignore:'pin_memory' argument is set as true",
}
"""One thread adds in the same order everywhere; other libraries warn of a missing ipywidgets, or a missing GPU."""
MADE_WITH = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
"""What the last digits of a training depend on."""

_MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_PROGRESS = re.compile(r"\s*<div>\s*<progress.*?</div>", re.DOTALL)


def notebook_of(source: Path) -> NotebookNode:
    """The notebook of a source, without outputs."""
    before, *parts = _MARK.split(source.read_text(encoding="utf-8"))
    if before.strip():
        raise ValueError(f"{source.name} begins with lines that are in no cell: {before[:60]!r}")
    cells = []
    for number, (kind, text) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        text = text.strip("\n")
        if kind:
            plain = [line for line in text.splitlines() if not line.startswith("#")]
            if plain:
                raise ValueError(f"{source.name} has a line of text that is no comment: {plain[0]!r}")
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        make = v4.new_markdown_cell if kind else v4.new_code_cell
        cells.append(make(text, id=f"cell-{number:02}"))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return v4.new_notebook(cells=cells, metadata=metadata)


@contextmanager
def kernel() -> Iterator[NotebookClient]:
    """A running kernel in an empty folder, as a client for `run`."""
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            v4.new_notebook(), timeout=600, coalesce_streams=True, resources={"metadata": {"path": folder}}
        )
        client.extra_arguments = ["--IPKernelApp.log_level=40"]  # it would warn that its port is open to this machine
        with client.setup_kernel(env={**os.environ, **ENVIRONMENT}):
            yield client


def run(client: NotebookClient, notebook: NotebookNode) -> None:
    """Execute a notebook in a running kernel, whose variables stay; an error in a cell is raised."""
    client.nb = notebook
    client.execute(cleanup_kc=False)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}  # when it was executed
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:  # a table of the Trainer, whose progress bar shows seconds
                data["text/html"] = _PROGRESS.sub("", data["text/html"])
            if "image/png" in data:
                data["image/png"] = _in_fewer_colours(data["image/png"])


def _in_fewer_colours(png: str) -> str:
    """A figure with a palette, which takes a third of the space."""
    packed = BytesIO()
    image = Image.open(BytesIO(base64.b64decode(png))).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def build(source: Path) -> Path:
    """Execute the notebook of a source in a new kernel, and write it beside the source."""
    notebook = notebook_of(source)
    with kernel() as client:
        run(client, notebook)
    notebook.metadata["made_with"] = MADE_WITH
    path = source.with_suffix(".ipynb")
    nbformat.write(notebook, path)
    return path


if __name__ == "__main__":
    chosen = sys.argv[1:] or [""]
    for source in SOURCES:
        if source.name.startswith(tuple(chosen)):
            print(f"{build(source).relative_to(FOLDER.parent)}", flush=True)
