"""All tests run with shapes and types checked, warnings as errors, and reproducible randomness."""

from __future__ import annotations

import os

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib

import jaxtyping
import torch  # noqa: F401 - its own MKL crashes when it is loaded after that of NGSolve

_HOOK = jaxtyping.install_import_hook("geonew", "beartype.beartype")

from pathlib import Path  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

from geonew.mesh import Mesh  # noqa: E402
from zoo import PLANAR, SOLID, ZOO  # noqa: E402

hypothesis.settings.register_profile("geonew", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("geonew")


@pytest.fixture(params=list(ZOO))
def zoo_mesh(request: pytest.FixtureRequest) -> Mesh:
    """Every mesh of the zoo in turn."""
    return ZOO[request.param]()


@pytest.fixture(params=list(PLANAR))
def planar_mesh(request: pytest.FixtureRequest) -> Mesh:
    """Every 2D mesh of the zoo in turn."""
    return PLANAR[request.param]()


@pytest.fixture(params=list(SOLID))
def solid_mesh(request: pytest.FixtureRequest) -> Mesh:
    """Every 3D mesh of the zoo in turn."""
    return SOLID[request.param]()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two trained and calibrated models, ``NAME.safetensors``."""
    from trained import shared

    return shared(tmp_path_factory.getbasetemp())
