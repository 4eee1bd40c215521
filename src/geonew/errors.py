"""The exceptions of Geo-NeW: one base, and one name for each way a thing can go wrong.

Every message names the object (file, mesh, group, sample), gives the numbers, and ends with what to
do about it. Whatever a user hands in, the library raises one of these or returns a result; the
command line turns them into one readable paragraph and an exit code.
"""

from __future__ import annotations


class GeoNeWError(Exception):
    """Base of all errors that Geo-NeW raises on purpose.

    Args:
        what: what happened, with the name of the thing and the numbers.
        cure: what the user can do about it (empty where nothing can be done).

    """

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what, cure)
        self.what = what
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.what}\n  What to do: {self.cure}" if self.cure else self.what


class MeshError(GeoNeWError):
    """A mesh is not a conforming simplicial complex with named boundary groups."""


class MeshFileError(MeshError):
    """A mesh file cannot be read or written."""


class GroupError(MeshError):
    """Boundary groups are missing, empty, overlapping or not on the boundary."""


class ShapeError(GeoNeWError):
    """A shape is not a valid domain, or cannot be meshed."""


class ProblemError(GeoNeWError):
    """A problem declaration contradicts itself or would lead to a singular system."""


class InputError(GeoNeWError):
    """Parameters, sources or data of a sample are missing, non-finite or of the wrong shape."""


class BoundaryDataError(InputError):
    """Boundary data are missing, conflicting, non-finite or of the wrong shape."""


class FeatureError(GeoNeWError):
    """A feature is not defined for this mesh and problem."""


class SolverError(GeoNeWError):
    """A numerical solve failed; carries what is known about it."""


class CacheError(GeoNeWError):
    """The cache folder cannot be used."""


class ConfigError(GeoNeWError):
    """A configuration contradicts itself or has unknown keys."""


class DataError(GeoNeWError):
    """A data set cannot be generated, written, read or imported; names the sample it concerns."""


class CheckpointError(GeoNeWError):
    """A model or checkpoint file is damaged, foreign, or does not fit what it is used for."""


class TrainingError(GeoNeWError):
    """Training cannot go on; the last good checkpoint is kept."""


class ServerError(GeoNeWError):
    """The page cannot be served, or a request to it cannot be answered now."""
