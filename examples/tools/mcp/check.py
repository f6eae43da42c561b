"""The reward: whether the stock is as the task wants it."""

import json
import os
import sys

task = json.loads(sys.stdin.readline())
path = os.path.join(os.environ["FLOW_FOLDER"], "stock.json")
stock = json.load(open(path)) if os.path.exists(path) else {}
calls = sum(len(json.loads(line).get("tool_calls", [])) for line in open(os.environ["FLOW_TRANSCRIPT"]))
right = all(stock.get(item) == number for item, number in task["want"].items())
print(json.dumps({"reward": float(right), "won": right, "info": {"calls": calls}}))
