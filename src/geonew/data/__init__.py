"""Data sets: families of solved problems, their storage, generation and import."""
