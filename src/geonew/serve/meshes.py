"""Uploaded meshes: from a file's bytes to a checked mesh, in a process that may be lost.

    bytes --reader process: read_mesh--> Mesh --pack_mesh--> bytes kept by the server under a token

A file is written under a name of ours into a folder of ours, and read from there: nothing that a
client sends is ever taken for a path. Formats whose files name other files (``.xdmf``, everything
on HDF5) are refused for the same reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geonew.errors import MeshError, MeshFileError
from geonew.mesh import Mesh
from geonew.mesh.files import read_mesh
from geonew.serve.wire import pack, unpack

SUFFIXES = (".msh", ".vtu", ".vtk", ".inp", ".bdf", ".nas", ".fem", ".mesh", ".su2")
MOST_NODES = 30_000


def suffix_of(name: str) -> str:
    """One of ``SUFFIXES`` by the end of a file's name."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return suffix
    raise MeshFileError(
        "the page does not read files of this kind", f"upload one of {', '.join(SUFFIXES)}"
    )


def read_upload(content: bytes, suffix: str) -> Mesh:
    """The mesh in the bytes of a file."""
    with tempfile.TemporaryDirectory(prefix="geonew-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(content)
        try:
            mesh = read_mesh(path)
        except MeshError as error:
            what = error.what.replace(f"{path}: ", "").replace(str(path), "the file")
            raise type(error)(what, error.cure) from error
    if mesh.n_nodes > MOST_NODES:
        raise MeshFileError(
            f"the mesh has {mesh.n_nodes} nodes; the page takes up to {MOST_NODES}",
            "use geonew predict for large meshes",
        )
    return mesh


def describe(mesh: Mesh) -> dict[str, Any]:
    """What the page says about a mesh, as JSON data."""
    return {
        "dim": mesh.dim,
        "nodes": mesh.n_nodes,
        "cells": mesh.n_cells,
        "groups": {name: len(facets) for name, facets in mesh.groups.items()},
        "notes": list(mesh.notes)[:20],
    }


def pack_mesh(mesh: Mesh) -> bytes:
    """A mesh as bytes."""
    names = list(mesh.groups)
    arrays = {"points": mesh.points, "cells": mesh.cells.astype("<i8")}
    arrays |= {f"group{k}": mesh.groups[name].astype("<i8") for k, name in enumerate(names)}
    return pack({"groups": names, "notes": list(mesh.notes)}, arrays)


def unpack_mesh(data: bytes) -> Mesh:
    """Inverse of :func:`pack_mesh`."""
    head, arrays = unpack(data)
    groups: Mapping[str, Any] = {
        str(name): arrays[f"group{k}"] for k, name in enumerate(head["groups"])
    }
    return Mesh(arrays["points"], arrays["cells"], groups, tuple(map(str, head["notes"])))
