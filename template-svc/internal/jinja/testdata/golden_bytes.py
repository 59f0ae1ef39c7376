"""The templates over bytes of make_golden.py: every method with arguments of all kinds, operators, filters, codecs."""

S = ["''", "'a'", "'Hello World'", "'é漢🎉'", "'a\\tb\\nc\\r\\nd'", "'  x y  '", "\"it's\"", "'aXbXc'", "'-42'", "'x\\x00\\x7f'"]
B = ["''.encode()", "'a'.encode()", "'Hello World'.encode()", "'é漢'.encode()", "'a\\tb\\nc\\r\\nd\\x0b'.encode()", "'  x y  '.encode()",
     "\"it's\".encode()", "'aXbXc'.encode()", "'-42'.encode()", "'ÿþ\\x80'.encode('latin-1')"]
ARGS = ["", "1", "'a'", "'X'.encode()", "''.encode()", "none", "3, 'X'.encode()", "'b'.encode(), 1", "'a'.encode(), 'zz'.encode()",
        "'X'.encode(), 'y'.encode(), 1", "97", "300", "-1", "12", "'X'.encode(), -3, 2**70", "('a'.encode(), 'H'.encode())", "('a',)", "[1,2]",
        "['p'.encode(), 'q'.encode()]", "['p']", "1.5", "'X'.encode(), 2, 3, 4", "none, 1", "sep='X'.encode()", "maxsplit=1", "true", "' '.encode()",
        "'utf-8', 'ignore'", "12, '*'.encode()", "12, 'ab'.encode()", "12, '*'", "8, 97"]
METHODS = ("capitalize center count decode endswith expandtabs find fromhex hex index isalnum isalpha isascii isdigit islower isspace istitle "
           "isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
           "splitlines startswith strip swapcase title translate upper zfill nope encode format isnumeric").split()
ENC = ["utf-8", "UTF8", "utf_8", "ascii", "US-ASCII", "646", "latin-1", "ISO-8859-1", "l1", "utf-16", "utf-16-le", "UTF-16BE", "utf-32", "utf-32-be", "utf_32_le",
       "utf-8-sig", "nope", "", "utf 8", "utf--8", "-utf8", "utf8-", "U8", "u16"]
ERR = ["strict", "ignore", "replace", "xmlcharrefreplace", "backslashreplace", "surrogateescape", "surrogatepass", "nope", ""]
TEXTS = ["'abc'", "'é'", "'aéü'", "'漢x'", "'🎉'", "''"] + [
    "''.encode().fromhex('%s').decode('utf-8', 'surrogatepass')" % x for x in ("eda080", "61edb3bf62", "eda0bdedb880", "edb280edb3bf")]
RAW = ["ff", "61ff62", "c3", "c328", "e282", "e28228", "f09f8e", "f09f8e28", "eda080", "edb3bf61", "f4908080", "c0af", "80", "6180ff", "fffe6100", "feff0061", "6100", "61", "00d8",
       "00d80061", "00dc", "d800", "d8006100", "d83cdf89", "3cd889df", "fffe0000", "0000feff00000061", "00d80000", "00001100", "610000", "efbbbf61", "efbb", "", "e080af", "f0808080", "f8888888",
       "fffe00000000110061000000", "d83c", "3cd8"]


