"""An agent of pydantic-ai. Its answer is a text: an `output_type` would force a call of a tool, which the door refuses."""

import json
import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

task = json.loads(os.environ["FLOW_TASK"])
agent = Agent(OpenAIChatModel("policy"), instructions="Use the tool. Then answer with the sum alone.")


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


result = agent.run_sync(f"What is {task['a']} + {task['b']}?")
print(json.dumps({"reward": float(result.output.strip() == str(task["a"] + task["b"]))}))
