"""Makes the golden ids with Python's tokenizers and tiktoken.

    pip install tokenizers==0.22.2 tiktoken==0.14.0
    KVMESH_CORPUS=../shared/corpus /tmp/venv/bin/python tokenizer-svc/testdata/make_goldens.py

golden/texts.ndjson.gz holds the texts, one per line: {"b": base64} or, for chat renderings that stay in the corpus,
{"cell": file, "scenario": name}. golden/<tokenizer>.tsv holds one line per text: number of ids without and with special
tokens, the first 16 hex digits of the SHA-256 of the ids (little-endian uint32) of both, and of the decoded text (UTF-8)
without and with special tokens left out.
"""

import base64
import gzip
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CORPUS = pathlib.Path(os.environ.get("KVMESH_CORPUS", ROOT.parent / "shared" / "corpus"))
TEXT = HERE.parent / "internal" / "probe" / "text"
CELLS = ["llama.cpp__Qwen-Qwen3-0.6B", "llama.cpp__openai-gpt-oss-120b", "dinja__deepseek-ai-DeepSeek-V3.1"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</tool_call>", "<|start|>", "<|channel|>",
           "<|return|>", "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<s>", "</s>", "<|user|>", "<|end|>",
           "[CLS]", "[UNK]", "<|im_user|>", "[BOS]"]
KIMI_PATTERN = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def texts():
    english = (TEXT / "english-and-code.txt").read_text(encoding="utf-8")
    languages = (TEXT / "languages.txt").read_text(encoding="utf-8")
    rng = random.Random(7)
    yield from (t.encode() for t in ["", " ", "\n", "Hello, world!", english, languages])
    yield from (line.encode() for line in languages.splitlines())
    lines = english.splitlines(keepends=True)
    yield from ("".join(lines[i:i + 9]).encode() for i in range(0, len(lines), 9))
    for unit in [" ", "\n", "\t", "\r\n", "a", "Z", "9", "-", "é", "語", "🙂", "\u0301", "ab ", "\u00a0"]:
        yield from (f"x{unit * n}y".encode() for n in (1, 2, 5, 33, 400))
    for token in SPECIAL:
        yield f"{token}user\nHi {token} there{token}{token}\n word{token}word {token[:-1]} {token[1:]}".encode()
    yield from [b"\x00", b"a\x00b", b"\x00\x00tail\x00", b"\xff", b"caf\xc3", b"ok\xe4\xbd mid \xed\xa0\x80 \xf0\x9f\x98 end",
                "e\u0301 \u00e9 \u212b \ufb01 \uac00\u1101\u1161".encode(), "\u200d\ufeff\u2028\u2029\u0085".encode()]
    for _ in range(40):
        yield "".join(rng.choice(english + languages * 3 + "".join(SPECIAL)) for _ in range(200)).encode()
        yield bytes(rng.randrange(256) for _ in range(60))
    big = "".join(rng.sample(lines * 30 + languages.splitlines(keepends=True) * 10, 1700))
    yield big.encode()[:100_000]


def entries():
    for text in texts():
        yield {"b": base64.b64encode(text).decode()}, text
    for cell in CELLS:
        cells = json.loads((CORPUS / "oracle" / "cells" / f"{cell}.json").read_text(encoding="utf-8"))["cells"]
        for scenario, value in cells.items():
            if "raw" in value:
                yield {"cell": cell, "scenario": scenario}, value["raw"].encode()


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def row(encode, decode, text):
    text = text.decode("utf-8", errors="replace")
    plain, special = encode(text, False), encode(text, True)
    fields = [len(plain), len(special)] + [digest(struct.pack(f"<{len(ids)}I", *ids)) for ids in (plain, special)]
    return fields + [digest(decode(plain, skip).encode()) for skip in (False, True)]


def huggingface(path):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return (lambda text, special: tokenizer.encode(text, add_special_tokens=special).ids,
            lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip))


def kimi(folder):
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    ranks = load_tiktoken_bpe(str(folder / "tiktoken.model"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    named = {int(i): t for i, t in config["added_tokens_decoder"].items()}
    window = range(len(ranks), len(ranks) + 256)
    added = {named[i]["content"] if i in named else f"<|reserved_token_{i}|>": i for i in window}
    left_out = {i for i in window if i not in named or named[i]["special"]}
    encoding = tiktoken.Encoding("kimi", pat_str=KIMI_PATTERN, mergeable_ranks=ranks, special_tokens=added)
    return (lambda text, special: encoding.encode(text, allowed_special="all"),
            lambda ids, skip: encoding.decode([i for i in ids if not skip or i not in left_out]))


def sources():
    for folder in sorted((CORPUS / "tokenizers").iterdir()):
        if folder.is_dir():
            yield folder.name, huggingface(folder / "tokenizer.json")
    yield "demo-model", huggingface(ROOT / "deploy" / "demo-model" / "tokenizer.json")
    for folder in sorted((HERE / "small").iterdir()):
        yield folder.name, huggingface(folder / "tokenizer.json")
    module = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/daulet/tokenizers"], cwd=HERE.parent,
                            capture_output=True, check=True, text=True).stdout.strip()
    yield "kimi", kimi(pathlib.Path(module) / "test" / "data" / "kimi-k2-instruct")


def main():
    listed = list(entries())
    with gzip.GzipFile(HERE / "golden" / "texts.ndjson.gz", "wb", mtime=0) as out:
        for entry, _ in listed:
            out.write((json.dumps(entry) + "\n").encode())
    for name, (encode, decode) in sources():
        rows = ["\t".join(map(str, row(encode, decode, text))) for _, text in listed]
        (HERE / "golden" / f"{name}.tsv").write_text("\n".join(rows) + "\n")
        print(name, len(rows))


if __name__ == "__main__":
    main()
