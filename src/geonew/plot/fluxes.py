r"""Pictures of the reduced graph: where the learned fluxes go.

A node per partition at its centroid :math:`\int x \psi_i / \int \psi_i`, coloured by its
coefficient and sized by its mass, a node per boundary group on that group with the net flux it
gives (+) or takes (-), and an arrow along the flux :math:`F_{ij}` from i to j for the largest of
them. R = P + G rows and nodes, interior ones first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.model import HALO, group_colour, interior_rows, lumped_mass, row_masses
from geonew.plot.view import (
    View,
    colours_of,
    draw_outline,
    fit_axes,
    new_figure,
    plane_view,
    save_figure,
)

# Fluxes drawn per component, largest first: the complete graph of 32 partitions has 500 edges.
MOST_EDGES = 40
# Fluxes below this part of the largest are not worth an arrow.
FAINT = 0.02


def fluxes_figure(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    coefficients: Float[ndarray, "F P"],
    fluxes: Float[ndarray, "F _ _"],
    components: Sequence[str],
    groups: Sequence[str],
    title: str = "",
) -> Figure:
    """The reduced graph over the domain, one panel for each component.

    Args:
        mesh: the mesh.
        rows: the partition of unity.
        coefficients: u_i, the colour of the nodes.
        fluxes: F_ij from i to j.
        components: names of the F components.
        groups: names of the G boundary groups.
        title: above all.

    """
    P = interior_rows(mesh, rows, components, groups)
    F, n = len(components), rows.shape[2]
    for name, array, shape in (
        ("coefficients", coefficients, (F, P)),
        ("fluxes", fluxes, (F, n, n)),
    ):
        if array.shape != shape:
            raise InputError(f"{name} have shape {array.shape}; expected {shape}")
    view = plane_view(mesh)
    across = min(F, 3 if view.aspect > 0.6 else 2 if view.aspect > 0.35 else 1)
    down = math.ceil(F / across)
    width = {1: 7.5 if view.aspect > 0.6 else 11.0, 2: 6.5, 3: 5.0}[across]
    figure = new_figure(width * across, down * (width * view.aspect * 0.82 + 1.1) + 0.3)
    mass = row_masses(mesh, rows)
    for f, name in enumerate(components):
        axes = figure.add_subplot(down, across, f + 1)
        places = _places(mesh, view, rows[:, f], mass[f], groups, P)
        _draw_domain(axes, mesh, view, groups)
        image = _draw_edges(axes, places, fluxes[f], name)
        _draw_nodes(figure, axes, places, mass[f], coefficients[f], fluxes[f], groups)
        bar = figure.colorbar(
            image, ax=axes, location="bottom", shrink=0.7, pad=0.02, aspect=40, label="|flux|"
        )
        bar.ax.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=11)
    return figure


def plot_fluxes(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    coefficients: Float[ndarray, "F P"],
    fluxes: Float[ndarray, "F _ _"],
    components: Sequence[str],
    groups: Sequence[str],
    path: str | os.PathLike[str],
    title: str = "",
    dpi: int = 150,
) -> None:
    """Write a picture of the reduced graph; see :func:`fluxes_figure`."""
    figure = fluxes_figure(mesh, rows, coefficients, fluxes, components, groups, title)
    save_figure(figure, path, dpi)


def _places(
    mesh: Mesh, view: View, rows: ndarray, mass: ndarray, groups: Sequence[str], P: int
) -> Float[ndarray, "R 2"]:
    """Centroids of the partitions; of each group the facet nearest to its middle."""
    lumped = lumped_mass(mesh)
    safe = np.where(mass > 0, mass, 1.0)
    centroids = (rows * lumped[:, None]).T @ mesh.points / safe[:, None]
    for g, name in enumerate(groups):
        if name not in mesh.groups:
            continue
        middles = mesh.points[mesh.facets_of(name)].mean(axis=1)
        # The facet nearest to the group's own middle: on the boundary, whatever its shape.
        nearest = np.linalg.norm(middles - middles.mean(axis=0), axis=1).argmin()
        centroids[P + g] = middles[nearest]
    return centroids[:, view.axes]


def _draw_domain(axes: Axes, mesh: Mesh, view: View, groups: Sequence[str]) -> None:
    corners = list(view.points[view.triangles])
    axes.add_collection(
        PolyCollection(corners, facecolors="0.95", edgecolors="0.95", lw=0.3, rasterized=True)
    )
    draw_outline(axes, view)
    if mesh.dim == 2:
        for g, name in enumerate(groups):
            if name in mesh.groups:
                segments = list(mesh.points[mesh.groups[name]])
                axes.add_collection(
                    LineCollection(segments, colors=group_colour(g), lw=2.5, zorder=4, alpha=0.8)
                )
    fit_axes(axes, view, margin=0.06)


def _draw_edges(axes: Axes, places: ndarray, flux: ndarray, name: str) -> ScalarMappable:
    i, j = np.triu_indices(len(flux), 1)
    size = np.abs(flux[i, j])
    largest = float(size.max()) if size.size else 0.0
    norm = Normalize(0.0, largest or 1.0)
    colours = ScalarMappable(norm, colormaps["YlOrRd"])
    keep = np.argsort(-size, kind="stable")[:MOST_EDGES]
    keep = keep[size[keep] > FAINT * largest]
    for e in keep[::-1]:  # the largest last, on top
        tail, head = (i[e], j[e]) if flux[i[e], j[e]] > 0 else (j[e], i[e])
        share = size[e] / largest
        arrow = FancyArrowPatch(
            tuple(places[tail]), tuple(places[head]),
            arrowstyle=f"-|>,head_width={1.2 + 2 * share:.2f},head_length={2.5 + 3 * share:.2f}",
            connectionstyle="arc3,rad=0.08", shrinkA=4, shrinkB=5,
            lw=0.4 + 2.2 * share, alpha=0.85,
            color=colours.to_rgba(0.15 * largest + 0.85 * size[e]),
            zorder=5 + share,
        )  # fmt: skip
        axes.add_patch(arrow)
    carried = float(size[keep].sum() / size.sum()) if largest > 0 else 0.0
    text = f"{len(keep)} largest fluxes, {100 * carried:.0f} % of all" if len(keep) else "no flux"
    axes.set_title(f"{name}: {text}", fontsize=10)
    return colours


def _draw_nodes(
    figure: Figure,
    axes: Axes,
    places: ndarray,
    mass: ndarray,
    coefficients: ndarray,
    flux: ndarray,
    groups: Sequence[str],
) -> None:
    P = len(coefficients)
    cmap, norm = colours_of(coefficients)
    inner = mass[:P]
    image = axes.scatter(
        *places[:P].T, s=25 + 120 * inner / (inner.max() or 1.0), c=coefficients, cmap=cmap,
        norm=norm, edgecolors="black", linewidths=0.7, zorder=7,
    )  # fmt: skip
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02, aspect=30, label="coefficient")
    bar.ax.tick_params(labelsize=7)
    live = [g for g in range(len(groups)) if mass[P + g] > 0 or np.any(flux[P + g])]
    for g in live:  # a group without data of this component takes no part in its balance
        axes.scatter(
            *places[P + g], s=90, marker="s", color=group_colour(g), edgecolors="black", zorder=8
        )
        net = float(flux[P + g].sum())
        axes.annotate(
            f"{groups[g]} {net:+.2g}", places[P + g], xytext=(0, 8), textcoords="offset points",
            fontsize=8, ha="center", zorder=9, path_effects=HALO,
        )  # fmt: skip
