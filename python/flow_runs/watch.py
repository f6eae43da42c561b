"""A run's figures in what people watch: W&B, MLflow, OpenTelemetry, Prometheus, TensorBoard. Each client is the real one, installed by whoever asks for it.

    python -m flow_runs to wandb RUN [--follow] [--online] [--project NAME]
    python -m flow_runs to mlflow RUN [--follow] [--uri sqlite:///mlflow.db]
    python -m flow_runs to otel RUN [--follow]          # OTEL_EXPORTER_OTLP_ENDPOINT says where to
    python -m flow_runs prometheus [RUNS] [--port 9400] # serves the newest figures on this machine
    python -m flow_runs tensorboard DIR RUN...          # `flow export --tensorboard`; it needs no package

Nothing is sent anywhere unless it is asked for: W&B writes an offline folder without `--online`, MLflow a file.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .index import DamagedRun, Index, newest, read
from .tensorboard import export

# Figures of an iteration, by `node/name`.
Figures = dict[str, float]
PAUSE = 2.0


def committed(folder: Path, follow: bool) -> Iterator[tuple[int, Figures]]:
    """The iterations of a run as they are committed; without `follow` those that are there. A run that was killed is followed until it is resumed and ends."""
    done = -1
    while True:
        index = read(folder)
        for iteration, nodes in index.figures:
            if iteration > done:
                done = iteration
                yield iteration, {f"{node}/{name}": math.nan if value is None else value for node, named in nodes.items() for name, value in named.items()}
        if not follow or index.info["status"] != "running":
            return
        time.sleep(PAUSE)


def described(index: Index) -> dict[str, Any]:
    """What a run is, for a client that keeps it beside the figures."""
    return {key: index.info[key] for key in ("name", "seed", "iterations", "promise", "device") if key in index.info}


def to_wandb(folder: Path, asked: argparse.Namespace) -> int:
    import wandb

    index, count = read(folder), 0
    config = described(index) | {"pipeline": (folder / "pipeline.yaml").read_text()}
    run = wandb.init(project=asked.project or index.info["name"], name=folder.name, config=config, mode="online" if asked.online else "offline")
    for iteration, figures in committed(folder, asked.follow):
        run.log(figures, step=iteration)
        count += len(figures)
    run.finish()
    return count


def lacks_store(uri: str) -> bool:
    """Whether this address of mlflow's is a database, which the package mlflow-skinny can't open."""
    return not uri.startswith(("http://", "https://", "databricks")) and importlib.util.find_spec("sqlalchemy") is None


def to_mlflow(folder: Path, asked: argparse.Namespace) -> int:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

    index, count = read(folder), 0
    if lacks_store(asked.uri):
        raise SystemExit(
            f"error: mlflow can't write to {asked.uri} here, since mlflow-skinny has no databases: `pip install mlflow`, or `--uri http://HOST:5000` of a server"
        )
    client = MlflowClient(tracking_uri=asked.uri)
    name = asked.project or index.info["name"]
    known = client.get_experiment_by_name(name)
    experiment = known.experiment_id if known else client.create_experiment(name)
    run = client.create_run(experiment, run_name=folder.name, tags={key: str(value) for key, value in described(index).items()})
    for iteration, figures in committed(folder, asked.follow):
        now = int(time.time() * 1000)
        metrics = [Metric(key, value, now, iteration) for key, value in figures.items()]
        for start in range(0, len(metrics), 500):
            client.log_batch(run.info.run_id, metrics=metrics[start : start + 500])
        count += len(metrics)
    client.set_terminated(run.info.run_id)
    return count


def to_otel(folder: Path, asked: argparse.Namespace) -> int:
    """A gauge `flow.figure` with the attributes run, node and name, beside `flow.iteration`: no convention names such figures yet."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return otel(folder, asked.follow, OTLPMetricExporter())


