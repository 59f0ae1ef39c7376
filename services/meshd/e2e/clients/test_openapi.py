"""The served OpenAPI document against the mesh that serves it: schemathesis makes requests from the document.

Half of the bodies become one that a worker takes, with one generated member more, so that they reach a worker.
"""
import json
import zlib

import jsonschema_rs
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as promised

from conftest import mesh_url

# Examples per operation beside those that schemathesis derives from each limit in the document.
EXAMPLES = 12
# Small, since schemathesis reads only the first 20 events of a stream.
ANSWER_TOKENS = 4
STREAM_ENDS = ('"type":"message_stop"', '"type":"response.completed"', '"error"', "[DONE]")


def served(base):
    """The document as the mesh serves it."""
    got = requests.get(f"{base}/openapi.json", timeout=30)
    assert got.status_code == 200 and got.headers["content-type"].startswith("application/json")
    return got.json()


def load(base):
    """The document, whose requests reach the mesh that serves it."""
    loaded = schemathesis.openapi.from_dict(served(base))
    loaded.config.update(base_url=base)
    return loaded


def reaching(base):
    """A body that an operation takes, by its path, whichever of the members it reads."""
    talk = [{"role": "user", "content": "Which berth is free?"}]
    taken = {
        "model": requests.get(f"{base}/v1/models", timeout=30).json()["data"][0]["id"], "messages": talk,
        "prompt": "The tide", "input": "The tide", "tokens": [5, 6], "text_1": "A boat", "text_2": "A pier",
        "query": "The tide", "max_tokens": ANSWER_TOKENS, "max_output_tokens": ANSWER_TOKENS}

    def body(path):
        if path.endswith("rerank"):
            return taken | {"documents": ["A boat", "A pier"]}
        return taken | {"messages": [talk, talk]} if path.endswith("batch") else taken

    return body


def steered(body, taken):
    """Every other body as generated, else `taken` with one generated member; which depends on the body alone."""
    if not isinstance(body, dict) or not body:
        return body
    mark = zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode())
    more = sorted(body.keys() - taken.keys() - {"max_completion_tokens"}, key=str)
    if mark % 2:
        return body
    return taken | ({key: body[key] for key in [more[mark // 2 % len(more)]]} if more else {})


def check_error(response):
    """Every refusal is an error object: OpenAI's, Anthropic's around it, or the worker's own `detail`, passed on."""
    body = response.json()
    if set(body) == {"detail"}:
        return
    error = body["error"]
    assert isinstance(error["message"], str) and error["message"]
    assert isinstance(error["type"], str) and error["type"]


def check_stream(response):
    """Every stream of events ends with the event that says how it ended."""
    last = [line for line in response.text.splitlines() if line.startswith("data: ")][-1]
    assert any(end in last for end in STREAM_ENDS), last


schema = load(mesh_url())
TAKEN = reaching(mesh_url())


@schema.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))
def test_every_operation(case):
    case.body = steered(case.body, TAKEN(case.path))
    response = case.call(timeout=30)
    if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        case.validate_response(response, checks=[checks.not_a_server_error, promised.status_code_conformance])
        check_stream(response)
        return
    case.validate_response(response, checks=[
        checks.not_a_server_error, promised.status_code_conformance, promised.content_type_conformance,
        promised.response_headers_conformance, promised.response_schema_conformance])
    if response.status_code >= 400:
        check_error(response)


def test_the_document_names_every_route(url):
    """The routes that official clients use stand in the document."""
    wanted = {
        "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/messages/count_tokens",
        "/v1/models", "/v1/models/{model}", "/v1/responses", "/v1/audio/transcriptions", "/kvmesh/v1/explain", "/health"}
    document = served(url)
    assert wanted <= set(document["paths"])
    assert document["info"]["title"] == "kvmesh" and document["info"]["version"]


def test_events_have_the_documented_shape(url):
    """The data of each event of a stream is what the document says."""
    document = served(url)
    shapes = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "Which berth?"}]},
              "/v1/completions": {"prompt": "The tide"}}
    for path, body in shapes.items():
        told = document["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]["x-event-data"]
        shape = told | {"components": document["components"]}
        with requests.post(url + path, json=body | {"stream": True, "max_tokens": ANSWER_TOKENS}, timeout=30) as got:
            events = [line[6:] for line in got.text.splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]" and len(events) > ANSWER_TOKENS
        for event in events[:-1]:
            jsonschema_rs.validate(shape, json.loads(event))
