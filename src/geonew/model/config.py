"""Configuration of a Geo-NeW model: frozen, nested, saved with every checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from geonew.errors import ConfigError
from geonew.mesh.grid import Grid
from geonew.model.convolution import HALVINGS, check_sizes
from geonew.model.flux.paper import PaperConfig
from geonew.model.flux.structured import StructuredConfig
from geonew.model.newton import NewtonConfig
from geonew.model.source import MOST_TRUST
from geonew.model.space import Boundary


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of a model; by default the sizes are the paper's, the choices our own.

    Args:
        width: embedding width d.
        encoder: ``"anchors"`` (:mod:`geonew.model.encoder`), or ``"integrals"``, which reads every
            node and draws nothing (:mod:`geonew.model.integrals`).
        depth: encoder blocks L.
        heads: attention heads.
        anchors: anchors per block M.
        exchanges: times the anchors attend to each other in a block.
        partitions: interior partitions per component P.
        contexts: context tokens of the flux.
        grid: the shape of all meshes, where they are structured: convolutions are the encoder then
            (:mod:`geonew.model.convolution`), a quarter of the width is their channels, and depth,
            heads, anchors and exchanges are of no use.
        places: with a grid, read deviations from the training data at each place
            (:mod:`geonew.model.convolution`): for bodies that are much alike.
        mirror: with a grid, see mirror images alike (:mod:`geonew.model.mirror`): where reversing
            its rows is a reflection in the frame's first axis, and fields are scalars.
        hidden: width of the partition network's hidden layer; half the embedding width by default.
        windows: windows of a domain larger than those of training, per volume of training
            (:mod:`geonew.model.windows`).
        boundary: ``"lifted"``, or ``"nodal"`` for comparison.
        law: the flux law; ``"none"`` leaves the known terms alone.
        known: use the problem's known terms; without them the whole law is learned.
        quadratic: use the known quadratic ones too (convection); uniqueness is then certified
            locally instead of globally.
        tuned: known symmetric terms times a learned factor near 1, which makes up for what mesh
            and space add to their stiffness (:mod:`geonew.model.backbone`).
        constitutive: where nothing is known, learn a linear constitutive law, one for all
            geometries, beside the flux law (the paper's law does without).
        anisotropic: that law may tell directions apart and couple them, as an elastic medium does.
        identified: begin with the constants that explain the training solutions best
            (:mod:`geonew.model.identify`).
        learned_source: relaxation to a learned state, which known terms correct as far as they
            are trusted (:mod:`geonew.model.source`).
        trust: rate of that relaxation at the start: the larger, the less the rest of the balance
            moves the learned state.
        diffusion: epsilon, on components without a symmetric known term.
        stabilisation: theta of equal-order pressure at the start. Linear elements want 1/12 with
            their own size for H; learned functions resolve far more than |Omega|/P lets expect,
            and damping at that length costs half of the accuracy. A random basis wants more.
        structured, paper: settings of that law.
        newton: settings of the solve.

    """

    width: int = 128
    encoder: Literal["anchors", "integrals"] = "anchors"
    depth: int = 4
    heads: int = 2
    anchors: int = 64
    exchanges: int = 2
    partitions: int = 32
    contexts: int = 4
    grid: Grid | None = None
    places: bool = False
    mirror: bool = False
    hidden: int | None = None
    windows: int = 1
    boundary: Boundary = "lifted"
    law: Literal["structured", "paper", "none"] = "structured"
    known: bool = True
    quadratic: bool = True
    tuned: bool = False
    constitutive: bool = True
    anisotropic: bool = False
    identified: bool = False
    learned_source: bool = False
    trust: float = 1.0
    diffusion: float = 1.0
    stabilisation: float = 1e-3
    structured: StructuredConfig = field(default_factory=StructuredConfig)
    paper: PaperConfig = field(default_factory=PaperConfig)
    newton: NewtonConfig = field(default_factory=NewtonConfig)

    def __post_init__(self) -> None:
        for name in (
            "width",
            "depth",
            "heads",
            "anchors",
            "exchanges",
            "partitions",
            "contexts",
            "windows",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"model setting {name!r} is {getattr(self, name)}; it must be at least 1"
                )
        if self.width % self.heads:
            raise ConfigError(
                f"width {self.width} is not a multiple of {self.heads} heads",
                "choose a width that the heads divide",
            )
        if self.grid is not None:
            check_sizes(self.grid, self.width, HALVINGS)
            if self.encoder != "anchors":
                raise ConfigError(
                    f"`encoder` is {self.encoder!r} on a grid, where convolutions are the encoder",
                    "leave `encoder` or `grid` out",
                )
        elif self.places or self.mirror:
            raise ConfigError(
                "`places` and `mirror` are for models on a grid", "give `grid`, or leave them out"
            )
        if not 0 < self.stabilisation < 1:
            raise ConfigError(f"stabilisation is {self.stabilisation}; it must lie between 0 and 1")
        if not 1 / MOST_TRUST < self.trust < MOST_TRUST:
            raise ConfigError(
                f"trust is {self.trust}; it must lie between {1 / MOST_TRUST:.2g} and "
                f"{MOST_TRUST:.3g}",
                "1 is a good start; 100 keeps a prediction close to its learned state",
            )
        if self.diffusion < 0:
            raise ConfigError(f"diffusion is {self.diffusion}; it must not be negative")
        for name, choices in (
            ("encoder", ("anchors", "integrals")),
            ("boundary", ("lifted", "nodal")),
            ("law", ("structured", "paper", "none")),
        ):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"model setting {name!r} is {getattr(self, name)!r}; known are {choices}"
                )
