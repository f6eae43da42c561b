"""The OpenAI Agents SDK, which speaks Responses."""

import json
import os

from agents import Agent, Runner, function_tool, set_tracing_disabled

task = json.loads(os.environ["FLOW_TASK"])
set_tracing_disabled(True)  # its traces would go to OpenAI, whatever the base URL is


@function_tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


agent = Agent(name="adder", model="policy", instructions="Use the tool. Then answer with the sum alone.", tools=[add])
result = Runner.run_sync(agent, f"What is {task['a']} + {task['b']}?", max_turns=4)
print(json.dumps({"reward": float(str(result.final_output).strip() == str(task["a"] + task["b"]))}))
