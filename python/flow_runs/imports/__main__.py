"""`python -m flow_runs.imports detect FILE` names a file's format; `read FORMAT [--skip-bad] FILES` writes its episodes, one a line, and at the
end how the lines were read. `flow import` makes a run of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .source import Refused, Source, detect, encoded


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flow_runs.imports", description="Rollouts of other trainers, for `flow import`")
    parser.add_argument("form", choices=("detect", "verifiers", "nemo-gym", "messages"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--skip-bad", action="store_true")
    asked = parser.parse_args()
    out = sys.stdout.buffer
    try:
        if asked.form == "detect":
            out.write(encoded({"format": detect(asked.files[0])}))
            return
        source = Source(asked.files, asked.form, asked.skip_bad)
        source.episodes(out.write)
        tally = source.tally
        out.write(encoded({"tally": {**vars(tally), "unread": sorted(tally.unread)}}))
    except Refused as error:
        out.write(encoded({"refused": list(error.args)}))
    except OSError as error:
        out.write(encoded({"refused": [f"{error.filename}: {error.strerror}"]}))
    except KeyboardInterrupt:
        sys.exit(130)


main()
