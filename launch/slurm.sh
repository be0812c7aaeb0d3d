#!/usr/bin/env bash
# A run on a Slurm cluster: one process on every node, for all its GPUs.
#
#   sbatch --nodes=2 launch/slurm.sh --config=configs/cifar10.py --workdir=/shared/runs/cifar10
#
# The workdir has to be on a file system that all nodes share. A minute before the time limit every
# process saves and ends; the job is queued again, and goes on. DRY_RUN=1 prints the command.
#SBATCH --job-name=har_jax
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=har_jax-%j.log
set -euo pipefail

if [ $# -eq 0 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
command=(srun --kill-on-bad-exit=1 python -m har_jax.main --find_processes "$@")
if [ -n "${DRY_RUN:-}" ]; then
  echo "${command[*]}"
  exit 0
fi

status=0
"${command[@]}" || status=$?
if [ "$status" -eq 143 ]; then # saved, for lack of time
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
