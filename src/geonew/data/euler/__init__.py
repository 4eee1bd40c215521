"""Steady transonic flow over airfoils: grid, finite volumes, Newton's method, measures.

    Airfoil -> c_grid -> CGrid -> solve_euler(grids, FreeStream) -> EulerSolution -> measures

Importing this package compiles nothing; :mod:`geonew.data.euler.solver` needs numba.
"""

from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.grid import CGrid, c_grid

__all__ = ["Airfoil", "CGrid", "c_grid"]
