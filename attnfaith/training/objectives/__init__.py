"""Interventions on training: terms of the loss, changes of a batch, and what is switched on while a model is trained.

`objective` is the interface, `running` runs objectives within a Trainer; each other module holds what one paper did.
"""
