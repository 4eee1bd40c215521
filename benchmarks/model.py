"""Cost of Geo-NeW beside the same encoder with a linear head.

    python benchmarks/model.py --json OUT

One thread, one process, the two models timed in turns, medians of processor seconds (which other
jobs on the machine disturb least). Features are precomputed and the
optimiser is left out: what is compared is forward pass and training step (forward, loss, backward).

Keys: `forward_ratio`, `train_ratio` (paper settings, the worse of about 900 and 3,500 nodes),
`forward_ratio_small`, `train_ratio_small` (the size that two cores train), `seconds_by_part`,
`time_exponent` (1k to 64k nodes at fixed P), `peak_mb_64k`, `largest` (256k nodes), `parameters`.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from geonew.features import FeatureSpec
from geonew.mesh import Mesh
from geonew.model.batch import Batch
from geonew.model.config import ModelConfig
from geonew.model.encoder import AnchorTransformer
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample, prepare
from geonew.model.scaling import TokenScaling
from geonew.problem import Dirichlet, Field, FrameRule, Problem, stokes_terms
from geonew.shape import Shape, disc, rectangle, triangulate

PAPER = ModelConfig()  # P = 32, d = 128, 4 layers, 2 heads, 64 anchors
SMALL = ModelConfig(width=64, depth=2, partitions=16)
BATCH = 8
LARGEST_NODES = 300_000  # comes out as 256,000 or a little more


class DirectHead(nn.Module):
    """The same encoder with a linear head."""

    def __init__(self, scaling: TokenScaling, components: int, config: ModelConfig) -> None:
        super().__init__()
        self.scaling = scaling
        self.encoder = AnchorTransformer(
            len(scaling.mean), config.width, config.depth, config.heads, config.exchanges
        )
        self.head = nn.Linear(config.width, components)

    def forward(self, batch: Batch) -> Tensor:
        tokens = self.scaling(batch.tokens)
        return self.head(self.encoder(tokens, batch.anchors, batch.anchor_exists)[0])


def flow_problem() -> Problem:
    return Problem(
        "channel",
        2,
        (Field("velocity", "vector", labels=("u", "v")), Field("pressure", labels=("p",))),
        ("inlet", "wall", "outlet"),
        (
            Dirichlet("velocity", "inlet"),
            Dirichlet("velocity", "wall"),
            Dirichlet("velocity", "outlet", axes=(1,)),
            Dirichlet("pressure", "outlet"),
        ),
        terms=stokes_terms("velocity", "pressure", 0.15),
        frame=(FrameRule("normal", "inlet"),),
        harmonic=(("inlet", "outlet"),),
    )


DATA = {
    "inlet": {"velocity": lambda x: np.stack([4 * x[:, 1] * (1 - x[:, 1]), 0 * x[:, 0]], 1)},
    "wall": {"velocity": [0.0, 0.0]},
    "outlet": {"velocity": [0.0], "pressure": 0.0},
}


def channel_mesh(nodes: int, seed: int) -> Mesh:
    """Unit square with two circular obstacles, about the given number of nodes."""
    rng = np.random.default_rng(seed)
    holes = tuple(
        disc(center + rng.uniform(-0.05, 0.05, 2), rng.uniform(0.08, 0.14), "wall")
        for center in (np.array([0.3, 0.35]), np.array([0.65, 0.65]))
    )
    shape = Shape(rectangle((0, 0), (1, 1), ("wall", "outlet", "wall", "inlet")), holes)
    return triangulate(shape, 1.12 * nodes**-0.5, curve_points=0)


def make_samples(nodes: int, count: int, spec: FeatureSpec) -> list[Sample]:
    problem = flow_problem()
    return [prepare(channel_mesh(nodes, seed), problem, DATA, spec=spec) for seed in range(count)]


def in_turns(runs: list, repeats: int) -> np.ndarray:
    """Seconds of each run and repeat, the runs taking turns: what slows one slows its neighbour."""
    for run in runs:
        run()
    seconds = np.empty((len(runs), repeats))
    for k in range(repeats):
        for own, run in zip(seconds, runs, strict=True):
            start = time.process_time()
            run()
            own[k] = time.process_time() - start
    return seconds


def ratios(config: ModelConfig, nodes: int, repeats: int) -> dict[str, float]:
    spec = FeatureSpec()
    samples = make_samples(nodes, BATCH, spec)
    problem = samples[0].problem
    torch.manual_seed(0)
    model = GeoNeW(problem, spec, samples[0].columns, config)
    model.normalise_tokens(samples)
    direct = DirectHead(model.scaling, problem.n_components, config)
    batch = model.collate(samples)

    def forward(network, data) -> None:
        with torch.no_grad():
            network(data)

    def train(network, data) -> None:
        network.zero_grad(set_to_none=True)
        out = network(data)
        fields = out if isinstance(out, Tensor) else out.fields
        (fields.square() * data.mask[..., None]).mean().backward()

    found = {"nodes": float(np.mean([s.n_nodes for s in samples]))}
    for name, run in (("forward", forward), ("train", train)):
        plain, ours = in_turns([partial(run, direct, batch), partial(run, model, batch)], repeats)
        found[f"{name}_direct"] = float(np.median(plain))
        found[name] = float(np.median(ours))
        found[f"{name}_ratio"] = float(np.median(ours / plain))
    return found


def parts(config: ModelConfig, nodes: int, repeats: int) -> dict[str, float]:
    """Seconds of each arrow of the forward pass."""
    spec = FeatureSpec()
    samples = make_samples(nodes, BATCH, spec)
    torch.manual_seed(0)
    model = GeoNeW(samples[0].problem, spec, samples[0].columns, config)
    model.normalise_tokens(samples)
    batch = model.collate(samples)
    seconds: dict[str, list[float]] = {}

    def lap(name: str, start: float) -> float:
        now = time.process_time()
        seconds.setdefault(name, []).append(now - start)
        return now

    with torch.no_grad():
        for _ in range(repeats + 1):
            t = time.process_time()
            encoding = model.encode(batch)
            t = lap("encoder", t)
            space = model.reduce(encoding, batch)
            t = lap("partitions", t)
            linear = model.backbone(space, batch)
            t = lap("projection", t)
            around = model._partitions(encoding, space, batch)
            flux = model.law.condition(encoding.flux_context, around, linear)
            t = lap("flux law", t)
            balance = model.balance(encoding, space, batch)
            t = time.process_time()
            solution = model._solve(balance, space, batch, None)
            t = lap("solve", t)
            space.field(solution.u)
            t = lap("reconstruction", t)
            model.collate(samples)
            lap("collation (not in a step)", t)
            del flux
    return {name: float(np.median(values[1:])) for name, values in seconds.items()}


def scaling(sizes: list[int]) -> dict[str, float]:
    """Seconds of a prediction's forward pass against the number of nodes, one mesh at a time."""
    spec = FeatureSpec(hks_times=0, hks_gradients=False)
    result = {}
    for nodes in sizes:
        sample = prepare(channel_mesh(nodes, 0), flow_problem(), DATA, spec=spec)
        torch.manual_seed(0)
        model = GeoNeW(sample.problem, spec, sample.columns, PAPER)
        model.normalise_tokens([sample])
        batch = model.collate([sample])

        def run(model=model, batch=batch) -> None:
            with torch.no_grad():
                model(batch)

        result[str(sample.n_nodes)] = float(np.median(in_turns([run], 3)))
    return result


