"""The report of a real, tiny campaign: complete, self-contained, honest, its numbers the cells'."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import report_runs as tiny
from geonew.bench.place import Place
from geonew.cli import main
from geonew.errors import DataError
from geonew.report.kept import keep
from geonew.report.report import make_report
from geonew.report.results import LABELS, read_results
from geonew.report.table import NOT_ASKED, NOT_FINITE, NOT_RUN, Entry
from geonew.report.table import written as as_text

HARD = "ns2d-c++"


class Page(HTMLParser):
    """Addresses, texts of tables, and words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.words: list[str] = []
        self._section, self._cell = "", False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [given[k] for k in ("src", "href", "srcset", "action") if k in given]
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "section":
            self._section = given["id"]
        if tag == "tr":
            self.tables.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.tables[self._section][-1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data):
        self.words.append(data)
        if self._cell:
            self.tables[self._section][-1][-1] += data


@pytest.fixture(scope="module")
def page(written):
    parsed = Page()
    parsed.feed((written[2] / "report.html").read_text(encoding="utf-8"))
    return parsed


@pytest.fixture(scope="module")
def numbers(written):
    return json.loads((written[2] / "report.json").read_text(encoding="utf-8"))


def test_the_page_needs_nothing_else(written, page):
    text = (written[2] / "report.html").read_text(encoding="utf-8")
    assert all(a.startswith(("data:image/", "#")) for a in page.addresses)
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    visible = text
    for address in page.addresses:
        visible = visible.replace(address, "")
    for outside in ("http:", "https:", "//", "@import", "url(", "javascript"):
        assert outside not in visible
    assert "viewport" in text
    assert "prefers-color-scheme: dark" in text
    targets = [a[1:] for a in page.addresses if a.startswith("#")]
    assert set(targets) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids)), "every place has a name of its own"


def test_figures_in_the_page_are_the_files(written, page):
    _, report, folder = written
    inside = [base64.b64decode(a.split(",", 1)[1]) for a in page.addresses if a[0] != "#"]
    files = [(folder / f.file).read_bytes() for f in report.figures]
    assert sorted(inside) == sorted(files)
    assert {f[:4] for f in files} == {b"\x89PNG", b"<?xm"}
    for content in files:
        if content.startswith(b"<?xml"):
            drawing = Page()
            drawing.feed(content.decode())
            assert all(a.startswith("#") for a in drawing.addresses)


def test_every_table_is_in_page_markdown_and_json(written, page, numbers):
    _, report, folder = written
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert set(numbers["tables"]) == {t.key for t in report.tables}
    for key, table in numbers["tables"].items():
        shown = page.tables[f"table-{key}"]
        assert len(shown) == 1 + len(table["rows"])
        assert f"### {table['title']}" in markdown
        for row, texts in zip(table["rows"], shown[1:], strict=True):
            wanted = [row["label"]]
            for column, value in zip(table["columns"], row["values"], strict=True):
                wanted.append(expected(value, column["kind"]))
            assert texts == wanted
            plain = "| " + " | ".join(t.replace("|", "\\|") for t in wanted) + " |"
            assert plain in markdown.replace("**", "")


