// OpenAI's JavaScript client against the running mesh named by KVMESH_URL: list, chat, stream, tools, abort, errors.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { before, test } from "node:test";
import OpenAI, { APIUserAbortError, NotFoundError } from "openai";

const url = process.env.KVMESH_URL;
assert.ok(url, "KVMESH_URL must name a running mesh, such as http://127.0.0.1:8080");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0, timeout: 60_000 });

const system = "You are the harbour master's assistant. Name the tide, the wind and the berth. ".repeat(12);
const tools = [{
  type: "function",
  function: {
    name: "lookup_tide", description: "Height of the tide at a harbour.",
    parameters: { type: "object", properties: { harbour: { type: "string" } }, required: ["harbour"] },
  },
}];
let model;

// A first turn that no worker holds any block of.
const chatOf = (question) => [
  { role: "system", content: `${randomUUID()} ${system}` }, { role: "user", content: question },
];

// The mesh's own count of requests in flight, over all workers.
async function inflight() {
  const { workers } = await (await fetch(`${url}/kvmesh/v1/workers`)).json();
  return workers.reduce((sum, worker) => sum + (worker.inflight ?? 0), 0);
}

before(async () => {
  model = (await client.models.list()).data[0].id;
});

test("models are listed and found by id", async () => {
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  assert.deepEqual(ids, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
});

test("chat answers", async () => {
  const answer = await client.chat.completions.create({
    model, messages: chatOf("Which berth is free?"), max_tokens: 8,
  });
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.ok(answer.choices[0].message.content);
  assert.equal(answer.usage.completion_tokens, 8);
});

test("chat streams with usage", async () => {
  const stream = await client.chat.completions.create({
    model, messages: chatOf("Tell me about the tide."), max_tokens: 24, stream: true,
    stream_options: { include_usage: true },
  });
  const ids = new Set();
  let pieces = 0;
  let usage;
  for await (const chunk of stream) {
    ids.add(chunk.id);
    if (chunk.choices[0]?.delta.content) pieces++;
    usage = chunk.usage ?? usage;
  }
  assert.ok(pieces > 1);
  assert.equal(ids.size, 1);
  assert.equal(usage.completion_tokens, 24);
});

test("second turn reads the cache of the same worker", async () => {
  const messages = chatOf("Which berth is free tonight?");
  const first = await client.chat.completions.create({ model, messages, max_tokens: 8 }).withResponse();
  messages.push(first.data.choices[0].message, { role: "user", content: "And tomorrow?" });
  const second = await client.chat.completions.create({ model, messages, max_tokens: 8 }).withResponse();
  assert.equal(second.response.headers.get("x-kvmesh-worker"), first.response.headers.get("x-kvmesh-worker"));
  assert.ok(second.data.usage.prompt_tokens_details.cached_tokens > 0);
});

test("a tool is called and its result answered", async () => {
  const messages = chatOf("How high is the water in Brest?");
  const asked = await client.chat.completions.create({
    model, messages, tools, tool_choice: "required", max_tokens: 256,
  });
  const [call] = asked.choices[0].message.tool_calls;
  assert.equal(call.function.name, "lookup_tide");
  assert.equal(typeof JSON.parse(call.function.arguments).harbour, "string");
  messages.push(asked.choices[0].message, { role: "tool", tool_call_id: call.id, content: "2.4 m" });
  const answer = await client.chat.completions.create({ model, messages, tools, tool_choice: "none", max_tokens: 8 });
  assert.ok(answer.choices[0].message.content);
});

test("a streamed tool call adds up", async () => {
  const runner = client.chat.completions.stream({
    model, messages: chatOf("How high is the water in Brest?"), tools, tool_choice: "required", max_tokens: 256,
  });
  const final = await runner.finalChatCompletion();
  const [call] = final.choices[0].message.tool_calls;
  assert.equal(call.function.name, "lookup_tide");
  assert.equal(typeof JSON.parse(call.function.arguments).harbour, "string");
});

test("an aborted stream ends at once and leaves nothing in flight", { timeout: 30_000 }, async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create({
    model, messages: chatOf("A long story."), max_tokens: 4000, ignore_eos: true, stream: true,
  }, { signal: controller.signal });
  let pieces = 0;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content && ++pieces === 3) {
      assert.ok((await inflight()) > 0, "the request is in flight while it streams");
      controller.abort();
    }
  }
  assert.equal(controller.signal.aborted, true);
  while ((await inflight()) > 0);
});

test("a plain request aborted in flight leaves nothing in flight", { timeout: 30_000 }, async () => {
  const controller = new AbortController();
  const waiting = client.chat.completions.create({
    model, messages: chatOf("A long story."), max_tokens: 4000, ignore_eos: true,
  }, { signal: controller.signal });
  const refused = assert.rejects(waiting, APIUserAbortError);
  while ((await inflight()) === 0);
  controller.abort();
  await refused;
  while ((await inflight()) > 0);
});

test("an unknown model is not found", async () => {
  const wrong = client.chat.completions.create({ model: "no/such-model", messages: [{ role: "user", content: "x" }] });
  await assert.rejects(wrong, (error) => error instanceof NotFoundError && error.param === "model");
});
