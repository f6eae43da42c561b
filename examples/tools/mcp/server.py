"""A shop's stock behind MCP. `python server.py` serves on standard input and output, `python server.py PORT` over HTTP."""

import json
import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("stock")
stock = {"apples": 12, "pears": 5, "plums": 0}


@server.tool()
def count(item: str) -> int:
    """How many of an item are left."""
    if item not in stock:
        raise ToolError(f"there are no {item}; there are {', '.join(stock)}")
    return stock[item]


@server.tool()
def order(item: str, number: int) -> str:
    """Order so many of an item."""
    stock[item] = stock.get(item, 0) + number
    if os.environ.get("FLOW_FOLDER"):  # where the reward's command looks
        with open(os.path.join(os.environ["FLOW_FOLDER"], "stock.json"), "w") as file:
            json.dump(stock, file)
    return f"{number} {item} ordered: now {stock[item]}"


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
