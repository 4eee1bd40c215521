"""Baselines: the models Geo-NeW is compared with, in one harness, from their papers' equations."""

from __future__ import annotations

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
]
