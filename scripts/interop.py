"""Reads a run's Parquet files by one line each in DuckDB and Polars, and by the package flow_runs, and holds them against `flow query`.

    python3 scripts/interop.py RUN [FLOW]

RUN is a run's folder, FLOW the binary (target/release/flow). The libraries come into .venv-interop, made if missing.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

PINNED = ["duckdb==2.0.0", "polars==2.1.0", "pyarrow==26.0.1"]
HERE = Path(__file__).resolve().parent.parent


def ready():
    """Goes on under the Python of .venv-interop, made and filled if need be."""
    home = HERE / ".venv-interop"
    python = home / "bin" / "python"
    if Path(sys.prefix).resolve() == home.resolve():
        return
    marker = home / "pinned.txt"
    if not marker.exists() or marker.read_text().split() != PINNED:
        print(f"making {home.name} with {', '.join(PINNED)}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PINNED], check=True)
        marker.write_text("\n".join(PINNED))
    os.execv(python, [str(python), *sys.argv])


def same(a, b):
    """Equal values; a NaN is null in JSON, and a float32 is printed by its shortest decimals."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        lost = lambda x: x is None or x != x
        return (lost(a) and lost(b)) or (not lost(a) and not lost(b) and abs(a - b) <= 1e-6 * max(1.0, abs(a)))
    return a == b


def differences(name, rows, wanted):
    if len(rows) != len(wanted):
        return f"{name} sees {len(rows)} rows, flow query {len(wanted)}"
    for i, (row, want) in enumerate(zip(rows, wanted)):
        if row.keys() != want.keys():
            return f"{name} sees the columns {sorted(row)}, flow query {sorted(want)}"
        for column, value in want.items():
            if not same(row[column], value):
                return f"row {i}, {column}: {name} sees {row[column]!r}, flow query {value!r}"
    return None


def by_the_reader(run, flow):
    """How many tables, views and macros the package flow_runs reads otherwise than `flow query`."""
    sys.path.insert(0, str(HERE / "python"))
    import flow_runs

    read, wrong = flow_runs.Run(run), 0
    last = read.iterations[-1]
    macros = [name for (name,) in read.sql("select function_name from duckdb_functions() where not internal").fetchall()]
    for table in [*map(json.dumps, read.tables()), *(f"{macro}({last})" for macro in macros)]:
        question = f"SELECT * FROM {table} ORDER BY ALL"
        asked = [flow, "query", run, question, "--format", "json"]
        wanted = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        found = read.sql(question)
        difference = differences("flow_runs", [dict(zip(found.columns, row)) for row in found.fetchall()], wanted)
        wrong += difference is not None
        print(f"{table}: {difference or f'{len(wanted)} rows in flow_runs, as flow query gives them'}")
    return wrong


def main():
    import duckdb
    import polars as pl

    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run, flow = sys.argv[1].rstrip("/"), sys.argv[2] if len(sys.argv) > 2 else str(HERE / "target/release/flow")
    nodes = [n["id"] for n in json.load(open(f"{run}/manifest.json"))["nodes"]]
    failed = compared = 0
    for node in nodes:
        if not list(Path(run, "log", node).glob("*/*.parquet")):
            print(f"{node}: no rows")
            continue
        # The one line each.
        in_duckdb = duckdb.sql(f"SELECT * FROM read_parquet('{run}/log/{node}/*/*.parquet')")
        in_polars = pl.read_parquet(f"{run}/log/{node}/**/*.parquet")

        key = [c for c in ("iteration", "task", "sample", "attempt", "turn", "phase") if c in in_polars.columns]
        order = ", ".join(f'"{c}"' for c in key) or "ALL"
        asked = [flow, "query", run, f'SELECT * FROM "{node}" ORDER BY {order}', "--format", "json"]
        wanted = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        ordered = in_duckdb.order(order)
        columns = ordered.columns
        seen = {
            f"DuckDB {duckdb.__version__}": [dict(zip(columns, row)) for row in ordered.fetchall()],
            f"Polars {pl.__version__}": in_polars.sort(key or in_polars.columns).to_dicts(),
        }
        for name, rows in seen.items():
            wrong = differences(name, rows, wanted)
            failed += wrong is not None
            print(f"{node}: {wrong or f'{len(rows)} rows in {name}, as flow query gives them'}")
        compared += 1
    if compared == 0:
        sys.exit(f"{run} has no committed rows to compare")
    failed += by_the_reader(run, flow)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    ready()
    main()
