"""Trains small tokenizers of the kinds that the corpus lacks, on the project's own text.

    /tmp/venv/bin/python tokenizer-svc/testdata/make_small.py      (PyPI: tokenizers==0.22.2)

Each folder of small/ is one kind: SentencePiece-like BPE with byte fallback in its old and new form, Unigram with the
first word apart, WordPiece, and byte-level BPE with an added token that takes the space after it.
"""

import json
import pathlib

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

HERE = pathlib.Path(__file__).parent
TEXT = HERE.parent / "internal" / "probe" / "text"
LINES = [line for name in ("english-and-code.txt", "languages.txt")
         for line in (TEXT / name).read_text(encoding="utf-8").splitlines()]
BYTES = [f"<0x{b:02X}>" for b in range(256)]
FALLBACK = decoders.Sequence([
    decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def bpe(spaced):
    """Trains BPE with byte fallback on text whose spaces are already the mark U+2581."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always" if spaced else "never")
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, show_progress=False,
                                  limit_alphabet=200)
    tokenizer.train_from_iterator(LINES, trainer)
    # The byte tokens are entries of the vocabulary, not added tokens.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(state))


def template(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])


def old_style():
    """As Llama 2's file: a normalizer puts the mark, there is no pre-tokenizer."""
    tokenizer = bpe(spaced=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = FALLBACK
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    template(tokenizer)
    return tokenizer


def new_style(scheme):
    """As newer conversions: Metaspace puts the mark, on the first word only or on every piece."""
    tokenizer = bpe(spaced=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    tokenizer.decoder = FALLBACK
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    template(tokenizer)
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=800, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    return tokenizer


def stripping():
    """Byte-level BPE whose <|user|> takes the space after it: no cut is allowed there. It asks for truncation too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_special_tokens([AddedToken("<|user|>", rstrip=True, normalized=False),
                                  AddedToken("<|end|>", normalized=False)])
    return tokenizer


def main():
    made = {"bpe-old": old_style(), "bpe-always": new_style("always"), "bpe-first": new_style("first"),
            "unigram": unigram(), "wordpiece": wordpiece(), "stripping": stripping()}
    for name, tokenizer in made.items():
        folder = HERE / "small" / name
        folder.mkdir(parents=True, exist_ok=True)
        state = json.loads(tokenizer.to_str())
        if name == "stripping":
            state["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
