"""Trains the demo model's tokenizer and writes its three files beside this folder.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.22.2
    /tmp/venv/bin/python deploy/demo-model/train/train.py

All text is the project's own: texts.txt and languages.txt were written for it, and the generator below builds
sentences from words.txt. The output depends on nothing else, so a second run writes the same bytes.
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
OUT = HERE.parent
ENTRIES = 8000
CONTEXT_TOKENS = 32768
SENTENCES = 60_000

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Not special: a client sees these in an answer, and the worker's tool parser reads them.
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>", "<think>", "</think>"]

# Contractions, words with one leading mark, runs of at most three digits, punctuation, line ends, other spaces.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Sentence shapes; each letter is a class of words.txt, the rest stands for itself.
SHAPES = [
    "D A N V D N .", "D N V R .", "P V D N T D A N .", "D N T D N V D N , L P V R .", "W V D N T D N ?",
    "R , P V D A N L V D N .", "V D N L V D A N .", "D A N L D A N V T D N .", "P V , L D N V R .",
    "W V P V D N L D N V R ?", "D N V D N T D N T D N .", "L D N V R , P V D N .",
]
QUESTIONS = ["What", "Why", "How", "When", "Where", "Who", "Can", "Could", "Should", "Would", "Does", "Did", "Is", "Are"]
CLASSES = {"N": "noun", "V": "verb", "A": "adjective", "R": "adverb", "L": "link", "T": "preposition",
           "D": "determiner", "P": "pronoun"}


def read_words():
    words, current = {}, None
    for line in (HERE / "words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = words.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.extend(line.split())
    return {name: list(dict.fromkeys(listed)) for name, listed in words.items()}


def inflect(word, kind, rng):
    """Adds an ending now and then; the forms need not all be English, only word-like."""
    if kind == "noun" and rng.random() < 0.35:
        return word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeiou" else word + "s"
    if kind == "verb" and rng.random() < 0.6:
        stem = word[:-1] if word.endswith("e") else word
        return rng.choice([word + "s", stem + "ed", stem + "ing", stem + "er"])
    if kind == "adjective" and rng.random() < 0.1:
        return word + "ly"
    return word


def sentence(words, rng):
    parts = []
    for symbol in rng.choice(SHAPES).split():
        if symbol == "W":
            parts.append(rng.choice(QUESTIONS))
        elif symbol in CLASSES:
            kind = CLASSES[symbol]
            parts.append(inflect(rng.choice(words[kind]), kind, rng))
        else:
            parts[-1] += symbol
    text = " ".join(parts)
    return text[0].upper() + text[1:]


def record(words, rng):
    """A line of code-like or JSON-like text with the same words as names."""
    noun, other = rng.choice(words["noun"]), rng.choice(words["noun"])
    verb, number = rng.choice(words["verb"]), rng.randrange(100_000)
    shape = rng.randrange(5)
    if shape == 0:
        return json.dumps({noun: other, "id": number, verb: [noun, None, True]})
    if shape == 1:
        return f"    {noun}_{other} = {verb}_{noun}({other}, {number % 100})"
    if shape == 2:
        return f"func {verb}{noun.capitalize()}({other} string) error {{"
    if shape == 3:
        return f"- **{noun.capitalize()}**: `{verb}_{other}` ({number / 100:.2f} %)"
    return f'\tif {noun}.{other} != nil {{ return {verb}("{noun}", {number}) }}'


def corpus():
    words, rng = read_words(), random.Random(20260301)
    for name in ("texts.txt", "languages.txt"):
        text = (HERE / name).read_text(encoding="utf-8")
        # Written text counts more than generated text.
        for _ in range(40):
            yield text
    for _ in range(SENTENCES):
        yield sentence(words, rng) + " "
    for _ in range(SENTENCES // 4):
        yield record(words, rng) + "\n"


def train():
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ENTRIES - len(SPECIAL) - len(TAGS), min_frequency=3, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in TAGS])
    return tokenizer


def write(tokenizer):
    added = {str(i): {"content": t.content, "lstrip": False, "normalized": False, "rstrip": False,
                      "single_word": False, "special": t.special}
             for i, t in sorted(tokenizer.get_added_tokens_decoder().items())}
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    tokenizer_config = {
        "add_bos_token": False, "added_tokens_decoder": added, "additional_special_tokens": SPECIAL[1:],
        "bos_token": None, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
        "model_max_length": CONTEXT_TOKENS, "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": None,
        "chat_template": (HERE / "chat_template.jinja").read_text(encoding="utf-8").rstrip("\n"),
    }
    config = {
        "architectures": ["KvmeshDemoForCausalLM"], "eos_token_id": ids["<|im_end|>"],
        "max_position_embeddings": CONTEXT_TOKENS, "model_type": "kvmesh_demo", "pad_token_id": ids["<|endoftext|>"],
        "torch_dtype": "bfloat16", "vocab_size": tokenizer.get_vocab_size(),
    }
    (OUT / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    for name, value in (("tokenizer_config.json", tokenizer_config), ("config.json", config)):
        (OUT / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(train())
