"""That a record is what its problem asks for: finite, complete, and equal to its boundary data.

Checked before a sample is stored and again by ``geonew data verify``. Identity kept: at every node
where a component is prescribed, the stored solution has the prescribed value, up to round-off of
the solver; so a model that imposes the data can reach the truth.
"""

from __future__ import annotations

import numpy as np

from geonew.data.record import Record
from geonew.errors import DataError
from geonew.problem import Problem, resolve, resolve_neumann, resolve_parameters, resolve_sources

# Largest distance of a solution from its boundary data, in references of the field: files of other
# programs hold float32, our own solvers impose the data exactly.
BOUNDARY_TOLERANCE = 1e-5


def check_record(problem: Problem, record: Record) -> None:
    """Raise a named error unless the record is a solved sample of the problem."""
    n_nodes = record.mesh.n_nodes
    missing = [f.name for f in problem.fields if f.name not in record.fields]
    if missing:
        raise DataError(
            f"the fields {missing} of problem {problem.name!r} are missing; there are "
            f"{sorted(record.fields)}",
            "store every field that the problem declares",
        )
    vectors = {f.name for f in problem.fields if f.rank == "vector"}
    for name, values in record.fields.items():
        allowed: list[tuple[int, ...]] = [(n_nodes, problem.dim) if name in vectors else (n_nodes,)]
        if name not in {f.name for f in problem.fields}:
            allowed.append((n_nodes, problem.dim))  # a derived field may be a vector
        if values.shape not in allowed:
            raise DataError(f"field {name!r} has shape {values.shape}, not {allowed[0]}")
        bad = np.flatnonzero(~np.isfinite(values.reshape(n_nodes, -1)).all(axis=1))
        if bad.size:
            raise DataError(
                f"field {name!r} is not finite at {bad.size} of {n_nodes} nodes, first node "
                f"{bad[0]}, x = {record.mesh.points[bad[0]].tolist()}"
            )
    resolve_parameters(problem, record.mesh, record.parameters)
    resolve_sources(problem, record.mesh, record.sources)
    resolve_neumann(problem, record.mesh, record.neumann)
    _check_boundary(problem, record)


def _check_boundary(problem: Problem, record: Record) -> None:
    values = resolve(problem, record.mesh, record.boundary)
    for f in problem.fields:
        # Components along axes of the frame, which is not known here, are left out.
        along = [d.group for d in problem.dirichlet if d.field == f.name and d.axes is not None]
        numbers = [problem.groups.index(group) for group in along]
        span = problem.columns(f.name)
        compared = values.fixed[:, span] & ~np.isin(values.owner[:, span], numbers)
        field = record.fields[f.name].reshape(record.mesh.n_nodes, -1)
        gap = np.where(compared, np.abs(field - values.value[:, span]), 0.0)
        if gap.max() > BOUNDARY_TOLERANCE * f.reference:
            node, component = np.unravel_index(gap.argmax(), gap.shape)
            owner = problem.groups[values.owner[node, problem.offset(f.name) + component]]
            raise DataError(
                f"field {f.name!r} is {field[node, component]:.6g} at node {node} of group "
                f"{owner!r}, where {values.value[node, span][component]:.6g} is prescribed",
                "boundary data must be those the solution was computed with",
            )
