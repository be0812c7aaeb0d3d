#!/usr/bin/env bash
# Measures on one GPU, within a time budget, what benchmarks/README.md reports:
#
#   benchmarks/gpu.sh DATA OUT [SECONDS [WHEELS]]
#
# DATA holds a prepared cifar10 (of TensorFlow Datasets), OUT gets gpu.json and a log. SECONDS
# (500 by default) is the time for everything. WHEELS is a folder of the packages that are missing
# where there is no network; they are installed into a temporary folder.
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 4 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 2
fi
data=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
seconds=${3:-500}
if [ $# -eq 4 ]; then
  site=$(mktemp -d)
  trap 'rm -rf "$site"' EXIT
  python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" "$4"/*.whl
  export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
fi
cd "$(dirname "$0")/.."
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
fi
export PYTHONUNBUFFERED=1
python3 -m benchmarks.gpu --data_dir="$data" --out="$out" --seconds="$seconds" 2>&1 |
  tee "$out/gpu.log"
