"""Holds our tokenizers and chat templates against Transformers: the same ids, places, texts and masks.

    text_parity.py TEXT_DUMP SOURCE_TREE

Tokenizers are trained here, on the tree's own documents; templates are those in templates/, in the manner of models in
use. Everything is compared by equality.
"""
import datetime
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import transformers.utils.chat_template_utils as chat_template_utils
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

logging.set_verbosity_error()
HERE = Path(__file__).parent
NOW = 1_700_000_000
NUM_STRINGS = 1000
CONVERSATIONS_EACH = 48

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+")
PIECES = ["the", " The", "  ", "\n", "\n\n", "\t", "\r\n", "don't", "WE'LL", "123456", "3.14", "\u00e9", "e\u0301", "\u00df", "\u0130",
          "\u03a3\u03c2", "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\ud55c\uae00", "\u1112\u1161\u11ab", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u05e9\u05dc\u05d5\u05dd", "\u0e44\u0e17\u0e22", "\u0939\u093f\u0928\u094d\u0926\u0940",
          "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\ufb01", "\uff21", "\u2460", "\u00bd", "\u00a0", "\u2009", "\u200b", "\ufeff",
          "\u2028", "\u0000", "\u0007", "\u007f", "\u00ad", "\ufffd", "\ufdd0", "\U0010ffff", "``''", "...", "\u2014", "\u201cquote\u201d", "<s>", "</s>",
          "<|end|>", "<|end|", "[NEW]", "[new]", "xx[NEW]yy", " wide ", "solo", "soloist", "a_b", "x=1;", "/* */", "#", "\\", "\u2581", "\u0120",
          "##", "\u1e9b\u0323", "\u212b", "A" * 120, "\u0345", "\u01c5", "\U0001d518", "\U000e0041", "7\u0967\u0968"]


def strings(tree, rng):
    lines = [line for name in ("README.md", "runtime/README.md", "operator/README.md")
             for line in (tree / name).read_text().splitlines() if line]
    mixed = ["".join(rng.choices(PIECES, k=rng.randint(1, 12))) for _ in range(NUM_STRINGS)]
    spaced = [" ".join(rng.choices(PIECES + lines, k=rng.randint(1, 4))) for _ in range(NUM_STRINGS // 2)]
    return lines, ["", " ", *PIECES, *mixed, *spaced, *lines[:300], "\n".join(lines[:40])]


def added(tokenizer):
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([AddedToken("[NEW]", lstrip=True, rstrip=True), AddedToken(" wide ", normalized=False),
                          AddedToken("solo", single_word=True)])
    return tokenizer


def around(tokenizer, first, last):
    """A post-processor that sets the tokens `first` and `last`, where given, around a text."""
    names = [name for name in (first, last) if name]
    text = " ".join(([first] if first else []) + ["$A"] + ([last] if last else []))
    return processors.TemplateProcessing(single=text, pair="$A $B:1",
                                         special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])


def byte_level(lines):  # gpt2
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return added(tokenizer), {}


def split_bytes(lines):  # llama 3, qwen 2
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=800, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"],
        show_progress=False))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), around(tokenizer, "<s>", None)])
    return added(tokenizer), dict(bos_token="<s>", eos_token="</s>")


def byte_fallback(lines):  # llama 2, mistral, gemma
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator([word for line in lines for word in line.split()], trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False))
    tokenizer.post_processor = around(tokenizer, "<s>", "</s>")
    return added(tokenizer), dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def unigram(lines):  # t5, xlm-roberta
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = around(tokenizer, None, "</s>")
    return added(tokenizer), dict(eos_token="</s>", unk_token="<unk>")


def word_piece(lines):  # bert
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=700, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tokenizer.post_processor = around(tokenizer, "[CLS]", "[SEP]")
    return added(tokenizer), dict(unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def word_piece_cased(lines):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Strip(), normalizers.Replace("#", " hash ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("isolated"),
                                                       pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]"], show_progress=False))
    return added(tokenizer), dict(unk_token="[UNK]")


def word_ends(lines):  # clip
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.WhitespaceSplit()])
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    return added(tokenizer), dict(unk_token="<unk>")


def words(lines):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("e")
    tokenizer.train_from_iterator(lines, trainers.WordLevelTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False))
    return added(tokenizer), dict(unk_token="<unk>")


TOKENIZERS = [byte_level, split_bytes, byte_fallback, unigram, word_piece, word_piece_cased, word_ends, words]


def dump(program, verb, folder, requests):
    """What text_dump answers to `requests`."""
    given, out = folder / "in.json", folder / "out.json"
    given.write_text(json.dumps(requests))
    subprocess.run([program, verb, folder, given, out], check=True)
    return json.loads(out.read_text())


def save(make, lines, folder):
    tokenizer, tokens = make(lines)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def expected_encoding(tokenizer, text):
    special = tokenizer(text, return_offsets_mapping=True)
    return dict(ids=tokenizer(text, add_special_tokens=False)["input_ids"], special_ids=special["input_ids"],
                offsets=[list(offset) for offset in special["offset_mapping"]],
                decoded=tokenizer.decode(special["input_ids"], clean_up_tokenization_spaces=False),
                decoded_plain=tokenizer.decode(special["input_ids"], skip_special_tokens=True,
                                               clean_up_tokenization_spaces=False))


def compare(name, index, given, ours, theirs):
    for key, value in theirs.items():
        if ours.get(key) != value:
            sys.exit(f"{name}, {index}: {key} differs for {given!r}\n  ours   {ours.get(key, ours)!r}\n  theirs {value!r}")


