# DuckDB may use the files of the folders that the worker names, and no other.
set -eu
days=$(mktemp -d)
trap 'rm -rf "$days"' EXIT
NOETL_DUCKDB_FILES="$days" noetlctl run "$(dirname "$0")/report.yaml" --set folder="$days" -o json
