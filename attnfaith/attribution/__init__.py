"""Rankings of a text's items: one file for each source of evidence, and the `Attributor` that produces them."""

from attnfaith.attribution import attention, controls, gradient, integrated, jain_wallace, occlusion, optimal, relevance
from attnfaith.attribution.methods import Method, find_method, methods, register_method

__all__ = [
    "Method",
    "attention",
    "controls",
    "find_method",
    "gradient",
    "integrated",
    "jain_wallace",
    "methods",
    "occlusion",
    "optimal",
    "register_method",
    "relevance",
]
