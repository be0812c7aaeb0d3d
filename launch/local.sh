#!/usr/bin/env bash
# Starts a run of several processes on this machine, to try one out.
#
#   launch/local.sh 2 --config=configs/digits.py --workdir=runs/two
#
# The first process prints; the others write to WORKDIR/process-N.log. When one of them fails, all
# are ended. DRY_RUN=1 prints the commands and starts nothing; PORT is 12321 by default.
set -euo pipefail

if [ $# -lt 2 ] || ! [[ $1 =~ ^[0-9]+$ ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
count=$1
shift
port=${PORT:-12321}
logs=$(mktemp -d)
for argument in "$@"; do
  case $argument in --workdir=*) logs=${argument#--workdir=} ;; esac
done

pids=()
ended=
end_all() { # once: a second signal would not let them save
  [ -n "$ended" ] || [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
  ended=yes
}
trap end_all INT TERM

for number in $(seq $((count - 1)) -1 0); do
  command=(python -m har_jax.main "$@" "--coordinator=localhost:$port"
    "--num_processes=$count" "--process_id=$number")
  if [ -n "${DRY_RUN:-}" ]; then
    echo "${command[*]}"
  elif [ "$number" -eq 0 ]; then
    "${command[@]}" &
    pids+=($!)
  else
    mkdir -p "$logs"
    "${command[@]}" >"$logs/process-$number.log" 2>&1 &
    pids+=($!)
  fi
done
[ -z "${DRY_RUN:-}" ] || exit 0

status=0
while [ -n "$(jobs -rp)" ]; do # a signal ends a wait, and not what is waited for
  code=0
  wait -n || code=$?
  if [ "$code" -ne 0 ]; then
    [ "$status" -ne 0 ] || status=$code
    end_all
  fi
done
exit $status
