"""From the data of a flow problem to its discrete statement: checks, frames, loads, scales."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy import ndarray

from geonew.errors import ProblemError
from geonew.fem.reference.boundary import (
    Scalar,
    Vector,
    check_groups_apart,
    scalar_values,
    vector_values,
)
from geonew.fem.reference.flow_measures import group_flux
from geonew.fem.reference.flow_system import FlowSystem
from geonew.fem.reference.space import LagrangeSpace, reference_table
from geonew.mesh import Mesh

# Velocity data of a closed domain may have this net flux, relative to the flux in: it comes from
# interpolating them. It is spread over the domain.
NET_FLUX = 1e-2

# A normal this close to an axis is along it; the angle is then below 1e-6.
ALIGNED = 1e-13


def check_statement(
    mesh: Mesh,
    viscosity: float,
    density: float,
    velocity: Mapping[str, Vector],
    pressure: Mapping[str, Scalar],
    normal_pressure: Mapping[str, Scalar],
) -> None:
    """Refuse a flow problem without positive constants or without data on all of the boundary."""
    if not (viscosity > 0 and density > 0 and np.isfinite(viscosity * density)):
        raise ProblemError(
            f"viscosity {viscosity:.4g} and density {density:.4g}", "both must be positive"
        )
    check_groups_apart(velocity, pressure, "both velocity and pressure")
    check_groups_apart(velocity, normal_pressure, "both velocity and pressure")
    check_groups_apart(pressure, normal_pressure, "two kinds of outlet pressure")
    given = {*velocity, *pressure, *normal_pressure}
    for group in given:
        mesh.facets_of(group)
    silent = sorted(set(mesh.groups) - given)
    unnamed = int((mesh.group_index < 0).sum())
    if silent or unnamed:
        raise ProblemError(
            f"no flow data on boundary groups {silent} and {unnamed} boundary facets of no group",
            "give velocity, pressure or normal_pressure on the whole boundary",
        )


def normal_frames(
    space: LagrangeSpace, fixed: ndarray, outlets: Mapping[str, Scalar]
) -> tuple[ndarray, ndarray, ndarray]:
    """Frames (normal, tangents) at the nodes of normal outlets, and the components they fix."""
    mesh, dim = space.mesh, space.mesh.dim
    normals = np.zeros((space.n, dim))
    for group in outlets:
        chosen = mesh.group_index == list(mesh.groups).index(group)
        nodes = space.facet_nodes_of(mesh.boundary_facets[chosen])
        np.add.at(normals, nodes, mesh.boundary_normals[chosen][:, None, :])
    here = np.flatnonzero(np.abs(normals).sum(axis=1) > 0)
    fixed = fixed.copy()
    partly = here[fixed[here].any(axis=1)]  # prescribed velocity rules where it meets an outlet
    fixed[partly] = True
    turned = here[~fixed[here].any(axis=1)]
    normal = normals[turned] / np.linalg.norm(normals[turned], axis=1, keepdims=True)
    # Along an axis Cartesian unknowns do.
    axis = np.abs(normal).argmax(axis=1)
    aligned = np.abs(normal).max(axis=1) > 1 - ALIGNED
    fixed[turned[aligned]] = np.arange(dim) != axis[aligned, None]
    turned, normal = turned[~aligned], normal[~aligned]
    # Householder reflection of e_0 onto the normal: its columns are the normal and the tangents.
    sign = np.where(normal[:, 0] > 0, -1.0, 1.0)  # away from the normal: no cancellation
    v = normal * sign[:, None]
    v[:, 0] -= 1.0
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    frames = np.eye(dim) - 2 * v[:, :, None] * v[:, None, :]
    fixed[turned, 1:] = True
    return turned, frames, fixed


def momentum_load(
    space: LagrangeSpace,
    pressure: Mapping[str, Scalar],
    normal_pressure: Mapping[str, Scalar],
    body_force: Vector | None,
) -> tuple[ndarray, float]:
    """Right-hand side of momentum, and the pressure difference that drives the flow."""
    mesh, dim = space.mesh, space.mesh.dim
    load = np.zeros((space.n, dim))
    levels: list[float] = [0.0]
    push = 0.0
    if body_force is not None:
        x = space.physical(space.data_table.points)
        force = vector_values(body_force, x.reshape(-1, dim), "body force")[0].reshape(x.shape)
        load += np.stack([space.load(force[:, :, a]) for a in range(dim)], axis=1)
        push = float(np.abs(force).max()) * mesh.volume ** (1 / dim)
    for group, datum in {**pressure, **normal_pressure}.items():
        where = f"pressure on {group!r}"
        total = _facet_pressure(space, group, datum, where, levels)
        load -= total
    return load, push + max(levels) - min(levels)


def _facet_pressure(
    space: LagrangeSpace, group: str, datum: Scalar, where: str, levels: list[float]
) -> ndarray:
    r"""The vectors :math:`\int_{group} p\, n_a \varphi_i`."""
    mesh = space.mesh
    chosen = mesh.group_index == list(mesh.groups).index(group)
    scaled = mesh.boundary_normals[chosen]
    unit = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)

    def traction(x: ndarray) -> ndarray:
        p = scalar_values(datum, x, where)
        levels.extend((float(p.min()), float(p.max())))
        return p[:, None] * np.repeat(unit, len(x) // len(unit), axis=0)

    return space.facet_load(group, traction)


def power_of_two(value: float) -> float:
    """The nearest power of two: scaling by it is exact."""
    return float(2.0 ** np.round(np.log2(value))) if value > 0 else 1.0


def speed_scale(
    values: ndarray, driving: float, viscosity: float, density: float, length: float
) -> float:
    """A velocity scale: that of the data, or what the pressure difference can drive."""
    inertial = np.sqrt(driving / density)
    viscous = driving * length / (density * viscosity)
    return max(float(np.abs(values).max()), float(min(inertial, viscous)))


def is_enclosed(mesh: Mesh, fixed: ndarray, turned: ndarray, frames: ndarray) -> bool:
    """Whether no free velocity has a net flux: then the pressure is known up to a constant."""
    space = LagrangeSpace(mesh, 2)
    flux = np.zeros((space.n, mesh.dim))
    table = reference_table(mesh.dim - 1, 2, 2)
    weights = table.phi @ table.weights / table.weights.sum()
    nodes = space.facet_nodes_of(mesh.boundary_facets)
    np.add.at(flux, nodes, weights[None, :, None] * mesh.boundary_normals[:, None, :])
    flux[turned] = np.einsum("tab,ta->tb", frames, flux[turned])
    largest = np.abs(mesh.boundary_normals).max()
    return bool((np.abs(flux[~fixed]) <= 1e-10 * largest).all())


def check_net_flux(system: FlowSystem) -> None:
    """Refuse a closed domain whose velocity data let more flow in than out, or less."""
    flux = group_flux(system.V, system.cartesian(system.values))
    net, size = sum(flux.values()), sum(abs(value) for value in flux.values())
    scale = max(size, float(np.abs(system.values).max()))
    if abs(net) > NET_FLUX * scale:
        raise ProblemError(
            f"the velocity data let {net:.3e} (scaled) flow out of a domain without outlet",
            "add an outlet (pressure or normal_pressure), or balance inflow and outflow",
        )
