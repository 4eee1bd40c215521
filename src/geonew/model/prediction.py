r"""A prediction: fields on the user's mesh, with their certificate.

Back from the frame: fields times their reference values, vectors turned to the user's axes, and
last the prescribed values written, so that they hold to the last bit:

.. math:: u = u_b \text{ on the Dirichlet part, exactly.}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike

from geonew.errors import InputError
from geonew.fem.derived import known_formula
from geonew.fem.interpolate import interpolate
from geonew.mesh import Mesh
from geonew.mesh.files import write_mesh
from geonew.model.certificate import Certificate, certify, physical_balance
from geonew.model.flux.law import edge_flux
from geonew.model.sample import Sample, to_lab, write_prescribed
from geonew.problem import Problem

if TYPE_CHECKING:
    from geonew.model.batch import Batch
    from geonew.model.geonew import Output


@dataclass(frozen=True, eq=False)
class Prediction:
    """Fields of one sample.

    Args:
        problem: what was asked.
        mesh: the user's mesh.
        components: all components on the nodes, in the user's axes and units.
        certificate: what is known for sure.
        coefficients: reduced coefficients u_i per component, over the reference values.
        rows: the partition of unity per component, interior rows then group rows.
        fluxes: learned flux from partition (or group) i to j per component, antisymmetric.
        notes: for people.

    """

    problem: Problem
    mesh: Mesh
    components: Float[ndarray, "N F"]
    certificate: Certificate
    coefficients: Float[ndarray, "F P"]
    rows: Float[ndarray, "N F V"]
    fluxes: Float[ndarray, "F V V"]
    notes: tuple[str, ...] = ()

    @cached_property
    def fields(self) -> dict[str, Float[ndarray, "N *d"]]:
        """Fields by name: (N,) for scalars, (N, d) for vectors; derived fields last."""
        return named_fields(self.problem, self.mesh, self.components)

    def __getitem__(self, name: str) -> Float[ndarray, "N *d"]:
        if name in self.fields:
            return self.fields[name]
        if name in self.problem.component_names:
            return self.components[:, self.problem.component_names.index(name)]
        raise InputError(
            f"the prediction has no field {name!r}",
            f"it has {[*self.fields, *self.problem.component_names]}",
        )

    def at(self, points: ArrayLike) -> dict[str, Float[ndarray, "n *d"]]:
        """All fields at arbitrary points, by P1 interpolation; NaN outside the mesh."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.mesh.dim:
            raise InputError(
                f"points have shape {points.shape}; expected (n, {self.mesh.dim})",
                "give one row of coordinates per point",
            )
        return {name: interpolate(self.mesh, v, points) for name, v in self.fields.items()}

    @cached_property
    def partition(self) -> Float[ndarray, "N F"]:
        """The interior partition (or group, numbered after them) that dominates at each node."""
        return self.rows.argmax(axis=-1).astype(np.float64)

    def arrays(self) -> tuple[dict[str, ndarray], dict[str, ndarray | float | int]]:
        """What a file holds: on the nodes fields and partitions; certificate and fluxes."""
        point_data = dict(self.fields)
        for k, name in enumerate(self.problem.component_names):
            point_data[f"partition_{name}"] = self.partition[:, k]
        numbers: dict[str, ndarray | float | int] = {
            f"certificate_{key}": float(value)
            for key, value in self.certificate.to_dict().items()
            if isinstance(value, int | float)
        }
        numbers["certificate_unique"] = float(self.certificate.uniqueness == "unique")
        numbers["certificate_converged"] = float(self.certificate.converged)
        for k, name in enumerate(self.problem.component_names):
            numbers[f"fluxes_{name}"] = self.fluxes[k]
        return point_data, numbers

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write mesh, fields, dominant partitions and certificate (``.vtu`` or ``.vtk``)."""
        point_data, numbers = self.arrays()
        write_mesh(path, self.mesh, point_data, field_data=numbers, overwrite=overwrite)

    def plot(self, path: str | PathLike[str], names: tuple[str, ...] | None = None) -> None:
        """A picture of the components (or of the named fields)."""
        from geonew.plot.fields import plot_fields  # matplotlib only where a picture is wanted

        chosen = names if names is not None else self.problem.component_names
        plot_fields(self.mesh, {name: self[name] for name in chosen}, path)

    def plot_partitions(self, path: str | PathLike[str]) -> None:
        """A picture of the learned basis; vector components are those along the frame's axes."""
        from geonew.plot.model import plot_partitions

        names, groups = self.problem.component_names, self.problem.groups
        plot_partitions(self.mesh, self.rows, names, groups, path, "Partitions")

    def plot_fluxes(self, path: str | PathLike[str]) -> None:
        """A picture of the reduced graph with its fluxes, over the reference values."""
        from geonew.plot.fluxes import plot_fluxes

        names, groups = self.problem.component_names, self.problem.groups
        plot_fluxes(
            self.mesh, self.rows, self.coefficients, self.fluxes, names, groups, path,
            "Fluxes",
        )  # fmt: skip

    def plot_boundary_rows(self, path: str | PathLike[str]) -> None:
        """A picture of the cut-off and of the group rows."""
        from geonew.plot.model import plot_boundary_rows

        names, groups = self.problem.component_names, self.problem.groups
        plot_boundary_rows(self.mesh, self.rows, names, groups, path, "Boundary rows")

    def summary(self) -> str:
        """The certificate and the notes, for people to read."""
        return "\n".join([str(self.certificate), *(f"note          {note}" for note in self.notes)])

    def certificate_json(self) -> str:
        """The certificate as JSON."""
        return json.dumps(self.certificate.to_dict(), indent=2)


