#!/usr/bin/env python3
"""Writes golden cases: small templates with what Jinja2 3.1.6 makes of them in
the environment of chat templates. All templates are made here.

    pip install jinja2==3.1.6
    python3 testdata/make_golden.py testdata/golden          # the stored cases
    python3 testdata/make_golden.py --bulk 20000 DIR         # many more, for a one-off check

A case is one line [template, text] or [template, type, message]. CPython 3.11
made the stored cases."""
import argparse, datetime, glob, hashlib, json, os, random, re, signal
import jinja2, jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
import golden_args, golden_bytes, golden_syntax
from golden_templates import TEMPLATES

NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)
CONTEXT = {
    "d": {"a": 1, "b": {"c": [1, 2, {"e": "f"}]}, "items": 5, "_p": 7, "k-k": "v"},
    "users": [{"name": "bob", "age": 30, "t": {"n": 2}}, {"name": "Al", "age": 25, "t": {"n": 1}},
              {"name": "alice", "age": 30}],
    "lst": [5, 3, 8, 1], "words": ["pear", "Apple", "fig", "apple"], "s": "Hello, World", "text": "a\nb\r\n\nc d\x0be",
    "n": 42, "f": 3.25, "big": 12345678901234567890123, "nul": None, "yes": True, "uni": "naïve ßΣ ǆ 日本 🎉",
    "mixed": [1, "a", None, 2.5, True, [1], {"x": 1}], "nested": [[1, 2], [3, [4]]], "empty": "", "html": "<a href='x'>T & C</a>",
}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_emit"), [], [], body).set_lineno(line)

    def _emit(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    tojson.__qualname__ = "_compile_jinja_template.<locals>.tojson"

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    raise_exception.__qualname__ = "raise_exception"
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


ENV = environment()


class Slow(BaseException):
    pass


def alarm(*_):
    raise Slow


def case(template, kind):
    """The case, None if Python's result is none to compare with."""
    try:
        got = timed(template)
    except Slow:
        return None
    return None if kind == "args" and re.search(UNMATCHED_ARGS, template) else got


def timed(template):
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        text = ENV.from_string(template).render(**json.loads(json.dumps(CONTEXT)))
        got = [template, text]
    except (RecursionError, MemoryError, AssertionError if "|indent" in template else MemoryError):
        return None
    except Exception as e:
        # Where in Jinja2's Python code a fault of Python's stands is not compared.
        got = [template, type(e).__name__, re.sub(r" \(<template>, line \d+\)$", "", str(e))]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    blob = "".join(got[1:])
    if any("\ud800" <= c <= "\udfff" for c in blob):
        return None  # a text that is no UTF-8: no worker takes it
    if len(blob) > 4000 or any(re.search(p, template + "\0" + blob) for p in UNMATCHED):
        return None
    return got


# What the engine does not match: texts with addresses, complex numbers, sets
# made of dict views, widths beyond its limit, glibc's unknown conversions.
UNMATCHED = [" at 0x", "(?i)generator.object", r"(?s)map\('string'\)\)\|(wordcount|replace)", r"-3 \*\* 2\.5",
             r"[-<>]=? .*(keys|items)\(\)", r"(keys|items)\(\) [-<>]", r"\0.*Markup\.\w+\(\) ", r"%\*d' % \(?(-1234567|10)", r"%\.\*f' % 10", "%5E", "IndentationError|statically nested|NameError",
             "bound method|\(dict\)\.|got True|__getitem__",
             r"\)\[(1|1\.5|-2|none|5|'a')?:.*\] if "]

# Calls with arguments of odd types fail within Python's own code in ways of their own.
UNMATCHED_ARGS = "lambda|urlize\(|\|truncate\("


ATOMS = """none|true|false|0|1|-3|7|2.5|-0.0|1e20|10**25|''|'abc'|'Hello World'|'ß é'|' x '|'12'|'3.7'|[]|[1,2,3]|['b','A','c']
[3,'a']|()|(1,)|(1,2)|{}|{'a':1}|{'b':2,'A':1}|range(3)|undef|d.zz|d|lst|users|words|('<b>&'{P}safe)|namespace(a=1)|{'a':1}.items()
(lst{P}map('string'))|mixed|text|uni|big|html|d.keys()|nested"""
ATOMS = [a.replace("{P}", "|") for line in ATOMS.split("\n") for a in line.split("|")]

FILTERS = {
    "abs": [""], "attr": ["('real')", "('name')", "('zz')", "('append')", "('__class__')"],
    "batch": ["(2)|list", "(2,'x')|list", "(0)|list"], "capitalize": [""], "center": ["(9)", "", "('x')"], "count": [""],
    "default": ["('x')", "('x',true)", "", "(boolean=true)"], "d": ["(1)"],
    "dictsort": ["", "(true)", "(by='value')", "(reverse=true)", "(by='x')"], "e": [""], "escape": [""], "forceescape": [""],
    "filesizeformat": ["", "(true)"], "first": [""], "last": [""], "float": ["", "(7)"],
    "format": ["(1)", "('a','b')", "(a=1)"],
    "groupby": ["('age')", "('name')|list|length", "(0)"], "indent": ["", "(2,true)", "('> ')", "(3,blank=true)", "(1.5)"],
    "int": ["", "(5)", "(0,16)", "(base=2)"], "items": ["|list"], "join": ["", "('-')", "(', ',attribute='name')", "(1)"],
    "length": [""], "list": [""], "lower": [""],
    "map": ["('upper')|list", "(attribute='name')|list", "(attribute='t.n',default=0)|list", "('nope')|list", "()|list",
            "('default','x')|join(',')", "(attribute='a',x=1)|list", "('int')|sum", ""],
    "max": ["", "(attribute='age')", "(true)"], "min": ["", "(attribute='name')"], "pprint": [""],
    "reject": ["|list", "('odd')|list", "('none')|list"], "rejectattr": ["('age')|list|length", "('name','eq','bob')|list|length"],
    "select": ["|list", "('string')|list", "('in',[1,2])|list", "('nope')|list", "('divisibleby',2)|list"],
    "selectattr": ["('age','gt',26)|map(attribute='name')|list", "()|list", "('t')|list|length", "('t.n','defined')|list|length"],
    "replace": ["('a','Z')", "('l','',1)", "('','-')", "(1,2)", "('a')"], "reverse": ["", "|list"], "round": ["", "(1)", "(-1)", "(0,'ceil')",
               "(1,'floor')", "(0,'x')"], "safe": [""], "slice": ["(2)|list", "(3,'x')|list", "(0)|list"],
    "sort": ["", "(true)", "(case_sensitive=true)", "(attribute='age')", "(attribute='age,name')|map(attribute='name')|list"],
    "string": [""], "striptags": [""], "sum": ["", "(start=1.5)", "('age')", "(start='')"], "title": [""],
    "tojson": ["", "(indent=2)", "(true)", "(separators=(',',':'))", "(sort_keys=true)", "(indent='\t',ensure_ascii=true)", "(x=1)"],
    "trim": ["", "('x ')", "(1)"], "truncate": ["(5)", "(5,true)", "(7,true,'..')", "(3,leeway=0)", "(1)"],
    "unique": ["|list", "(true)|list", "(attribute='age')|list|length"], "upper": [""], "urlencode": [""], "urlize": [""],
    "wordcount": [""], "wordwrap": ["(4)", "(3,false)", "(5,wrapstring='|')"], "xmlattr": ["", "(false)"], "nope": [""],
}
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "iterable",
         "sequence", "callable", "escaped", "odd", "even", "lower", "upper", "divisibleby 2", "divisibleby(0)", "eq 1", "ne 'abc'",
         "lt 2", "ge 'b'", "in [1,'abc']", "in 'abcdef'", "sameas none", "filter", "test", "equalto(1)", "nope", "in {'a':1}", "gt(1,2)"]
