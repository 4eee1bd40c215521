r"""Patch labels: which boundary groups a node touches.

.. math:: \ell_g(x_i) = 1 \text{ if } x_i \in \overline{\Gamma_g}, \text{ else } 0.

A corner node belongs to several groups; a group the mesh lacks gives a column of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.mesh import Mesh


def patch_labels(mesh: Mesh, groups: Sequence[str]) -> Float[ndarray, "N G"]:
    """One column of zeros and ones per group, in the order given."""
    labels = np.zeros((mesh.n_nodes, len(groups)))
    for column, group in enumerate(groups):
        if group in mesh.groups:
            labels[mesh.nodes_of(group), column] = 1.0
    return labels
