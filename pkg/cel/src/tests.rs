//! Expressions, their values and their errors.

use serde_json::{Value, json};

use crate::{
    Activation, Env, FailurePolicy, Limits, Match, MatchConditions, Type,
    admission::{self, Input, Options},
    compile,
    value::Val,
};

struct One<'a>(&'a Value);

impl<'a> Activation<'a> for One<'a> {
    fn get(&self, name: &str) -> Option<Result<Val<'a>, crate::Failure>> {
        (name == "object").then(|| Ok(Val::json(self.0)))
    }
}

fn eval(source: &str, object: &Value) -> Result<Value, String> {
    let env = Env::new().with("object", Type::Dyn);
    let program = compile(source, &env, &[Type::Dyn])?;
    let outcome = program.eval(&One(object), Limits::default());
    outcome.value.and_then(|value| value.to_json()).map_err(|failure| failure.to_string())
}

#[test]
fn values() {
    let object = json!({"metadata": {"name": "a", "labels": {"k-v": "x"}}, "spec": {"n": 3, "list": [1, 2, 3], "items": [{"a": 1}, {"a": 2}]}});
    for (source, wanted) in [
        ("1 + 2 * 3", json!(7)),
        ("object.spec.n > 2 && object.metadata.name == 'a'", json!(true)),
        ("object.spec.list.map(x, x * 2)", json!([2, 4, 6])),
        ("object.spec.list.filter(x, x > 1)", json!([2, 3])),
        ("object.spec.items.exists(i, i.a == 2)", json!(true)),
        ("object.spec.items.all(i, i.b == 2 || i.a > 0)", json!(true)),
        ("object.spec.list.exists_one(x, x == 2)", json!(true)),
        ("has(object.spec.missing)", json!(false)),
        ("has(object.spec.n) ? 'y' : 'n'", json!("y")),
        ("object.?spec.?missing.orValue(5)", json!(5)),
        ("object[?'spec'].n.orValue(1)", json!(3)),
        ("object.?spec.n.optMap(x, x + 1).value()", json!(4)),
        ("object.metadata.labels['k-v']", json!("x")),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", json!({"a": 2, "b": 3})),
        ("[10, 20].transformList(i, v, i + v)", json!([10, 21])),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", json!({"1": "a"})),
        ("[3, 1, 2].sort()", json!([1, 2, 3])),
        ("[{'a': 2}, {'a': 1}].sortBy(x, x.a)", json!([{"a": 1}, {"a": 2}])),
        ("'%s is %d%% %.2f %x'.format(['a', 5, 1.5, 255])", json!("a is 5% 1.50 ff")),
        ("'abc'.substring(1, 2) + 'x'.upperAscii()", json!("bX")),
        ("'a,b,c'.split(',', 2)", json!(["a", "b,c"])),
        ("['a', 'b'].join('-')", json!("a-b")),
        ("'hello'.indexOf('l') + [1, 2].indexOf(2)", json!(3)),
        ("'a1b2'.findAll('[0-9]')", json!(["1", "2"])),
        ("'abc'.matches('^a.c$')", json!(true)),
        ("quantity('1.5Gi').isGreaterThan(quantity('1Gi'))", json!(true)),
        ("quantity('1').add(1).asInteger()", json!(2)),
        ("string(ip('10.0.0.1'))", json!("10.0.0.1")),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1')", json!(true)),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", json!(true)),
        ("url('https://a.b:80/c?d=e&d=f').getQuery()['d']", json!(["e", "f"])),
        ("url('https://[::1]:80/c').getHostname()", json!("::1")),
        ("semver('1.2.3').isLessThan(semver('v1.10', true))", json!(true)),
        ("format.dns1123Label().validate('A').hasValue()", json!(true)),
        ("sets.contains([1, 2, 3], [2])", json!(true)),
        ("timestamp('2020-01-02T03:04:05Z').getHours()", json!(3)),
        ("duration('90m').getHours()", json!(1)),
        ("string(duration('1h30m'))", json!("5400s")),
        (
            "timestamp('2020-01-02T00:00:00Z') + duration('24h') == timestamp('2020-01-03T00:00:00Z')",
            json!(true),
        ),
        ("type(1) == int && type('a') == string", json!(true)),
        ("dyn(1) == 1.0 && dyn(1u) == 1", json!(true)),
        ("2 in [1, 2] && 'a' in {'a': 1}", json!(true)),
        ("[1, 2, 3].sum() + [4, 9].max()", json!(15)),
        ("lists.range(3)", json!([0, 1, 2])),
        ("[[1], [2]].flatten().reverse()", json!([2, 1])),
        ("[1, 1, 2].distinct()", json!([1, 2])),
        ("true || object.missing", json!(true)),
        ("size(object.spec.list) + 'abc'.size()", json!(6)),
        ("int('5') + int(2.9) + int(3u)", json!(10)),
        ("string(1.0) + string(b'x') + string(true)", json!("1xtrue")),
    ] {
        assert_eq!(eval(source, &object), Ok(wanted), "{source}");
    }
}

