#!/usr/bin/env python3
"""Writes requests.json: what a real vLLM 0.32.0 hands to templates for requests that its request model takes although
they are odd, or refuses although they look harmless.

Templates print the messages and tools that they get: in the string and in the openai content format, and one that
quotes the developer role. vLLM's own render application runs in this process, by the corpus' generator. Needs vllm
0.32.0 (its CPU build, or any with VLLM_TARGET_DEVICE=cpu):

  python3 make_requests.py CORPUS/request-oracle/make_request_oracle.py > requests.json"""
import asyncio, importlib.util, itertools, json, os, sys

USER = {"role": "user", "content": "q"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f"}}
DUMP = "{{ messages|tojson }}|{{ tools|tojson }}|{{ add_generation_prompt }}"
TEMPLATES = {
    "string": DUMP,
    "openai": DUMP + "{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}",
    "developer": DUMP + "{# 'developer' #}",
}


def messages():
    """Conversations of one user turn and one odd turn."""
    roles = ["user", "assistant", "system", "developer", "tool", "function", "wizard"]
    shuffled = {"x": 1, "type": "function", "function": {"z": 1, "strict": None, "description": "d", "name": "f"}}
    members = [{}, {"name": "n"}, {"name": 3}, {"tool_call_id": "i"}, {"tool_call_id": None}, {"tool_calls": None},
               {"tool_calls": []}, {"tool_calls": {}}, {"tool_calls": [CALL]}, {"reasoning": "r"}, {"reasoning": None},
               {"reasoning": 3}, {"reasoning_content": "r"}, {"reasoning_content": None}, {"tools": None},
               {"tools": [TOOL]}, {"tools": [{"x": 1}]}, {"tools": [shuffled]}, {"task": "t"}, {"task": 3},
               {"refusal": None}, {"reasoning": "r", "refusal": "x"}, {"reasoning": "r", "task": "t", "audio": None}]
    for role, more in itertools.product(roles, members):
        for content in (["bare"], [{"type": "input_text", "text": "x"}]):
            yield {"role": role, "content": content, **more}
    for role in roles:
        own = {"role": role, "tool_call_id": "i"} if role == "tool" else {"role": role}
        for content in ({}, {"a": 1}, [], [{"type": "text", "text": "x"}, {"type": "thinking", "text": "x"}]):
            yield {**own, "content": content}
        yield own
        text = {"type": "text", "text": "T"}
        for part in ({"type": "thinking", "thinking": None}, {"type": "tool_reference"},
                     {"type": "tool_reference", "name": ""}, {"type": "tool_reference", "name": "n", "x": 1},
                     {"tool_reference": {}, "name": "n"}, {"type": "text", "text": 0}, {"type": "text", "text": False},
                     {"type": "text", "text": []}, {"type": "text", "text": ["x"]}, {"type": "refusal", "refusal": 0},
                     {"type": "refusal"}, {"type": "input_text"}, {"type": "output_text", "text": ""}, {"text": "x"},
                     {"type": "text", "text": "x", "uuid": "u"}, {"type": "text", "text": "x", "data": 1, "mine": 2}):
            yield {**own, "content": [part, text]}


def cases():
    for message in messages():
        yield {"messages": [USER, message]}
    for name, value in itertools.product(["tokenizer", "conversation", "messages", "model_config", "chat_template", "tools"],
                                         [None, "auto", False, [], {}, [TOOL]]):
        yield {"messages": [USER], "chat_template_kwargs": {name: value}}
    for name, value in itertools.product(["strict", "defer_loading"], [True, 0, 1, 2, 1.0, "on", "TRUE", "n", "maybe", [], None]):
        yield {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", name: value}}]}
        yield {"messages": [USER], "tools": [{**TOOL, name: value}]}
    for value in [True, False, None, 0, 1, 2, 1.0, 0.5, "t", "F", "Off", "yes", "maybe", "", []]:
        yield {"messages": [USER], "add_generation_prompt": value}


def main():
    spec = importlib.util.spec_from_file_location("oracle", sys.argv[1])
    oracle = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oracle)
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
    requests = [{"id": str(i), "body": json.dumps({"model": "m", **c})} for i, c in enumerate(cases())]
    oracle.install_probes()

    class Arguments:
        pass
    stdout, sys.stdout = sys.stdout, sys.stderr
    out = asyncio.run(oracle.run(Arguments, requests, TEMPLATES))
    rows = []
    for r in requests:
        row = {"body": r["body"]}
        for name in TEMPLATES:
            cell = out[name][r["id"]]
            if "error" not in cell:
                row[name] = cell["prompt"]
        rows.append(json.dumps(row))
    print("[\n" + ",\n".join(rows) + "\n]", file=stdout)


main()
