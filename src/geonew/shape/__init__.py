"""Shapes and solids, and how they become meshes."""

from geonew.shape.cad import make_mesh
from geonew.shape.curves import Arc, Segment, Spline
from geonew.shape.mesher import triangulate
from geonew.shape.shape import (
    Loop,
    Shape,
    disc,
    polygon,
    rectangle,
    regular_polygon,
    spline_loop,
    star,
)
from geonew.shape.solids import Ball, Box, Cylinder, Polyhedron, Solid

__all__ = [
    "Arc",
    "Ball",
    "Box",
    "Cylinder",
    "Loop",
    "Polyhedron",
    "Segment",
    "Shape",
    "Solid",
    "Spline",
    "disc",
    "make_mesh",
    "polygon",
    "rectangle",
    "regular_polygon",
    "spline_loop",
    "star",
    "triangulate",
]
