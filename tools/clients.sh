#!/usr/bin/env bash
# Starts the mesh on free ports, drives it with the official clients, and stops it. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh python3 node npm
dir=services/meshd/e2e/clients
venv=.venv/clients

# stamp FILE FOLDER: true if the folder was made from this very file.
stamp() { [ -f "$2/.$(sha256sum "$1" | cut -c1-16)" ]; }
mark() { touch "$2/.$(sha256sum "$1" | cut -c1-16)"; }

if ! stamp "$dir/requirements.txt" "$venv"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$dir/requirements.txt"
  mark "$dir/requirements.txt" "$venv"
fi
if ! stamp "$dir/js/package-lock.json" "$dir/js/node_modules"; then
  npm --prefix "$dir/js" ci --no-audit --no-fund --loglevel=error
  mark "$dir/js/package-lock.json" "$dir/js/node_modules"
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
MODEL_PATH=deploy/demo-model bin/kvmesh up --config "$dir/mesh.yaml" --set "gateway.address=127.0.0.1:$rest" \
  --set "gateway.server.address=tcp://127.0.0.1:$grpc" --set "mesh.admin.address=tcp://127.0.0.1:$admin" >"$log" 2>&1 &
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
export KVMESH_URL="http://127.0.0.1:$rest" KVMESH_ADMIN_URL="http://127.0.0.1:$admin"
failed=0
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest -q -p no:cacheprovider "$dir" "$@" || failed=1
node --test --test-reporter=dot "$dir"/js/*.test.js || failed=1
if ! kill -0 "$mesh" 2>/dev/null; then
  echo "the mesh ended while it was driven; its output:" >&2
  failed=1
fi
[ "$failed" = 0 ] || tail -n 40 "$log" >&2
exit "$failed"
