"""An agent of smolagents with tools. It forces a call by `tool_choice="required"` unless told otherwise; this one leaves the model free."""

import json
import os

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.monitoring import LogLevel

task = json.loads(os.environ["FLOW_TASK"])


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


model = OpenAIServerModel("policy", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"], tool_choice="auto")
agent = ToolCallingAgent([add], model, max_steps=4, verbosity_level=LogLevel.OFF)
answer = agent.run(f"What is {task['a']} + {task['b']}? Use the tool, then give the sum alone as the final answer.")
print(json.dumps({"reward": float(str(answer).strip() == str(task["a"] + task["b"]))}))