#[test]
fn failures() {
    let object = json!({"a": 1, "list": []});
    for (source, wanted) in [
        ("object.b", "no such key: b"),
        ("object.list[0]", "index out of bounds: 0"),
        ("1 / (object.a - 1)", "division by zero"),
        ("object.a + 'x'", "no such overload"),
        ("9223372036854775807 + object.a", "integer overflow"),
        ("object.list.max() == 1", "max called on empty list"),
        (
            "lists.range(2000).all(x, lists.range(2000).all(y, lists.range(2000).all(z, z >= 0)))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ] {
        assert_eq!(eval(source, &object), Err(wanted.to_owned()), "{source}");
    }
}

#[test]
fn complaints() {
    for (source, wanted) in [
        (
            "foo",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
        ),
        (
            "object.x + foo.bar",
            "compilation failed: ERROR: <input>:1:12: undeclared reference to 'foo' (in container '')\n | object.x + foo.bar\n | ...........^",
        ),
        (
            "1 + 'a'",
            "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
        ),
        (
            "'a'.foo()",
            "compilation failed: ERROR: <input>:1:8: undeclared reference to 'foo' (in container '')\n | 'a'.foo()\n | .......^",
        ),
        (
            "'a'.size(1)",
            "compilation failed: ERROR: <input>:1:9: found no matching overload for 'size' applied to 'string.(int)'\n | 'a'.size(1)\n | ........^",
        ),
        (
            "request.foo",
            "compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo\n | .......^",
        ),
        ("object.a", "must evaluate to bool but got dyn"),
        ("1", "must evaluate to bool but got int"),
        (
            "1.all(x, true)",
            "compilation failed: ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | 1.all(x, true)\n | ^",
        ),
        (
            "duration('x') == duration('1s')",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument\n | duration('x') == duration('1s')\n | .........^",
        ),
        (
            "[1, 'a'].size() == 2",
            "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'].size() == 2\n | ....^",
        ),
    ] {
        let found = compile(source, &admission::env(Options::default()), &[Type::Bool]).map(|_| ());
        assert_eq!(found, Err(wanted.to_owned()), "{source}");
    }
}

#[test]
fn conditions() {
    let request = json!({"operation": "CREATE", "name": "x"});
    let object = json!({"metadata": {"name": "x"}});
    let input = Input {
        object: Some(&object),
        old_object: None,
        request: &request,
        params: None,
        namespace: None,
        authorizer: None,
    };
    let matches = |expressions: &[&str], policy| {
        let named: Vec<(String, &str)> =
            expressions.iter().enumerate().map(|(at, e)| (format!("c{at}"), *e)).collect();
        let conditions =
            MatchConditions::new(named.iter().map(|(n, e)| (n.as_str(), *e)), Options::default());
        conditions.matches(&input, policy)
    };
    use FailurePolicy::{Fail, Ignore};
    assert_eq!(
        matches(&["object.metadata.name == 'x'", "request.operation == 'CREATE'"], Fail),
        Ok(Match::Yes)
    );
    assert_eq!(matches(&["object.a", "false"], Fail), Ok(Match::No(Some("c1".to_owned()))));
    assert_eq!(matches(&["object.a == 1"], Ignore), Ok(Match::No(None)));
    assert_eq!(
        matches(&["object.a == 1"], Fail),
        Err("expression 'object.a == 1' resulted in error: no such key: a".to_owned())
    );
}

#[test]
fn constructors() {
    use crate::mutation;
    let env = mutation::in_env(admission::env(Options::default()));
    let object = json!({"metadata": {"name": "x"}});
    let request = json!({});
    let input = Input {
        object: Some(&object),
        old_object: None,
        request: &request,
        params: None,
        namespace: None,
        authorizer: None,
    };
    let scope = admission::Scope::new(input, &[]);
    let source = "Object{spec: Object.spec{replicas: 2, list: [Object.spec.list{a: object.metadata.name}]}, metadata: Object.metadata{labels: {'a': 'b'}}}";
    let program = compile(source, &env, &[mutation::object_type()]).unwrap();
    let value = program.eval(&scope, Limits::default()).value.unwrap();
    assert_eq!(mutation::misnamed(&value), None);
    let wanted = json!({"spec": {"replicas": 2, "list": [{"a": "x"}]}, "metadata": {"labels": {"a": "b"}}});
    assert_eq!(value.to_json(), Ok(wanted));
    let program = compile("Object{spec: Object.metadata{a: 1}}", &env, &[mutation::object_type()]).unwrap();
    let value = program.eval(&scope, Limits::default()).value.unwrap();
    assert!(mutation::misnamed(&value).unwrap().contains("expected \"Object.spec\""));
    let source =
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: {'a': 1}}]";
    let program = compile(source, &env, &[mutation::patch_type()]).unwrap();
    let value = program.eval(&scope, Limits::default()).value.unwrap();
    assert_eq!(
        value.to_json(),
        Ok(json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": {"a": 1}}]))
    );
    let wrong = compile("JSONPatch{op: 1}", &env, &[mutation::patch_type()]).map(|_| ());
    assert!(
        wrong.unwrap_err().contains("expected type of field 'op' is 'string' but provided type is 'int'")
    );
}

