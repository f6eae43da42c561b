"""The credit of a turn is the change that it makes to an exact solver's value, after CAST (arXiv 2607.25308).

advantage = V(after) - V(before). In a corridor and on a lake V = gamma ** (fewest moves to the goal), 0 without a way. In MineSweeper V is
the chance that the best play wins, counted over all boards that agree with what is seen. Sokoban's is in examples/ideas/solver_credit.py.
"""

import collections
import functools
import itertools

import flow_op
import pyarrow as pa

MINES = 2


@flow_op.columns(needs=["observation", "outcome", "done", "won", "truncated"], adds={"advantage": pa.float32()})
def solver_credit(rows: pa.Table, *, gamma: float = 0.9) -> dict:
    """The change of the solver's value by the turn."""
    turns = rows.to_pylist()
    place = lambda turn, on=0: (turn["task"], turn["sample"], turn["attempt"], turn["turn"] + on)
    shown = {place(turn): turn["observation"] for turn in turns}

    def after(turn):
        # An episode that was cut at its last turn is worth what its last view is.
        ended = turn["done"] and not turn["truncated"]
        return float(turn["won"]) if ended else value(turn, turn["outcome"] or shown[place(turn, 1)])

    def value(turn, view):
        if turn["task"].startswith("minesweeper"):
            return chance(tuple(cell for line in view.splitlines() for cell in line.split(":")[-1].split()))
        return gamma ** distance(view)

    return {"advantage": [after(turn) - value(turn, turn["observation"]) for turn in turns]}


@functools.lru_cache(maxsize=100_000)
def distance(view: str) -> float:
    """Moves from P to the goal (G or F) around holes and traps (H and T), by breadth-first search; infinite without a way."""
    cells = {(y, x): cell for y, line in enumerate(view.splitlines()) for x, cell in enumerate(line.split())}
    queue = [(next(at for at, cell in cells.items() if cell == "P"), 0)]
    seen = {queue[0][0]}
    for (y, x), moves in queue:  # which grows at its end
        if cells[y, x] in "GF":
            return moves
        for to in ((y + 1, x), (y, x + 1), (y - 1, x), (y, x - 1)):
            if cells.get(to, "H") not in "HT" and to not in seen:
                seen.add(to)
                queue.append((to, moves + 1))
    return float("inf")


@functools.lru_cache(maxsize=None)
def around(cell: int, side: int) -> tuple:
    y, x = divmod(cell, side)
    near = itertools.product(range(max(0, y - 1), min(side, y + 2)), range(max(0, x - 1), min(side, x + 2)))
    return tuple(b * side + a for b, a in near if (b, a) != (y, x))


@functools.lru_cache(maxsize=None)
def chance(view: tuple) -> float:
    """How likely the best play wins from this view of a square board."""
    side = round(len(view) ** 0.5)
    closed = [cell for cell, shown in enumerate(view) if shown == "?"]
    if len(closed) == MINES:
        return 1.0
    number = {cell: int(shown.replace(".", "0")) for cell, shown in enumerate(view) if shown != "?"}
    agree = lambda mines: all(sum(near in mines for near in around(cell, side)) == count for cell, count in number.items())
    boards = [mines for mines in map(frozenset, itertools.combinations(closed, MINES)) if agree(mines)]
    mined = collections.Counter(cell for mines in boards for cell in mines)
    # A cell without a mine in any board costs nothing and tells something: no other needs to be tried.
    tried = [cell for cell in closed if not mined[cell]][:1] or closed
    best = 0.0
    for cell in tried:
        views = collections.Counter(opened(view, cell, mines, side) for mines in boards if cell not in mines)
        best = max(best, sum(count * chance(then) for then, count in views.items()) / len(boards))
    return best


def opened(view: tuple, cell: int, mines: frozenset, side: int) -> tuple:
    """The view once a cell without a mine is open; a blank opens its neighbours."""
    view, queue = list(view), [cell]
    for cell in queue:  # which grows at its end
        if view[cell] == "?":
            count = sum(near in mines for near in around(cell, side))
            view[cell] = str(count) if count else "."
            queue += [] if count else around(cell, side)
    return tuple(view)
