"""Recomputes the clusters, the library and what every turn was told of a run of papers/slea-rl/slea-rl.yaml from its logged rows and the
`above` and `fallback` of its pipeline alone, by lists and loops, and says where the run did otherwise:
python3 scripts/recount_library.py RUN [FLOW]"""
import functools, json, math, pathlib, re, subprocess, sys

CAPACITY, MOST, WARM_UP, MORE_THAN = {"strategy": 100, "warning": 50}, {"strategy": 2, "warning": 1}, 5, 10
run, flow = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "target/release/flow"


def ask(sql):
    return json.loads(subprocess.run([flow, "query", run, sql, "--format", "json"], check=True, capture_output=True, text=True).stdout)


settings = pathlib.Path(run, "pipeline.yaml").read_text()
FALLBACK = "none" if "fallback: none" in settings else "similarity"
ABOVE = float((re.findall(r"above: ([0-9.]+)", settings) or [0.5])[0])
BITS = (1 << 64) - 1


def finish(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & BITS
    return x ^ (x >> 31)


def mix(a, b):
    return finish((finish(a) + b + 0x9E3779B97F4A7C15) & BITS)


@functools.cache
def hashed(word):
    data = word.encode()
    return functools.reduce(mix, (int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)), len(data))


@functools.cache
def point(text):
    """Hashed words and pairs of neighbours, of length 1: crates/credit/src/memory/words.rs."""
    words = [hashed(word) for word in re.findall(r"[^\W_]+|[^\w\s]|_", text.lower())]
    numbers = {}
    for feature in [mix(word, 1) for word in words] + [mix(a, b) for a, b in zip(words, words[1:])]:
        numbers[feature % 384] = numbers.get(feature % 384, 0) + (1 if feature >> 63 == 0 else -1)
    length = math.sqrt(sum(x * x for x in numbers.values()))
    return {i: x / length for i, x in numbers.items() if x}


@functools.cache
def cosine(a, b):
    return min(1.0, sum(x * point(b).get(i, 0) for i, x in point(a).items()))


NAME = "iteration, task, sample, attempt, turn, phase"
turns = ask(f"select * from rollout join clusters using ({NAME}) where phase = 'play' order by {NAME}")
extracted = ask(f"select {NAME}, observation, action, score from extract order by {NAME}")
changes = ask("select iteration, change, id, key, kind, text from library")
# What the run calls an entry: no two that come in one iteration have the same key, kind and text.
ids = {(row["iteration"], row["key"], row["kind"], row["text"]): row["id"] for row in changes if row["change"] == 1}

clusters, library, linked, retrieved, mistakes = {}, [], set(), 0, []
for iteration in range(max(turn["iteration"] for turn in turns) + 1):
    known, there = dict(clusters), list(library)  # as they stood when the iteration's turns were played
    pools = set(linked) | {(known[entry["key"]], entry["id"]) for entry in there if entry["key"] in known}
    for turn in (turn for turn in turns if turn["iteration"] == iteration):
        seen, expected = turn["observation"], []
        for kind in MOST if iteration >= WARM_UP and len(there) > MORE_THAN else ():
            own = [entry for entry in there if entry["kind"] == kind and (known.get(seen), entry["id"]) in pools]
            own = [entry["id"] for entry in sorted(own, key=lambda entry: -entry["score"])][: MOST[kind]]
            # Where the cluster has none, those that are alike in the whole library.
            if not own and FALLBACK != "none":
                own = [entry for entry in there if entry["kind"] == kind and cosine(seen, entry["key"]) > ABOVE]
                own = [entry["id"] for entry in sorted(own, key=lambda entry: -entry["score"])][: MOST[kind]]
            expected += own
        retrieved += len(expected)
        if turn["retrieved"] != expected:
            mistakes.append(f"{turn['task']} in iteration {iteration}, turn {turn['turn']}: told {turn['retrieved']} and not {expected}")
        founded = seen not in clusters
        cluster = clusters.setdefault(seen, turn["cluster"])
        if (turn["cluster"], turn["prototype"]) != (cluster, seen if founded else ""):
            mistakes.append(f"{turn['task']} in iteration {iteration}, turn {turn['turn']}: of cluster {turn['cluster']} and not {cluster}")
        linked |= {(cluster, id) for id in turn["retrieved"]}
    for row in (row for row in extracted if row["iteration"] == iteration):
        for line in row["action"].splitlines():
            head, text = line.split(": ", 1)
            kind, level = head.split("/")
            entry = {"key": row["observation"], "kind": kind, "text": text}
            if not any(entry.items() <= other.items() for other in library):
                library.append(entry | {"level": level, "score": row["score"], "id": ids.get((iteration, *entry.values()))})
    for kind, level in {(entry["kind"], entry["level"]) for entry in library}:
        shelf = [entry for entry in library if (entry["kind"], entry["level"]) == (kind, level)]
        for leaver in sorted(shelf, key=lambda entry: -entry["score"])[CAPACITY[kind] :]:  # of equals the newer ones leave
            library = [entry for entry in library if entry is not leaver]
    logged = {row["id"] for row in ask(f"select id from memory_at({iteration})")}
    if logged != {entry["id"] for entry in library}:
        mistakes.append(f"after iteration {iteration} the library has other entries: {logged ^ {entry['id'] for entry in library}}")
print("\n".join(mistakes[:20]))
print(f"{len(turns)} turns, {len(clusters)} clusters, {len(library)} entries in the end, {retrieved} times retrieved: {len(mistakes)} mistakes")
sys.exit(bool(mistakes))
