"""A run's pipeline as a graph: read from `flow graph`, and laid out in columns from the left to the right."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from .errors import Error
from .process import execute

NODE = re.compile(r'^\s*(n\d+) \[label=("(?:[^"\\]|\\.)*")(.*)\];$')
EDGE = re.compile(r'^\s*(n\d+) -> (n\d+) \[label=("(?:[^"\\]|\\.)*")(.*)\];$')
LOOP = re.compile(r'^\s*label=("(?:[^"\\]|\\.)*");$')
HEIGHT, GAP, LETTER = 28, 34, 7
# That of Jupyter's or of VS Code's theme; another notebook shows the edges through.
BACKGROUND = "var(--jp-layout-color0, var(--vscode-editor-background, none))"


@dataclass
class Graph:
    """Nodes by their names in the drawing, edges with their labels, and loops with their nodes."""

    nodes: Dict[str, Tuple[str, bool]] = field(default_factory=dict)
    # From, to, label, and whether it is delayed.
    edges: List[Tuple[str, str, str, bool]] = field(default_factory=list)
    loops: List[Tuple[str, List[str]]] = field(default_factory=list)


def of_run(folder: Path, info: Mapping[str, Any]) -> Graph:
    """The graph of a run's pipeline; without the program, the logged nodes alone."""
    try:
        ended = execute(["graph", "--format=dot", "--", str(folder / "pipeline.yaml")])
        if ended.code == 0:
            return parsed(ended.out.decode("utf-8", "replace"))
    except (Error, OSError):
        pass
    return Graph({node["id"]: (node["id"] if node["id"] == node["op"] else f"{node['id']}: {node['op']}", True) for node in info["nodes"]})


def parsed(dot: str) -> Graph:
    graph, inside = Graph(), False
    for line in dot.splitlines():
        node, edge, loop = NODE.match(line), EDGE.match(line), LOOP.match(line)
        if edge:
            graph.edges.append((edge[1], edge[2], json.loads(edge[3]), "dashed" in edge[4]))
        elif node:
            graph.nodes[node[1]] = (json.loads(node[2]), "peripheries=2" in node[3])
            if inside:
                graph.loops[-1][1].append(node[1])
        elif loop:
            graph.loops.append((json.loads(loop[1]), []))
            inside = True
        elif line.strip() == "}":
            inside = False
    return graph


def columns(graph: Graph) -> List[List[str]]:
    """The nodes of each column: a node stands to the right of all nodes that it reads without delay."""
    column = {name: 0 for name in graph.nodes}
    for _ in graph.nodes:
        for start, end, _, delayed in graph.edges:
            if not delayed and column[end] <= column[start]:
                column[end] = column[start] + 1
    return [[name for name in graph.nodes if column[name] == i] for i in range(max(column.values(), default=-1) + 1)]


def drawing(graph: Graph) -> str:
    """The graph as SVG; a list of its nodes where no edges are known."""
    if not graph.edges:
        return "<ul>" + "".join(f"<li>{html.escape(label)}</li>" for label, _ in graph.nodes.values()) + "</ul>"
    boxes, width, height = placed(graph)
    parts, deepest = [], height
    for start, end, label, delayed in graph.edges:
        if delayed:
            deepest += 12
        parts.append(arrow(boxes[start], boxes[end], label, deepest if delayed else 0))
    # Boxes hide the edges behind them.
    parts.extend(box(graph, name, *place) for name, place in boxes.items())
    for label, names in graph.loops:
        inner = [boxes[name] for name in names]
        left, top = min(x for x, _, _ in inner) - 8, min(y for _, y, _ in inner) - 16
        right, bottom = max(x + w for x, _, w in inner) + 8, max(y for _, y, _ in inner) + HEIGHT + 8
        parts.append(f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" rx="6" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
                     f'<text x="{left + 4}" y="{top + 11}" font-size="10">{html.escape(label)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{deepest + 14}" viewBox="0 0 {width} {deepest + 14}" font-family="sans-serif" font-size="12" fill="currentColor">'
            '<defs><marker id="flow-arrow" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto"><path d="M0,0 L6,3 L0,6 z"/></marker></defs>'
            + "".join(parts) + "</svg>")


def placed(graph: Graph) -> Tuple[Dict[str, Tuple[int, int, int]], int, int]:
    """The left, the top and the width of each box; the width and the height of all."""
    boxes: Dict[str, Tuple[int, int, int]] = {}
    rows: Dict[str, int] = {}
    x, height = 12, 0
    for names in columns(graph):
        wide = max(LETTER * len(graph.nodes[name][0]) + 16 for name in names)
        free = list(range(len(graph.nodes) + len(names)))
        for name in names:
            # In the row of a node that it reads, an edge is straight, and crosses no other box.
            read = [rows[start] for start, end, _, delayed in graph.edges if end == name and not delayed]
            row = next(row for row in free if row >= min(read, default=0))
            free.remove(row)
            rows[name] = row
            boxes[name] = (x, 20 + row * (HEIGHT + 22), wide)
            height = max(height, boxes[name][1] + HEIGHT)
        x += wide + GAP
    return boxes, x - GAP + 12, height


def box(graph: Graph, name: str, x: int, y: int, width: int) -> str:
    label, logged = graph.nodes[name]
    title = "<title>its rows are logged</title>" if logged else ""
    return (f'<g>{title}<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="4" style="fill:{BACKGROUND}" stroke="currentColor" '
            f'stroke-width="{2 if logged else 1}"/>'
            f'<text x="{x + width // 2}" y="{y + 18}" text-anchor="middle">{html.escape(label)}</text></g>')


def arrow(start: Tuple[int, int, int], end: Tuple[int, int, int], label: str, below: int) -> str:
    """An edge: a curve to the right, or for a delayed one a dashed line `below` all boxes."""
    (x, y, width), (to, down, wide) = start, end
    if below:
        path = f"M{x + width // 2},{y + HEIGHT} V{below} H{to + wide // 2} V{down + HEIGHT + 2}"
    else:
        a, b, middle = y + HEIGHT // 2, down + HEIGHT // 2, GAP // 2
        path = f"M{x + width},{a} C{x + width + middle},{a} {to - middle},{b} {to - 1},{b}"
    dashes = ' stroke-dasharray="4 3" stroke-opacity=".6"' if below else ""
    return f'<path d="{path}" fill="none" stroke="currentColor"{dashes} marker-end="url(#flow-arrow)"><title>{html.escape(label)}</title></path>'
