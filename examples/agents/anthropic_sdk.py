"""A loop of one's own with Anthropic's SDK: one tool, Messages, streamed."""

import json
import os

from anthropic import Anthropic

task = json.loads(os.environ["FLOW_TASK"])
client = Anthropic()
tools = [{"name": "add", "description": "Adds two numbers.",
          "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}]
messages = [{"role": "user", "content": f"What is {task['a']} + {task['b']}?"}]
answer = ""
for _ in range(4):
    with client.messages.stream(model="policy", max_tokens=256, system="Use the tool. Then answer with the sum alone.", messages=messages,
                                tools=tools) as stream:
        message = stream.get_final_message()
    messages.append({"role": "assistant", "content": message.content})
    if message.stop_reason != "tool_use":
        answer = "".join(block.text for block in message.content if block.type == "text")
        break
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": block.id, "content": str(int(block.input.get("a", 0)) + int(block.input.get("b", 0)))}
        for block in message.content if block.type == "tool_use"]})
print(json.dumps({"reward": float(answer.strip() == str(task["a"] + task["b"]))}))