def otel(folder: Path, follow: bool, exporter: Any) -> int:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    index, count = read(folder), 0
    resource = Resource.create({"service.name": "flow", **{f"flow.run.{key}": value for key, value in described(index).items()}})
    # It exports when it is told to: after each iteration.
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
    provider = MeterProvider(resource=resource, metric_readers=[reader])
    meter = provider.get_meter("flow_runs")
    figure = meter.create_gauge("flow.figure", description="A figure of a node in the newest iteration")
    newest = meter.create_gauge("flow.iteration", description="The newest iteration that is committed")
    for iteration, figures in committed(folder, follow):
        for key, value in figures.items():
            node, name = key.split("/", 1)
            figure.set(value, {"flow.run": folder.name, "flow.node": node, "flow.name": name})
        newest.set(iteration, {"flow.run": folder.name})
        provider.force_flush()
        count += len(figures)
    provider.shutdown()
    return count


def exposition(folders: list[Path]) -> str:
    """The newest figures of runs in Prometheus's text format."""

    def label(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    iterations, running, values = ["# TYPE flow_iterations gauge"], ["# TYPE flow_running gauge"], ["# TYPE flow_figure gauge"]
    for folder in folders:
        try:
            status, count, figures = newest(folder)
        except (DamagedRun, OSError, ValueError):
            continue  # written at this moment, or no run
        run = f'run="{label(folder.name)}"'
        iterations.append(f"flow_iterations{{{run}}} {count}")
        running.append(f"flow_running{{{run}}} {int(status == 'running')}")
        for node, named in figures.items():
            for name, value in named.items():
                values.append(f'flow_figure{{{run},node="{label(node)}",name="{label(name)}"}} {"NaN" if value is None else repr(float(value))}')
    return "\n".join(iterations + running + values) + "\n"


def prometheus(asked: argparse.Namespace) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/metrics"
            body = exposition(sorted(manifest.parent for manifest in asked.runs.glob("*/manifest.json"))).encode() if found else b"/metrics has the figures\n"
            self.send_response(200 if found else 404)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((asked.host, asked.port), Page)
    print(f"http://{asked.host}:{server.server_port}/metrics", flush=True)
    server.serve_forever()


SINKS: dict[str, Callable[[Path, argparse.Namespace], int]] = {"wandb": to_wandb, "mlflow": to_mlflow, "otel": to_otel}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flow_runs", description="A run's figures in what people watch")
    verbs = parser.add_subparsers(dest="verb", required=True)
    to = verbs.add_parser("to", help="hands the figures of a run to a client")
    to.add_argument("sink", choices=SINKS)
    to.add_argument("run", type=Path)
    to.add_argument("--follow", action="store_true", help="goes on until the run ends")
    to.add_argument("--online", action="store_true", help="wandb: sends them, in place of an offline folder")
    to.add_argument("--project", help="wandb's project, mlflow's experiment; the pipeline's name unless given")
    to.add_argument("--uri", default="sqlite:///mlflow.db", help="mlflow: where to")
    serve = verbs.add_parser("prometheus", help="serves the newest figures of a folder of runs")
    serve.add_argument("runs", type=Path, nargs="?", default=Path("runs"))
    serve.add_argument("--port", type=int, default=9400)
    serve.add_argument("--host", default="127.0.0.1", help="this machine alone unless given")
    board = verbs.add_parser("tensorboard", help="writes event files of runs, for `tensorboard --logdir DIR`")
    board.add_argument("into", type=Path)
    board.add_argument("runs", type=Path, nargs="+")
    asked = parser.parse_args()
    try:
        if asked.verb == "prometheus":
            prometheus(asked)
        elif asked.verb == "tensorboard":
            print(export(asked.runs, asked.into))
        else:
            print(f"{SINKS[asked.sink](asked.run, asked)} figures of {asked.run} -> {asked.sink}")
    except ModuleNotFoundError as error:
        raise SystemExit(f"`{error.name}` isn't installed here: pip install it first") from error
    except (DamagedRun, OSError) as error:
        raise SystemExit(f"error: {error}") from error
