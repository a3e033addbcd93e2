# The next nights; then the same schedule with nights of two seconds. The stack is stopped for some of them, and makes
# them up when it is back.
set -eu
cd "$(dirname "$0")"
stack=$(mktemp -d)
export NOETL_CONTEXT="$stack/context.json"

start() {
  noetlctl up --folder "$stack" --port 0 > "$stack/up.txt" 2>&1 &
  up=$!
  trap 'stop; rm -rf "$stack"' EXIT
  until grep -qs "The stack is up" "$stack/up.txt"; do kill -0 $up; sleep 0.2; done
}
stop() { kill $up; wait $up || true; }
started() { noetlctl schedule describe nightly | grep -c started || true; }

noetlctl schedule next -f nightly.yaml -n 3
sed 's/cron: .*/every: 2s/' nightly.yaml > "$stack/hurried.yaml"

start
noetlctl register load.yaml
noetlctl schedule apply -f "$stack/hurried.yaml"
until [ "$(started)" -ge 1 ]; do sleep 0.5; done
stop
echo "stopped"
sleep 6
start
until [ "$(started)" -ge 6 ]; do sleep 0.5; done
noetlctl schedule describe nightly
