"""How the documentation is built: `make docs`."""

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from docutils.nodes import SkipNode, math_block
from latex2mathml.converter import convert

import attnfaith
from attnfaith.survey import summary, survey, table_markdown

project = "attnfaith"
author = "The attnfaith authors"
project_copyright = "The attnfaith authors"
release = version = attnfaith.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
templates_path = ["templates"]
exclude_patterns = ["templates", "generated/families-table.md"]

html_theme = "furo"
html_title = "attnfaith"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
# Formulas are MathML, which browsers show without scripts and without a network.
html_math_renderer = "mathml"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
# What overrides a method of another package is documented there, in markup of its own.
autodoc_inherit_docstrings = False
autosummary_generate = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def write_families(app):
    """Try every family of the installed transformers, for the page that includes the result."""
    families = list(survey())
    failed = [family.model_type for family in families if family.status == "failed"]
    if failed:
        raise RuntimeError(f"attnfaith made a mistake on {', '.join(failed)}; see: attnfaith models {' '.join(failed)}")
    target = Path(app.srcdir, "generated", "families-table.md")
    target.parent.mkdir(exist_ok=True)
    target.write_text(f"{summary(families)}\n\n{table_markdown(families)}\n", encoding="utf-8")


def _mathml(self, node):
    """Write a formula as MathML, which browsers show by themselves."""
    block = isinstance(node, math_block)
    formula = convert(node.astext(), display="block" if block else "inline")
    self.body.append(f"<div>{formula}</div>" if block else formula)
    raise SkipNode


def _of_matplotlib(member):
    return str(getattr(member, "__module__", "")).startswith("matplotlib")


def setup(app):
    """Leave out "alias for field number 3": a named tuple's fields are described in its docstring."""
    app.connect("autodoc-skip-member", lambda *seen: True if type(seen[3]).__name__ == "_tuplegetter" else None)
    # matplotlib gives every subclass of its artists a method "set" of its own, in its own markup
    app.connect("autodoc-skip-member", lambda *seen: True if _of_matplotlib(seen[3]) else None)
    app.connect("builder-inited", write_families)
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
