"""An agent program that talks for as many turns as its task says, with tools that its model may call."""
import http.client
import json
import os

task = json.loads(os.environ["FLOW_TASK"])
place, path = os.environ["OPENAI_BASE_URL"].split("//")[1].split("/", 1)
connection = http.client.HTTPConnection(place, timeout=3600)
tools = [{"type": "function", "function": {"name": name, "description": f"Says the {name}.", "parameters": {"type": "object", "properties": {"of": {"type": "string"}}}}}
         for name in ("time", "weather", "price")]
messages = []
for turn in range(task["turns"]):
    messages.append({"role": "user", "content": f"{task['topic']}, part {turn + 1}?"})
    body = json.dumps({"model": "any", "messages": messages, "tools": tools, "max_tokens": 10})
    connection.request("POST", f"/{path}/chat/completions", body, {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"})
    messages.append(json.loads(connection.getresponse().read())["choices"][0]["message"])
print(json.dumps({"reward": 0.0}))
