r"""Two published sets of solutions that nobody here computed, as ``.npz`` files.

``holed-poisson``: :math:`-0.1\, \Delta u = 1` in a unit square with a square hole at 121 places,
u = 0 on all boundaries. ``skewed-cavity``: steady lid-driven Navier-Stokes flow in parallelograms
at Reynolds number 400,

.. math:: u \cdot \nabla u - \nu \Delta u + \nabla p = 0, \quad \nabla \cdot u = 0, \quad
          \nu = \max(l_x, l_y) / 400,

nodes :math:`x = l_x \xi + l_y \cos\theta\, \eta,\; y = l_y \sin\theta\, \eta`. Its pressure has no
level, so it is stored with mean zero; nodes shared by lid and walls belong to the lid.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy import ndarray

from geonew.data.recipe import Recipe, Source
from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.mesh import Mesh, NormalDirection, RawMesh, Rest, clean, label
from geonew.problem import Dirichlet, Field, FrameRule, Parameter, Problem, Term, stokes_terms

REYNOLDS = 400.0
PARTS = ("train", "validate")


def holed_poisson(recipe: Recipe) -> Source:
    """The square with a hole."""
    recipe.check("file")
    data = _arrays(recipe.place("file"), ("x", "y", "u", "triang", "mu"))
    x, y, u, cells, mu = (data[name] for name in ("x", "y", "u", "triang", "mu"))
    if not x.shape == y.shape == u.shape or x.ndim != 2 or mu.shape != (x.shape[1], 2):
        raise recipe.error(f"x, y, u, mu have shapes {x.shape}, {y.shape}, {u.shape}, {mu.shape}")
    problem = Problem(
        name=recipe.name,
        dim=2,
        fields=(Field("u", reference=0.2),),
        groups=("wall",),
        dirichlet=(Dirichlet("u", "wall"),),
        sources=("u",),
        terms=(Term("diffusion", ("u",), 0.1),),
    )
    chosen = recipe.span(x.shape[1])

    def record(sample: int) -> Record:
        number = chosen[sample]
        points = np.stack([x[:, number], y[:, number]], axis=1).astype(float)
        mesh = label(clean(RawMesh(points, [("triangle", cells)])), {"wall": Rest()})
        if mesh.n_nodes != len(points):
            raise DataError(f"{len(points) - mesh.n_nodes} of {len(points)} nodes are unused")
        nodes = mesh.nodes_of("wall")
        place = {"mu_x": float(mu[number, 0]), "mu_y": float(mu[number, 1])}
        return Record(
            mesh=mesh,
            fields={"u": u[:, number].astype(float)},
            boundary={"wall": {"u": np.zeros((len(nodes), 1))}},
            case=Case(recipe.name, recipe.split, {"sample": number}, place, place),
            sources={"u": np.ones(mesh.n_nodes)},
        )

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def skewed_cavity(recipe: Recipe) -> Source:
    """The lid-driven parallelogram."""
    recipe.check("file", "part")
    part = recipe.text("part", "train")
    if part not in PARTS:
        raise recipe.error(f"part is {part!r}", f"choose one of {list(PARTS)}")
    names = ("ref_xy", "quads", f"{part}_params", f"{part}_uvp")
    reference, quads, params, uvp = _arrays(recipe.place("file"), names).values()
    if uvp.shape != (len(params), len(reference), 3) or params.shape[1:] != (3,):
        raise recipe.error(f"parameters and fields have shapes {params.shape} and {uvp.shape}")
    viscosity = 1 / REYNOLDS
    problem = Problem(
        name=recipe.name,
        dim=2,
        fields=(
            Field("velocity", "vector", labels=("u", "v")),
            Field("pressure", reference=0.1, level="gauge"),
        ),
        groups=("lid", "wall"),
        dirichlet=(Dirichlet("velocity", "lid"), Dirichlet("velocity", "wall")),
        parameters=(Parameter("nu", reference=viscosity),),
        terms=(
            *stokes_terms("velocity", "pressure", 1.0, nu=1.0),
            Term("convection", ("velocity",)),
        ),
        frame=(FrameRule("inflow", "lid", "velocity"),),
        harmonic=(("lid", "wall"),),
    )
    chosen = recipe.span(len(params))

    def record(sample: int) -> Record:
        number = chosen[sample]
        lx, ly, theta = (float(value) for value in params[number])
        mesh = _parallelogram(reference, quads, lx, ly, theta)
        fields = uvp[number].astype(float)
        mass = np.bincount(mesh.cells.ravel(), np.repeat(mesh.volumes, 3)) / 3
        pressure = fields[:, 2] - mass @ fields[:, 2] / mass.sum()
        count = {group: len(mesh.nodes_of(group)) for group in mesh.groups}
        drawn = {"lx": lx, "ly": ly, "theta": theta}
        return Record(
            mesh=mesh,
            fields={"velocity": np.ascontiguousarray(fields[:, :2]), "pressure": pressure},
            boundary={
                "lid": {"velocity": np.tile([1.0, 0.0], (count["lid"], 1))},
                "wall": {"velocity": np.zeros((count["wall"], 2))},
            },
            case=Case(recipe.name, recipe.split, {"sample": number}, drawn, drawn),
            parameters={"nu": max(lx, ly) / REYNOLDS},
        )

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def _parallelogram(reference: ndarray, quads: ndarray, lx: float, ly: float, theta: float) -> Mesh:
    xi, eta = reference.astype(float).T
    points = np.stack([lx * xi + ly * np.cos(theta) * eta, ly * np.sin(theta) * eta], axis=1)
    mesh = clean(RawMesh(points, [("quad", quads)]))
    if mesh.n_nodes != len(points):
        raise DataError(f"{len(points) - mesh.n_nodes} of {len(points)} nodes are unused")
    return label(mesh, {"lid": NormalDirection((0, 1), 1), "wall": Rest()})


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, ndarray]:
    try:
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{path}: cannot be read as a set of arrays {list(names)}: {reason}",
            "give the .npz file as it was published",
        ) from error
