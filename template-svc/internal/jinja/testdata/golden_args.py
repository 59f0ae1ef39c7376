"""The wrong and odd calls of make_golden.py: every filter, test, global and attribute with arguments of all kinds."""

V = ["'Hello <b> World'", "''", "5", "-2.5", "none", "[3,1,2]", "['b','A']", "{'b': 1, 'A': 2}", "undefd", "users", "true", "('<x>'|safe)", "range(4)", "(1,2)", "[[1,2],[3,4]]", "'1.5'", "{}", "[]", "namespace(a=1)", "[1,'a',none]", "d", "10**20", "'a,b c'.split", "lst|map('string')"]
ARGS = ["", "none", "1", "'a'", "1.5", "[1]", "-1", "true", "2**70", "'a', 'b'", "1, 2", "1, 2, 3", "1, 2, 3, 4", "1,2,3,4,5,6,7", "x=1", "attribute='name'", "attribute=none", "attribute=1", "attribute=1.5", "attribute='a.b.0'", "width=3", "default='z'", "true, true", "none, none", "case_sensitive=true", "reverse=1", "undefd", "{}", "'a', x=1", "**{'width': 2}", "**{'zz': 2}", "*[1,2]", "'%Y'", "0", "''", "2, none", "3, 'x', 1", "start=1", "start='x'", "start=[]", "precision=1", "method='ceil'", "method='x'", "base=16", "2, 'floor'", "'name', 'eq', 'bob'", "'upper'", "'nope'", "'odd'", "length=3", "end='.'", "leeway=0", "killwords=true", "boolean=true", "old='a', new='b'", "count=1", "first=true", "blank=1", "by='value'", "by='zz'", "d='-'", "indent=2", "indent='x'", "indent=true", "indent=1.5", "separators=('a','b')", "separators='ab'", "separators=['a']", "sort_keys=true", "ensure_ascii=true", "ensure_ascii=none", "chars='H'", "linecount=2", "slices=2", "fill_with='q'", "binary=true", "wrapstring='|'", "break_long_words=false", "break_on_hyphens=false", "autospace=false", "trim_url_limit=3", "nofollow=true", "target='_x'", "extra_schemes=['x:']", "name='upper'"]
FILTERS = "abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format groupby indent int items join last length list lower map max min pprint reject rejectattr replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper urlencode urlize wordcount wordwrap xmlattr".split()
TESTS = "boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true undefined upper".split()
GLOB = "range dict cycler joiner namespace lipsum raise_exception strftime_now".split()
def cases():
    for f in FILTERS:
        for v in V:
            for a in ARGS:
                yield "{{ %s|%s(%s) }}" % (v, f, a)
                if f in "map select reject selectattr rejectattr batch slice groupby unique items reverse".split():
                    yield "{{ (%s|%s(%s))|list }}" % (v, f, a)
    for t in TESTS:
        for v in V:
            for a in ARGS[:45]:
                yield "{{ %s is %s(%s) }}" % (v, t, a)
    for g in GLOB:
        for a in ARGS+V+["'%%'", "'%Q'", "'%-d %B %y'", "'a'*10", "1, 5, 2", "5, 1, -2", "1, 5, 0", "n=1", "min=3, max=4, n=1, html=false", "a=1, b=2", "[('a', 1)]", "[['a', 1]], c=2", "['ab']", "[1]", "['abc']", "d", "d, z=1", "{'a': 1}, a=2", "1,2,3,4"]:
            if g=="lipsum": continue
            yield "{{ %s(%s) }}" % (g, a)
            yield "{{ %s(%s)|list }}" % (g, a)
    C = ["cycler(1,2)", "joiner()", "joiner('-')", "namespace(a=1)", "range(5)", "range(1,9,2)", "{'a': 1}.items()", "{'a':1}.keys()", "{'a':1}.values()", "(lst|map('string'))", "5", "2.5", "true", "none", "[1,2]", "(1,2)", "{'a': 1}", "undefd", "m", "dict", "range", "cycler"]
    A = ["next", "next()", "next(1)", "reset()", "current", "pos", "items", "sep", "used", "a", "b", "_x", "__init__", "__class__.__name__", "__len__()", "start", "stop", "step", "count(1)", "index(1)", "index(99)", "index('a')", "count()", "count(1,2)", "mapping", "isdisjoint([])", "isdisjoint({'a'})", "real", "imag", "conjugate()", "bit_length()", "bit_length(1)", "as_integer_ratio()", "is_integer()", "hex()", "copy()", "copy(1)", "get('a')", "get()", "get('a', 1, 2)", "get(key='a')", "keys()", "keys(1)", "items()", "items(x=1)", "values()", "fromkeys([1])", "fromkeys()", "fromkeys([1], 2, 3)", "fromkeys(5)", "pop()", "append(1)", "index(1, 0)", "index(1, 5)", "index(1, none)", "index()", "count", "index(1, 0, 1, 2)", "name", "arguments", "catch_kwargs", "catch_varargs", "caller", "gi_frame", "throw", "send", "close()", "mro", "mro()", "fromhex('1')", "fromhex", "from_bytes([1])", "union([1])", "setdefault('a')", "update({})", "popitem()", "clear()", "sort()", "reverse()", "extend([1])", "insert(0, 1)", "remove(1)", "__dict__", "__add__", "__getitem__(0)", "zz.y", "zz()"]
    for c in C:
        for a in A:
            yield "{%% macro m(a) %%}{%% endmacro %%}{{ (%s).%s }}" % (c, a)
            yield "{%% macro m(a) %%}{%% endmacro %%}{{ (%s)['%s'] }}" % (c, a.split('(')[0])
    L = ["index","index0","revindex","revindex0","first","last","length","depth","depth0","previtem","nextitem","cycle('a','b')","cycle()","cycle(1)","changed(x)","changed()","changed(x, 1)","changed(k=1)","cycle(k=1)","zz","_x","__class__","iterable","parent","cycle","changed","index(1)","previtem.zz","nextitem.zz","nextitem is defined"]
    for l in L:
        for it in ["[1,2]", "range(2)", "'ab'", "{'a': 1}", "lst|map('string')", "[1,2] if x > 1", "users", "[[1],[2]]", "undefd", "[1,1] recursive"]:
            yield "{%% for x in %s %%}{{ loop.%s }};{%% endfor %%}" % (it, l)
            yield "{%% for x in %s %%}{{ loop['%s'] }};{%% endfor %%}" % (it, l.split('(')[0])
