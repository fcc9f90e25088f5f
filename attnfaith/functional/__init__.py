"""Pure mathematics on tensors and arrays: no model, no input or output.

What is where:

- `decision`: what logits decide, how far apart two outputs are, and the number that an explanation explains;
- `ranking`: from scores to an order of items, ranks and ties;
- `erasure`: removing items from attention distributions, one set or every prefix of an order at once;
- `first_flip`: how many removals flip a decision, for many orders at once;
- `flipping_sets`: making a known flipping set smaller;
- `optimum`: the smallest flipping set where the logits are affine in the attention;
- `counterfactual`: shuffled attention, and the adversary that looks for distant attention with the same output;
- `attention_limits`: exact bounds of how far such attention can be;
- `agreement`: correlation and overlap of rankings;
- `information`, `clustering`: mutual information of cluster and output by rank, and the clusters;
- `rationale`: sufficiency and comprehensiveness, and agreement with human annotations;
- `in_distribution`: how unusual vectors are beside a sample, as p values;
- `soft_erasure`: removing parts of embeddings at random, as important as they are;
- `reinitialize`: random weights of the same scale;
- `statistics`: estimates with intervals, tests, and survival curves.
"""
