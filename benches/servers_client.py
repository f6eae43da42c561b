"""A bare asynchronous client of vLLM: the peer of `serve`, which sends the same tokens with the same adapter (tests/soak/servers.py rates).

    python servers_client.py ASKED.json

ASKED.json has the servers' addresses, the adapter's name, the rows (`prompt_tokens`, `response_tokens`) and how many are in flight at a server. Each answer is
made as long as the row's. Prints the tokens that were written and the seconds that it took.
"""

import asyncio
import json
import sys
import time

import aiohttp


async def main():
    asked = json.load(open(sys.argv[1]))
    servers = asked["servers"]
    rooms = [asyncio.Semaphore(asked["parallel"]) for _ in servers]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(600)) as session:

        async def one(number, row):
            at, count = number % len(servers), len(row["response_tokens"])
            body = {
                "model": asked["adapter"], "prompt": row["prompt_tokens"], "max_tokens": count, "min_tokens": count, "ignore_eos": True,
                "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "seed": number, "logprobs": 1, "return_token_ids": True,
            }
            async with rooms[at], session.post(servers[at] + "/v1/completions", json=body) as answer:
                return len((await answer.json())["choices"][0]["token_ids"])

        start = time.monotonic()
        counts = await asyncio.gather(*(one(i, row) for i, row in enumerate(asked["rows"])))
        print(json.dumps({"tokens": sum(counts), "seconds": time.monotonic() - start}))


asyncio.run(main())