STR_METHODS = {
    "capitalize": ["()"], "casefold": ["()"], "center": ["(9)", "(9,'*')", "(9,'ab')", "('x')"], "count": ["('l')", "('')", "('o',3)", "(1)"],
    "encode_": ["()"], "endswith": ["('d')", "(('x','d'))", "('o',0,5)", "(1)"], "expandtabs": ["()", "(4)"],
    "find": ["('o')", "('o',5)", "('zz')", "('',99)", "(1)"], "format": ["(1)", "()", "(a=1)"], "index": ["('o')", "('zz')"],
    "isalnum": ["()"], "isalpha": ["()"], "isascii": ["()"], "isdecimal": ["()"], "isdigit": ["()"], "isidentifier": ["()"],
    "islower": ["()"], "isnumeric": ["()"], "isprintable": ["()"], "isspace": ["()"], "istitle": ["()"], "isupper": ["()"],
    "join": ["(['a','b'])", "('xy')", "([1])", "(1)", "()"], "ljust": ["(8,'.')"], "rjust": ["(8)"], "lower": ["()", "(1)"],
    "lstrip": ["()", "('He')"], "rstrip": ["()", "('d')"], "strip": ["()", "('Hd ')", "(1)", "(none)"],
    "partition": ["(' ')", "('zz')", "('')"], "rpartition": ["('l')", "(1)"], "removeprefix": ["('He')", "(1)"], "removesuffix": ["('ld')"],
    "replace": ["('l','L')", "('l','L',1)", "('','-')", "('a')", "('a','b','c')", "(1,2)"], "rfind": ["('l')"], "rindex": ["('l',0,3)"],
    "split": ["()", "(' ')", "('l',1)", "('')", "(none,1)", "(sep='o',maxsplit=1)", "(1)", "(x=1)"], "rsplit": ["()", "('l',1)", "(none,1)"],
    "splitlines": ["()", "(true)"], "startswith": ["('He')", "('l',2)", "(('a','H'))", "([1])"], "swapcase": ["()"], "title": ["()"],
    "translate": ["({108:'L',111:none})"], "upper": ["()"], "zfill": ["(15)", "('x')"], "__len__": ["()"], "zz": ["()"],
}
STRINGS = ["'Hello World'", "''", "uni", "text", "'-42'", "'a\\tb'", "'ǆ ﬁ İ'", "'ΑΣ ΑΣΑ'", "'½²Ⅷ'", "('<l>'|safe)", "'they\\'re x1y'"]
OTHER_METHODS = {
    "lst": ["count(3)", "index(8)", "index(9)", "append(1)", "copy()", "pop()", "sort()", "index(1,0,2)", "__len__()", "zz", "index"],
    "(1,2)": ["count(1)", "index(3)", "copy()", "zz"],
    "d": ["get('a')", "get('q')", "get('q',1)", "get()", "get([])", "keys()", "values()", "items()", "copy()", "pop('a')", "update(a=1)",
          "a", "zz", "items", "_p", "clear", "fromkeys([1,2])", "setdefault", "get(1,2,3)", "keys(1)", "__class__"],
    "5": ["bit_length()", "real", "imag", "numerator", "denominator", "conjugate()", "as_integer_ratio()", "zz", "bit_count()"],
    "2.5": ["is_integer()", "as_integer_ratio()", "hex()", "real", "imag", "zz"],
    "none": ["zz", "__class__"], "undef": ["zz", "zz.y", "__class__"], "namespace(a=1,_b=2)": ["a", "zz", "_b", "__class__"],
    "range(5)": ["start", "stop", "count(1)", "index(3)", "zz"], "cycler(1,2)": ["next()", "current", "reset()"], "joiner()": ["sep", "used"],
    "true": ["real", "bit_length()"],
}
ITEMS = ["0", "1", "-1", "99", "'a'", "'items'", "'keys'", "'zz'", "none", "true", "1.0", "[]", "(1,)", "undef", "1:", ":2", "::-1", "1:3",
         "-2:", "::0", "'a':", "::2", "5:1:-2", "none:2", "10**30", "1.5:"]
