"""A search for certificates that are wrong: random and adversarial layers, every attack, every bound by itself."""
