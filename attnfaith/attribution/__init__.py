"""Rankings of a text's items: one file for each source of evidence, and the `Attributor` that produces them."""

# Importing a module registers its rankings. This order is the order of the rankings in tables and listings.
# isort: off
from attnfaith.attribution import attention
from attnfaith.attribution import random_control
from attnfaith.attribution import gradient
from attnfaith.attribution import integrated_gradients
from attnfaith.attribution import jain_wallace
from attnfaith.attribution import occlusion
from attnfaith.attribution import optimal
from attnfaith.attribution import lrp

# isort: on
from attnfaith.attribution.method import Method, find_method, methods, register_method

__all__ = [
    "Method",
    "attention",
    "find_method",
    "gradient",
    "integrated_gradients",
    "jain_wallace",
    "lrp",
    "methods",
    "occlusion",
    "optimal",
    "random_control",
    "register_method",
]