OPS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "and", "or"]
SPECS = ["", "5", "<6", ">6", "^7", "*^9", "08", "+", "-", " ", "+08.2f", ".2f", ".3e", "e", "E", "g", "G", ".3g", "%", ".1%", "d", "x", "#x", "X", "#o",
         "b", "#b", "c", ",", "_", ",.2f", "012,", "n", "s", ".2", "10.2", "=8", "0=8", "z.1f", "5.1s", "q", "#.3g", "_x", ",x", "..", "<", "é>6", "10d",
         ".0f", "#.0f", ".10g", "20,d", "+,", "06d"]
FORMAT_VALUES = ["5", "-1234567", "3.14159", "-0.0", "'abc'", "true", "none", "1e20", "10**25", "[1]", "undef", "0.00001234", "123456.789"]
PERCENTS = ["%s", "%r", "%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%x", "%#x", "%X", "%o", "%e", "%.2f", "%10.3f", "%g", "%.3g", "%c", "%%", "%5s|",
            "%-5s|", "%.1s", "%i", "%u", "%a", "%q", "%", "%(a)s", "%*d", "%.*f", "%#o", "%.0f", "%#.0f", "%G", "%E", "%5%", "%ld", "%.3d", "%#g"]
FORMATS = ["{}", "{0}", "{1}", "{a}", "{0.real}", "{0[a]}", "{0[0]}", "{!r}", "{!s:>6}", "{:{}}", "{:>{w}}", "{{}}", "{", "}", "{0} {}", "{} {0}",
           "{a.b}", "{0.__class__}", "{!x}", "{0[}", "{:5", "{0.}", "{!r:>8}", "{!a}", "{[0]}", "{.real}", "x{}y", "{a!r}", "{0[k-k]}", "{:{:{}}}"]


