# Three executions on a stack that is there for this alone: one approved, one refused, one that nobody answers.
set -eu
cd "$(dirname "$0")"
stack=$(mktemp -d)
noetlctl up --folder "$stack" --port 0 > "$stack/up.txt" 2>&1 &
up=$!
trap 'kill $up; wait $up; rm -rf "$stack"' EXIT
until grep -qs "The stack is up" "$stack/up.txt"; do kill -0 $up; sleep 0.2; done
export NOETL_CONTEXT="$stack/context.json"

noetlctl register approval.yaml
yes=$(noetlctl execute examples/approval -o name)
no=$(noetlctl execute examples/approval -o name)
late=$(noetlctl execute examples/approval --set within=2 -o name)
noetlctl signal "$yes" approval --set approved=true --set by=Ada
noetlctl signal "$no" approval --set approved=false
for each in "$yes" "$no" "$late"; do
  noetlctl watch "$each" 2> /dev/null
done
