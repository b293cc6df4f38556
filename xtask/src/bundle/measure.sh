#!/usr/bin/env bash
# Checks and measures every kernel of this bundle on a machine with an NVIDIA driver; nothing else is needed.
#
#     ./measure.sh [RESULTS]
#
# RESULTS is a new folder for what comes out (default: results beside this script). Each part has a time limit of its
# own, all of them together stay under 9 minutes, and a part that fails keeps no other from running. MEASURE_LIMIT
# sets one limit in seconds for every part. Exit: 0 all passed, 1 a part failed, 2 nothing could be measured.
set -uo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
gristmill=$here/gristmill
results=${1:-$here/results}
summary=$results/summary.txt
failed=0

if [ ! -x "$gristmill" ]; then
    echo "there is no program $gristmill: the bundle is not whole" >&2
    exit 2
fi
if [ -e "$summary" ]; then
    echo "$results holds the results of another run: name another folder" >&2
    exit 2
fi
if ! mkdir -p -- "$results" || ! : >"$summary"; then
    echo "cannot write to $results: name another folder" >&2
    exit 2
fi

say() { printf '%s\n' "$*" | tee -a "$summary"; }

# part NAME LIMIT COMMAND...: runs it with output to NAME.txt; one line of the summary says how it ended.
part() {
    local name=$1 limit=${MEASURE_LIMIT:-$2} begun=$SECONDS status
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$results/$name.txt" 2>&1 </dev/null
    status=$?
    case $status in
        0) say "$(printf '%-22s passed   %4d s' "$name" $((SECONDS - begun)))" ;;
        124 | 137) say "$(printf '%-22s FAILED   %4d s  ended at its limit' "$name" $((SECONDS - begun)))" ;;
        *) say "$(printf '%-22s FAILED   %4d s  exit %d: %s' "$name" $((SECONDS - begun)) "$status" \
            "$(tail -n 1 "$results/$name.txt")")" ;;
    esac
    [ "$status" -eq 0 ] || failed=$((failed + 1))
    return "$status"
}

say "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
part info 20 "$gristmill" info
sed 's/^/    /' "$results/info.txt" | tee -a "$summary"
# One short launch tells whether there is a GPU that this binary can use.
if ! part gpu 20 "$gristmill" kernels check --backend cuda --filter ceiling_read; then
    say "There is no GPU to measure on: $(sed -n 's/^error: //p' "$results/gpu.txt" | tail -n 1)"
    say "Copy this folder to a machine with an NVIDIA GPU and driver 580 or later, and run it there."
    exit 2
fi

part check 50 "$gristmill" kernels check --backend cuda --seeds 3 --json "$results/check.json"
part check-emulator 40 "$gristmill" kernels check --backend cpu --seeds 3 --against "$results/check.json"
part bench 160 "$gristmill" kernels bench --backend cuda --json "$results/bench.json" --plot "$results/bench.svg"
GRISTMILL_TUNING=$results/tuning.json part tune 30 "$gristmill" kernels tune --backend cuda
part demo 30 "$gristmill" pir demo --backend cuda --explain
head -c 67108864 /dev/urandom >"$results/records.bin"
# The record itself, bytes, does not belong into a text file.
part demo-binary 30 bash -c 'exec "$@" >/dev/null' - "$gristmill" pir demo --backend cuda --explain \
    --records "$results/records.bin" --format binary --record-bytes 4096 --index 12345
rm -f "$results/records.bin"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck synccheck; do
        part "sanitizer-$tool" 20 "$sanitizer" --tool "$tool" --error-exitcode 1 \
            "$gristmill" kernels check --backend cuda
    done
else
    say "$(printf '%-22s skipped        there is no compute-sanitizer on this machine' sanitizer)"
fi

if [ "$failed" -eq 0 ]; then
    say "All parts passed; results are in $results"
else
    say "$failed parts failed; what they printed is in $results"
    exit 1
fi
