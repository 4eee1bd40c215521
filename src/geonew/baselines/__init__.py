"""Baselines: the models Geo-NeW is compared with, in one harness, from their papers' equations."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from geonew.baselines.deeponet import DeepONet, DeepONetConfig
from geonew.baselines.galerkin import GalerkinConfig, GalerkinTransformer
from geonew.baselines.geofno import GeoFNO, GeoFNOConfig
from geonew.baselines.gnot import GNOT, GNOTConfig
from geonew.baselines.harness import Baseline, BaselineConfig, Direct
from geonew.baselines.inducing import Inducing, InducingConfig
from geonew.baselines.lamo import LaMO, LaMOConfig
from geonew.baselines.linear import LinearConfig, LinearTransformer
from geonew.baselines.transolver import Transolver, TransolverConfig
from geonew.baselines.unet import UNet, UNetConfig
from geonew.errors import ConfigError
from geonew.features import FeatureSpec
from geonew.problem import Problem

# By the names that configurations and tables use.
BASELINES: dict[str, type[Baseline]] = {
    "inducing": Inducing,
    "transolver": Transolver,
    "gnot": GNOT,
    "linear": LinearTransformer,
    "galerkin": GalerkinTransformer,
    "lamo": LaMO,
    "deeponet": DeepONet,
    "geofno": GeoFNO,
    "unet": UNet,
}


def baseline(
    name: str,
    problem: Problem,
    spec: FeatureSpec,
    columns: Sequence[str],
    config: BaselineConfig | None = None,
) -> Baseline:
    """The baseline of a name, for a problem and its token columns."""
    if name not in BASELINES:
        near = get_close_matches(name, BASELINES, n=1)
        raise ConfigError(
            f"there is no baseline {name!r}",
            f"did you mean {near[0]!r}?" if near else f"known are {', '.join(BASELINES)}",
        )
    return BASELINES[name](problem, spec, columns, config)


__all__ = [
    "BASELINES",
    "GNOT",
    "Baseline",
    "BaselineConfig",
    "DeepONet",
    "DeepONetConfig",
    "Direct",
    "GNOTConfig",
    "GalerkinConfig",
    "GalerkinTransformer",
    "GeoFNO",
    "GeoFNOConfig",
    "Inducing",
    "InducingConfig",
    "LaMO",
    "LaMOConfig",
    "LinearConfig",
    "LinearTransformer",
    "Transolver",
    "TransolverConfig",
    "UNet",
    "UNetConfig",
    "baseline",
]