def systematic():
    for a in ATOMS:
        for f, variants in FILTERS.items():
            for v in variants:
                yield "filter", "{{ %s|%s%s }}" % (a, f, v)
        for t in TESTS:
            yield "test", "{{ %s is %s }}" % (a, t)
        for i in ITEMS:
            yield "item", "{{ %s[%s] }}" % (a, i)
        yield "text", "{{ %s }} {{ [%s] }} {{ not %s }} {{ %s|length }}" % (a, a, a, a)
        yield "text", "{{ -%s }}" % a
        yield "text", "{{ +%s }}" % a
        yield "text", "{{ %s() }}" % a
        yield "text", "{%% for x in %s %%}{{ loop.index }}:{{ x }};{%% else %%}none{%% endfor %%}" % a
        yield "text", "{%% for x, y in %s %%}{{ x }}={{ y }};{%% endfor %%}" % a
        yield "text", "{%% if %s %%}T{%% else %%}F{%% endif %%}{{ {%s: 1} }}" % (a, a)
        yield "text", "{{ dict(%s) }}" % a
        yield "text", "{{ range(%s)|list }}" % a
        yield "text", "{{ '%%s|%%r' %% (%s, %s) }}" % (a, a)
        for b in ATOMS:
            for op in OPS:
                yield "operator", "{{ %s %s %s }}" % (a, op, b)
    for s in STRINGS:
        for m, variants in STR_METHODS.items():
            for v in variants:
                yield "method", "{{ %s.%s%s }}" % (s, m, v)
                yield "method", "{{ [%s.%s%s] }}" % (s, m, v)
    for o, calls in OTHER_METHODS.items():
        for call in calls:
            yield "method", "{{ (%s).%s }}" % (o, call)
            yield "method", "{{ (%s)['%s'] }}" % (o, call.split("(")[0])
    for v in FORMAT_VALUES:
        for s in SPECS:
            yield "format", "{{ '{:%s}'.format(%s) }}" % (s, v)
        for p in PERCENTS:
            yield "format", "{{ '%s' %% %s }}" % (p, v)
            yield "format", "{{ '%s' %% (%s,) }}" % (p, v)
            yield "format", "{{ '%s' %% (3, %s) }}" % (p, v)
        for p in FORMATS:
            yield "format", "{{ '%s'.format(%s) }}" % (p, v)
            yield "format", "{{ '%s'.format(%s, 7, a=%s, w=5) }}" % (p, v, v)
            yield "format", "{{ ('<%s>'|safe).format(%s, 7, a='<', w=5) }}" % (p, v)
    for p in PERCENTS:
        yield "format", "{{ '%s' %% {'a': 1} }}" % p
        yield "format", "{{ ('<%s>'|safe) %% '<' }}" % p
    for code in "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%fqE+":
        yield "time", "{{ strftime_now('%%%s|%%-%s|%%_%s|%%5%s|%%^%s') }}" % ((code,) * 5)
    for i, t in enumerate(TEMPLATES):
        yield "template", t
    for t in golden_bytes.cases():
        yield "bytes", t
    for t in golden_syntax.cases():
        yield "syntax", t
    for t in golden_args.cases():
        yield "args", t


