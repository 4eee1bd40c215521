"""What results decide: learning rates and the rows that are trained longest, by validation alone.

Identity kept: nothing here reads an error on test data; the functions are given results from which
these have been removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from geonew.bench.campaign import rate_cells
from geonew.bench.cell import Cell
from geonew.errors import ConfigError

Results = Mapping[str, Mapping[str, Any]]
# All that a choice may read of a result.
VISIBLE = ("model", "learning_rate", "validation")


def visible(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without anything that was computed from test data."""
    return {name: result[name] for name in VISIBLE if name in result}


def validation_error(result: Mapping[str, Any]) -> float:
    """Combined validation error; inf where the training failed to give one."""
    value = result.get("validation", {}).get("combined")
    return inf if value is None else float(value)


def chosen_rate(cell: Cell, results: Results) -> float:
    """The learning rate of a cell: its own, or the best of those tried for its row.

    One at which training failed is worse than all others; where all failed, the least is taken.
    """
    if cell.rate is not None:
        return cell.rate
    tried = rate_cells(cell.rate_of or cell.row)
    missing = [name for name in tried if name not in results]
    if missing:
        raise ConfigError(f"cell {cell.name}: {missing} are not finished", "run them first")
    best = min(tried, key=lambda name: validation_error(results[name]))
    return float(results[best]["learning_rate"])


def is_chosen(cell: Cell, cells: Mapping[str, Cell], results: Results) -> bool:
    """Whether a cell's row is among the best, where only these are wanted."""
    if cell.chosen is None:
        return True
    errors = {cells[name].row: validation_error(results[name]) for name in cell.among}
    return cell.row in best_rows(errors, cell.chosen)


def best_rows(errors: Mapping[str, float], count: int) -> Sequence[str]:
    """The rows with the least errors; of equal ones the first."""
    return sorted(errors, key=lambda row: errors[row])[:count]
