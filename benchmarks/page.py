"""How fast the page follows a drag: from the pointer's move to the new picture, in a real browser.

    python benchmarks/page.py --json OUT [--model NAME_OR_FILE]

`geonew serve` on this machine, Chromium without a window at 1280 x 800, an obstacle dragged in
small steps at about 1,000 nodes; the next step waits for the picture of the one before. Wall clock,
as a person sees it: other work on the machine counts. `page_worker_cpu_ms_median` is the processor
time of the worker that predicts, which does not depend on it.

Keys: `page_drag_ms_median`, `page_drag_ms_90`, `page_worker_cpu_ms_median`, `page_nodes_median`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from geonew import weights

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SHIPPED = "ns2d-c++"
STEPS, WARM = 40, 6
STEP = 3  # pixels


def browser() -> str | None:
    """The Chromium of this machine."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def drag_latency(model: str | Path) -> dict[str, float]:
    """The keys of the module docstring for a model of flow past obstacles."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "geonew.cli", "serve", str(model)]
    server = subprocess.Popen(
        [*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.match(r"(http://\S+) serves", server.stdout.readline())
        if found is None:
            raise SystemExit("geonew serve did not start")
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1280, "height": 800})
            page.goto(found[1])
            page.wait_for_selector("body[data-shown]")
            page.wait_for_selector("#state[data-busy=false]")
            return _dragged(page, psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait()


def _dragged(page: Any, server: psutil.Process) -> dict[str, float]:
    workers = server.children()
    first = page.evaluate("geonew.draft.geometry.obstacles[0]")
    place = page.evaluate("p => geonew.stage.toPixel(p)", [first["x"], first["y"]])
    box = page.locator("#overlay").bounding_box()
    x, y = box["x"] + place[0], box["y"] + place[1]
    page.mouse.move(x, y)
    page.mouse.down()
    nodes, spent = [], []
    for k in range(WARM + STEPS):
        pictures = page.evaluate("geonew.latencies.length")
        before = _seconds(workers)
        page.mouse.move(x + STEP * (1 + k % 10), y + STEP * (k // 10))
        while page.evaluate("geonew.latencies.length") == pictures:
            time.sleep(0.005)
        spent.append(1000 * (_seconds(workers) - before))
        nodes.append(page.evaluate("geonew.result.head.nodes"))
    page.mouse.up()
    latencies = page.evaluate("geonew.latencies")[-STEPS:]
    return {
        "page_drag_ms_median": float(np.median(latencies)),
        "page_drag_ms_90": float(np.quantile(latencies, 0.9)),
        "page_worker_cpu_ms_median": float(np.median(spent[-STEPS:])),
        "page_nodes_median": float(np.median(nodes)),
    }


def _seconds(processes: list[psutil.Process]) -> float:
    """Processor seconds of all of them; of the workers only one is at work."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--model", help=f"of flow past obstacles; default: the shipped {SHIPPED}")
    options = parser.parse_args()
    if browser() is None:
        raise SystemExit("no Chromium on this machine: apt install chromium")
    if options.model is None and SHIPPED not in weights.names():
        raise SystemExit("no model of flow past obstacles is shipped: give one by --model")
    figures = drag_latency(options.model or SHIPPED)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