def child(nodes: int) -> None:
    """One whole prediction in a process of its own, to measure its peak memory."""
    spec = FeatureSpec()
    mesh = channel_mesh(nodes, 0)
    start = time.process_time()
    sample = prepare(mesh, flow_problem(), DATA, spec=spec)
    prepared = time.process_time()
    torch.manual_seed(0)
    model = GeoNeW(sample.problem, spec, sample.columns, PAPER)
    model.normalise_tokens([sample])
    (prediction,) = model.predict_samples([sample])
    print(
        json.dumps(
            {
                "nodes": mesh.n_nodes,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "features_seconds": prepared - start,
                "predict_seconds": time.process_time() - prepared,
                "status": prediction.certificate.status,
            }
        )
    )


def measured_child(nodes: int) -> dict:
    command = [sys.executable, __file__, "--child", str(nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--quick", action="store_true", help="ratios only")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        child(options.child)
        return
    runs = {
        "paper_900": ratios(PAPER, 900, options.repeats),
        "paper_3500": ratios(PAPER, 3500, max(3, options.repeats // 4)),
        "small_700": ratios(SMALL, 700, 2 * options.repeats),
    }
    problem = flow_problem()
    columns = make_samples(200, 1, FeatureSpec())[0].columns
    model = GeoNeW(problem, FeatureSpec(), columns, PAPER)
    figures = {
        "forward_ratio": max(runs[k]["forward_ratio"] for k in ("paper_900", "paper_3500")),
        "train_ratio": max(runs[k]["train_ratio"] for k in ("paper_900", "paper_3500")),
        "forward_ratio_small": runs["small_700"]["forward_ratio"],
        "train_ratio_small": runs["small_700"]["train_ratio"],
        "seconds_by_part": {
            "paper_900": parts(PAPER, 900, options.repeats),
            "small_700": parts(SMALL, 700, options.repeats),
        },
        "parameters": sum(p.numel() for p in model.parameters()),
        "runs": runs,
        "torch": torch.__version__,
        "threads": 1,
    }
    if not options.quick:
        times = scaling([1000, 4000, 16_000, 64_000])
        nodes, seconds = zip(*((int(n), s) for n, s in times.items()), strict=True)
        figures["seconds_by_nodes"] = times
        figures["time_exponent"] = float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0])
        big = measured_child(64_000)
        figures["peak_mb_64k"] = big["peak_mb"]
        figures["prediction_64k"] = big
        figures["largest"] = measured_child(LARGEST_NODES)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
