"""Groups of alike texts by Python's difflib: the yardstick of benches/alike.rs.

Usage: alike_peer.py ROWS.json released|advised AT_LEAST
Prints the seconds that the grouping took, and the founder of each row's group as its row.
"""

import json
import sys
import time
from difflib import SequenceMatcher


def released(rows, text, at_least):
    """Every row against every founder before it, in the order in which GiGPO's released code compares them."""
    groups = []
    for row in rows:
        for founder, members in groups:
            if SequenceMatcher(None, text[row], text[founder]).ratio() >= at_least:
                members.append(row)
                break
        else:
            groups.append((row, [row]))
    return groups


def advised(rows, text, at_least):
    """The same groups by what difflib's documentation advises, and each text once."""
    matcher = {}
    groups = []
    known = {}
    for row in rows:
        if text[row] in known:
            known[text[row]].append(row)
            continue
        for founder, members in groups:
            match = matcher[founder]
            match.set_seq1(text[row])
            if match.real_quick_ratio() >= at_least and match.quick_ratio() >= at_least and match.ratio() >= at_least:
                members.append(row)
                break
        else:
            members = [row]
            groups.append((row, members))
            matcher[row] = SequenceMatcher(None, "", text[row])
        known[text[row]] = members
    return groups


def main():
    path, way, at_least = sys.argv[1:]
    with open(path) as f:
        columns = json.load(f)
    task, text = columns["task"], columns["text"]
    group = {"released": released, "advised": advised}[way]
    start = time.perf_counter()
    of_task = {}
    for row, name in enumerate(task):
        of_task.setdefault(name, []).append(row)
    groups = [made for rows in of_task.values() for made in group(rows, text, float(at_least))]
    seconds = time.perf_counter() - start
    founders = [0] * len(task)
    for founder, members in groups:
        for row in members:
            founders[row] = founder
    print(json.dumps([seconds, founders]))


main()
