r"""The Geo-NeW model: a data-driven finite element method on any geometry.

    batch --encoder--> embeddings --partitions--> reduced space --known terms, flux law--> balance
          --Newton--> coefficients --reconstruction--> fields

    u_h = lift + sum_i u_i psi_i   with   G(u) = 0,

differentiable from end to end by one Newton step (:mod:`geonew.model.implicit`). The model reads a
:class:`~geonew.problem.Problem` and never names an equation. Encoder in the model's own precision,
or in that of a surrounding autocast; what it returns has the precision of the weights again. Basis,
projection and reduced algebra are in float64, outside autocast.

Paper: figure 2 and section 3. Where we deviate (lifted boundary, certified law, known terms as the
backbone) the modules say why.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from geonew.cache import Cache
from geonew.errors import InputError
from geonew.features import FeatureSpec
from geonew.fem.forms import known_form
from geonew.mesh import Mesh
from geonew.model.backbone import Backbone
from geonew.model.balance import Balance, assemble_balance
from geonew.model.batch import Batch, collate
from geonew.model.config import ModelConfig
from geonew.model.convection import convective_term
from geonew.model.convolution import WIDTH_PER_CHANNEL, GridEncoder
from geonew.model.encoder import AnchorTransformer, ContextPooling, Memory
from geonew.model.flux.law import Partitions
from geonew.model.flux.paper import PaperLaw
from geonew.model.flux.structured import StructuredLaw
from geonew.model.galerkin import NodalOperators
from geonew.model.graph import FluxGraph
from geonew.model.identify import Medium, identify
from geonew.model.implicit import differentiable
from geonew.model.integrals import IntegralTransformer, mass_measure
from geonew.model.mirror import Mirror
from geonew.model.newton import Solution, Status, solve
from geonew.model.prediction import Prediction, assemble_predictions
from geonew.model.sample import Sample, check_columns, prepare
from geonew.model.scaling import TokenScaling
from geonew.model.source import LearnedSource
from geonew.model.space import PartitionNetwork, ReducedSpace
from geonew.model.windows import window_count, window_weights
from geonew.problem import BoundaryData, Problem, Term
from geonew.problem.values import Value

T = TypeVar("T")

# Nodes on which the size of a Newton step's field is measured: enough for a mean square.
MEASURED = 256


@dataclass(frozen=True, eq=False)
class Encoding:
    """What the encoder made of a batch; enough to embed other meshes of the same geometries."""

    nodes: Float[Tensor, "B N d"]
    memory: Memory
    context: Float[Tensor, "B _ d"]  # of the partitions
    flux_context: Float[Tensor, "B c d"]
    source_context: Float[Tensor, "B _ d"]
    anchor_exists: Bool[Tensor, "B 1 1 M"] | None = None
    centres: Float[Tensor, "B K dim"] | None = None  # of the windows


@dataclass(frozen=True, eq=False)
class Output:
    """Everything a forward pass made.

    Args:
        fields: u_h on the nodes in the frame, over the reference values; rows of samples that did
            not converge hold the best iterate, without gradient.
        u: coefficients.
        solution: how the solve went.
        space: the reduced space.
        balance: the balance law.
        encoding: the embeddings.

    """

    fields: Float[Tensor, "B N F"]
    u: Float[Tensor, "B F P"]
    solution: Solution
    space: ReducedSpace
    balance: Balance
    encoding: Encoding

    @property
    def converged(self) -> Bool[Tensor, "B"]:
        """Which samples are solved; a loss uses these alone."""
        return self.solution.converged


class GeoNeW(nn.Module):
    """A model of one problem.

    Args:
        problem: what it predicts.
        spec: which mesh features it reads.
        columns: names of the token columns these make.
        config: sizes and choices.

    """

    # Meshes predicted side by side; more brings no speed on a processor and costs memory.
    PREDICT_BATCH = 8

    largest: Float[Tensor, ""]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: tuple[str, ...],
        config: ModelConfig | None = None,
    ) -> None:
        super().__init__()
        config = ModelConfig() if config is None else config
        self.problem, self.spec, self.columns, self.config = problem, spec, tuple(columns), config
        F, G, P = problem.n_components, len(problem.groups), config.partitions
        terms = replace(problem, terms=_used_terms(problem, config))
        self.scaling = TokenScaling(len(columns))
        self.encoder: AnchorTransformer | IntegralTransformer | GridEncoder
        d = config.width
        if config.grid is not None:
            d //= WIDTH_PER_CHANNEL
            self.encoder = GridEncoder(len(columns), d, config.grid, config.places)
        elif config.encoder == "integrals":
            self.encoder = IntegralTransformer(len(columns), d, config.depth, config.heads)
        else:
            self.encoder = AnchorTransformer(
                len(columns), d, config.depth, config.heads, config.exchanges
            )
        self.mirror = None
        if config.grid is not None and config.mirror:
            self.mirror = Mirror(problem, columns, config.grid)
        self.pooling = ContextPooling(d, (1, config.contexts, 1))
        self.partition = PartitionNetwork(d, config.hidden or d // 2, F, P, config.boundary)
        self.graph = FluxGraph(P, G)
        learned = config.constitutive and config.law != "paper" and not config.known
        self.backbone = Backbone(
            terms,
            config.diffusion,
            config.stabilisation,
            learned=learned,
            anisotropic=config.anisotropic,
            identified=config.identified,
            tuned=d if config.tuned else 0,
            traced=config.law == "paper",
        )
        self.law: StructuredLaw | PaperLaw | None = None
        if config.law == "structured":
            self.law = StructuredLaw(d, config.contexts, F, config.structured)
        elif config.law == "paper":
            self.law = PaperLaw(d, config.contexts, F, self.graph, config.paper, config.diffusion)
        self.source = None
        if config.learned_source:
            self.source = LearnedSource(d, F, self.backbone.gauged, config.trust)
        self.medium: Medium | None = None  # identified in training samples
        self.register_buffer("largest", torch.tensor(torch.inf))  # volume of a training sample
        self._graphs: dict[int, FluxGraph] = {}

    # -- the arrows of the pipeline ----------------------------------------------------------------

    def encode(self, batch: Batch) -> Encoding:
        """Tokens -> node embeddings and contexts."""
        nodes, memory = self._embed(batch)
        contexts = self.pooling(nodes, batch.log_mass)
        own = self.scaling.mean.dtype
        return Encoding(
            nodes.to(own),
            [a.to(own) for a in memory],
            *(c.to(own) for c in contexts),
            anchor_exists=batch.anchor_exists,
            centres=batch.centres,
        )

    def _embed(self, batch: Batch) -> tuple[Float[Tensor, "B N d"], Memory]:
        if self.mirror is not None:  # on a grid, where nothing is remembered
            return self.mirror(batch.tokens, lambda t: self.encoder(self.scaling(t))[0]), []
        tokens = self.scaling(batch.tokens)
        if isinstance(self.encoder, IntegralTransformer):
            return self.encoder(tokens, mass_measure(batch))
        return self.encoder(tokens, batch.anchors, batch.anchor_exists)

    def reduce(self, encoding: Encoding, batch: Batch) -> ReducedSpace:
        """Embeddings -> reduced space."""
        relaxation = None
        if self.source is not None:
            relaxation = self.source(encoding.nodes, encoding.source_context, batch)
        windows = _windows(encoding, batch)
        return self.partition(encoding.nodes, encoding.context, batch, windows, relaxation)

    def balance(
        self, encoding: Encoding, space: ReducedSpace, batch: Batch, *, measured: bool = False
    ) -> Balance:
        """Reduced space -> balance law.

        ``measured`` says that a training step has measured this batch already: averages over
        steps count it once.
        """
        linear = self.backbone(space, batch, encoding.context)
        flux, graph = None, self._graph(space.windows)
        if isinstance(self.law, PaperLaw) and self.training and not measured:
            self.law.average(graph, linear)
        if self.law is not None:
            partitions = self._partitions(encoding, space, batch)
            flux = self.law.condition(encoding.flux_context, partitions, linear)
        convection = self._convection(space, batch)
        return assemble_balance(linear, flux, graph, batch.group_value, convection)

    def forward(
        self,
        batch: Batch,
        *,
        order: Literal[1, 2] = 1,
        start: Float[Tensor, "B F P"] | None = None,
    ) -> Output:
        """Predict a batch; the differentiable entry.

        Args:
            batch: samples of this model's problem.
            order: how often the fields may be differentiated.
            start: first Newton iterate.

        """
        encoding = self.encode(batch)
        device = batch.tokens.device.type
        mixed = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False):
            space = self.reduce(encoding, batch)
            balance = self.balance(encoding, space, batch)
            solution = self._solve(balance, space, batch, start)
            if not torch.is_grad_enabled():
                return Output(
                    space.field(solution.u), solution.u, solution, space, balance, encoding
                )
            if solution.converged.all():
                u = differentiable(balance, solution, order)
                return Output(space.field(u), u, solution, space, balance, encoding)
            # Unsolved samples leave before the differentiable step: 0 times NaN is NaN.
            with torch.no_grad():
                values, u = space.field(solution.u), solution.u.clone()
            good = torch.nonzero(solution.converged)[:, 0]
            if len(good):
                lost = solution.status == Status.NON_FINITE
                if lost.any():  # nor may they stand in a gradient's way back to the weights
                    batch = batch.blanked(lost)
                    with torch.autocast(device, enabled=mixed):  # what was solved, once more
                        encoding = self.encode(batch)
                    space = self.reduce(encoding, batch)
                    balance = self.balance(encoding, space, batch, measured=True)
                part = differentiable(select(balance, good), select(solution, good), order)
                values = values.index_copy(0, good, select(space, good).field(part))
                u = u.index_copy(0, good, part)
            return Output(values, u, solution, space, balance, encoding)

    def sit_out(self) -> None:
        """A training step of a process without samples: what processes share is shared."""
        if isinstance(self.law, PaperLaw) and self.training:
            self.law.average(self.graph, None)

    def transfer(self, output: Output, batch: Batch) -> Float[Tensor, "B N F"]:
        """The same prediction on other meshes of the same geometries.

        Encoded and solved where ``output`` was, evaluated on the nodes of ``batch``.
        """
        known = output.encoding
        z = self.encoder.evaluate(self.scaling(batch.tokens), known.memory, known.anchor_exists)
        with torch.autocast(batch.tokens.device.type, enabled=False):
            space = self.reduce(replace(known, nodes=z.to(known.nodes.dtype)), batch)
            return space.field(output.u)

    # -- for users -------------------------------------------------------------------------------

    @overload
    def predict(
        self,
        mesh: Mesh,
        boundary_data: BoundaryData,
        parameters: Mapping[str, Value] | None = None,
        source: Mapping[str, Value] | None = None,
        neumann: BoundaryData | None = None,
        cache: Cache | None = None,
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        mesh: Sequence[Mesh],
        boundary_data: BoundaryData | Sequence[BoundaryData],
        parameters: Mapping[str, Value] | Sequence[Mapping[str, Value]] | None = None,
        source: Mapping[str, Value] | Sequence[Mapping[str, Value]] | None = None,
        neumann: BoundaryData | Sequence[BoundaryData] | None = None,
        cache: Cache | None = None,
    ) -> list[Prediction]: ...

    def predict(self, mesh, boundary_data, parameters=None, source=None, neumann=None, cache=None):  # type: ignore[no-untyped-def]
        """Fields on a mesh, or on several, with their certificates.

        Args:
            mesh: one mesh, or a list of them.
            boundary_data: group -> field -> value; for several meshes one for all or one for each.
            parameters: name -> value.
            source: field -> value.
            neumann: group -> field -> value.
            cache: where features are kept.

        """
        meshes = [mesh] if isinstance(mesh, Mesh) else list(mesh)
        inputs = [
            _one_each(name, given, len(meshes))
            for name, given in (
                ("boundary_data", boundary_data),
                ("parameters", parameters),
                ("source", source),
                ("neumann", neumann),
            )
        ]
        samples = [
            prepare(
                one,
                self.problem,
                data,
                spec=self.spec,
                parameters=mu,
                source=f,
                neumann=g,
                cache=cache,
            )
            for one, data, mu, f, g in zip(meshes, *inputs, strict=True)
        ]
        predictions = self.predict_samples(samples)
        return predictions[0] if isinstance(mesh, Mesh) else predictions

    @torch.no_grad()
    def predict_samples(self, samples: Sequence[Sample]) -> list[Prediction]:
        """Predictions of prepared samples; deterministic, whatever mode the model is in."""
        was_training = self.training
        self.eval()
        try:
            result: dict[int, Prediction] = {}
            count = [self.windows(s) for s in samples]
            for windows in sorted(set(count)):  # so that batch mates do not matter
                alike = [k for k, own in enumerate(count) if own == windows]
                for first in range(0, len(alike), self.PREDICT_BATCH):
                    chosen = alike[first : first + self.PREDICT_BATCH]
                    batch = self.collate([samples[k] for k in chosen])
                    made = assemble_predictions(self(batch), batch)
                    result.update(zip(chosen, made, strict=True))
            return [result[k] for k in range(len(samples))]
        finally:
            self.train(was_training)

    def collate(
        self, samples: Sequence[Sample], draw: tuple[int, int, Sequence[int]] | None = None
    ) -> Batch:
        """A batch for this model, on its device; ``draw`` as in :mod:`geonew.model.batch`.

        All samples get the windows that the largest needs.
        """
        check_columns(samples, self.columns)
        weight, grid = self.scaling.mean, self.config.grid
        if grid is not None:
            for sample in samples:
                grid.check(sample.mesh)
        anchored = isinstance(self.encoder, AnchorTransformer)
        batch = collate(
            samples,
            self.config.depth if anchored else 1,
            self.config.anchors if anchored else 1,
            dtype=weight.dtype,
            draw=draw if anchored else None,
            matrices=self.backbone.matrices,
            windows=max(self.windows(s) for s in samples),
        )
        return batch if weight.device.type == "cpu" else batch.to(weight.device)

    def normalise_tokens(self, samples: Sequence[Sample]) -> None:
        """What is read off the training samples: scaling, largest volume, constants of a medium."""
        self.scaling.fit(samples)
        if self.mirror is not None:
            self.mirror.check(samples)
        if isinstance(self.encoder, GridEncoder):
            tokens = (torch.from_numpy(s.tokens).to(self.scaling.mean) for s in samples)
            self.encoder.convolutions.fit(self.scaling(t) for t in tokens)
        self.largest.fill_(max(float(s.mass.sum()) for s in samples))
        law = self.backbone.constitutive
        if self.config.identified and law is not None:
            self.medium = identify(law, samples)
            law.start_at(torch.from_numpy(self.medium.S), torch.from_numpy(self.medium.C))

    def windows(self, sample: Sample) -> int:
        """Windows that a sample gets; one where no term would couple several."""
        if isinstance(self.law, PaperLaw) or not self.backbone.couples:
            return 1
        return window_count(float(sample.mass.sum()), float(self.largest), self.config.windows)

    # -- parts -----------------------------------------------------------------------------------

    def _partitions(self, encoding: Encoding, space: ReducedSpace, batch: Batch) -> Partitions:
        """Embeddings of partitions and groups: means of node embeddings, weighted by their rows."""
        dtype = encoding.nodes.dtype
        # By slices: torch sums over an axis in the middle several times slower.
        groups = _total(space.group_rows.unbind(2)) / batch.live.sum(1).clamp_min(1.0)[:, None]
        inside = _total(space.trial.to(dtype).unbind(2))[..., :-1] / space.trial.shape[2]
        mass = (batch.mass / batch.volume[:, None])[..., None].to(dtype)
        rows = torch.cat([inside, groups.to(dtype)], dim=-1) * mass
        total = rows.sum(1)[..., None] + torch.finfo(torch.float32).tiny
        embedding = (rows.mT @ encoding.nodes) / total
        ones = batch.live.new_ones(*batch.live.shape[:2], space.partitions)
        floating = (batch.live.sum(-1) == 0).to(batch.live.dtype)
        held = _held_groups(encoding, batch, self.config.partitions)
        windows = 1 if held is None else held.shape[1] // self.config.partitions
        graph = self._graph(windows)
        return Partitions(embedding, torch.cat([ones, batch.live], -1), floating, graph, held)

    def _graph(self, windows: int) -> FluxGraph:
        if windows == 1:
            return self.graph
        if windows not in self._graphs:
            made = FluxGraph(self.config.partitions, self.graph.groups, windows)
            self._graphs[windows] = made.to(self.graph.tail.device)
        return self._graphs[windows]

    def _convection(self, space: ReducedSpace, batch: Batch) -> tuple:
        problem, plan = self.backbone.problem, self.backbone.plan
        return tuple(
            convective_term(
                problem.offset(problem.terms[number].fields[0]),
                problem.dim,
                self.backbone.coefficient(number, batch, space.partitions),
                space,
                batch,
            )
            for number in plan.convected
        )

    def _solve(
        self, balance: Balance, space: ReducedSpace, batch: Batch, start: Tensor | None
    ) -> Solution:
        stride = max(1, batch.mass.shape[1] // MEASURED)
        mass = batch.mass[:, ::stride]
        weight = (mass / mass.sum(1, keepdim=True))[..., None]
        part = space.on_nodes(slice(None, None, stride))

        def field_size(step: Float[Tensor, "B F P"]) -> Float[Tensor, "B"]:
            moved = part.field(step) - part.lift
            return (weight * moved**2).sum((1, 2)).sqrt()

        config, traced = self.config.newton, torch.is_grad_enabled()
        if self.training and traced and self.scaling.mean.dtype != torch.float64:
            config = config.one_step_short()
        return solve(balance, config, field_size, start, factored=traced)


def _used_terms(problem: Problem, config: ModelConfig) -> tuple[Term, ...]:
    """The known terms that the configuration wants."""
    if not config.known:
        return ()
    return tuple(
        t for t in problem.terms if config.quadratic or known_form(t.form).kind != "quadratic"
    )


def _windows(encoding: Encoding, batch: Batch) -> Float[Tensor, "B N K"] | None:
    if encoding.centres is None:
        return None
    if batch.points is None:
        raise InputError(
            "a prediction in several windows is carried over to a batch without window points",
            "collate the other meshes with the same model",
        )
    return window_weights(batch.points, encoding.centres, batch.volume)


def _held_groups(
    encoding: Encoding, batch: Batch, partitions: int
) -> Float[Tensor, "B P G"] | None:
    """For every partition the groups of which its window dominates some node with data."""
    windows = _windows(encoding, batch)
    if windows is None:
        return None
    owned = (batch.fixed[..., None] & (batch.indicators > 0.5)).any(2).double()  # (B, N, G)
    main = torch.nn.functional.one_hot(windows.argmax(-1), windows.shape[-1]).double()
    held = (main.mT @ owned > 0).double()  # (B, K, G)
    return held.repeat_interleave(partitions, dim=1)


def _total(parts: Sequence[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    """One input per mesh: a mapping serves them all."""
    if given is None or isinstance(given, Mapping):
        return [given] * count
    given = list(given)
    if len(given) != count:
        raise InputError(
            f"{name} has {len(given)} entries for {count} meshes", "give one, or one each"
        )
    return given


def select(item: T, index: Int[Tensor, "_"]) -> T:
    """The same object for some samples of its batch: every tensor with a batch axis is indexed."""
    return _select(item, index)


def _select(item: Any, index: Tensor) -> Any:
    if isinstance(item, Tensor):
        return item[index]
    if isinstance(item, NodalOperators):
        return item.select(index)
    if isinstance(item, tuple | list):
        return type(item)(_select(part, index) for part in item)
    if is_dataclass(item) and not isinstance(item, type):
        parts = {f.name: _select(getattr(item, f.name), index) for f in fields(item)}
        return type(item)(**parts)
    return item
