"""Flux laws: what the partitions exchange."""
