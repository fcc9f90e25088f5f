"""Cutting a model at its final attention: the only code that touches the inside of a model.

What ``cut(model)`` does, in order:

1. `cut` unwraps and checks the model (`input_checks`) and makes up a short text (`dummy_inputs`) if none is given.
2. `model_copy` makes a copy that shares the owner's weights, with faster `linear_layers`; `inference_state` lends it to
   one thread at a time.
3. `original_model` runs the owner's model, and proves that the copy computes the same with an attention that shows its
   weights.
4. A model with a registered `adapter` (such as `affine`, for attnfaith's own) is checked by `choose_tail`, and done.
5. For any other model, `call_path` records one forward pass: every attention that `attention_watch` recognises, and the
   module calls that lead to it. `choose_attention` finds the one that the logits read last.
6. `traced` cuts there: `forward_pass` captures attention, logits and deciding rows; `tail` runs what follows.
7. `choose_tail` tries the tails from the fastest to the full forward pass, and takes the first that is proved equal to
   the full forward pass; `self_check` holds the measures and tolerances of that proof.
8. The result is a `Cut`, and its captures are compared with the logits of the owner's model once more.

`positions` selects and replaces rows of tensors; `embeddings` reads and replaces word vectors; `torch_mode` intercepts
torch functions; `pass_count` counts full forward passes.
"""
