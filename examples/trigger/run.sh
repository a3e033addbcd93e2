# Four messages of two shops: one is too small, one comes twice. Two executions.
set -eu
cd "$(dirname "$0")"
stack=$(mktemp -d)
noetlctl up --folder "$stack" --port 0 > "$stack/up.txt" 2>&1 &
up=$!
trap 'kill $up; wait $up; rm -rf "$stack"' EXIT
until grep -qs "The stack is up" "$stack/up.txt"; do kill -0 $up; sleep 0.2; done
export NOETL_CONTEXT="$stack/context.json"

python publish.py
noetlctl register order.yaml
noetlctl trigger apply -f trigger.yaml
python publish.py orders.berlin.created '{"id": 1, "total": 12}'
python publish.py orders.berlin.created '{"id": 2, "total": 2000}'
python publish.py orders.berlin.created '{"id": 2, "total": 2000}'
python publish.py orders.oslo.created '{"id": 3, "total": 1500}'
until [ "$(noetlctl get executions --status completed -o name | wc -l)" -ge 2 ]; do sleep 0.5; done
for each in $(noetlctl get executions -o name); do
  noetlctl result "$each" --path checked -r
done
