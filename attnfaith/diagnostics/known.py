"""The registry with all diagnostics in it, in the order in which they are run."""

# ruff: noqa: I001 (the order of these imports is that of the diagnostics)

from attnfaith.diagnostics.base import diagnostics
from attnfaith.diagnostics.uniform.diagnostic import Uniform
from attnfaith.diagnostics.seeds.diagnostic import Seeds
from attnfaith.diagnostics.probe.diagnostic import Probe
from attnfaith.diagnostics.adversary.diagnostic import Adversary

__all__ = ["Adversary", "Probe", "Seeds", "Uniform", "diagnostics"]
