"""The views of `flow query` in SQL: `trajectories` and `provenance` join the logged nodes by the rows' names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NAME = ("iteration", "task", "sample", "attempt", "turn", "phase")
CREDIT = ("visitation_depth", "group", "group_size", "baseline", "scale", "return", "advantage")
# Roles of nodes whose rows are no turns of the training's episodes.
APART = ("opens", "measures", "remembers")


@dataclass
class Turns:
    """A logged node whose rows are turns of the training's episodes."""

    id: str
    columns: list[str]
    upstream: list[str]

    @property
    def updates(self) -> bool:
        return "version" in self.columns


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


KEY = ", ".join(map(quoted, NAME))


def sources(nodes: list[Turns], selects: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Each column's name in a view and where it comes from. What several nodes have keeps its plain name where it was logged last."""
    last = {column: node.id for node in nodes for column in node.columns}
    named: dict[str, str] = {}
    for node in nodes:
        for column in filter(selects, node.columns):
            name = column if last[column] == node.id else f"{node.id}_{column}"
            named.setdefault(name, f"{quoted(node.id)}.{quoted(column)}")
    return list(named.items())


def trajectories(nodes: list[Turns]) -> str | None:
    """All nodes side by side; a column that several logged is that of the last of them that has the row."""
    if not nodes:
        return None

    def column(name: str, source: str) -> str:
        having = [node for node in reversed(nodes) if name in node.columns]
        if len(having) > 1:
            cases = "".join(f" WHEN {quoted(n.id)}.iteration IS NOT NULL THEN {quoted(n.id)}.{quoted(name)}" for n in having)
            source = f"CASE{cases} END"
        return f", {source} AS {quoted(name)}"

    columns = "".join(column(*pair) for pair in sources(nodes, lambda c: c not in NAME))
    joins = "".join(f" FULL JOIN {quoted(node.id)} USING ({KEY})" for node in nodes[1:])
    return f"SELECT {KEY}{columns} FROM {quoted(nodes[0].id)}{joins}"


def provenance(nodes: list[Turns]) -> str | None:
    """One line for each row of each logged update, with the credit that it came with."""
    return " UNION ALL BY NAME ".join(_update(node, nodes) for node in nodes if node.updates) or None


def _update(update: Turns, nodes: list[Turns]) -> str:
    credit = [n for n in nodes if not n.updates and n.id in update.upstream and any(c in n.columns for c in CREDIT)]
    logged = dict(sources(credit, lambda c: c in CREDIT))
    own = {column: f"{quoted(update.id)}.{quoted(column)}" for column in update.columns}
    select = [f"{quoted(NAME[0])}", f"{literal(update.id)} AS node", own["version"], *map(quoted, NAME[1:])]
    select.append(f"{own.get('used', 'NULL::VARCHAR')} AS used")
    for column in CREDIT:
        kind = "UBIGINT" if column == "group" else "UINTEGER" if column in ("visitation_depth", "group_size") else "FLOAT"
        select.append(f"{own.get(column, logged.get(column, f'NULL::{kind}'))} AS {quoted(column)}")
    select += [f"{source} AS {quoted(name)}" for name, source in logged.items() if name not in CREDIT]
    taken = {*NAME, *CREDIT, "used", "version"}
    select += [f"{source} AS {quoted(column)}" for column, source in own.items() if column not in taken]
    joins = "".join(f" LEFT JOIN {quoted(node.id)} USING ({KEY})" for node in credit)
    return f"SELECT {', '.join(select)} FROM {quoted(update.id)}{joins}"


def memory_at(nodes: list[str]) -> str:
    """The macro `memory_at(iteration)`: an entry is there while it came more often than it left, as it came last."""
    parts = (
        f"SELECT {literal(node)} AS node, * EXCLUDE (change) FROM (FROM {quoted(node)} WHERE iteration <= at_iteration "
        "QUALIFY sum(change) OVER (PARTITION BY id) > 0 AND change > 0 AND row_number() OVER (PARTITION BY id, change ORDER BY iteration DESC) = 1)"
        for node in nodes
    )
    return f"CREATE MACRO memory_at(at_iteration) AS TABLE {' UNION ALL BY NAME '.join(parts)}"


def clusters_at(nodes: list[str]) -> str:
    """The macro `clusters_at(iteration)`: the clusters that there were, in the order in which observations are compared with them."""
    order = ", ".join(NAME)
    parts = (f"SELECT {literal(node)} AS node, {order}, cluster, prototype FROM {quoted(node)} WHERE prototype <> '' AND iteration <= at_iteration" for node in nodes)
    return f"CREATE MACRO clusters_at(at_iteration) AS TABLE FROM ({' UNION ALL BY NAME '.join(parts)}) ORDER BY node, {order}"
