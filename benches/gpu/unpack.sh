#!/usr/bin/env bash
# unpack.sh FOLDER: on the GPU machine; FOLDER holds the parts of pack.sh. Leaves the checkout in /tmp/main, vLLM in /tmp/site, SmolLM2 in /tmp/models, and flow on the
# PATH. Some 20 s.
set -euo pipefail
from=$(realpath "$1") python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INDEX=1 PIP_FIND_LINKS=/tmp/parts/door
mkdir -p /tmp/{parts,site,main,models/smollm2}
(cd "$from" && sha256sum -c --quiet sha256)
cat "$from"/part.* | tar x -C /tmp/parts
untar() { "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="tar")' "$1" "$2"; }
untar /tmp/parts/site.tar.xz /tmp/site & untar /tmp/parts/main.tar.xz /tmp/main; wait
"$python" -m pip install -q --no-deps --force-reinstall /tmp/parts/flow_rl-*.whl
ln -sf "$(dirname "$(realpath -s "$(command -v "$python")")")/flow" /usr/local/bin/flow
PYTHONPATH=/tmp/site flow model convert /tmp/parts/model.gguf /tmp/models/smollm2
cd /tmp/main && flow env install program --python "$python"
[ -e /tmp/models/smollm2-hf ] || flow model export /tmp/models/smollm2 --out /tmp/models/smollm2-hf
# vLLM's Python is this one with its packages; the trainer's doesn't see them.
printf '#!/usr/bin/env bash\nPYTHONPATH=/tmp/site:$PYTHONPATH exec %s "$@"\n' "$(command -v "$python")" > /tmp/vllm-python && chmod +x /tmp/vllm-python
