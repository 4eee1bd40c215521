"""Training: a typed configuration, samples from data files, one loop, safe checkpoints."""
