// Reads Prometheus's text format and draws from two readings what the page shows. No access to the page: a test runs it.

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const label = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const spelled = { n: "\n", '"': '"', "\\": "\\" };

// parse gives name -> [{labels, value}].
export function parse(text) {
  const out = new Map();
  for (const row of text.split("\n")) {
    const found = row.startsWith("#") ? null : line.exec(row);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(label)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => spelled[c] ?? c);
    }
    const value = found[3] === "+Inf" ? Infinity : found[3] === "-Inf" ? -Infinity : Number(found[3]);
    if (!out.has(found[1])) out.set(found[1], []);
    out.get(found[1]).push({ labels, value });
  }
  return out;
}

const matches = (labels, want) => Object.entries(want).every(([name, value]) => labels[name] === value);

// sum adds the series of a name whose labels match; 0 for none.
export function sum(metrics, name, want = {}) {
  return (metrics.get(name) ?? []).filter((s) => matches(s.labels, want)).reduce((total, s) => total + s.value, 0);
}

// rise is how much a counter grew between two readings; a process that started anew counts from 0.
function rise(before, now, name, want) {
  const [was, is] = [sum(before, name, want), sum(now, name, want)];
  return is >= was ? is - was : is;
}

// quantile estimates from a histogram's buckets what share q of the observations between two readings stayed under, as
// Prometheus does; NaN when there were none.
export function quantile(q, before, now, name, want = {}) {
  const bounds = new Map();
  for (const { labels } of now.get(`${name}_bucket`) ?? []) {
    if (matches(labels, want)) bounds.set(labels.le, labels.le === "+Inf" ? Infinity : Number(labels.le));
  }
  const counts = [...bounds].sort((a, b) => a[1] - b[1]).map(([le, bound]) => {
    return { bound, count: rise(before, now, `${name}_bucket`, { ...want, le }) };
  });
  const all = counts.at(-1)?.count ?? 0;
  if (!(all > 0)) return NaN;
  const at = counts.findIndex((c) => c.count >= q * all);
  const lower = at > 0 ? counts[at - 1] : { bound: 0, count: 0 };
  if (counts[at].bound === Infinity) return lower.bound;
  const inside = counts[at].count - lower.count;
  return lower.bound + (counts[at].bound - lower.bound) * (inside > 0 ? (q * all - lower.count) / inside : 0);
}

const count = (n) => Math.round(n).toLocaleString("en");
const rate = (n) => (n >= 10 ? count(n) : n.toFixed(1));
const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–");
const ms = (s) => (Number.isNaN(s) ? "–" : `${(1000 * s).toFixed(s < 0.01 ? 1 : 0)} ms`);

// figures gives [name, value] of what happens now; seconds lie between the readings. Parts that this process does not
// have are left out.
export function figures(before, now, seconds) {
  const out = [];
  const tokens = (kind) => rise(before, now, "kvmesh_gateway_tokens_total", { kind });
  if (now.has("kvmesh_gateway_requests_total")) {
    const ttft = (q) => ms(quantile(q, before, now, "kvmesh_gateway_time_to_first_token_seconds"));
    out.push(
      ["requests/s", rate(rise(before, now, "kvmesh_gateway_requests_total") / seconds)],
      ["in flight", count(sum(now, "kvmesh_gateway_inflight_requests"))],
      ["waiting for a worker", count(sum(now, "kvmesh_gateway_queued_requests"))],
      ["time to first token, median", ttft(0.5)],
      ["time to first token, 90 %", ttft(0.9)],
      ["output tokens/s", rate(tokens("output") / seconds)],
      ["prompt tokens from cache", share(tokens("cached"), tokens("prompt"))],
      ["predicted from cache", share(tokens("predicted_hit"), tokens("prompt"))],
    );
  }
  if (now.has("kvmesh_scheduler_index_units")) {
    out.push(
      ["units in the index", count(sum(now, "kvmesh_scheduler_index_units"))],
      ["decisions, median", ms(quantile(0.5, before, now, "kvmesh_scheduler_decision_seconds"))],
      ["units/s from events", rate(rise(before, now, "kvmesh_scheduler_feed_units_total") / seconds)],
    );
  }
  return out;
}

const certainties = ["exact", "degraded", "fallback"];
const breakers = ["closed", "open", "half-open"];

// columns heads the rows of workers.
export const columns = [
  "worker", "rank", "knowledge", "in flight", "prefill queue, tokens", "units held", "last event", "breaker",
];

// workers gives one row per target of the scheduler: [{text, bad}], in the order of the columns.
export function workers(now) {
  const seen = now.get("kvmesh_scheduler_target_certainty") ?? [];
  return seen.map(({ labels: { worker, rank }, value }) => {
    const of = (name) => sum(now, `kvmesh_scheduler_target_${name}`, { worker, rank });
    const breaker = of("breaker");
    return [
      { text: worker },
      { text: rank },
      { text: certainties[value] ?? String(value), bad: value !== 0 },
      { text: count(of("inflight")) },
      { text: count(of("queued_tokens")) },
      { text: count(of("units")) },
      { text: `${of("event_age_seconds").toFixed(1)} s` },
      { text: breakers[breaker] ?? String(breaker), bad: breaker !== 0 },
    ];
  });
}
