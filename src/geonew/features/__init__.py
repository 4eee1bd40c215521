"""Mesh features: what the encoder sees of a geometry, invariant or in a canonical frame."""

from geonew.features.frame import Frame, find_frame
from geonew.features.generic import generic_problem
from geonew.features.lift import Lift, boundary_lift
from geonew.features.spec import FeatureSpec
from geonew.features.tokens import MeshFeatures, featurise

__all__ = [
    "FeatureSpec",
    "Frame",
    "Lift",
    "MeshFeatures",
    "boundary_lift",
    "featurise",
    "find_frame",
    "generic_problem",
]
