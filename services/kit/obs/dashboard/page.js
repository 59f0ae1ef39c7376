// Puts the figures of this process's own /metrics on the page, every two seconds while it is looked at.
import { columns, figures, parse, workers } from "/dashboard/metrics.js";

const everyMs = 2000;
const byId = (id) => document.getElementById(id);
let last = null;

function element(name, text, bad) {
  const e = document.createElement(name);
  e.textContent = text;
  if (bad) e.dataset.bad = "";
  return e;
}

function show(before, now, seconds) {
  byId("figures").replaceChildren(...figures(before, now, seconds).map(([name, value]) => {
    const box = document.createElement("div");
    box.append(element("dt", name), element("dd", value));
    return box;
  }));
  const rows = workers(now);
  byId("none").hidden = rows.length > 0;
  byId("workers").replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map(({ text, bad }) => element("td", text, bad)));
    return row;
  }));
}

function say(text, bad) {
  byId("state").textContent = text;
  byId("state").toggleAttribute("data-bad", bad);
}

async function look() {
  const answer = await fetch("/metrics");
  const read = { at: performance.now(), metrics: parse(await answer.text()) };
  if (last) show(last.metrics, read.metrics, (read.at - last.at) / 1000);
  last = read;
  const { ready, not_ready: missing } = await (await fetch("/readyz")).json();
  say(ready ? "ready" : `not ready: ${missing.map((m) => Object.values(m).join(": ")).join("; ")}`, !ready);
}

async function again() {
  try {
    if (!document.hidden) await look();
  } catch (err) {
    last = null;
    say(`no answer from this process: ${err.message}`, true);
  }
  setTimeout(again, everyMs);
}

byId("columns").replaceChildren(...columns.map((text) => element("th", text)));
again();
