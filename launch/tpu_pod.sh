#!/usr/bin/env bash
# A run on all hosts of a Cloud TPU pod slice.
#
#   TPU=my-slice ZONE=us-central2-b launch/tpu_pod.sh install
#   TPU=my-slice ZONE=us-central2-b launch/tpu_pod.sh --config=configs/cifar10.py \
#     --workdir=/mnt/shared/runs/cifar10
#
# `install` copies this repository to every host and installs it there. The workdir has to be on a
# file system that all hosts share. DRY_RUN=1 prints the commands.
set -euo pipefail

if [ $# -eq 0 ] || [ -z "${TPU:-}" ] || [ -z "${ZONE:-}" ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)

run() {
  if [ -n "${DRY_RUN:-}" ]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

on_all_hosts() {
  run gcloud compute tpus tpu-vm ssh "$TPU" --zone="$ZONE" --worker=all --command="$1"
}

if [ "$1" = install ]; then
  run gcloud compute tpus tpu-vm scp --recurse "$root" "$TPU:har_jax" --zone="$ZONE" --worker=all
  on_all_hosts "cd har_jax && python3 -m venv .venv && .venv/bin/pip install '.[cli,tpu]'"
else
  on_all_hosts "cd har_jax && .venv/bin/python -m har_jax.main --find_processes $(printf '%q ' "$@")"
fi