/// What upstream's server said of these expressions, as policies of its own.
fn upstream() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cel/expressions.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn compare(part: &str, ours: impl Fn(&str) -> Option<String>) {
    let all = upstream();
    let mut wrong = Vec::new();
    for case in all[part].as_array().unwrap() {
        let (source, theirs) = (case[0].as_str().unwrap(), case[1].as_str());
        let ours = ours(source);
        if ours.as_deref() != theirs {
            wrong.push(format!("{source}\n  theirs {theirs:?}\n  ours   {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn complaints_are_upstreams() {
    let env = admission::env(Options { params: false, authorizer: true });
    compare("compile", |source| compile(source, &env, &[Type::Bool]).err());
}

#[test]
fn results_are_upstreams() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": "t", "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}, "annotations": {"n": "5"}},
        "data": {"x": "1", "y": "abc", "z": "10.0.0.1"}});
    let request = json!({"name": "probe", "namespace": "t", "operation": "CREATE", "dryRun": true,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "userInfo": {"username": "admin", "groups": ["a"]},
        "options": {"kind": "CreateOptions"}});
    let namespace = json!({"metadata": {"name": "t", "labels": {"e": "1"}}, "status": {"phase": "Active"}});
    let input = Input {
        object: Some(&object),
        old_object: None,
        request: &request,
        params: None,
        namespace: Some(&namespace),
        authorizer: None,
    };
    let env = admission::env(Options { params: false, authorizer: true });
    compare("evaluate", |source| {
        let program = match compile(source, &env, &[Type::Bool]) {
            Ok(program) => program,
            Err(why) => return Some(why),
        };
        match program.eval(&admission::Scope::new(input, &[]), Limits::default()).value {
            Ok(Val::Bool(true)) => None,
            Ok(_) => Some("false".to_owned()),
            Err(failure) => Some(failure.to_string()),
        }
    });
}
