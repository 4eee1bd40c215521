"""One HTML page that needs nothing else: style and figures inside, no script, no outside address.

Readable on a phone (wide tables scroll by themselves), light and dark by the reader's choice;
figures keep a white ground in both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from geonew.report.picture import Picture
from geonew.report.table import Column, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --line: #d8dee4;
  --ground: #ffffff; --band: #f5f7f9; --ours: #fff4e8; --mark: #b04a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a0aab4; --line: #3a424a;
  --ground: #14181c; --band: #1d2329; --ours: #33261a; --mark: #ffab66; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 74rem; color: var(--ink);
  background: var(--ground); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.6rem; font-size: 1.35rem;
  border-bottom: 2px solid var(--line); padding-bottom: .25rem; }
h3 { margin: 2rem 0 .5rem; font-size: 1.05rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
a { color: var(--mark); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { background: var(--band); vertical-align: bottom; white-space: normal;
  min-width: 4.5rem; }
tbody th { text-align: left; font-weight: 500; position: sticky; left: 0;
  background: var(--ground); white-space: normal; min-width: 11rem; }
thead th:first-child { text-align: left; position: sticky; left: 0; }
tbody tr.ours th, tbody tr.ours td { background: var(--ours); }
td.text, th.text { text-align: left; }
.published { color: var(--soft); font-style: italic; }
th.published small { display: block; font-weight: 400; }
strong { color: var(--mark); }
figure { margin: 0 0 1rem; } figure img { max-width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line); border-radius: 6px; padding: .4rem; }
figcaption, .caption { color: var(--soft); font-size: .85rem; margin: .45rem 0; }
code { font-size: .85em; overflow-wrap: anywhere; }
details { margin: .4rem 0; } summary { cursor: pointer; }
li { overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { padding: .7rem; font-size: 15px; }
  tbody th { min-width: 7rem; } }
"""
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Section:
    """A chapter of the page.

    Args:
        key: for links.
        title: its heading.
        items: tables and figures in order.
        text: before them.

    """

    key: str
    title: str
    items: tuple[Table | Picture, ...]
    text: str = ""


def page(title: str, lead: Sequence[str], sections: Sequence[Section], end: str) -> str:
    """The whole page.

    Args:
        title: of the page.
        lead: paragraphs at the beginning.
        sections: its chapters.
        end: what is missing, as HTML.

    """
    links = [f'<li><a href="#{s.key}">{escape(s.title)}</a></li>' for s in sections]
    body = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{words(text)}</p>" for text in lead),
        f'<nav><ul>{"".join(links)}<li><a href="#missing">Not run yet</a></li></ul></nav>',
    ]
    for section in sections:
        body.append(f'<h2 id="{section.key}">{escape(section.title)}</h2>')
        if section.text:
            body.append(f"<p>{words(section.text)}</p>")
        for item in section.items:
            body.append(table_html(item) if isinstance(item, Table) else picture_html(item))
    body.append(end)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def table_html(table: Table) -> str:
    """A table with its caption; the best of each column is bold."""
    head = [f'<th scope="col">{escape(table.corner)}</th>', *map(_head, table.columns)]
    rows = []
    for k, (line, texts) in enumerate(zip(table.lines, table.texts(), strict=True)):
        cells = []
        for c, (column, text) in enumerate(zip(table.columns, texts, strict=True)):
            shown = escape(text)
            marked = f"<strong>{shown}</strong>" if table.is_best(k, c) else shown
            cells.append(f"<td{_class(column)}>{marked}</td>")
        kind = ' class="ours"' if line.ours else ""
        label = f'<th scope="row">{escape(line.label)}</th>'
        rows.append(f"<tr{kind}>{label}{''.join(cells)}</tr>")
    notes = [f'<p class="caption">{words(t)}</p>' for t in (table.caption, *table.notes) if t]
    return "\n".join(
        [
            f'<section id="table-{table.key}">\n<h3>{escape(table.title)}</h3>',
            '<div class="scroll"><table>',
            f"<thead><tr>{''.join(head)}</tr></thead>",
            f"<tbody>{''.join(rows)}</tbody>",
            "</table></div>",
            *notes,
            "</section>",
        ]
    )


def picture_html(picture: Picture) -> str:
    """A figure with its caption, inside the page."""
    return (
        f'<section id="figure-{picture.key}">\n<h3>{escape(picture.title)}</h3>\n<figure>'
        f'<img src="{picture.data_uri}" alt="{escape(picture.title)}" loading="lazy">'
        f"<figcaption>{words(picture.caption)}</figcaption></figure>\n</section>"
    )


def missing_html(groups: Sequence[tuple[str, Sequence[str]]]) -> str:
    """What is not there, and why: one foldable list for each kind."""
    parts = ['<h2 id="missing">Not run yet</h2>']
    if not groups:
        parts.append("<p>Nothing: every cell of the campaign has been run and drawn.</p>")
    for title, names in groups:
        items = "".join(f"<li>{words(name)}</li>" for name in names)
        parts.append(
            f"<details><summary>Not run yet: {escape(title)}</summary><ul>{items}</ul></details>"
        )
    return "\n".join(parts)


def words(text: str) -> str:
    """Plain text with commands in backticks as HTML."""
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def _head(column: Column) -> str:
    name = escape(column.name).replace("-", "&#8209;")  # a hyphen at which no line breaks
    if column.published:
        return f'<th scope="col" class="published"><small>published</small>{name}</th>'
    return f'<th scope="col"{_class(column)}>{name}</th>'


def _class(column: Column) -> str:
    kinds = ["published"] if column.published else []
    kinds += ["text"] if column.kind == "text" else []
    return f' class="{" ".join(kinds)}"' if kinds else ""
