"""Makes gateway/internal/openai/testdata/messages-golden.json anew with vLLM's own code.

The file's requests stay; what vLLM turns each into is computed by its AnthropicServingMessages. Only the modules that do
that are loaded from the wheel: all others, torch among them, are empty stand-ins, so that no GPU and no gigabytes are
needed.

    python -m venv venv && venv/bin/pip install pydantic openai fastapi jinja2
    venv/bin/pip download --no-deps vllm==0.32.0 && unzip -q vllm-0.32.0-*.whl 'vllm/*.py' -d unpacked
    venv/bin/python tools/messages-golden.py unpacked

A new row needs a name and a request in the file; the rest is filled in.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types

from pydantic_core import core_schema

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "gateway", "internal", "openai", "testdata", "messages-golden.json")
CONVERTED = {
    "messages": "messages",
    "tools": "tools",
    "tool_choice": "tool_choice",
    "reasoning_effort": "reasoning_effort",
    "kwargs": "chat_template_kwargs",
}
REAL = {
    "vllm.entrypoints.anthropic.protocol",
    "vllm.entrypoints.anthropic.serving",
    "vllm.entrypoints.generate.base.protocol",
    "vllm.entrypoints.openai.chat_completion.protocol",
    "vllm.entrypoints.serve.engine.protocol",
    "vllm.envs",
    "vllm.exceptions",
}


class StandIn(types.ModuleType):
    """A module in which every name is a class that pydantic takes for any type."""

    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {
            "__init__": lambda self, *args, **kwargs: None,
            "__class_getitem__": classmethod(lambda cls, item: cls),
            "__get_pydantic_core_schema__": classmethod(lambda cls, source, handler: core_schema.any_schema()),
        })
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds REAL modules in the unpacked wheel and makes stand-ins of their neighbours."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in ("vllm", "torch", "transformers"):
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, os.path.join(self.root, *name.split(".")) + ".py")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def main(root):
    sys.meta_path.insert(0, Finder(root))
    from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages

    with open(GOLDEN, encoding="utf-8") as f:
        rows = json.load(f)
    lines = []
    for row in rows:
        request = AnthropicMessagesRequest.model_validate(row["request"])
        chat = AnthropicServingMessages.to_chat_completion_request(request)
        made = chat.model_dump(mode="json", include=set(CONVERTED.values()))
        new = {"name": row["name"], "request": row["request"]}
        new.update((ours, made[theirs]) for ours, theirs in CONVERTED.items())
        lines.append(json.dumps(new))
    with open(GOLDEN, "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(lines) + "]\n")
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1])
