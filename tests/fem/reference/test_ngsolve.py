"""An independent code, NGSolve, on the same mesh: the same discrete solution to 1e-9."""

from __future__ import annotations

import netgen.meshing as netgen
import ngsolve as ng
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve

from geonew.fem.reference import Material, solve_elasticity, solve_navier_stokes, solve_poisson
from geonew.fem.reference.space import LagrangeSpace
from reference_boxes import bent, sided_box

EXACTLY = {"bonus_intorder": 6}  # NGSolve does not know the degree of coefficients


def to_ngsolve(mesh):
    """The same vertices, cells and group names as an NGSolve mesh."""
    out = netgen.Mesh(dim=mesh.dim)
    pad = [0.0] * (3 - mesh.dim)
    ids = [out.Add(netgen.MeshPoint(netgen.Pnt(*x, *pad))) for x in mesh.points]
    cell, facet = (netgen.Element2D, netgen.Element1D)
    if mesh.dim == 3:
        cell, facet = (netgen.Element3D, netgen.Element2D)
    else:
        out.Add(netgen.FaceDescriptor(bc=1, domin=1, surfnr=1))
    for nodes in mesh.cells:
        out.Add(cell(1, [ids[i] for i in nodes]))
    for number, name in enumerate(mesh.groups):
        chosen = mesh.group_index == number
        facets = mesh.boundary_facets[chosen]
        if mesh.dim == 3:  # NGSolve's normals follow the order of the vertices
            a, b, c = mesh.points[facets].transpose(1, 0, 2)
            inward = (np.cross(b - a, c - a) * mesh.boundary_normals[chosen]).sum(axis=1) < 0
            facets = np.where(inward[:, None], facets[:, [1, 0, 2]], facets)
        if mesh.dim == 3:
            out.Add(netgen.FaceDescriptor(bc=number + 1, domin=1, surfnr=number + 1))
        for nodes in facets:
            vertices = [ids[i] for i in nodes]
            out.Add(
                facet(vertices, index=number + 1) if mesh.dim == 2 else facet(number + 1, vertices)
            )
        out.SetBCName(number, name)
    return ng.Mesh(out)


def solve_free(matrix, rhs, space):
    """Solve on the free dofs."""
    rows, cols, entries = (np.array(part) for part in matrix.COO())
    sparse = csr_matrix((entries, (rows, cols)), shape=(space.ndof, space.ndof))
    free = np.array(list(space.FreeDofs()))
    x = np.zeros(space.ndof)
    x[free] = spsolve(sparse[free][:, free].tocsc(), rhs[free])
    return x


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2])
def test_poisson(dim, degree):
    mesh = bent(sided_box(4, dim))
    theirs = to_ngsolve(mesh)
    V = ng.H1(theirs, order=degree, dirichlet="left|top")
    u, v = V.TnT()
    a = ng.BilinearForm(V)
    a += (1 + ng.x * ng.x) * ng.grad(u) * ng.grad(v) * ng.dx(**EXACTLY)
    a.Assemble()
    f = ng.LinearForm(V)
    f += (1 + ng.x * ng.y) * v * ng.dx(**EXACTLY)
    f += ng.y * v * ng.ds("right", **EXACTLY)
    f.Assemble()
    g = ng.GridFunction(V)
    g.Set(1 + ng.x + 2 * ng.y, definedon=theirs.Boundaries("left|top"))
    x = g.vec.FV().NumPy()
    x += solve_free(a.mat, f.vec.FV().NumPy() - (a.mat * g.vec).Evaluate().FV().NumPy(), V)

    ours = solve_poisson(
        mesh,
        dirichlet=dict.fromkeys(("left", "top"), lambda x: 1 + x[:, 0] + 2 * x[:, 1]),
        neumann={"right": lambda x: x[:, 1]},
        source=lambda x: 1 + x[:, 0] * x[:, 1],
        conductivity=lambda x: 1 + x[:, 0] ** 2,
        degree=degree,
    )
    assert relative(ours.values, x[: mesh.n_nodes]) < 1e-9


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2])
def test_elasticity(dim, degree):
    mesh = bent(sided_box(3, dim))
    theirs = to_ngsolve(mesh)
    lam, mu = 1.3, 0.7
    V = ng.VectorH1(theirs, order=degree, dirichlet="left")
    u, v = V.TnT()

    def strain(w):
        return (ng.Grad(w) + ng.Grad(w).trans) / 2

    a = ng.BilinearForm(V)
    a += (2 * mu * ng.InnerProduct(strain(u), strain(v)) + lam * ng.div(u) * ng.div(v)) * ng.dx
    a.Assemble()
    pull, weight = (0.3, -0.2, 0.1)[:dim], (0.0, -1.0, 0.5)[:dim]
    f = ng.LinearForm(V)
    f += ng.CF(pull) * v * ng.ds("right")
    f += ng.CF(weight) * v * ng.dx
    f.Assemble()
    x = solve_free(a.mat, f.vec.FV().NumPy(), V).reshape(dim, -1)[:, : mesh.n_nodes].T

    ours = solve_elasticity(
        mesh,
        Material(lam, mu),
        dirichlet={"left": (0.0,) * dim},
        traction={"right": pull},
        body_force=weight,
        degree=degree,
    )
    assert relative(ours.displacement, x) < 1e-9


