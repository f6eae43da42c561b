"""Reads what `flow export --tensorboard` wrote with the real TensorBoard, and holds every number against `flow query`.

Usage: python3 scripts/events.py RUN DIR, with `pip install tensorboard`; FLOW names the binary.
"""

import json
import math
import os
import struct
import subprocess
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

FLOW = os.environ.get("FLOW", "target/release/flow")


def main(run, folder):
    subprocess.run([FLOW, "export", run, "--tensorboard", folder], check=True)
    name = os.path.basename(os.path.realpath(run))
    events = EventAccumulator(os.path.join(folder, name), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    read = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            read[tag, event.step] = event.value
    query = "select node || '/' || name as tag, iteration, value from metrics"
    answer = subprocess.run([FLOW, "query", run, query, "--format", "json"], check=True, capture_output=True, text=True)
    wanted = {(row["tag"], row["iteration"]): row["value"] for row in json.loads(answer.stdout)}
    single = lambda x: math.nan if x is None else struct.unpack("f", struct.pack("f", x))[0]
    assert read.keys() == wanted.keys(), read.keys() ^ wanted.keys()
    for key, value in wanted.items():
        same = read[key] == single(value) or math.isnan(read[key]) and math.isnan(single(value))
        assert same, (key, read[key], value)
    times = [event.wall_time for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]
    assert all(0 < t < 4e9 for t in times)
    tag = events.Tags()["tensors"]
    assert tag == ["pipeline"], tag
    text = events.Tensors("pipeline")[0].tensor_proto.string_val[0].decode()
    assert "flow:" in text and "nodes:" in text, text
    print(f"{len(read)} numbers and the pipeline's text read by TensorBoard, the same as by `flow query`")


if __name__ == "__main__":
    main(*sys.argv[1:])