def rand_expr(rnd, depth):
    if depth == 0:
        return rnd.choice(ATOMS)
    k = rnd.randrange(10)
    sub = lambda: rand_expr(rnd, depth - 1)
    if k < 3:
        f = rnd.choice(list(FILTERS))
        return "(%s|%s%s)" % (sub(), f, rnd.choice(FILTERS[f]))
    if k < 5:
        return "(%s %s %s)" % (sub(), rnd.choice(OPS), sub())
    if k == 5:
        return "(%s)[%s]" % (sub(), rnd.choice(ITEMS))
    if k == 6:
        m = rnd.choice(list(STR_METHODS))
        return "(%s).%s%s" % (sub(), m, rnd.choice(STR_METHODS[m]))
    if k == 7:
        return "(%s if %s is %s else %s)" % (sub(), sub(), rnd.choice(TESTS), sub())
    if k == 8:
        return rnd.choice(["[%s, %s]", "(%s, %s)", "{'k': %s, 'l': %s}"]) % (sub(), sub())
    return "(%s)|list" % sub()


def write(out, kind, cases):
    """Files of at most 500 cases."""
    for i in range(0, len(cases), 500):
        with open(os.path.join(out, "%s_%02d.json" % (kind, i // 500)), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=True) for c in cases[i:i + 500]) + "\n]\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bulk", type=int, default=0, help="all systematic cases and this many random ones")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", help="write the cases of this kind alone, beside what is there")
    ap.add_argument("out")
    a = ap.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    os.makedirs(a.out, exist_ok=True)
    for f in glob.glob(os.path.join(a.out, (a.only + "_" if a.only else "") + "*.json")):
        os.remove(f)
    kinds = {}
    for kind, t in systematic():
        if a.only in (None, kind):
            kinds.setdefault(kind, []).append(t)
    rnd = random.Random(a.seed)
    if a.bulk:
        kinds["random"] = ["{{ %s }}" % rand_expr(rnd, rnd.choice([1, 2, 2, 3])) for _ in range(a.bulk)]
    for kind, templates in kinds.items():
        cases = []
        for t in dict.fromkeys(templates):
            # The stored cases are a fixed sample: a template's hash decides.
            keep = {"operator": 5, "filter": 4, "test": 2, "item": 2, "format": 2, "bytes": 16, "syntax": 12, "args": 140}.get(kind, 1)
            if a.bulk or int(hashlib.sha256(t.encode()).hexdigest(), 16) % keep == 0:
                c = case(t, kind)
                if c and (a.bulk or len(json.dumps(c)) <= 118 or kind == "template"):
                    cases.append(c)
        write(a.out, kind, cases)
    with open(os.path.join(a.out, "context.json"), "w") as f:
        json.dump(CONTEXT, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
