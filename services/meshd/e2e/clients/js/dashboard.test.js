// The dashboard's own module, loaded from the admin server of the running mesh named by KVMESH_ADMIN_URL: reading of
// Prometheus's text, quantiles, and every metric that it draws on a mesh that has answered a request.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout } from "node:timers/promises";

const { KVMESH_URL: url, KVMESH_ADMIN_URL: admin } = process.env;
assert.ok(url && admin, "KVMESH_URL and KVMESH_ADMIN_URL must name a running mesh and its admin server");
let board;
let source;

before(async () => {
  const answer = await fetch(`${admin}/dashboard/metrics.js`);
  assert.match(answer.headers.get("content-type"), /javascript/);
  source = await answer.text();
  board = await import(`data:text/javascript,${encodeURIComponent(source)}`);
});

const text = (lines) => board.parse(lines.join("\n"));

test("labels, escapes and special numbers are read", () => {
  const metrics = text([
    "# HELP m words", 'm{a="x",b="q\\"uo\\\\te\\n"} 1.5e3', 'm{a="y"} +Inf', "bare 2 1700000000000", "", "not a metric",
  ]);
  assert.deepEqual(metrics.get("m"), [
    { labels: { a: "x", b: 'q"uo\\te\n' }, value: 1500 }, { labels: { a: "y" }, value: Infinity },
  ]);
  assert.equal(board.sum(metrics, "bare"), 2);
  assert.equal(board.sum(metrics, "m", { a: "x" }), 1500);
  assert.equal(board.sum(metrics, "absent"), 0);
});

const histogram = (...counts) => text(["0.1", "1", "+Inf"].map((le, i) => `h_bucket{le="${le}"} ${counts[i]}`));

for (const [name, q, was, is, want] of [
  ["none", 0.5, [4, 4, 4], [4, 4, 4], NaN],
  ["half of the first bucket", 0.5, [0, 0, 0], [10, 10, 10], 0.05],
  ["inside the second", 0.75, [0, 0, 0], [2, 4, 4], 0.55],
  ["beyond the last bound", 0.9, [0, 0, 0], [0, 0, 3], 1],
  ["only what came since", 0.5, [100, 100, 100], [100, 110, 110], 0.55],
  ["a process that started anew", 0.5, [100, 100, 100], [10, 10, 10], 0.05],
]) {
  test(`quantile: ${name}`, () => {
    const got = board.quantile(q, histogram(...was), histogram(...is), "h");
    assert.ok(Object.is(got, want) || Math.abs(got - want) < 1e-9, `${got}, want ${want}`);
  });
}

test("a running mesh has every metric that the page draws", async () => {
  const read = async () => board.parse(await (await fetch(`${admin}/metrics`)).text());
  const before = await read();
  const model = (await (await fetch(`${url}/v1/models`)).json()).data[0].id;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, max_tokens: 4, messages: [{ role: "user", content: "What does the board show?" }] }),
  });
  assert.equal(answer.status, 200);
  await answer.text();
  const counted = (metrics) => board.sum(metrics, "kvmesh_gateway_tokens_total", { kind: "prompt" });
  let now = await read();
  for (let look = 0; look < 300 && counted(now) === counted(before); look++) { // counted once the answer is away
    await setTimeout(100);
    now = await read();
  }
  const known = new Set([...now.keys()].map((name) => name.replace(/_bucket$/, "")));
  for (const [, name] of source.matchAll(/"(kvmesh_\w+)"/g)) assert.ok(known.has(name), `${name} is no metric`);
  for (const [, name] of source.matchAll(/of\("(\w+)"\)/g)) {
    assert.ok(known.has(`kvmesh_scheduler_target_${name}`), `${name} is no metric of a target`);
  }
  const figures = Object.fromEntries(board.figures(before, now, 1));
  assert.equal(Object.keys(figures).length, 11);
  assert.notEqual(figures["requests/s"], "0.0");
  assert.match(figures["time to first token, median"], /^[\d.]+ ms$/);
  assert.match(figures["prompt tokens from cache"], /^[\d.]+ %$/);
  const rows = board.workers(now);
  assert.ok(rows.length > 0);
  for (const row of rows) assert.equal(row.length, board.columns.length);
  assert.deepEqual(board.figures(new Map(), new Map(), 1), []);
  assert.deepEqual(board.workers(new Map()), []);
});

test("the page keeps a browser to this process", async () => {
  const page = await fetch(`${admin}/`);
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-security-policy"), /default-src 'none'/);
  for (const [, path] of (await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)) {
    assert.equal((await fetch(`${admin}${path}`)).status, 200, path);
  }
  for (const path of ["/dashboard/", "/dashboard/none.js", "/dashboard/..%2fadmin.go", "/nothing"]) {
    const { status } = await fetch(`${admin}${path}`);
    assert.ok(status === 404 || status === 400, `${path}: ${status}`);
  }
});
