"""A loop of one's own with the OpenAI SDK: one tool, chat completions. It knows nothing of training."""

import json
import os

from openai import OpenAI

task = json.loads(os.environ["FLOW_TASK"])
client = OpenAI()
tools = [{"type": "function", "function": {
    "name": "add", "description": "Adds two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}]
messages = [{"role": "system", "content": "Use the tool. Then answer with the sum alone."},
            {"role": "user", "content": f"What is {task['a']} + {task['b']}?"}]
answer = ""
for _ in range(4):
    message = client.chat.completions.create(model="policy", messages=messages, tools=tools).choices[0].message
    messages.append(message)
    if not message.tool_calls:
        answer = message.content or ""
        break
    for call in message.tool_calls:
        given = json.loads(call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(int(given.get("a", 0)) + int(given.get("b", 0)))})
print(json.dumps({"reward": float(answer.strip() == str(task["a"] + task["b"]))}))