def expected(value, kind: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"{as_text(value['value'], kind)} ± {as_text(value['spread'], kind, 2)}"
    return NOT_RUN if value is None else as_text(value, kind)


def value_of(numbers: dict, key: str, label: str, column: str):
    table = numbers["tables"][key]
    names = [c["name"] for c in table["columns"] if not c["published"]]
    row = next(r for r in table["rows"] if r["label"] == label)
    return row["values"][names.index(column)]


def combined(place: Place, cell: str, test: str) -> float:
    document = json.loads(place.result(place.campaign[cell]).read_text())
    return document["error"][test]["combined"]["relative"]["mean"]


def test_numbers_are_those_of_the_cells(written, numbers):
    place, *_ = written
    ours, baseline = (
        combined(place, f"main/{HARD}/{r}", "id") for r in ("known+learned", "inducing")
    )
    label = LABELS["known+learned"]
    assert value_of(numbers, "non-standard-main", label, "NS2d-c++ ID") == ours
    assert value_of(numbers, "non-standard-main", LABELS["inducing"], "NS2d-c++ ID") == baseline
    ratio = value_of(numbers, "ratios", f"{HARD} ID", "known + learned / best")
    assert ratio == pytest.approx(ours / baseline)
    seeds = [combined(place, f"long/{HARD}/known+learned/{seed}", "ood") for seed in (0, 1)]
    found = value_of(numbers, "non-standard-long", label, "NS2d-c++ OOD")
    assert found["value"] == pytest.approx(np.mean(seeds))
    assert found["spread"] == pytest.approx(np.std(seeds, ddof=1))
    assert found["runs"] == 2
    assert value_of(numbers, "swap", label, "exchanged") == combined(
        place, "swap/known+learned", "swap"
    )
    squeezed = value_of(numbers, "rescaled", "Transolver, rescaled coordinates", "OOD")
    assert squeezed == combined(place, "rescale/transolver", "ood")
    assert squeezed != combined(place, f"long/{HARD}/transolver/0", "ood"), "longer channels differ"
    document = json.loads(
        place.result(place.campaign["ablation/depth-1/known+learned"]).read_text()
    )
    assert (
        value_of(numbers, "inference-time", label, "N = 1") == document["runtime"]["id"]["forward"]
    )
    changed = combined(place, "ablation/depth-1/known+learned", "id")
    unchanged = combined(place, "ablation/unchanged/known+learned", "id")
    assert value_of(numbers, "ablations", "… depth 1", "ID") == changed
    assert value_of(numbers, "ablations", "… depth 1", "over unchanged") == pytest.approx(
        changed / unchanged
    )
    assert value_of(numbers, "encodings", label, "mesh-based, ID") == unchanged
    seconds = document["train_samples"] / document["samples_per_second"]
    assert value_of(numbers, "training-time", label, "N = 1") == pytest.approx(seconds)
    assert numbers["cells"].keys() == read_results(place).found.keys()


def test_ratios_are_over_the_seeds_that_all_rows_have(written, numbers):
    place, *_ = written
    ours, other = (
        combined(place, f"long/{HARD}/{row}/0", "id") for row in ("known+learned", "transolver")
    )
    table = numbers["tables"]["ratios"]
    rows = [r for r in table["rows"] if r["label"] == f"{HARD} ID"]
    assert len(rows) == 2, "one line for each budget"
    names = [c["name"] for c in table["columns"]]
    found = rows[1]["values"][names.index("known + learned / best")]
    assert found == pytest.approx(ours / other), "the second seed has no baseline beside it"
    summary = numbers["tables"]["summary"]
    assert [row["label"] for row in summary["rows"]] == [HARD], "one line a family, longest budget"
    assert value_of(numbers, "summary", HARD, "known + learned") == pytest.approx(ours)
    assert value_of(numbers, "summary", HARD, "best baseline") == pytest.approx(other)
    theirs = combined(place, f"long/{HARD}/transolver/0", "ood")
    assert value_of(numbers, "summary", HARD, "OOD, best baseline") == pytest.approx(theirs)


def test_charts_show_the_numbers_of_the_cells(written, numbers):
    place, *_ = written
    figure = numbers["figures"]["angle"]["numbers"]["panels"][0]
    curves = {c["label"]: c for c in figure["curves"]}
    document = json.loads(place.result(place.campaign["sweep/known+learned"]).read_text())
    table = document["by_axis"]["angles"]["angle"]
    wanted = [100 * table[k]["combined"]["relative"]["mean"] for k in ("0", "30")]
    ours = curves[LABELS["known+learned"]]
    assert ours["x"] == [0.0, 30.0]
    assert ours["y"] == pytest.approx(wanted)
    places = numbers["figures"]["heat-map-known-learned"]["numbers"]["places"]
    theirs = json.loads(place.result(place.campaign["sweep/transolver"]).read_text())["places"]
    for found, a, b in zip(places, document["places"], theirs, strict=True):
        assert found["place"] == [a["length"], a["obstacles"], a["angle"]]
        assert found["improvement"] == pytest.approx(100 * (1 - a["error"] / b["error"]))
    newton = numbers["figures"]["newton"]["numbers"]["panels"][0]["curves"]
    assert [c["label"] for c in newton] == [HARD]
    assert min(newton[0]["y"]) >= 1


def test_published_figures_have_columns_of_their_own(page, numbers):
    table = numbers["tables"]["non-standard-main"]
    published = [c["name"] for c in table["columns"] if c["published"]]
    assert published == ["NS2d-c++ ID", "NS2d-c++ OOD", "OOD at L = 1"]
    rows = {r["label"]: r["values"] for r in table["rows"]}
    assert rows[LABELS["inducing"]][-3:] == [0.0447, NOT_ASKED, NOT_ASKED]
    assert rows["the paper's strongest baseline"][-1] == 0.131
    head = page.tables["table-non-standard-main"][0]
    assert head[-1] == "publishedOOD at L = 1"


def test_what_was_not_run_is_listed(written, page):
    place, report, folder = written
    text, markdown = " ".join(page.words), (folder / "report.md").read_text(encoding="utf-8")
    done = read_results(place).found
    missing = [c.name for c in place.campaign.cells if c.task != "make" and c.name not in done]
    assert missing
    for name in missing:
        assert name in text
        assert name in markdown
    reasons = {m.title: m.reason for m in report.undrawn}
    assert "no model of naca" in reasons["Partitions and shocks around airfoils"]
    assert "Partitions and shocks around airfoils" in text
    assert "ns2d-c/test.h5" in reasons["Eigenvectors of the Laplacian"]
    drawn = {f.key for f in report.figures}
    assert drawn >= {"fields-ood", "fields-ood-l1", "swap", "basis", "overview", "angle", "newton"}


def test_captions_say_data_budget_seed_and_command(numbers):
    caption = numbers["tables"]["non-standard-long"]["caption"]
    assert f"{tiny.SECONDS:g} s of processor time" in caption
    assert "seeds 0, 1" in caption
    assert "1 test sample;" in caption
    assert "`geonew bench --suite smoke --only long/`" in caption
    assert "sample 0 of smoke/ns2d-c++/ood.h5" in numbers["figures"]["fields-ood"]["caption"]
    assert "rescaled" in numbers["figures"]["fields-ood"]["caption"].lower()


def test_cells_of_unlike_processors_are_said_to_be(written):
    place, *_ = written
    results = read_results(place)
    names = [f"main/{HARD}/known+learned", f"main/{HARD}/inducing"]
    assert len({results[name]["processor"] for name in names}) == 1
    one = {"pace": {"before": 30.0, "after": 32.0}}
    for other, unlike in (
        ({}, False),
        ({"pace": {"before": 36.0, "after": 38.0}}, False),  # a neighbour at work, no more
        ({"pace": {"before": 50.0, "after": 48.0}}, True),
        ({"processor": "another one"}, True),
    ):
        changed = {names[0]: results[names[0]] | one | other, names[1]: results[names[1]] | one}
        mixed = type(results)(place, {**results.found, **changed})
        said = "not all on one kind of processor: steps per minute differ"
        assert (said in mixed.provenance(names)) == unlike


def test_no_folder_of_this_machine_is_told(written):
    place, _, folder = written
    for name in ("report.html", "report.md", "report.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert str(place.results.parent) not in text
        assert str(Path.home() / ".cache") not in text


def test_every_item_has_its_place(written):
    _, report, _ = written
    placed = [item.key for section in report.sections() for item in section.items]
    assert sorted(placed) == sorted(item.key for item in (*report.tables, *report.figures))


def test_damaged_and_foreign_results_are_listed_not_used(written, tmp_path):
    place, *_ = written
    other = Place(place.campaign, tmp_path, place.configs)
    good = f"main/{HARD}/inducing"
    for name in (good, "swap/known+learned"):
        path = other.result(place.campaign[name])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(place.result(place.campaign[name]).read_text())
    broken = other.result(place.campaign[f"main/{HARD}/gnot"])
    broken.write_text("{")
    foreign = other.result(place.campaign[f"main/{HARD}/linear"])
    foreign.write_text(other.result(place.campaign[good]).read_text())
    report = make_report(other, draw=False)
    assert set(report.results.found) == {good, "swap/known+learned"}
    listed = dict(report.missing())["damaged results"]
    assert any("another cell's: name, model" in text for text in listed)
    assert any("RESULTS/main/ns2d-c++/gnot.json" in text for text in listed)
    assert report.undrawn == ()


def test_a_failed_prediction_is_no_number(written):
    place, *_ = written
    results = read_results(place)
    name = f"main/{HARD}/inducing"
    document = json.loads(json.dumps(results[name]))
    document["error"]["ood"]["combined"]["relative"] |= {"mean": None, "count": 1}
    found = type(results)(place, {**results.found, name: document})
    assert found.entry([name], "ood") == Entry(text=NOT_FINITE)
    assert found.entry([name], "nothing") == Entry()


def test_the_command_writes_and_explains(written, tmp_path, capsys, monkeypatch):
    place, *_ = written
    arguments = ["report", str(place.results), "--suite", "smoke", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--no-pictures"]) == 0
    shown = capsys.readouterr().out
    assert "report.html" in shown
    assert "not there yet" in shown
    assert (tmp_path / "out" / "report.md").exists()
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    (tmp_path / "smoke").mkdir()
    assert main(["report", str(tmp_path / "smoke")]) == 1
    assert "no cell of campaign 'smoke'" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--suite", "gpu"]) == 1
    assert "there is no campaign 'gpu'" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    taken = ["report", str(place.results), "--suite", "smoke", "--out", str(tmp_path / "file")]
    assert main([*taken, "--no-pictures"]) == 1
    assert "cannot write the report" in capsys.readouterr().err


def test_kept_pictures_are_shown_where_models_are_not(written, tmp_path, capsys, monkeypatch):
    place, report, _ = written
    drawn = {f.key: f for f in report.figures if f.format == "png"}
    assert "elasticity" in drawn["overview"].absent, "one family of nine is on disk"
    assert drawn["swap"].absent == ("learned",)
    trained = {cell.split("/")[0] for cell in drawn["swap"].cells}
    assert trained == {"long"}, "rows are compared at one budget"
    results = tmp_path / "smoke"
    shutil.copytree(place.results, results)
    elsewhere = replace(place, results=results)
    assert main(["report", str(results), "--out", str(tmp_path / "a"), "--keep"]) == 0
    assert f"{len(drawn)} pictures kept" in capsys.readouterr().out

    paths = {c: read_results(place).checkpoint(c) for c in drawn["fields-ood"].cells}
    models = {cell: path.read_bytes() for cell, path in paths.items() if path}
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "empty"))
    for again in (make_report(elsewhere), make_report(elsewhere, draw=False)):
        shown = {f.key: f for f in again.figures if f.format == "png"}
        assert {key: f.content for key, f in shown.items()} == {
            key: f.content for key, f in drawn.items()
        }
        assert all(f.kept for f in shown.values())
        assert all(f.caption.startswith(drawn[key].caption) for key, f in shown.items())
        assert keep(again.figures, again.results) == [], "a copy is not kept again"
    undrawn = {m.key for m in report.undrawn}
    assert {m.key for m in make_report(elsewhere).undrawn} == undrawn

    assert len(models) == len(paths) > 1
    for cell, model in models.items():
        kept = read_results(elsewhere).checkpoint(cell)
        assert kept == results / "models" / f"{cell}.safetensors"
        assert kept.read_bytes() == model

    (results / "pictures" / "basis.png").write_bytes(b"no picture")
    (results / "pictures" / "swap.json").write_text("{")
    (results / "pictures" / "overview.json").unlink()
    lost = {m.key for m in make_report(elsewhere).undrawn} - undrawn
    assert lost == {"basis", "swap", "overview"}


def test_a_kept_picture_gives_way_to_one_that_shows_more(written, tmp_path):
    place, report, _ = written
    results = tmp_path / "smoke"
    shutil.copytree(place.results, results)
    elsewhere = read_results(replace(place, results=results))
    drawn = next(f for f in report.figures if f.key == "overview")
    for absent, shown in (((*drawn.absent, "and one more"), drawn.content), ((), b"")):
        older = replace(drawn, absent=absent, content=drawn.content + b"older")
        assert keep([older], elsewhere) == [results / "pictures" / "overview.png"]
        found = next(f for f in make_report(elsewhere.place).figures if f.key == "overview")
        assert found.content == (shown or older.content)


def test_the_report_is_the_same_every_time(written):
    place, report, _ = written
    again = make_report(place, draw=False)
    assert [t.to_plain() for t in again.tables] == [t.to_plain() for t in report.tables]
    charts = {f.key: f.content for f in report.figures if f.format == "svg"}
    assert {f.key: f.content for f in again.figures} == charts


def test_an_empty_folder_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    (tmp_path / "results").mkdir()
    with pytest.raises(DataError, match="geonew bench --suite smoke"):
        make_report(tiny.place_in(tmp_path))
