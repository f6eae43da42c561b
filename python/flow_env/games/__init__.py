"""Games whose rules are Python, dealt and named as flow's own: `search` and `webshop`."""
