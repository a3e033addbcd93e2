#!/bin/sh
# Builds the image. ENGINE: docker, podman or buildah; IMAGE: its name; BASE: another base, by its digest.
# What is given goes on to the engine, such as --push, or -v for the files of a package index of your own.
set -eu
cd "$(dirname "$0")/../.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
engine=${ENGINE:-docker}
image=${IMAGE:-noetl:$version}

set -- -f deploy/docker/Dockerfile --build-arg "VERSION=$version" -t "$image" "$@"
if [ -n "${BASE:-}" ]; then
	case $BASE in
	*@sha256:* | localhost/*) ;;
	*) echo "BASE must name its digest: name@sha256:…" >&2; exit 2 ;;
	esac
	set -- --build-arg "BASE=$BASE" "$@"
fi
exec "$engine" build "$@" .
