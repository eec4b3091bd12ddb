"""Token sequences and images that become the input of a layer."""
