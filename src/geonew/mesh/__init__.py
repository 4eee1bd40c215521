"""Meshes: the complex, its repair, its labels, its files."""

from geonew.mesh.mesh import Mesh

__all__ = ["Mesh"]
