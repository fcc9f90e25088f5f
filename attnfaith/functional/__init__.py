"""Pure tensor mathematics: no model, no input or output."""