def named_fields(
    problem: Problem, mesh: Mesh, components: Float[ndarray, "N F"]
) -> dict[str, Float[ndarray, "N *d"]]:
    """Fields by name: (N,) for scalars, (N, d) for vectors; derived fields last."""
    result: dict[str, ndarray] = {}
    for f in problem.fields:
        values = components[:, problem.columns(f.name)]
        result[f.name] = values if f.rank == "vector" else values[:, 0]
    for derived in problem.derived:
        inputs = [components[:, problem.columns(name)] for name in derived.inputs]
        formula = known_formula(derived.formula)
        result[derived.name] = formula.evaluate(mesh, inputs, derived.constants)
    return result


def assemble_predictions(output: Output, batch: Batch) -> list[Prediction]:
    """Predictions of all samples of a batch, on their own meshes."""
    certificates = certify(output, batch)
    values = output.fields.detach().cpu().numpy()
    rows = output.space.rows.detach().cpu().numpy()
    u = output.u.detach().cpu().numpy()
    fluxes = _flux_matrices(output)
    result = []
    for k, sample in enumerate(batch.samples):
        n = sample.n_nodes
        components = finish(sample, values[k, :n])
        physical = physical_balance(sample, components)
        result.append(
            Prediction(
                problem=sample.problem,
                mesh=sample.mesh,
                components=components,
                certificate=replace(certificates[k], physical=physical),
                coefficients=u[k],
                rows=rows[k, :n],
                fluxes=fluxes[k],
                notes=sample.notes,
            )
        )
    return result


def finish(sample: Sample, fields: Float[ndarray, "N F"]) -> Float[ndarray, "N F"]:
    """Fields in the frame -> the user's axes and units, prescribed values written last."""
    components = to_lab(sample, fields)
    for f, owner in enumerate(sample.problem.component_fields):
        if owner.level == "gauge":  # a level without meaning: its mean over the domain is zero
            components[:, f] -= np.average(components[:, f], weights=sample.mass)
    return write_prescribed(sample, components)


def _flux_matrices(output: Output) -> Float[ndarray, "B F n n"]:
    """F_ij as antisymmetric matrices; zero without a law."""
    balance = output.balance
    graph = balance.graph
    nodes = balance.nodes(output.u.detach())
    size = graph.partitions + graph.groups
    full = np.zeros((*nodes.shape[:2], size, size))
    if balance.flux is not None:
        flux = edge_flux(balance.flux, nodes).detach().cpu().numpy()
        i, j = graph.tail.cpu().numpy(), graph.head.cpu().numpy()
        full[..., i, j], full[..., j, i] = flux, -flux
    return full
