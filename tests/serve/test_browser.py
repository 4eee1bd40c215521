"""The page in a real browser: load, drag, compare, upload, download, and how it looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from browsers import CHROMIUM, NO_CHROMIUM, chromium, drag, opened, settled, until
from geonew.mesh import read_mesh, write_mesh
from geonew.serve.editors import EDITORS
from serve_runs import Running, drawn

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """The page, open; any error of its scripts and any foreign request fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console",
        lambda m: faults.append(m.text) if m.type == "error" and "status of 4" not in m.text else 0,
    )
    made.on(
        "request",
        lambda r: None if r.url.startswith((server.address, "blob:")) else faults.append(r.url),
    )
    opened(made, server.address)
    yield made
    context.close()
    assert faults == []


def obstacles(page: Any) -> list[dict[str, float]]:
    return page.evaluate("geonew.draft.geometry.obstacles")


def values(page: Any, name: str = "field:velocity") -> np.ndarray:
    return np.array(page.evaluate("n => Array.from(geonew.result.arrays[n].data)", name))


def colours(page: Any, canvas: str = "#field") -> int:
    """How many different colours a canvas shows."""
    return page.evaluate(
        """selector => {
            const canvas = document.querySelector(selector);
            const context = canvas.getContext("2d");
            const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        canvas,
    )


def test_the_first_sight(page):
    assert colours(page) > 100
    assert colours(page, "#colours") > 100
    assert page.text_content("#quantity") == "|velocity| (m/s)"
    titles = page.locator("#statements b").all_text_contents()
    assert titles[0] == "Converged"
    assert {"Conserved", "Boundary exact"} <= set(titles)
    assert "training shapes" in page.text_content("#familiar")
    assert "nodes" in page.text_content("#state")
    plain = colours(page)
    page.uncheck("#streamlines")
    without = colours(page)
    assert without != plain
    page.check("#partitions")
    settled(page)
    until(lambda: page.evaluate("Boolean(geonew.result.arrays.rows)"))
    assert colours(page) != without


def test_an_obstacle_follows_the_pointer_and_the_field_the_obstacle(page):
    first, before = obstacles(page)[0], values(page)
    start = (first["x"], first["y"])
    drag(page, start, (first["x"] + 0.05, first["y"] + 0.03))
    settled(page)
    moved = obstacles(page)[0]
    assert moved["x"] == pytest.approx(first["x"] + 0.05, abs=0.004)
    assert moved["y"] == pytest.approx(first["y"] + 0.03, abs=0.004)
    after = values(page)
    assert before.shape != after.shape or np.any(before != after)
    rim = (moved["x"] + moved["radius"], moved["y"])
    drag(page, rim, (rim[0] + 0.02, rim[1]))
    settled(page)
    assert obstacles(page)[0]["radius"] == pytest.approx(moved["radius"] + 0.02, abs=0.004)


def test_obstacles_are_added_removed_and_moved_by_keys(page):
    count = len(obstacles(page))
    page.click("#add")
    settled(page)
    assert len(obstacles(page)) == count + 1
    page.focus("#overlay")
    x = obstacles(page)[-1]["x"]
    page.keyboard.press("ArrowRight")
    assert obstacles(page)[-1]["x"] == pytest.approx(x + 0.01)
    radius = obstacles(page)[-1]["radius"]
    page.keyboard.press("-")
    assert obstacles(page)[-1]["radius"] < radius
    page.check("#square")
    settled(page)
    assert obstacles(page)[-1]["square"]
    page.keyboard.press("Tab")
    page.focus("#overlay")
    page.keyboard.press("Delete")
    settled(page)
    assert len(obstacles(page)) == count
    page.locator("#controls input[type=number]").first.fill("1.5")
    page.keyboard.press("Tab")
    until(lambda: page.evaluate("geonew.result.head.bounds[1][0]") == pytest.approx(1.5))


def test_shapes_that_are_not_possible_are_said_to_be_and_undone(page):
    first = obstacles(page)[0]
    page.click("#add")
    settled(page)
    other = obstacles(page)[-1]
    drag(page, (other["x"], other["y"]), (first["x"], first["y"]))
    page.wait_for_selector("#toast:not([hidden])")
    assert "overlap" in page.text_content("#toast")
    assert page.text_content("#state") == "not possible"
    drag(page, (first["x"], first["y"]), (other["x"], other["y"]))
    page.wait_for_selector("#toast", state="hidden")
    settled(page)
    assert "nodes" in page.text_content("#state")


def test_the_reference_and_its_error(page):
    assert page.is_disabled("[data-view=error]")
    page.click("#compare")
    page.wait_for_selector("#errors:not([hidden])", timeout=60_000)
    rows = page.locator("#errors td").all_text_contents()
    assert "velocity" in rows
    assert rows[1].endswith("%")
    assert "Reference" in page.text_content("#times")
    page.click("[data-view=error]")
    assert page.text_content("#quantity").startswith("error of")
    first = obstacles(page)[0]
    drag(page, (first["x"], first["y"]), (first["x"] + 0.02, first["y"]))
    settled(page)
    assert page.is_hidden("#errors")  # it was the error of another shape
    assert page.is_disabled("[data-view=error]")


def test_corners_of_a_polygon(page):
    page.select_option("#model", "poly-poisson")
    until(lambda: page.evaluate("geonew.result?.arrays['field:u'] !== undefined"))
    settled(page)
    assert "Not calibrated" in page.text_content("#familiar")
    corner = page.evaluate("geonew.draft.geometry.corners[1]")
    drag(page, tuple(corner), (0.9 * corner[0], 0.9 * corner[1]))
    settled(page)
    moved = page.evaluate("geonew.draft.geometry.corners[1]")
    assert moved == pytest.approx([0.9 * corner[0], 0.9 * corner[1]], abs=0.01)
    page.click("#add")
    settled(page)
    assert page.evaluate("geonew.draft.geometry.corners.length") == 4
    page.click("#outside")
    until(lambda: page.evaluate("geonew.draft.geometry.corners.length") >= 6)


def test_uploads_good_and_bad(page, tmp_path):
    page.select_option("#model", "poly-poisson")
    until(lambda: page.evaluate("geonew.result?.arrays['field:u'] !== undefined"))
    (tmp_path / "bad.msh").write_text("this is no mesh")
    page.set_input_files("#file", tmp_path / "bad.msh")
    page.wait_for_selector("#toast:not([hidden])")
    assert "does not look like a Gmsh file" in page.text_content("#toast")
    page.click("#toast button")
    mesh = drawn(EDITORS["poly-poisson"], 7).mesh
    write_mesh(tmp_path / "good.vtu", mesh.renamed({"circle": "far", "cutout": "near"}))
    page.set_input_files("#file", tmp_path / "good.vtu")
    page.wait_for_selector("#naming[open]")
    page.select_option("#names select[aria-label=far]", "cutout")
    page.select_option("#names select[aria-label=near]", "cutout")
    assert page.is_disabled("#naming-ok")
    assert "circle" in page.text_content("#naming-problem")
    page.select_option("#names select[aria-label=far]", "circle")
    page.click("#naming-ok")
    until(lambda: page.evaluate("geonew.result.head.nodes") == mesh.n_nodes)
    settled(page)
    assert "good.vtu" in page.text_content("#uploaded")
    page.click("#compare")
    page.wait_for_selector("#errors:not([hidden])", timeout=60_000)
    page.click("#back")
    settled(page)
    until(lambda: page.evaluate("geonew.result.head.nodes") != mesh.n_nodes)


def test_downloads(page, tmp_path):
    with page.expect_download() as found:
        page.click("#vtu")
    found.value.save_as(tmp_path / found.value.suggested_filename)
    assert found.value.suggested_filename == "ns2d-c++.vtu"
    mesh = read_mesh(tmp_path / "ns2d-c++.vtu")
    assert mesh.n_nodes == page.evaluate("geonew.result.head.nodes")
    with page.expect_download() as found:
        page.click("#png")
    found.value.save_as(tmp_path / "picture.png")
    picture = imread(tmp_path / "picture.png")
    assert picture.shape[1] > 1000
    bytes_ = (255 * picture[..., :3]).round().astype(np.int64)
    assert len(np.unique(bytes_ @ [1, 256, 65536])) > 500


def test_nothing_overlaps_or_sticks_out(page):
    for width, height in [(1280, 800), (390, 844), (820, 1180)]:
        check_layout(page, width, height)


def check_layout(page: Any, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("() => new Promise(requestAnimationFrame)")
    across = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert across[0] <= across[1]
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(
            "header > *, .bar > *, .chips > *, .segments > *, .card > *, .row > *, #legend > *"
        )].filter(e => e.offsetParent).map(e => {
            const b = e.getBoundingClientRect();
            return [[...e.parentElement.parentElement.children].indexOf(e.parentElement),
                    e.parentElement.className + e.parentElement.id + e.parentElement.tagName,
                    e.id || e.className || e.textContent.slice(0, 20),
                    b.left, b.top, b.right, b.bottom];
        })"""
    )
    assert len(boxes) > 25
    for k, (place, parent, name, left, top, right, bottom) in enumerate(boxes):
        assert left >= -0.5, name
        assert right <= width + 0.5, name
        for place2, parent2, other, left2, top2, right2, bottom2 in boxes[:k]:
            if (place, parent) == (place2, parent2):
                across = min(right, right2) - max(left, left2)
                down = min(bottom, bottom2) - max(top, top2)
                # neighbouring buttons share the line between them
                assert min(across, down) <= 1.5, (width, name, other)


def test_touch(browser, server):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    opened(page, server.address)
    first = obstacles(page)[0]
    place = page.evaluate("p => geonew.stage.toPixel(p)", [first["x"], first["y"]])
    box = page.locator("#overlay").bounding_box()
    x, y = box["x"] + place[0], box["y"] + place[1]
    session = context.new_cdp_session(page)
    for kind, dx in (("touchStart", 0), ("touchMove", 8), ("touchMove", 16), ("touchEnd", 16)):
        points = [] if kind == "touchEnd" else [{"x": x + dx, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    settled(page)
    assert obstacles(page)[0]["x"] > first["x"] + 0.02
    context.close()


def test_dark_and_light(page):
    theme = "document.documentElement.dataset.theme"
    before = page.evaluate(theme)
    background = "getComputedStyle(document.body).backgroundColor"
    first = page.evaluate(background)
    page.click("#theme")
    assert page.evaluate(theme) != before
    assert page.evaluate(background) != first
