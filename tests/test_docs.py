"""The documentation: tutorials run, commands exist, the site builds and asks no other host."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from geonew.bench.campaign import campaign
from geonew.bench.place import Place
from geonew.cli import parser
from geonew.report.results import read_results
from pages import DOCS, PAGES, ROOT, TUTORIALS, Block, blocks, commands, program_of

# What takes a reader minutes takes the quick test seconds; the slow one runs pages as they stand.
SHORTER = {
    "tutorial-predict.md": {},
    "tutorial-train.md": {
        '"train": 40, "val": 8, "calibration": 20, "test": 8':
        '"train": 4, "val": 1, "calibration": 9, "test": 1',
        "cpu_minutes: 1": "epochs: 2",
    },
}  # fmt: skip
LARGEST_PICTURE = 200_000  # bytes
NEEDS_EXTRA = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("material", "latex2mathml")),
    reason="the extra docs is not installed",
)
LANGUAGES = {"python", "sh", "yaml", "text"}


def run(program: str, folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """A page's program in a fresh interpreter, with this environment's commands."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"MPLBACKEND": "Agg", "PATH": path, "GEONEW_HOME": f"{folder}/home"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


# -- blocks and commands ---------------------------------------------------------------------------


@pytest.mark.timeout(1800)  # half a minute of work, on a machine that may be busy
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_tutorials_run(page: Path, tmp_path: Path):
    made = run(program_of(page, SHORTER[page.name]), tmp_path, 1700)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_tutorials_run_as_they_stand(page: Path, tmp_path: Path):
    made = run(program_of(page, {}), tmp_path, 3500)
    assert made.returncode == 0, made.stdout + made.stderr


def test_every_block_of_a_tutorial_is_run_saved_or_output():
    for page in TUTORIALS:
        kinds = {block.language for block in blocks(page)}
        assert kinds <= LANGUAGES
        assert all(b.title for b in blocks(page) if b.language == "yaml")