def compare_tokenizers(program, lines, texts):
    for make in TOKENIZERS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            reference = save(make, lines, folder)
            answers = dump(program, "tokenizer", folder, texts)
            num_ids = set()
            for index, (text, ours) in enumerate(zip(texts, answers, strict=True)):
                compare(make.__name__, index, text, ours, expected_encoding(reference, text))
                num_ids.update(ours["ids"])
            if len(num_ids) < 100:  # a comparison of unknown tokens would say little
                sys.exit(f"{make.__name__}: the strings have only {len(num_ids)} different ids")
            print(f"{make.__name__}: {len(texts)} strings, {len(num_ids)} different ids")


def conversation(rng, texts):
    """Messages as they occur, and some that templates refuse."""
    # A template that prints a list or dict shows texts in it as repr() does, which has escapes for what Python 3.11's
    # version of Unicode calls unprintable; ours has those of control characters only.
    plain = [text for text in texts if all(letter.isprintable() or letter in "\n\t\r" for letter in text)]
    messages = []
    if rng.random() < 0.4:
        messages.append(dict(role="system", content=rng.choice(texts)))
    for turn in range(rng.randint(1, 4)):
        messages.append(dict(role="user", content=rng.choice(texts)))
        answer = dict(role="assistant", content=rng.choice(texts))
        kind = rng.random()
        if kind < 0.2:
            call = dict(name="lookup", arguments={"q": rng.choice(plain), "n": rng.randint(-5, 5), "x": 0.5, "deep": {"a": [1, None, True]}})
            answer.update(content=None, tool_calls=[dict(id=f"call{turn}abc", type="function", function=call)])
            messages += [answer, dict(role="tool", name="lookup", content=rng.choice(texts))]
            answer = dict(role="assistant", content=rng.choice(texts))
        elif kind < 0.4:
            answer["content"] = f"<think>\n{rng.choice(texts)}\n</think>\n\n{answer['content']}"
        elif kind < 0.5:
            answer["reasoning_content"] = rng.choice(texts)
        elif kind < 0.6:
            answer["content"] = [dict(type="text", text=rng.choice(plain)), dict(type="text", text=rng.choice(plain))]
        if turn == 0 or rng.random() < 0.9:
            messages.append(answer)
    if rng.random() < 0.2:
        messages.pop()
    return messages


TOOLS = [dict(type="function", function=dict(name="lookup", description="Looks <up> & \"finds\" \u00e9\u4e2d", parameters=dict(
    type="object", properties=dict(q=dict(type="string"), n=dict(type="integer", minimum=-1.5)), required=["q"])))]


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


def expected_rendering(tokenizer, request):
    try:
        text = tokenizer.apply_chat_template(request["messages"], tokenize=False, tools=request["tools"],
                                             add_generation_prompt=request["add_generation_prompt"])
    except Exception as error:  # whatever Jinja or Python raises, a template has refused
        return None, str(error)
    masks = tokenizer.apply_chat_template(request["messages"], tokenize=True, return_dict=True, tools=request["tools"],
                                          return_assistant_tokens_mask=True,
                                          add_generation_prompt=request["add_generation_prompt"])["assistant_masks"]
    return dict(text=text, mask=masks), None


def compare_template(program, source, make, lines, texts, rng):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(make, lines, folder)
        (folder / "chat_template.jinja").write_text(source.read_text())
        tokenizer = AutoTokenizer.from_pretrained(folder)
        requests = [dict(messages=conversation(rng, texts), tools=rng.choice([None, TOOLS]),
                         add_generation_prompt=rng.random() < 0.5) for _ in range(CONVERSATIONS_EACH)]
        answers = dump(program, "template", folder, [
            dict(now=NOW, variables={**tokenizer.special_tokens_map, **request, "documents": None}) for request in requests])
        num_equal, num_marked, num_refused = 0, 0, 0
        for index, (request, ours) in enumerate(zip(requests, answers, strict=True)):
            theirs, refusal = expected_rendering(tokenizer, request)
            if refusal is not None:
                if "error" not in ours or (refusal.startswith("!") and not ours["error"].endswith(refusal)):
                    sys.exit(f"{source.name}, {index}: Transformers refuses {request!r}: {refusal}\n  ours {ours!r}")
                num_refused += 1
                continue
            compare(source.name, index, request, ours, theirs)
            num_equal += 1
            num_marked += any(ours["mask"])
        print(f"{source.name}: {num_equal} conversations, {num_marked} with marks, {num_refused} refused by both")
        return num_equal, num_marked


def main(program, tree):
    rng = random.Random(42)
    lines, texts = strings(Path(tree), rng)
    assert len(texts) >= NUM_STRINGS, len(texts)
    compare_tokenizers(program, lines, texts)
    chat_template_utils.datetime = FixedTime
    spoken = [text for text in texts if text.strip()]
    num_equal = num_marked = 0
    for source in sorted((HERE / "templates").glob("*.jinja")):
        for make in (split_bytes, byte_fallback):
            equal, marked = compare_template(program, source, make, lines, spoken, rng)
            num_equal, num_marked = num_equal + equal, num_marked + marked
    if num_equal < 200 or num_marked < 200:
        sys.exit(f"only {num_equal} conversations were compared, {num_marked} of them with marks")


if __name__ == "__main__":
    main(*sys.argv[1:])
