"""The credit of a turn is the change that it makes to an exact solver's value, here of Sokoban.

Source: CAST (arXiv:2607.25308), which takes a solver's change of value as the credit of a turn.
advantage = V(s') - V(s), with s' the board after the turn, and V(s) = gamma ** (fewest moves to a solved board), 0 without one.
`derive` can't do it: SQL has no search.
"""

import functools

import flow_op
import pyarrow as pa

@flow_op.columns(needs=["observation", "outcome"], adds={"advantage": pa.float32()})
def solver_credit(rows: pa.Table, *, gamma: float = 0.9) -> dict:
    """The change of the solver's value by the turn: negative where it leads away from a solution."""
    turns = rows.to_pylist()
    place = lambda turn, on=0: (turn["task"], turn["sample"], turn["attempt"], turn["turn"] + on)
    shown = {place(turn): turn["observation"] for turn in turns if turn["phase"] == "play"}
    after = [turn["outcome"] or shown.get(place(turn, 1)) for turn in turns]
    value = lambda board: 0.0 if distance(board) is None else gamma ** distance(board)
    return {"advantage": [value(then) - value(turn["observation"]) if then and turn["phase"] == "play" else 0.0 for turn, then in zip(turns, after)]}


@functools.lru_cache(maxsize=100_000)
def distance(board: str):
    """Moves to the nearest solved board, by breadth-first search; None without one."""
    cells = {(y, x): cell for y, line in enumerate(board.splitlines()) for x, cell in enumerate(line.split(":")[-1].split())}
    targets = {at for at, cell in cells.items() if cell in "O√S"}
    player, boxes = next(at for at, cell in cells.items() if cell in "PS"), frozenset(at for at, cell in cells.items() if cell in "X√")
    queue, seen = [(player, boxes, 0)], {(player, boxes)}
    for (y, x), boxes, moves in queue:  # which grows at its end
        if boxes == targets:
            return moves
        for to, beyond in (((y + down, x + right), (y + 2 * down, x + 2 * right)) for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))):
            moved = boxes - {to} | {beyond} if to in boxes else boxes
            if cells[to] != "#" and len(moved) == len(boxes) and (moved == boxes or cells[beyond] != "#") and (to, moved) not in seen:
                seen.add((to, moved))
                queue.append((to, moved, moves + 1))
    return None
