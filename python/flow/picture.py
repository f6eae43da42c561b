"""A run as HTML: its graph and its main curves. Everything is inside the text, so that it is shown without a network."""

from __future__ import annotations

import html
import math
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .graph import Graph, drawing

Figures = Sequence[Tuple[int, Mapping[str, Mapping[str, Optional[float]]]]]
Points = List[Tuple[int, float]]

WIDTH, HEIGHT, MARGIN = 240, 60, 4
# A curve with more points shows means of neighbouring ones.
POINTS = 300
# Curves of a run, at most.
CURVES = 8


def page(name: str, state: str, graph: Graph, figures: Figures) -> str:
    curves = [curve(title, points) for title, points in main(figures)]
    return (f'<div><p><b>{html.escape(name)}</b> {html.escape(state)}</p><div style="overflow-x:auto">{drawing(graph)}</div>'
            f'<div style="display:flex;flex-wrap:wrap;gap:12px">{"".join(curves)}</div></div>')


def main(figures: Figures) -> List[Tuple[str, Points]]:
    """The main metrics, by node: success, or the return where no node has success; and the loss."""
    all_curves: Dict[Tuple[str, str], Points] = {}
    for iteration, by_node in figures:
        for node, named in by_node.items():
            for name in ("success", "return", "loss"):
                value = named.get(name)
                if value is not None and math.isfinite(value):
                    all_curves.setdefault((name, node), []).append((iteration, value))
    first = [key for key in all_curves if key[0] == "success"] or [key for key in all_curves if key[0] == "return"]
    chosen = [*first, *(key for key in all_curves if key[0] == "loss")]
    return [(f"{name} of {node}", all_curves[name, node]) for name, node in chosen[:CURVES]]


def curve(title: str, points: Points) -> str:
    """One metric over iterations, with its last value and its range."""
    size = math.ceil(len(points) / POINTS)
    means = [mean(points[i : i + size]) for i in range(0, len(points), size)]
    low, high = min(value for _, value in means), max(value for _, value in means)
    first, last = means[0][0], means[-1][0]
    across, up = (WIDTH - 2 * MARGIN) / ((last - first) or 1), (HEIGHT - 2 * MARGIN) / ((high - low) or 1)
    drawn = " ".join(f"{MARGIN + (x - first) * across:.1f},{HEIGHT - MARGIN - (y - low) * up:.1f}" for x, y in means)
    shape = f'<polyline points="{drawn}" fill="none" stroke="#2a78c8" stroke-width="1.5"/>'
    if len(means) == 1:
        shape = f'<circle cx="{MARGIN}" cy="{HEIGHT - MARGIN}" r="2" fill="#2a78c8"/>'
    note = f", means of {size} iterations" if size > 1 else ""
    return (f'<figure style="margin:0"><svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" stroke-opacity=".25"/>{shape}</svg>'
            f'<figcaption style="font-size:11px">{html.escape(title)}: {points[-1][1]:.4g} (from {low:.4g} to {high:.4g}{note})</figcaption></figure>')


def mean(points: Points) -> Tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
