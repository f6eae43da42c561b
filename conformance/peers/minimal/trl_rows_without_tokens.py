"""TRL's GRPO loss counts a completion whose tokens are all masked (`mask_truncated_completions`) in its mean over rows, so the step
is smaller. verl's and OpenRLHF's functions leave it out; verl's workers count it, as they give the number of all rows."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path(__file__).resolve().parent.parent.parent)]
from trl_library import loss

row = {"new": [-0.9], "old": [-1.0], "advantage": 1.0, "part": [1], "trajectory": 0}
case = {"settings": {"clip": 0.2}, "rows": [row]}
print("one row", loss(case, "grpo", [row])[0], "and a masked one beside it", loss(case, "grpo", [row, {**row, "part": [0]}])[0])
