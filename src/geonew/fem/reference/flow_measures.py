r"""What is measured of a computed flow: the flux through each boundary group, and the divergence.

Both are exact for the given coefficients. For a Taylor-Hood solution the fluxes sum to 0 to
round-off; div u is orthogonal to the pressure space, and its L2 norm falls with the mesh size.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.fem.reference.space import LagrangeSpace, reference_table


def group_flux(space: LagrangeSpace, u: Float[ndarray, "n d"]) -> dict[str, float]:
    """Integral of u . n over each boundary group, exact for the given coefficients."""
    mesh = space.mesh
    table = reference_table(mesh.dim - 1, space.degree, space.degree)
    weights = table.phi @ table.weights / table.weights.sum()
    names = list(mesh.groups)
    flux = {}
    for number in range(-1, len(names)):
        chosen = mesh.group_index == number
        if not chosen.any():
            continue
        nodes = space.facet_nodes_of(mesh.boundary_facets[chosen])
        mean = np.einsum("k,bkd->bd", weights, u[nodes])
        flux[names[number] if number >= 0 else "(unnamed)"] = float(
            (mean * mesh.boundary_normals[chosen]).sum()
        )
    return flux


def divergence_norm(space: LagrangeSpace, u: Float[ndarray, "n d"]) -> float:
    """L2 norm of div u."""
    table = space.table(2 * space.degree - 2)
    div = np.einsum(
        "ckb,krq,crb->cq", u[space.cell_nodes], table.dphi, space.inverse, optimize=True
    )
    return float(np.sqrt(np.einsum("cq,q,c->", div**2, table.weights, space.determinant)))
