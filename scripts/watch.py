"""What `python -m flow_runs` hands to W&B, MLflow, OpenTelemetry and Prometheus, read back by their own clients and held against `flow query`, number by number.

    python3 scripts/watch.py RUN      FLOW names the binary; `make watched` installs the clients
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOW = os.environ.get("FLOW", str(ROOT / "target/release/flow"))
sys.path.insert(0, str(ROOT / "python"))


def module(*arguments, cwd):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "WANDB_SILENT": "true"}
    return subprocess.run([sys.executable, "-m", "flow_runs", *map(str, arguments)], check=True, capture_output=True, text=True, cwd=cwd, env=env).stdout


def wandb_records(data):
    """The records of W&B's offline file: LevelDB's log format behind a header of seven bytes."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def wandb_figures(run, home, _):
    from wandb.proto import wandb_internal_pb2

    module("to", "wandb", run, cwd=home)
    [file] = Path(home).glob("wandb/offline-run-*/*.wandb")
    found = {}
    for data in wandb_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            step = items.get("_step", record.history.step.num)
            found.update({(key, step): value for key, value in items.items() if "/" in key})
    return found


def mlflow_figures(run, home, _):
    from mlflow.tracking import MlflowClient

    module("to", "mlflow", run, "--uri", f"sqlite:///{home}/mlflow.db", cwd=home)
    client = MlflowClient(tracking_uri=f"sqlite:///{home}/mlflow.db")
    [logged] = client.search_runs([e.experiment_id for e in client.search_experiments()])
    return {(key, m.step): m.value for key in logged.data.metrics for m in client.get_metric_history(logged.info.run_id, key)}


def otel_figures(run, _, wanted):
    from flow_runs import watch
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

    found = {}

    class Kept(MetricExporter):
        def export(self, metrics_data, timeout_millis=0, **_):
            metrics = [metric for resource in metrics_data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
            points = {metric.name: metric.data.data_points for metric in metrics}
            [iteration] = [point.value for point in points["flow.iteration"]]
            # What a gauge was told before it goes on telling; a figure that a node doesn't have each time is only right when it is new.
            for point in points["flow.figure"]:
                key = f"{point.attributes['flow.node']}/{point.attributes['flow.name']}", iteration
                if key in wanted:
                    found[key] = point.value
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis=0):
            return True

        def shutdown(self, timeout_millis=0, **_):
            pass

    watch.otel(Path(run), False, Kept())
    return found


def prometheus_figures(run, *_):
    from prometheus_client.parser import text_string_to_metric_families

    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    server = subprocess.Popen([sys.executable, "-m", "flow_runs", "prometheus", str(Path(run).parent), "--port", "0"], stdout=subprocess.PIPE, text=True, env=env)
    try:
        text = urllib.request.urlopen(server.stdout.readline().strip(), timeout=10).read().decode()
    finally:
        server.kill()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples if s.labels["run"] == Path(run).name]
    [last] = [int(s.value) - 1 for s in samples if s.name == "flow_iterations"]
    return {(f"{s.labels['node']}/{s.labels['name']}", last): s.value for s in samples if s.name == "flow_figure"}


def same(a, b):
    a, b = (math.nan if x in (None, "NaN") else float(x) for x in (a, b))
    return a == b or (math.isnan(a) and math.isnan(b))


def main(run):
    run = str(Path(run).resolve())
    asked = [FLOW, "query", run, "select node || '/' || name as key, iteration, value from metrics", "--format", "json"]
    wanted = {(row["key"], row["iteration"]): row["value"] for row in json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)}
    newest = max(iteration for _, iteration in wanted)
    for name, read in dict(wandb=wandb_figures, mlflow=mlflow_figures, otel=otel_figures, prometheus=prometheus_figures).items():
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as home:
            found = read(run, home, wanted)
        expected = {key: value for key, value in wanted.items() if name != "prometheus" or key[1] == newest}
        assert found.keys() == expected.keys(), (name, sorted(found.keys() ^ expected.keys())[:5])
        wrong = [(key, found[key], value) for key, value in expected.items() if not same(found[key], value)]
        assert not wrong, (name, wrong[:5])
        print(f"{name}: {len(found)} figures, each as flow query gives it ({time.monotonic() - begun:.1f} s)")


if __name__ == "__main__":
    main(sys.argv[1])
