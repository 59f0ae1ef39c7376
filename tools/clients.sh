#!/usr/bin/env bash
# Starts the mesh on free ports, drives it with the official clients, and stops it. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh python3
dir=services/meshd/e2e/clients
venv=.venv/clients
stamp=$(sha256sum "$dir/requirements.txt" | cut -c1-16)
if [ ! -f "$venv/.$stamp" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$dir/requirements.txt"
  touch "$venv/.$stamp"
fi
log=$(mktemp)
read -r rest grpc admin < <(python3 - <<'PY'
import socket
socks = [socket.socket() for _ in range(3)]
for s in socks:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in socks))
PY
)
bin/kvmesh up --set "gateway.address=127.0.0.1:$rest" --set "gateway.server.address=tcp://127.0.0.1:$grpc" \
  --set "mesh.admin.address=tcp://127.0.0.1:$admin" >"$log" 2>&1 &
mesh=$!
stop() {
  kill -INT "$mesh" 2>/dev/null || true
  wait "$mesh" 2>/dev/null || true
  rm -f "$log"
}
trap stop EXIT
if ! bin/kvmesh health --wait 60s "http://127.0.0.1:$admin"; then
  echo "the mesh did not become ready; its output:" >&2
  tail -n 40 "$log" >&2
  exit 1
fi
KVMESH_URL="http://127.0.0.1:$rest" "$venv/bin/python" -m pytest -q "$dir" "$@"