COMMANDS = [(page.name, line) for page in PAGES for line in commands(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{p}: {c}"[:70] for p, c in COMMANDS])
def test_commands_of_all_pages_are_understood(page: str, line: str):
    words = shlex.split(line, comments=True)[1:]
    arguments = parser().parse_args(words)  # exits, and so fails, on what it does not know
    assert callable(arguments.run)
    for word in words:
        if word.startswith("configs/"):
            assert (ROOT / word).is_file()


def test_a_page_becomes_a_program(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        '```yaml title="a.yaml"\nsteps: 100\n```\n\n```sh\necho "x" >> a.yaml\n```\n\n'
        "```python\nprint(Path('a.yaml').read_text())\n```\n\n```text\nsteps\n```\n"
    )
    assert next(blocks(page)) == Block("yaml", "a.yaml", "steps: 100\n")
    made = run(program_of(page, {"100": "1"}), tmp_path, 60)
    assert made.stdout == "steps: 1\nx\n\n"
    with pytest.raises(AssertionError, match="has no"):
        program_of(page, {"200": "2"})
    page.write_text("```sh\nfalse\n```\n")
    assert run(program_of(page, {}), tmp_path, 60).returncode != 0


# -- what the pages say ----------------------------------------------------------------------------


def test_pictures_of_the_method_are_small():
    pictures = sorted((ROOT / "docs" / "images").glob("how-*.png"))
    assert len(pictures) == 4
    assert {p.name: p.stat().st_size for p in pictures if p.stat().st_size > LARGEST_PICTURE} == {}


# -- the site --------------------------------------------------------------------------------------


class Asked(HTMLParser):
    """What a browser fetches for a page: scripts, styles, fonts, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "embed"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") != "canonical":
            self.found.append(given.get("href") or "")
        if style := given.get("style"):
            self.found += outside_urls(style)


def outside_urls(css: str) -> list[str]:
    """What a style sheet fetches."""
    return re.findall(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", css)


def outside(html: str) -> list[str]:
    """What a page asks other hosts for."""
    asked = Asked()
    asked.feed(html)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    found = [*asked.found, *(url for css in styles for url in outside_urls(css))]
    return [url for url in found if re.match(r"(?:https?:)?//", url)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return folder


def text_of(html: str) -> str:
    """The article of a page without code, formulas and tags."""
    (article,) = re.findall(r"<article.*?</article>", html, re.DOTALL)
    bare = re.sub(r"<(pre|code|math|script)\b.*?</\1>", " ", article, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", bare)


@NEEDS_EXTRA
def test_every_page_is_built_and_in_the_navigation(site: Path):
    import yaml

    raw = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"[\w./+-]+\.md", str(yaml.safe_load(raw)["nav"]))
    assert sorted(listed) == sorted(p.relative_to(ROOT / "docs").as_posix() for p in DOCS)
    assert all((site / page).with_suffix(".html").is_file() for page in listed)


@NEEDS_EXTRA
def test_the_site_asks_no_other_host(site: Path):
    pages, styles = sorted(site.rglob("*.html")), sorted(site.rglob("*.css"))
    assert len(pages) > len(DOCS)  # and the one for what is not found
    assert styles
    assert {p.name: outside(p.read_text()) for p in pages if outside(p.read_text())} == {}
    assert [url for css in styles for url in outside_urls(css.read_text())] == []


def test_the_check_above_can_fail():
    assert outside('<script src="https://cdn.example/x.js"></script>')
    assert outside('<link rel="preconnect" href="//fonts.example">')
    assert outside("<style>@import 'https://fonts.example/a.css';</style>")
    assert not outside('<a href="https://example.org">a link is only followed by choice</a>')


@NEEDS_EXTRA
def test_formulas_are_mathml_and_none_is_left(site: Path):
    method = (site / "how-it-works.html").read_text()
    written = (ROOT / "docs" / "how-it-works.md").read_text().count("$$") // 2
    assert method.count('display="block"') == written > 10
    for page in site.rglob("*.html"):
        html = page.read_text()
        assert "arithmatex" not in html
        if page.name != "404.html":
            assert not re.search(r"\$|\\[a-z]+", text_of(html)), page.name


@NEEDS_EXTRA
def test_unknown_mathematics_ends_the_build():
    location = ROOT / "docs" / "hooks" / "mathematics.py"
    spec = importlib.util.spec_from_file_location("mathematics", location)
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    assert "<mfrac>" in hook.mathml(r"\frac{a}{b}", "inline")
    with pytest.raises(ValueError, match="nonsense"):
        hook.mathml(r"a \nonsense b", "inline")


@NEEDS_EXTRA
def test_figures_and_cards_are_filled_in(site: Path):
    results, models = ((site / f"{name}.html").read_text() for name in ("results", "models"))
    for file in (ROOT / "results" / "benchmarks").glob("*.json"):
        assert f'id="{file.stem}"' in results
    assert "growth exponent" in results
    assert "Geo-NeW over the best baseline" in results
    place = Place(campaign("cpu"), ROOT / "results" / "cpu", ROOT / "configs" / "cpu")
    open_cells = read_results(place).missing()
    assert ("Not run yet" in results) == bool(open_cells)
    assert all(cell.name in results for cell in open_cells)
    assert "<!--" not in results.split("<article")[1].split("</article>")[0]
    figures = re.findall(r'<img[^>]* src="(figures/[^"]+)"', results)
    kept = {p.name for p in (ROOT / "results" / "cpu" / "pictures").glob("*.png")}
    assert {"figures/angle.svg", "figures/newton.svg", *(f"figures/{k}" for k in kept)} <= {
        *figures
    }
    assert all((site / name).stat().st_size > 0 for name in figures)
    assert "<!-- cards" not in models
    shipped = any((ROOT / "src" / "geonew" / "weights").glob("*.safetensors"))
    assert ("comes without weights" in models) != shipped
