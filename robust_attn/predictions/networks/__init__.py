"""Real models of transformers as networks of steps, one module per family."""
