"""The same shapes on coarse, medium and fine meshes: does a model depend on its mesh?

    encode and solve on each level                       -> error by level
    encode and solve on the coarse one, evaluate on fine -> error of a transfer

A transfer is possible for models whose embedding of a node needs the encoder's memory alone, states
of anchors or integrals: ours without a grid, and the inducing-point baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from geonew.baselines import Inducing
from geonew.cache import Cache
from geonew.errors import DataError
from geonew.evaluate.evaluation import evaluate_set, summarise
from geonew.evaluate.predictions import Predicted
from geonew.evaluate.testset import TestSet, read_test
from geonew.model.certificate import PhysicalBalance
from geonew.model.geonew import GeoNeW
from geonew.model.prediction import finish
from geonew.model.sample import to_lab
from geonew.train.checkpoint import read_model

COARSE = "coarse"


def refinement(path: str | Path, files: Mapping[str, str | Path]) -> dict[str, Any]:
    """Errors by level, and of transfers from the coarse level.

    Args:
        path: the model.
        files: level -> file; the k-th samples of all files have one shape.

    """
    model, about = read_model(path)
    cache = Cache.default()
    tested = {level: read_test(file, about, cache=cache) for level, file in files.items()}
    if len({len(one.samples) for one in tested.values()}) != 1:
        raise DataError("the levels have different numbers of samples", "make them again")
    result: dict[str, Any] = {}
    for level, one in tested.items():
        found = evaluate_set(model, about, one, batch=1)
        result[level] = {"nodes": _nodes(one), "error": found.error_figures()}
    if not isinstance(model, GeoNeW | Inducing):
        return result
    deviations = about.deviations * np.array(about.problem.references)
    for level, one in tested.items():
        if level == COARSE:
            continue
        made = transfer(model, tested[COARSE], one)
        found = summarise(about.problem, deviations, one, made)
        key = f"{COARSE} to {level}"
        result[key] = {"nodes": _nodes(one), "error": found.error_figures()}
    return result


@torch.no_grad()
def transfer(model: nn.Module, known: TestSet, asked: TestSet) -> list[Predicted]:
    """Predictions made on one set of meshes, on the nodes of another."""
    model.eval()
    result = []
    for coarse, fine in zip(known.samples, asked.samples, strict=True):
        if asdict(coarse.problem) != asdict(fine.problem):
            raise DataError("the two sets are of different problems")
        if isinstance(model, GeoNeW):
            output = model(model.collate([coarse]))
            values: Tensor = model.transfer(output, model.collate([fine]))
            fields = finish(fine, values[0].double().cpu().numpy())
            solved = bool(output.converged[0])
        else:
            assert isinstance(model, Inducing)
            direct = model.transfer(model.collate([coarse]), model.collate([fine]))
            fields = to_lab(fine, direct.fields[0].double().cpu().numpy())
            solved = bool(direct.converged[0])
        result.append(Predicted(fields, solved, PhysicalBalance()))
    return result


def _nodes(tested: TestSet) -> float:
    return float(np.mean([s.n_nodes for s in tested.samples]))
