"""The Chromium of the system, and what tests of the page do with it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)
NO_CHROMIUM = "no Chromium on this machine: apt install chromium"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def until(ready: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Ask again and again until the answer is yes."""
    end = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def opened(page: Any, address: str) -> None:
    """Open the page and wait for the first field."""
    page.goto(address)
    page.wait_for_selector("body[data-shown]")
    settled(page)


def settled(page: Any) -> None:
    """Wait until nothing is being computed."""
    page.wait_for_selector("#state[data-busy=false]")


def pixel(page: Any, x: float, y: float) -> tuple[float, float]:
    """Where a point of the domain is in the window."""
    place = page.evaluate("p => geonew.stage.toPixel(p)", [x, y])
    box = page.locator("#overlay").bounding_box()
    return box["x"] + place[0], box["y"] + place[1]


def drag(page: Any, start: tuple[float, float], end: tuple[float, float], steps: int = 4) -> None:
    """Drag from one point of the domain to another."""
    page.mouse.move(*pixel(page, *start))
    page.mouse.down()
    page.mouse.move(*pixel(page, *end), steps=steps)
    page.mouse.up()