@pytest.mark.parametrize(("dim", "n"), [(2, 6), (3, 3)])
def test_navier_stokes(dim, n):
    mesh = bent(sided_box(n, dim))
    theirs = to_ngsolve(mesh)
    nu, outlet = 0.03, 0.4
    walls = [name for name in mesh.groups if name not in ("left", "right")]
    V = ng.VectorH1(theirs, order=2, dirichlet="|".join(["left", *walls]))
    Q = ng.H1(theirs, order=1)
    X = V * Q
    (u, p), (v, q) = X.TnT()
    a = ng.BilinearForm(X)
    viscous = nu * ng.InnerProduct(ng.Grad(u), ng.Grad(v)) - p * ng.div(v) + q * ng.div(u)
    a += (viscous + (ng.Grad(u) * u) * v) * ng.dx(**EXACTLY)
    a += outlet * v * ng.specialcf.normal(dim) * ng.ds("right")
    outward = ng.Integrate(ng.specialcf.normal(dim), theirs, definedon=theirs.Boundaries("right"))
    chosen = mesh.group_index == list(mesh.groups).index("right")
    np.testing.assert_allclose(outward, mesh.boundary_normals[chosen].sum(axis=0), atol=1e-12)
    w = ng.GridFunction(X)
    # 1 at the inflow's inner nodes and 0 on the walls, which own the shared nodes.
    inflow = np.zeros((mesh.n_nodes, dim))
    inner = np.setdiff1d(mesh.nodes_of("left"), np.concatenate([mesh.nodes_of(g) for g in walls]))
    inflow[inner, 0] = 1.0
    w.components[0].vec.FV().NumPy().reshape(dim, -1)[:, : mesh.n_nodes] = inflow.T
    for _ in range(12):
        residual = w.vec.CreateVector()
        a.Apply(w.vec, residual)
        a.AssembleLinearization(w.vec)
        step = solve_free(a.mat, residual.FV().NumPy(), X)
        w.vec.FV().NumPy()[:] -= step
        if np.abs(step).max() < 1e-13:
            break
    assert np.abs(step).max() < 1e-11

    # Their boundary data are piecewise linear on the inflow's facets; ours the same function.
    linear = LagrangeSpace(mesh, 1)
    ours = solve_navier_stokes(
        mesh,
        viscosity=nu,
        velocity={
            **dict.fromkeys(walls, (0.0,) * dim),
            "left": lambda x: linear.evaluate(inflow, x),
        },
        pressure={"right": outlet},
    )
    velocity = w.components[0].vec.FV().NumPy().reshape(dim, -1)[:, : mesh.n_nodes].T
    assert relative(ours.velocity, velocity) < 1e-9
    assert relative(ours.pressure, w.components[1].vec.FV().NumPy()) < 1e-9
