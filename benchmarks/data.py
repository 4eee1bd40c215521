"""Measure a family of data: discretisation error, mass balance, cost; draw twelve samples.

    python benchmarks/data.py --family ns2d-c++ --samples 3 --json docs/data/ns2d-cpp.json \\
        --card docs/data/ns2d-cpp.md --picture docs/data/ns2d-cpp.png

Per sample and field, in percent of the field's Euclidean norm over the stored nodes:

* ``twice_finer``: the stored truth (``--level medium``: of the next level) against the same method
  on a mesh twice finer, which is twice closer to the curves too;
* ``high_order`` (``--high-order K``: the first K samples of a split, 2D): against NGSolve on that
  mesh, P4 for Poisson, P3 for elasticity, P3/P2 for flows, on the same geometry; nodes at which a
  mean is stored are left out.

``mass_balance`` is the net flux of the truth through the boundary over its inflow;
``stored_balance`` the same for the stored vertex values, joined by straight lines. CPU seconds are
of one process with one thread, meshing included; on a busy machine they are too large.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from geonew.data.families import family
from geonew.data.families.channel import Fluid, inflow_through
from geonew.data.families.elasticity import CORNERS, POISSON, PULL, YOUNG
from geonew.data.families.truth import corner_nodes, curves_of, finer
from geonew.fem.derived import lame
from geonew.shape import Shape

# Marks of the measured tables in a card, by level.
BEGIN = {"coarse": "<!-- measured -->", "medium": "<!-- measured medium -->"}
END = "<!-- end -->"


def relative(values, exact, keep=None):
    """Percent, per component."""
    a, b = (np.asarray(x).reshape(len(values), -1) for x in (values, exact))
    keep = np.ones(len(a), dtype=bool) if keep is None else keep
    return [
        float(100 * np.linalg.norm((x - y)[keep]) / np.linalg.norm(y[keep]))
        for x, y in zip(a.T, b.T, strict=True)
    ]


def measure(made, split, seed, high_order, level):
    generator = np.random.default_rng([seed, 2024])
    before = time.process_time()
    case = made.draw(split, generator)
    record = made.solve(case, level)
    seconds = time.process_time() - before
    reference = made.solve(case, level, times=2)
    row = {
        "split": split,
        "nodes": record.mesh.n_nodes,
        "truth_nodes": int(record.info["truth_nodes"]),
        "cpu_seconds": seconds,
        "residual": record.info["residual"],
        "twice_finer": {n: relative(v, reference.fields[n]) for n, v in record.fields.items()},
        "rms": {n: float(np.sqrt((v**2).mean())) for n, v in record.fields.items()},
        "axes": dict(case.axes),
    }
    if "velocity" in record.fields:
        row["mass_balance"] = record.info["mass_balance"]
        row["outlet_defect"] = record.info["outlet_defect"]
        inlet, outlet = (stored_flux(record, group) for group in ("inlet", "outlet"))
        row["stored_balance"] = abs(inlet + outlet) / abs(inlet)
    if high_order and case.shape["kind"] == "shape":
        row["high_order"] = by_ngsolve(made, case, record)
    return row


def stored_flux(record, group):
    mesh = record.mesh
    chosen = mesh.group_index == list(mesh.groups).index(group)
    mean = record.fields["velocity"][mesh.boundary_facets[chosen]].mean(axis=1)
    return float((mean * mesh.boundary_normals[chosen]).sum())


# -- an independent code of higher order -----------------------------------------------------------


def to_ngsolve(mesh):
    import netgen.meshing as netgen
    import ngsolve as ng

    out = netgen.Mesh(dim=2)
    ids = [out.Add(netgen.MeshPoint(netgen.Pnt(x, y, 0.0))) for x, y in mesh.points]
    out.Add(netgen.FaceDescriptor(bc=1, domin=1, surfnr=1))
    for nodes in mesh.cells:
        out.Add(netgen.Element2D(1, [ids[i] for i in nodes]))
    for number, name in enumerate(mesh.groups):
        for nodes in mesh.boundary_facets[mesh.group_index == number]:
            out.Add(netgen.Element1D([ids[i] for i in nodes], index=number + 1))
        out.SetBCName(number, name)
    return ng.Mesh(out)


def by_ngsolve(made, case, record):
    import ngsolve as ng

    shape, mesh, n = Shape.from_dict(case.shape), record.mesh, record.mesh.n_nodes
    singular = CORNERS if made.name == "elasticity" else shape.reentrant_corners
    corners = corner_nodes(mesh, singular)
    theirs = to_ngsolve(finer(mesh, curves_of(shape), corners, times=2).mesh)
    keep = np.ones(n, dtype=bool)
    if made.name.startswith("poly-poisson"):
        u = ng_poisson(ng, theirs, case.parameters)
        return {"u": relative(record.fields["u"], u[:n])}
    keep[corners] = False
    if made.name == "elasticity":
        u, stress = ng_elasticity(ng, theirs)
        return {
            "displacement": relative(record.fields["displacement"], u[:n]),
            "von_mises": relative(record.fields["von_mises"], stress[:n], keep),
        }
    u, p = ng_flow(ng, theirs, case, shape)
    return {
        "velocity": relative(record.fields["velocity"], u[:n]),
        "pressure": relative(record.fields["pressure"], p[:n], keep),
    }


def ng_solve(ng, a, f, g, free):
    residual = f.vec.CreateVector()
    residual.data = f.vec - a.mat * g.vec
    g.vec.data += a.mat.Inverse(free, inverse="umfpack") * residual


def ng_poisson(ng, theirs, data):
    V = ng.H1(theirs, order=4, dirichlet="circle|cutout")
    u, v = V.TnT()
    a = ng.BilinearForm(ng.grad(u) * ng.grad(v) * ng.dx).Assemble()
    f = ng.LinearForm(float(data["source"]) * v * ng.dx).Assemble()
    g = ng.GridFunction(V)
    values = {"cutout": float(data["inside"]), "circle": float(data["outside"])}
    g.Set(theirs.BoundaryCF(values, default=0), definedon=theirs.Boundaries("circle|cutout"))
    ng_solve(ng, a, f, g, V.FreeDofs())
    return g.vec.FV().NumPy()


def ng_elasticity(ng, theirs):
    lam, mu = lame(YOUNG, POISSON)
    V = ng.VectorH1(theirs, order=3, dirichlet="bottom")
    u, v = V.TnT()

    def strain(w):
        return (ng.Grad(w) + ng.Grad(w).trans) / 2

    a = ng.BilinearForm(
        (2 * mu * ng.InnerProduct(strain(u), strain(v)) + lam * ng.div(u) * ng.div(v)) * ng.dx
    ).Assemble()
    f = ng.LinearForm(PULL * v[1] * ng.ds("top")).Assemble()
    g = ng.GridFunction(V)
    ng_solve(ng, a, f, g, V.FreeDofs())
    e = strain(g)
    trace = e[0, 0] + e[1, 1]
    xx, yy, zz = 2 * mu * e[0, 0] + lam * trace, 2 * mu * e[1, 1] + lam * trace, lam * trace
    squares = ((xx - yy) ** 2 + (yy - zz) ** 2 + (zz - xx) ** 2) / 2 + 3 * (2 * mu * e[0, 1]) ** 2
    recovered = ng.GridFunction(ng.H1(theirs, order=2))
    recovered.Set(ng.sqrt(squares))
    return (
        g.vec.FV().NumPy().reshape(2, -1)[:, : theirs.nv].T,
        recovered.vec.FV().NumPy()[: theirs.nv],
    )


def ng_flow(ng, theirs, case, shape):
    """In units of the inflow's speed and the channel's height: rho = 1, nu = 1 / Re."""
    data = case.parameters
    fluid = Fluid(1.5e-5, 1.2) if "reynolds" not in data else None
    reynolds = 1e-4 / fluid.viscosity if fluid else float(data["reynolds"])
    V = ng.VectorH1(theirs, order=3, dirichlet="inlet|wall|obstacle", dirichlety="outlet")
    Q = ng.H1(theirs, order=2)
    X = V * Q
    (u, p), (v, q) = X.TnT()
    a = ng.BilinearForm(X)
    viscous = ng.InnerProduct(ng.Grad(u), ng.Grad(v)) - p * ng.div(v) - q * ng.div(u)
    a += (viscous + reynolds * (ng.Grad(u) * u) * v) * ng.dx
    w = ng.GridFunction(X)
    s, skew, flat = ng.y, float(data.get("skew", 0.0)), float(data.get("flatness", 0.0))
    bump = s * (1 - s)
    profile = 4 * bump * (1 + skew * (2 * s - 1) + flat * (1 - 5 * bump))
    w.components[0].Set(ng.CF((profile, 0)), definedon=theirs.Boundaries("inlet"))
    check = inflow_through(shape, 1.0, skew, flat)(np.array([[0.0, 0.3]]))
    assert abs(check[0, 0] - 4 * 0.21 * (1 + skew * -0.4 + flat * (1 - 1.05))) < 1e-12
    residual = w.vec.CreateVector()
    for _ in range(12):
        a.Apply(w.vec, residual)
        a.AssembleLinearization(w.vec)
        step = a.mat.Inverse(X.FreeDofs(), inverse="umfpack") * residual
        w.vec.data -= step
        if step.Norm() < 1e-9 * w.vec.Norm():
            break
    speed = 1e-4 if fluid else 1.0
    stress = fluid.dynamic * speed if fluid else 1.0
    velocity = w.components[0].vec.FV().NumPy().reshape(2, -1)[:, : theirs.nv].T
    return speed * velocity, stress * w.components[1].vec.FV().NumPy()[: theirs.nv]


# -- summary -----------------------------------------------------------------------------------


def summary(rows):
    """Largest and mean of each measure over the samples of a split."""
    out = {}
    for split in dict.fromkeys(row["split"] for row in rows):
        own = [row for row in rows if row["split"] == split]
        cpu = float(np.mean([row["cpu_seconds"] for row in own]))
        part = {
            "samples": len(own),
            "nodes": [min(r["nodes"] for r in own), max(r["nodes"] for r in own)],
            "cpu_seconds": cpu,
            "samples_per_cpu_minute": 60 / cpu,
        }
        for kind in ("twice_finer", "high_order"):
            having = [row[kind] for row in own if kind in row]
            if having:
                part[f"{kind}_percent_worst"] = {
                    name: np.max([h[name] for h in having], axis=0).tolist() for name in having[0]
                }
                part[f"{kind}_samples"] = len(having)
        for key in ("mass_balance", "stored_balance", "residual", "outlet_defect"):
            values = [row[key] for row in own if key in row]
            if values:
                part[f"{key}_worst"] = max(values)
        out[split] = part
    return out


def table(result):
    """The measured figures as a Markdown table."""
    measured = result["summary"]
    lines = ["| measured | " + " | ".join(measured) + " |", "|---|" + "---|" * len(measured)]

    def row(name, cells):
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cell or "-" for cell in cells) + " |")

    def errors(part, kind):
        worst = part.get(f"{kind}_percent_worst", {})
        return "; ".join(
            f"{name} {', '.join(f'{value:.2g}' for value in values)}"
            for name, values in worst.items()
        )

    parts = list(measured.values())
    row("samples", [str(p["samples"]) for p in parts])
    row("nodes", [f"{p['nodes'][0]} to {p['nodes'][1]}" for p in parts])
    row("against twice finer, worst, %", [errors(p, "twice_finer") for p in parts])
    row("against NGSolve, higher order, worst, %", [errors(p, "high_order") for p in parts])
    for key, name in (
        ("mass_balance_worst", "mass balance of the truth, worst"),
        ("stored_balance_worst", "mass balance of stored vertex values, worst"),
        ("outlet_defect_worst", "p of the truth at the outlet over max p, before it is set to 0"),
        ("residual_worst", "residual of the solver, worst"),
    ):
        row(name, [f"{p[key]:.1e}" if key in p else "" for p in parts])
    row("CPU seconds per sample", [f"{p['cpu_seconds']:.2f}" for p in parts])
    row("samples per CPU minute", [f"{p['samples_per_cpu_minute']:.0f}" for p in parts])
    return "\n".join(lines)


def fill(path, result):
    """Write the table between the marks of a data card."""
    begin = BEGIN[result.get("level", "coarse")]
    head, rest = path.read_text(encoding="utf-8").split(begin)
    _, tail = rest.split(END, 1)
    path.write_text(f"{head}{begin}\n\n{table(result)}\n\n{END}{tail}", encoding="utf-8")


def gallery(made, path):
    """Twelve samples: six in distribution, six out of it; the field of record."""
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(13, 6), layout="constrained")
    for number, axes in enumerate(figure.subplots(2, 6).ravel()):
        split = "train" if number < 6 else "ood"
        record = made.solve(made.draw(split, np.random.default_rng([number, 7])), "coarse")
        name, values = list(record.fields.items())[-1]
        if made.name == "pipe":
            name, values = "u", record.fields["velocity"][:, 0]
        elif "velocity" in record.fields:
            name, values = "speed", np.linalg.norm(record.fields["velocity"], axis=1)
        points, cells = record.mesh.points, record.mesh.cells
        if record.mesh.dim == 3:  # the cells that the middle plane across y cuts
            above = points[cells][:, :, 1] > record.mesh.points[:, 1].mean()
            cut = cells[above.any(axis=1) & ~above.all(axis=1)]
            centre = points[cut].mean(axis=1)
            axes.scatter(centre[:, 0], centre[:, 2], c=values[cut].mean(axis=1), s=9)
        else:
            axes.tripcolor(*points.T, cells, values, shading="gouraud")
            axes.triplot(*points.T, cells, color="white", linewidth=0.1)
        axes.set_aspect("equal")
        axes.set_axis_off()
        place = ", ".join(f"{k} {float(v):.3g}" for k, v in record.case.axes.items())
        axes.set_title(f"{split}: {name}\n{place}", fontsize=5)
    figure.savefig(path, dpi=90)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", required=True)
    parser.add_argument("--samples", type=int, default=3, help="per split")
    parser.add_argument("--high-order", type=int, default=0, help="of these, with NGSolve")
    parser.add_argument("--splits", default="train,ood")
    parser.add_argument("--level", choices=list(BEGIN), default="coarse")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="draw twelve samples")
    parser.add_argument("--card", type=Path, help="write the figures into this data card")
    parser.add_argument("--reuse", action="store_true", help="take the figures from --json")
    arguments = parser.parse_args()
    made = family(arguments.family)
    if arguments.picture:
        gallery(made, arguments.picture)
    if arguments.reuse:
        fill(arguments.card, json.loads(arguments.json.read_text(encoding="utf-8")))
        return
    if not arguments.samples:
        return
    made.solve(made.draw("train", np.random.default_rng(0)), "coarse")  # imports and caches
    rows = [
        measure(made, split, k, k < arguments.high_order, arguments.level)
        for split in arguments.splits.split(",")
        for k in range(arguments.samples)
    ]
    result = {"family": made.name, "level": arguments.level}
    result |= {"summary": summary(rows), "samples": rows}
    text = json.dumps(result, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if arguments.card:
        fill(arguments.card, result)
    print(json.dumps(result["summary"], indent=1))


if __name__ == "__main__":
    main()
