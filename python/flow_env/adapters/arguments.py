"""What follows an adapter's name: `HEAD,key=value,key=value`."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple


def split(text: str) -> Tuple[List[str], Dict[str, Any]]:
    """The plain parts and the settings, whose values are JSON where they can be.

    >>> split("FrozenLake-v1,is_slippery=false,map_name=8x8")
    (['FrozenLake-v1'], {'is_slippery': False, 'map_name': '8x8'})
    """
    plain: List[str] = []
    settings: Dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            plain.append(part)
            continue
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return plain, settings
