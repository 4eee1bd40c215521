"""Meshes: the complex, its repair, its labels, its files."""

from geonew.mesh.files import read_fields, read_mesh, write_mesh
from geonew.mesh.grid import Grid
from geonew.mesh.labels import (
    BoundaryComponent,
    Box,
    NearCurve,
    NormalDirection,
    Rest,
    boundary_components,
    label,
)
from geonew.mesh.mesh import Mesh
from geonew.mesh.quality import MeshQuality, mesh_quality
from geonew.mesh.repair import RawMesh, clean

__all__ = [
    "BoundaryComponent",
    "Box",
    "Grid",
    "Mesh",
    "MeshQuality",
    "NearCurve",
    "NormalDirection",
    "RawMesh",
    "Rest",
    "boundary_components",
    "clean",
    "label",
    "mesh_quality",
    "read_fields",
    "read_mesh",
    "write_mesh",
]