def cases():  # noqa: C901
    for m in METHODS:
        for b in B:
            for a in ARGS:
                yield "{{ " + b + "." + m + "(" + a + ") }}"
    for e in ENC:
        for h in ERR:
            for t in TEXTS:
                yield "{{ %s.encode('%s', '%s') }}" % (t, e, h)
            for r in RAW:
                yield "{{ ''.encode().fromhex('%s').decode('%s', '%s') }}" % (r, e, h)
                yield "{{ ''.encode().fromhex('%s').decode('%s', '%s')|list }}" % (r, e, h)
    for x in ["'x'.encode", "'x'.encode().decode"]:
        for a in ["1", "'utf-8', 1", "encoding='ascii'", "errors='ignore'", "encoding=1", "errors=none", "'a', 'b', 'c'", "foo=1", "'utf-8', encoding='x'", "none", "'utf\\x008'", "'utf-8', 'a\\x00'", "'é'", "'ascii'.encode()"]:
            yield "{{ %s(%s) }}" % (x, a)
    for sep in ["'-'", "':', 2", "':', -2", "':', 3", "':', 0", "'::'", "'é'", "''", "'-'.encode()", "'ab'.encode()", "1", "none", "[1]", "sep=' '", "sep=':', bytes_per_sep=4", "bytes_per_sep=2", "'-', 'x'", "'-', 2**70", "'-', 1, 2", "'-', true", "{}", "()", "'é'.encode()[:1]"]:
        for b in B:
            yield "{{ %s.hex(%s) }}" % (b, sep)
    for t in ["'6162'", "'61 62'", "' 61\\n62 '", "'6'", "'6g'", "'6 1'", "'é'", "'61é'", "5", "'61'.encode()", "", "'61', 1", "string='61'", "'ABcd'", "'\\x0b61\\x0c'", "'61\\x1c62'", "'é61'", "'6é'"]:
        yield "{{ ''.encode().fromhex(%s) }}" % t
    ops = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
    others = ["'a'.encode()", "'ab'.encode()", "''.encode()", "'a'", "1", "97", "300", "-1", "2**70", "1.5", "true", "none", "[97]", "(97,)", "{}", "undefd", "'a'|safe", "['a'.encode()]", "('a'.encode(), 1)", "{'a'.encode(): 1}"]
    for o in ops:
        for x in ["'a'.encode()", "'%s'.encode()", "''.encode()"]:
            for y in others:
                yield "{{ %s %s %s }}" % (x, o, y)
                yield "{{ %s %s %s }}" % (y, o, x)
    for f in ["%s", "%b", "%d", "%c", "%r", "%a", "%x", "%5s|", "%-5s|", "%.2s", "%5.1f", "%%", "%", "%q", "%(a)s", "%(b)d", "%s%s", "%*d", "%05d", "%+d", "%#x", "%é", "%i", "%e", "%g", "%3c|", "%-3c|", "é%s", "%u", "%o", "%10r", "%ld"]:
        for y in ["'a'.encode()", "'xyz'.encode()", "('a'.encode(),)", "5", "'a'", "300", "-1", "1.5", "none", "[1]", "{'a': 1}", "{'a'.encode(): 'q'.encode(), 'b'.encode(): 3}", "(1, 2)", "(5, 6, 7)", "true", "undefd", "('a'.encode(), 'b'.encode())", "'x'|safe", "'é'"]:
            yield "{{ %r.encode() %% %s }}" % (f, y)
            if "encode" in y:
                yield "{{ %r %% %s }}" % (f, y)
    for b in B:
        for k in ["0", "-1", "5", "'a'", "true", "1.0", "none", "2**70", "1:", ":-1", "::-1", "::2", "1:3", "5:1:-2", "'a':", "::0", "-2:", "none:2", "9:", "('a',)", "[1]"]:
            yield "{{ %s[%s] }}" % (b, k)
        for f in ["length", "count", "list", "first", "last", "reverse|list", "join", "join(',')", "sum", "min", "max", "sort", "unique|list", "string", "upper", "lower", "title", "capitalize", "trim", "tojson", "int", "float", "int(5)",
                  "int(base=16)", "round", "abs", "e", "safe", "escape", "forceescape", "pprint", "default('d')", "default('d', true)", "batch(2)|list", "slice(2)|list", "replace('b', 'c')", "wordcount", "center(20)", "indent", "urlencode", "urlize", "striptags",
                  "truncate(5)", "wordwrap(5)", "filesizeformat", "dictsort", "items|list", "map('string')|list", "select|list", "reject('odd')|list", "groupby(0)", "attr('decode')()", "attr('__class__')", "random is integer", "xmlattr", "format(1)", "list|tojson", "[0:2]"]:
            yield "{{ %s|%s }}" % (b, f) if f[0] != "[" else "{{ (%s)%s }}" % (b, f)
        for t in ["string", "sequence", "iterable", "mapping", "number", "integer", "float", "boolean", "none", "defined", "undefined", "callable", "escaped", "lower", "upper", "in [1]", "eq('a')", "sameas 1", "odd", "even", "divisibleby 2", "true", "false", "filter", "test"]:
            yield "{{ %s is %s }}" % (b, t)
        for u in ["{% for x in B %}{{ x }},{{ loop.index }}/{{ loop.length }};{% endfor %}", "{% set a, b = B %}{{ a }}{{ b }}", "{{ [B, (B,), {B: B}] }}", "{{ {B: 1}[B] }}", "{{ {B: 1}|tojson }}", "{{ B.__class__ }}", "{{ B.foo }}", "{{ B.foo.bar }}", "{{ B() }}",
                  "{{ -B }}", "{{ not B }}", "{{ 1 if B else 2 }}", "{{ B|length > 3 }}", "{{ range(B) }}", "{{ 'x'.join([B]) }}", "{{ 'x'.replace(B, 'a') }}", "{{ 'x'.split(B) }}", "{{ 'x'.strip(B) }}", "{{ 'x'.startswith(B) }}", "{{ 'x'.find(B) }}", "{{ 'x'.count(B) }}", "{{ 'x'.partition(B) }}",
                  "{{ '{}'.format(B) }}", "{{ '{:>5}'.format(B) }}", "{{ '{!r}'.format(B) }}", "{{ '{0[0]}'.format(B) }}", "{{ '{0.decode}'.format(B)|length > 3 }}", "{{ 'x'.center(5, B) }}", "{{ 'x'.encode(B) }}", "{{ 'a'.translate(B) }}", "{{ dict(B) }}", "{{ dict([(B, 1)]) }}",
                  "{{ [3,1]|sort(attribute=B) }}", "{{ [B, B]|unique|list }}", "{{ [B, 'a'.encode()]|sort }}", "{{ [B, 'a']|sort }}", "{{ [B]|sum }}", "{{ [B]|sum(start=''.encode()) }}", "{{ [B]|join('-') }}", "{{ [B]|tojson }}", "{{ {'k': B}|tojson }}", "{{ raise_exception(B) }}", "{{ B * 2 }}", "{{ 2 * B }}", "{{ B + B }}", "{{ B ~ B }}", "{{ [B]|map('length')|list }}",
                  "{{ {'a': B}|xmlattr }}", "{{ {'a': B}|urlencode }}", "{{ [B]|pprint }}", "{{ [B] * 30 }}", "{{ ([B] * 30)|pprint }}", "{% if B %}y{% else %}n{% endif %}", "{{ B is sameas B }}", "{{ 97 in B }}", "{{ strftime_now(B) }}", "{{ 5|round(B) }}", "{{ 'a'|indent(B) }}", "{{ '%s'|format(B) }}", "{{ B|format(B) }}", "{{ cycler(B).next() }}", "{{ joiner(B) }}", "{{ namespace(B) }}", "{{ lipsum(B) }}", "{{ loop(B) }}", "{{ B == 'a' }}", "{{ B > 1 }}", "{{ B in [B] }}", "{{ 'a' in B }}", "{{ none in B }}", "{{ 1 if B is defined }}"]:
            yield u.replace("B", "(" + b + ")")
    for n in ["5", "0", "255", "256", "-1", "-128", "-129", "65535", "true", "false", "2**64", "-2**63", "1024", "(-2)**15"]:
        for a in ["", "1", "2, 'big'", "2, 'little'", "2, 'middle'", "8, 'big'", "0", "-1", "2, byteorder='little'", "length=2", "2, 'big', true", "2, 'big', signed=true", "1, signed=true", "9, signed=true", "signed=true", "'a'", "2, 1", "none", "1.0", "2, 'big', foo=1", "2**70", "0, 'big', signed=true", "length=2, byteorder='little', signed=true", "2, length=2", "12, 'little', signed=1", "1, none"]:
            yield "{{ (%s).to_bytes(%s) }}" % (n, a)
    for n in ["5", "true"]:
        for a in ["", "'a'.encode()", "'a'", "[1,2]", "(1,)", "[256]", "[-1]", "['a']", "5", "none", "1.5", "{}", "{1: 2}", "'ab'.encode(), 'little'", "'ab'.encode(), 'big'", "'ab'.encode(), 'x'", "'ab'.encode(), 1", "'é'.encode(), signed=true", "'é'.encode(), 'little', signed=true", "bytes='a'.encode()", "''.encode()", "'a'.encode(), 'big', true", "byteorder='big'", "range(3)", "[2**70]", "[1.5]", "undefd", "[true]", "'a'.encode(), foo=1", "'abcdefghijk'.encode()"]:
            yield "{{ (%s).from_bytes(%s) }}" % (n, a)
    for a in ["'0x1p3'", "'1.8p1'", "'0x1.8p-3'", "'-0x1'", "'+1'", "'inf'", "'-INF'", "'nan'", "'-nan'", "'Infinity'", "'infi'", "''", "' 0x1 '", "'0x'", "'.'", "'.8'", "'1.'", "'g'", "'0x1p'", "'0x1p+'", "'0x1p1.5'", "'0x1p99999'", "'0x1p-99999'", "'0x1p1024'", "'0x1.fffffffffffff8p1023'", "'0x1.fffffffffffff7p1023'", "5", "'1'.encode()", "", "'1','2'", "x='1'", "'1_0'", "'0x1.00000000000008p0'", "'0x1.000000000000081p0'", "'0x0.0000000000001p-1022'", "'0x0.00000000000008p-1022'", "'0x0.00000000000008001p-1022'", "'é'", "'0X1P3'", "'1p3'", "'--1'", "'1e5'", "'0x1p+-3'", "'0x1p10000000000000000000'", "'0x0p99999999999999999999'", "'\\x1c1'", "'1 2'", "'0x1p3x'", "'+'", "'0xp3'", "'p3'", "'1.2.3'"]:
        yield "{{ (1.0).fromhex(%s) }}" % a
        yield "{{ 1.0.fromhex(%s).hex() }}" % a
    for s in S:
        yield "{{ %s.encode() }}{{ %s.encode('utf-16-le') }}{{ %s.encode().decode() == %s }}" % (s, s, s, s)
        yield "{{ (%s|safe).encode() }}{{ (%s|safe).encode().decode() is escaped }}" % (s, s)
