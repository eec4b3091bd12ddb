#!/bin/sh
# The short test selection in a fresh environment: which Python, and which torch and transformers (pip's version specifiers).
#
#   benchmarks/compatibility.sh python3.11 torch==2.6.* transformers==5.22.0     the oldest that pyproject.toml allows
#   benchmarks/compatibility.sh python3.13 'torch<2.14' 'transformers<6'         the newest
#
# Without a CPU build of torch for that Python, pip takes the CUDA build with all its libraries (several GB).
# What was run, and where: CONTRIBUTING.md.
set -eu
[ $# -eq 3 ] || { sed -n '2,8p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$1" -m venv "$place/env"
"$place/env/bin/pip" install --quiet "$root[test]" "$2" "$3"
cd "$root"
OMP_NUM_THREADS=1 "$place/env/bin/python" -m pytest -q -n 0 -p no:cacheprovider \
    tests/attention tests/models tests/certificates/test_layer.py tests/soundness/test_task.py tests/test_run.py
"$place/env/bin/python" -c "import sys, torch, transformers; print(sys.version.split()[0], torch.__version__, transformers.__version__)"
