"""General-geometry neural Whitney forms (Geo-NeW)."""

__version__ = "0.1.0"
