"""Cost of a training step at the size that one core trains, beside the inducing-point baseline's.

    python benchmarks/training.py --json OUT

The recipe of ns2d-c++ (`configs/cpu`), its data (`geonew data build --suite cpu --families
ns2d-c++`), one thread. Rows take turns on the same batches, optimiser included, samples seen once
before; seconds are processor seconds, ratios those of the same batch, their medians.

Keys: `step_ratio` (known+learned over inducing), `step_ratio_learned`, `loading_share` (putting a
batch together, of a whole step; the worst row), `memory_growth_mb` (from step 200 to the last of
`--steps`), `seconds_by_part`.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import torch

from geonew.bench.rows import model_of
from geonew.train.config import load_config
from geonew.train.distributed import team
from geonew.train.memory import keep_freed_memory
from geonew.train.models import ModelChoice
from geonew.train.reading import read_yaml
from geonew.train.setup import Run, assemble, load_data

RECIPE = Path(__file__).parents[1] / "configs" / "cpu" / "ns2d-c++.yaml"
ROWS = ("inducing", "known+learned", "learned")
SAMPLES = 64
PARTS = ("loading", "forward", "backward", "optimiser")


def timed_step(run: Run, chosen: list[int]) -> np.ndarray:
    """Processor seconds of each part of one training step."""
    marks = [time.process_time()]
    batch = run.fields.collate([run.data.train[k] for k in chosen], draw=(0, 0, chosen))
    marks.append(time.process_time())
    losses = run.objective(batch)
    marks.append(time.process_time())
    run.optimiser.zero_grad(set_to_none=True)
    (losses.total / losses.converged).backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), run.config.optimiser.clip)
    marks.append(time.process_time())
    run.optimiser.step()
    marks.append(time.process_time())
    return np.diff(marks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--steps", type=int, default=1000, help="of the look at memory; 0: none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    config = load_config(RECIPE, [f"data.train_limit={SAMPLES}", "data.validation_limit=1"])
    plain = read_yaml(RECIPE)["model"]
    rng = np.random.default_rng(0)
    runs: dict[str, Run] = {}
    with team("cpu") as mates:
        data = load_data(config.data, config.features, mates)
        for row in ROWS:
            torch.manual_seed(0)
            choice = ModelChoice.from_plain(model_of(row, plain), "model")
            runs[row] = assemble(replace(config, model=choice), data, mates, None)
            runs[row].model.train()
        for first in range(0, len(data.train), config.batch):  # every sample once
            for run in runs.values():
                timed_step(run, list(range(first, min(first + config.batch, len(data.train)))))
        seconds: dict[str, list[np.ndarray]] = {row: [] for row in ROWS}
        for _ in range(options.repeats):
            chosen = rng.choice(len(data.train), config.batch, replace=False).tolist()
            for row, run in runs.items():
                seconds[row].append(timed_step(run, chosen))
        used = []
        for _ in range(options.steps):
            chosen = rng.choice(len(data.train), config.batch, replace=False).tolist()
            timed_step(runs["known+learned"], chosen)
            used.append(psutil.Process().memory_info().rss / 2**20)
    stacked = {row: np.stack(values) for row, values in seconds.items()}
    whole = {row: values.sum(axis=1) for row, values in stacked.items()}
    growth = None
    if len(used) > 300:
        growth = float(np.median(used[-50:]) - np.median(used[200:250]))
    figures = {
        "step_ratio": float(np.median(whole["known+learned"] / whole["inducing"])),
        "step_ratio_learned": float(np.median(whole["learned"] / whole["inducing"])),
        "loading_share": max(
            float(np.median(values[:, 0] / values.sum(axis=1))) for values in stacked.values()
        ),
        "memory_growth_mb": growth,
        "steps": options.steps,
        "seconds_by_part": {
            row: dict(zip(PARTS, np.median(values, axis=0).tolist(), strict=True))
            for row, values in stacked.items()
        },
        "samples": SAMPLES,
        "batch": config.batch,
        "torch": torch.__version__,
        "threads": 1,
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
