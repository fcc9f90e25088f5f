"""Drawing primitives: each takes a table and axes and returns the axes; pyplot is not used.

The modules here are primitives: curves, dots, matrices, panels, labels. What a test draws with them is in its folder.
"""

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.evaluation.tests.adversarial.plot import adversarial_figure as adversarial_figure
    from attnfaith.evaluation.tests.adversarial.plot import divergences as divergences
    from attnfaith.evaluation.tests.agreement.plot import agreement_distributions as agreement_distributions
    from attnfaith.evaluation.tests.agreement.plot import taus as taus
    from attnfaith.evaluation.tests.erasure.plot import efficiency_figure as efficiency_figure
    from attnfaith.evaluation.tests.erasure.plot import erasure_figure as erasure_figure
    from attnfaith.evaluation.tests.erasure.plot import wins_figure as wins_figure
    from attnfaith.evaluation.tests.information.plot import attention_by_rank as attention_by_rank
    from attnfaith.evaluation.tests.information.plot import information as information
    from attnfaith.evaluation.tests.information.plot import information_figure as information_figure
    from attnfaith.evaluation.tests.information.plot import information_heads_figure as information_heads_figure
    from attnfaith.evaluation.tests.permutation.plot import permutation_figure as permutation_figure
    from attnfaith.evaluation.tests.permutation.plot import shuffles as shuffles
    from attnfaith.evaluation.tests.rationales.plot import carried as carried
    from attnfaith.evaluation.tests.rationales.plot import plausibility_figure as plausibility_figure
    from attnfaith.evaluation.tests.rationales.plot import rationales_figure as rationales_figure
    from attnfaith.evaluation.tests.sanity.plot import sanity as sanity
    from attnfaith.evaluation.tests.sanity.plot import sanity_figure as sanity_figure
    from attnfaith.evaluation.tests.single_weight.plot import flips_table as flips_table
    from attnfaith.evaluation.tests.single_weight.plot import single_weight as single_weight
    from attnfaith.evaluation.tests.single_weight.plot import single_weight_figure as single_weight_figure
    from attnfaith.plots.curves import survival as survival
    from attnfaith.plots.dots import efficiency as efficiency
    from attnfaith.plots.matrix import agreement_figure as agreement_figure
    from attnfaith.plots.matrix import agreements as agreements
    from attnfaith.plots.matrix import wins as wins

_HOMES = {
    "adversarial_figure": "attnfaith.evaluation.tests.adversarial.plot",
    "agreement_distributions": "attnfaith.evaluation.tests.agreement.plot",
    "agreement_figure": "attnfaith.plots.matrix",
    "agreements": "attnfaith.plots.matrix",
    "attention_by_rank": "attnfaith.evaluation.tests.information.plot",
    "carried": "attnfaith.evaluation.tests.rationales.plot",
    "divergences": "attnfaith.evaluation.tests.adversarial.plot",
    "efficiency": "attnfaith.plots.dots",
    "efficiency_figure": "attnfaith.evaluation.tests.erasure.plot",
    "erasure_figure": "attnfaith.evaluation.tests.erasure.plot",
    "flips_table": "attnfaith.evaluation.tests.single_weight.plot",
    "information": "attnfaith.evaluation.tests.information.plot",
    "information_figure": "attnfaith.evaluation.tests.information.plot",
    "information_heads_figure": "attnfaith.evaluation.tests.information.plot",
    "permutation_figure": "attnfaith.evaluation.tests.permutation.plot",
    "plausibility_figure": "attnfaith.evaluation.tests.rationales.plot",
    "rationales_figure": "attnfaith.evaluation.tests.rationales.plot",
    "sanity": "attnfaith.evaluation.tests.sanity.plot",
    "sanity_figure": "attnfaith.evaluation.tests.sanity.plot",
    "shuffles": "attnfaith.evaluation.tests.permutation.plot",
    "single_weight": "attnfaith.evaluation.tests.single_weight.plot",
    "single_weight_figure": "attnfaith.evaluation.tests.single_weight.plot",
    "survival": "attnfaith.plots.curves",
    "taus": "attnfaith.evaluation.tests.agreement.plot",
    "wins": "attnfaith.plots.matrix",
    "wins_figure": "attnfaith.evaluation.tests.erasure.plot",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
