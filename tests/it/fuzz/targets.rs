//! The properties.
//!
//! What always holds: a target uses the crate as its other rooms do, through its public doors, and
//! judges with means of its own (another reader, a round trip, a second spelling of the same).

use std::collections::HashMap;

use bytes::Bytes;
use fencepost::config::{Insert, KeyFormat, KeyRule, Slot};
use fencepost::expression::multipart;
use fencepost::expression::{
    AnswerFacts, Condition, GraphQl, JsonPointer, Member, PathParams, PathTemplate, RequestFacts,
    RequestPath, Template, XmlPath,
};
use fencepost::protocol::ids::{
    FencingToken, Incarnation, OperationId, OperationKey, Principal, Round, Sequence, Tenant,
    UpstreamId,
};
use fencepost::protocol::operation::IdentityOrigin;
use fencepost::protocol::outcome::StoredRequest;
use fencepost::protocol::policy::{KeyPolicy, KeyValue};
use fencepost::wire::canonical::{Canonical, NotCanonical};
use fencepost::wire::insertion::{Named, filled};
use fencepost::wire::{hygiene, keys};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Shape;

/// What is read as a token is written the same: no two texts are one token.
pub fn token(input: &[u8]) -> Shape {
    let text = String::from_utf8_lossy(input);
    let token = FencingToken::parse(&text);
    if let Some(token) = token {
        assert_eq!(token.to_string(), text);
    }
    format!("{} {}", token.is_some(), text.len().min(40))
}

/// The same for the numbers within a generation.
pub fn sequence(input: &[u8]) -> Shape {
    let text = String::from_utf8_lossy(input);
    let sequence = Sequence::parse(&text);
    if let Some(sequence) = sequence {
        assert_eq!(sequence.to_string(), text);
    }
    format!("{} {}", sequence.is_some(), text.len().min(20))
}

/// A key that was read is short and visible, and means the same when it is written as a quoted string.
pub fn key(input: &[u8]) -> Shape {
    let name = HeaderName::from_static("idempotency-key");
    let read = |bytes: &[u8]| {
        let value = HeaderValue::from_bytes(bytes).ok()?;
        keys::caller_key(&HeaderMap::from_iter([(name.clone(), value)]), &name).ok()?
    };
    let Some(key) = read(input) else {
        return format!("none {}", input.len().min(600) / 50);
    };
    assert!((1..=keys::LONGEST_KEY).contains(&key.len()));
    assert!(key.bytes().all(|byte| byte.is_ascii_graphic()), "{key:?}");
    let escaped = key.replace('\\', r"\\").replace('"', "\\\"");
    let quoted = format!("\"{escaped}\"");
    assert_eq!(read(quoted.as_bytes()).as_deref(), Some(key.as_str()));
    format!("some {} {}", key.len() / 50, input.starts_with(b"\""))
}

/// `name: value` lines, as far as they are header fields at all.
fn fields(input: &[u8]) -> HeaderMap {
    input
        .split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
            Some((name, value))
        })
        // More than a connection takes.
        .take(200)
        .fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        })
}

/// What is passed on is a part of what came, holds no field of the connection (by name or by
/// nomination) and none of ours, and passing it on again takes nothing more away.
pub fn header_fields(input: &[u8]) -> Shape {
    let came = fields(input);
    let passed = hygiene::pass_on(&came, &[]);
    for (name, value) in &passed {
        assert!(came.get_all(name).iter().any(|known| known == value));
        assert!(!name.as_str().starts_with("fencing-"), "{name}");
        assert!(!name.as_str().starts_with("fencepost-"), "{name}");
    }
    for name in ["connection", "transfer-encoding", "te", "content-length"] {
        assert!(!passed.contains_key(name), "{name}");
    }
    for nominated in came.get_all(CONNECTION) {
        for word in nominated.as_bytes().split(|&byte| byte == b',') {
            if let Ok(name) = HeaderName::from_bytes(word.trim_ascii()) {
                assert!(!passed.contains_key(&name), "{name} is nominated");
            }
        }
    }
    assert_eq!(hygiene::pass_on(&passed, &[]), passed);
    format!("{} {}", came.len(), passed.len())
}

fn typed(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
}

/// The canonical bytes, part by part: each is preceded by its length.
fn parts(target: &str, headers: &HeaderMap, content: &[u8]) -> Result<Vec<Vec<u8>>, NotCanonical> {
    let mut bytes = Vec::new();
    Canonical::of("POST", target, headers, content)?.feed(|it| bytes.extend_from_slice(it));
    let mut rest = bytes.as_slice();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk().expect("a length");
        let length = usize::try_from(u64::from_be_bytes(*length)).unwrap();
        let (part, tail) = tail.split_at(length);
        parts.push(part.to_vec());
        rest = tail;
    }
    Ok(parts)
}

/// Against another reader: what it takes for malformed we do too, and the reverse; what both read has
/// the same value before and after, and its form is its own form.
pub fn json(input: &[u8]) -> Shape {
    let headers = typed("application/json");
    if input.is_empty() {
        return "empty".to_owned();
    }
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
    match parts("/", &headers, input) {
        Ok(all) => {
            let text = all.last().unwrap();
            // It reads neither lone surrogates nor numbers beyond its range.
            let Ok(value) = read(input) else {
                return "only ours".to_owned();
            };
            let readable = controls_escaped(text);
            assert_eq!(read(&readable).unwrap(), value);
            let again = parts("/", &headers, &readable).unwrap();
            assert_eq!(again.last(), Some(text));
            format!("value {}", text.len().min(1 << 12).ilog2())
        }
        Err(NotCanonical(why)) => {
            let name = format!("{why:?}");
            let name = name.split(' ').next().unwrap_or_default();
            if name == "Malformed" {
                assert!(read(input).is_err(), "it is well-formed");
            }
            name.to_owned()
        }
    }
}

/// In the canonical form control characters stand for themselves, and only within strings.
fn controls_escaped(text: &[u8]) -> Vec<u8> {
    let escaped = |&byte: &u8| match byte {
        ..0x20 => format!("\\u{byte:04x}").into_bytes(),
        plain => vec![plain],
    };
    text.iter().flat_map(escaped).collect()
}

/// Pairs of different names have no order, and an escape says nothing.
pub fn form(input: &[u8]) -> Shape {
    let headers = typed("application/x-www-form-urlencoded");
    let canonical = |content: &[u8]| parts("/", &headers, content).unwrap();
    let pairs: Vec<&[u8]> = input
        .split(|&byte| byte == b'&')
        .filter(|it| !it.is_empty())
        .collect();
    if pairs.is_empty() {
        return "empty".to_owned();
    }
    let first = canonical(input);
    let escaped: Vec<Vec<u8>> = pairs.iter().map(|pair| all_escaped(pair)).collect();
    assert_eq!(canonical(&escaped.join(&b'&')), first);
    let mut stems: Vec<Vec<u8>> = pairs.iter().map(|pair| stem(pair)).collect();
    stems.sort();
    stems.dedup();
    if stems.len() == pairs.len() {
        let turned: Vec<&[u8]> = pairs.iter().rev().copied().collect();
        assert_eq!(canonical(&turned.join(&b'&')), first);
    }
    format!("{} {}", pairs.len().min(20), stems.len().min(20))
}

/// What a name or value stands for, by the URL standard.
fn meant(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text
        .iter()
        .map(|&byte| if byte == b'+' { b' ' } else { byte })
        .collect();
    percent_encoding::percent_decode(&spaced).collect()
}

/// The name of a pair, up to where it says that order counts.
fn stem(pair: &[u8]) -> Vec<u8> {
    let name = meant(pair.split(|&byte| byte == b'=').next().unwrap());
    let end = name.windows(2).position(|two| two == b"[]");
    name[..end.unwrap_or(name.len())].to_vec()
}

/// The same pair with every byte escaped.
fn all_escaped(pair: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut halves = pair.splitn(2, |&byte| byte == b'=').map(|half| {
        let digit = |it: u8| HEX[usize::from(it)];
        let escape = |byte: u8| [b'%', digit(byte >> 4), digit(byte & 15)];
        meant(half).into_iter().flat_map(escape).collect::<Vec<_>>()
    });
    let name = halves.next().unwrap();
    match halves.next() {
        None => name,
        Some(value) => [name, value].join(&b'='),
    }
}

/// Exact content: from the canonical bytes the whole request can be read again, so no two requests
/// share them. Target and content are the first line and the rest.
pub fn canonical(input: &[u8]) -> Shape {
    let end = input.iter().position(|&byte| byte == b'\n');
    let (line, content) = input.split_at(end.unwrap_or(input.len()));
    let target = String::from_utf8_lossy(line);
    let all = parts(&target, &HeaderMap::new(), content).unwrap();
    let [method, path, query, class, exact] = all.as_slice() else {
        panic!("{} parts", all.len());
    };
    assert_eq!(method, b"POST");
    assert_eq!([path.as_slice(), query].concat(), target.as_bytes());
    assert_eq!(query.is_empty(), !target.contains('?'));
    assert_eq!(
        (class.as_slice(), exact.as_slice()),
        (&b"exact"[..], content)
    );
    format!("{} {}", query.is_empty(), content.len().min(1024) / 128)
}

/// What a request with this body has to say, and nothing else.
fn with_body<'a>(
    params: &'a PathParams,
    headers: &'a HeaderMap,
    body: &'a [u8],
) -> RequestFacts<'a> {
    RequestFacts {
        method: &Method::POST,
        raw_path: "/",
        path: params,
        query: None,
        headers,
        body,
        token: FencingToken::new(0, 108),
        operation: None,
    }
}

/// A template from a config: an error points into the text; rendering gives a text or says what is
/// missing, the same each time.
pub fn template(input: &[u8]) -> Shape {
    let text = String::from_utf8_lossy(input);
    match Template::parse(&text) {
        Ok(template) => {
            let (params, headers) = (PathParams::default(), typed("application/json"));
            let facts = with_body(&params, &headers, br#"{"a":"x:y","b":{"c":7}}"#);
            let rendered = template.render(&facts);
            assert_eq!(rendered, template.render(&facts));
            format!("{} {}", rendered.is_ok(), template.members().count())
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.offset), "{error:?}");
            assert!(!error.message.is_empty());
            let words = error.message.split('`').next().unwrap_or_default();
            words.chars().take(40).collect()
        }
    }
}

/// Parts that were read are found again where they are written anew, one after the other. The boundary
/// and the content are the first line and the rest.
pub fn multipart(input: &[u8]) -> Shape {
    let (line, content) = first_line(input);
    let declared = format!(
        "multipart/form-data; boundary={}",
        String::from_utf8_lossy(line)
    );
    let Some(boundary) = multipart::boundary(&declared) else {
        return "no boundary".to_owned();
    };
    let parts = match multipart::parts(boundary, content) {
        Ok(parts) => parts,
        Err(why) => return format!("{why:?}").chars().take(8).collect(),
    };
    let mut written = Vec::new();
    for part in &parts {
        assert!(
            !part
                .content
                .windows(boundary.len() + 4)
                .any(|it| { it.starts_with(b"\r\n--") && it.ends_with(boundary.as_bytes()) })
        );
        let file = part
            .filename
            .map_or_else(String::new, |name| format!("; filename=\"{name}\""));
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"{file}\r\n\r\n",
            part.name
        );
        written.extend_from_slice(head.as_bytes());
        written.extend_from_slice(part.content);
        written.extend_from_slice(b"\r\n");
    }
    written.extend_from_slice(format!("--{boundary}--").as_bytes());
    if parts.is_empty() {
        return "empty".to_owned();
    }
    let again = multipart::parts(boundary, &written).expect("it is well formed");
    let brief = |parts: &[multipart::Part<'_>]| -> Vec<(String, Option<String>, Vec<u8>)> {
        let brief = parts.iter().map(|it| {
            let filename = it.filename.map(str::to_owned);
            (it.name.to_owned(), filename, it.content.to_vec())
        });
        brief.collect()
    };
    assert_eq!(brief(&again), brief(&parts));
    format!("{} parts", parts.len())
}

fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, b""),
    }
}

/// An element has one value or none, and white space around the document does not change it. Path and
/// document are the first line and the rest.
pub fn xml(input: &[u8]) -> Shape {
    let (line, document) = first_line(input);
    let Some(path) = XmlPath::parse(&String::from_utf8_lossy(line)) else {
        return "no path".to_owned();
    };
    let member = Member::Xml(path);
    let (params, headers) = (PathParams::default(), typed("application/xml"));
    let read = |body: &[u8]| {
        let value = member.read(&with_body(&params, &headers, body));
        value.map(std::borrow::Cow::into_owned)
    };
    let found = read(document);
    if let Ok(value) = &found {
        assert!(!value.is_empty());
        assert_eq!(read(&[document, b"\n \n"].concat()), found);
        // Twice in one document is no value.
        assert!(read(&[document, document].concat()).is_err());
    }
    match found {
        Ok(value) => format!("found {}", value.len().min(64) / 8),
        Err(missing) => format!("{:?}", missing.why),
    }
}

/// Another reader's value at the end of a way. Whatever the way does not pass may be any JSON at all, also
/// what a reader of the whole would refuse: a number beyond its range, something nested too deep for it.
fn found_by_another(body: &str, names: &[String]) -> Option<Value> {
    let mut here: &RawValue = serde_json::from_str(body).ok()?;
    for name in names {
        here = match here.get().as_bytes().first()? {
            b'{' => {
                let members: HashMap<String, &RawValue> = serde_json::from_str(here.get()).ok()?;
                members.get(name.as_str()).copied()?
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(here.get()).ok()?;
                items.get(name.parse::<usize>().ok()?).copied()?
            }
            _ => return None,
        };
    }
    serde_json::from_str(here.get()).ok()
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value is what another reader finds among the variables, or there is none. What is wanted and the
/// request are the first line and the rest.
pub fn graphql(input: &[u8]) -> Shape {
    let (line, body) = first_line(input);
    let Some(wanted) = GraphQl::parse(&String::from_utf8_lossy(line)) else {
        return "nothing wanted".to_owned();
    };
    let (params, headers) = (PathParams::default(), typed("application/json"));
    let facts = with_body(&params, &headers, body);
    let found = Member::GraphQl(wanted.clone()).read(&facts);
    if let Ok(found) = &found {
        let names = match &wanted {
            GraphQl::OperationName => vec!["operationName".to_owned()],
            GraphQl::Variable(names) => [vec!["variables".to_owned()], names.clone()].concat(),
        };
        let body = std::str::from_utf8(body).expect("it was read");
        let other = found_by_another(body, &names).expect("it was found");
        assert_eq!(*found, scalar_text(&other));
    }
    match found {
        Ok(_) => "found".to_owned(),
        Err(missing) => format!("{:?}", missing.why),
    }
}

/// Where a fuzzed key goes: `json /a/b`, `form a`, `query a`, `graphql a`.
fn slot(line: &str) -> Option<Slot> {
    let (kind, name) = line.split_once(' ')?;
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if name.is_empty() || !name.bytes().all(plain) {
        return None;
    }
    match kind {
        "json" => JsonPointer::parse(name).map(Slot::Json),
        "form" => Some(Slot::Form(name.to_owned())),
        "query" => Some(Slot::Query(name.to_owned())),
        "graphql" => Some(Slot::GraphQl(name.to_owned())),
        _ => None,
    }
}

const FUZZED_KEY: &str = "k\"\\&k";

/// The request with the key in it; `None`: it is refused.
fn with_key(slot: &Slot, value: KeyValue, request: &StoredRequest) -> Option<StoredRequest> {
    let rule = KeyRule {
        slot: slot.clone(),
        longest: None,
        format: KeyFormat::Any,
        policy: KeyPolicy {
            value,
            lifetime: None,
            remembers_refusals: false,
            placing: None,
        },
    };
    let key = OperationKey {
        tenant: Tenant::new("t"),
        upstream: UpstreamId::new("u"),
        principal: Principal::None,
        id: OperationId::new(FUZZED_KEY),
        incarnation: Incarnation(0),
    };
    let named = Named {
        key: &key,
        origin: IdentityOrigin::Caller,
        round: Round(0),
    };
    let filled = filled(&Insert::of_key(Some(rule)), request, named);
    filled.ok().map(|filled| filled.request)
}

/// What another reader finds at the place.
fn read_at(slot: &Slot, request: &StoredRequest, headers: &HeaderMap) -> Option<String> {
    let target = String::from_utf8_lossy(&request.target);
    let facts = RequestFacts {
        method: &Method::POST,
        raw_path: "/p",
        path: &PathParams::default(),
        query: target.split_once('?').map(|(_, query)| query),
        headers,
        body: &request.body,
        token: None,
        operation: None,
    };
    slot.member().read(&facts).ok().map(Into::into)
}

/// Where a key can be put in, another reader finds it there, the bytes around it are those that came, and
/// doing it again makes the same; with a key in it nothing more is put in. A place, and the content or
/// the query, are the first line and the rest.
pub fn insertion(input: &[u8]) -> Shape {
    let (line, rest) = first_line(input);
    let line = String::from_utf8_lossy(line);
    let Some(slot) = slot(&line) else {
        return "no place".to_owned();
    };
    let is_query = matches!(slot, Slot::Query(_));
    let declared = match slot {
        Slot::Form(_) => "application/x-www-form-urlencoded",
        _ => "application/json",
    };
    let query = format!("/p?{}", String::from_utf8_lossy(rest));
    let came = StoredRequest {
        method: Bytes::from("POST"),
        target: Bytes::from(if is_query { query } else { "/p".to_owned() }),
        fields: vec![("content-type".into(), declared.into())],
        body: Bytes::copy_from_slice(if is_query { b"" } else { rest }),
    };
    let Some(sent) = with_key(&slot, KeyValue::Caller, &came) else {
        return format!("refused {}", line.len().min(40));
    };
    assert_eq!(
        with_key(&slot, KeyValue::Caller, &came).as_ref(),
        Some(&sent)
    );
    assert_eq!(
        with_key(&slot, KeyValue::Caller, &sent).as_ref(),
        Some(&sent)
    );
    let read = read_at(&slot, &sent, &typed(declared));
    assert_eq!(read.as_deref(), Some(FUZZED_KEY));
    if came == sent {
        return "brought".to_owned();
    }
    let derived = with_key(&slot, KeyValue::Derived, &came).unwrap();
    assert_eq!(with_key(&slot, KeyValue::Derived, &derived), None);
    let (before, after) = match slot {
        Slot::Query(_) => (&came.target, &sent.target),
        _ => (&came.body, &sent.body),
    };
    let same = |(one, other): &(&u8, &u8)| one == other;
    let front = before.iter().zip(after).take_while(same).count();
    let back = before.iter().rev().zip(after.iter().rev());
    let back = back.take_while(same).count();
    // `null` of `variables` is the one thing that goes.
    let gone = if matches!(slot, Slot::GraphQl(_)) {
        4
    } else {
        0
    };
    assert!(front + back + gone >= before.len(), "{after:?}");
    format!(
        "put in {} {}",
        line.len().min(40),
        after.len().min(400) / 40
    )
}

/// A condition from a config, and the content of an answer: an error points into the text; an answer
/// is judged the same each time, and its status decides alone where it is said to. Condition and content
/// are the first line and the rest.
pub fn condition(input: &[u8]) -> Shape {
    let (line, body) = first_line(input);
    let text = String::from_utf8_lossy(line);
    let condition = match Condition::parse(&text) {
        Ok(condition) => condition,
        Err(error) => {
            assert!(error.offset <= text.len(), "{error:?}");
            assert!(!error.message.is_empty());
            let words = error.message.split('`').next().unwrap_or_default();
            return words.chars().take(40).collect();
        }
    };
    let json = (
        Bytes::from_static(b"content-type"),
        Bytes::from_static(b"application/json"),
    );
    let fields = [json];
    let test = |status, body| {
        condition.test(&AnswerFacts {
            status,
            fields: &fields,
            body,
        })
    };
    let truths = [200, 402, 503].map(|status| {
        let truth = test(status, Some(body));
        assert_eq!(truth, test(status, Some(body)));
        if condition.holds_for_all(status) {
            assert_eq!(test(status, None), truth);
        }
        truth
    });
    format!("{truths:?}")
}

/// Two values in one identity never run together: wherever the text between them is cut, the
/// identities differ.
pub fn identity(input: &[u8]) -> Shape {
    let text: String = String::from_utf8_lossy(input).chars().take(64).collect();
    let template = Template::parse("pay:{body.a}:{body.b}").unwrap();
    let (params, headers) = (PathParams::default(), typed("application/json"));
    let mut made = std::collections::HashMap::new();
    for (at, _) in text.char_indices() {
        let (a, b) = text.split_at(at);
        let body = serde_json::json!({ "a": a, "b": b }).to_string();
        if let Ok(id) = template.render(&with_body(&params, &headers, body.as_bytes())) {
            let other = made.insert(id.clone(), at);
            assert_eq!(other, None, "{id} is two operations, cut at {at}");
        }
    }
    format!("{}", made.len())
}

/// A path that is read holds nothing that servers clean away; a pattern keeps its text. Pattern and
/// path are the first line and the rest.
pub fn path(input: &[u8]) -> Shape {
    let text = String::from_utf8_lossy(input);
    let (pattern, raw) = text.split_once('\n').unwrap_or(("/{rest...}", &text));
    let pattern = PathTemplate::parse(pattern).map_err(|error| {
        assert!(error.offset <= text.len(), "{error:?}");
        error
    });
    let path = RequestPath::parse(raw);
    if path.is_ok() {
        let decoded = percent_encoding::percent_decode_str(raw).decode_utf8_lossy();
        assert!(decoded.starts_with('/'));
        assert!(!decoded.contains(['\\', '\0', '\n']), "{decoded:?}");
        assert!(!decoded.split('/').any(|it| it == "." || it == ".."));
        assert!(!decoded.contains("//"), "{decoded:?}");
    }
    let captured = match (&pattern, &path) {
        (Ok(pattern), Ok(path)) => {
            let captured = pattern.captures(path);
            let hides_a_slash = raw.to_ascii_lowercase().contains("%2f");
            assert!(!pattern.might_match(path) || hides_a_slash);
            for name in pattern.names().filter(|_| captured.is_some()) {
                assert!(captured.as_ref().unwrap().value(name).is_some(), "{name}");
            }
            captured.is_some()
        }
        _ => false,
    };
    format!("{} {} {captured}", pattern.is_ok(), path.is_ok())
}

/// A pointer is written as it was read, and finds what another reader finds or nothing. Pointer and
/// body are the first line and the rest.
pub fn pointer(input: &[u8]) -> Shape {
    let text = String::from_utf8_lossy(input);
    let (pointer, body) = text.split_once('\n').unwrap_or((&text, "{}"));
    let Some(read) = JsonPointer::parse(pointer) else {
        return "no pointer".to_owned();
    };
    assert_eq!(read.to_string(), pointer);
    let (params, headers) = (PathParams::default(), typed("application/json"));
    let facts = with_body(&params, &headers, body.as_bytes());
    let found = Member::Json(read)
        .read(&facts)
        .map(std::borrow::Cow::into_owned);
    if let Ok(found) = &found {
        let tokens = pointer.split('/').skip(1);
        let names: Vec<String> = tokens
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect();
        let other = found_by_another(body, &names).expect("it is somewhere");
        assert_eq!(*found, scalar_text(&other));
    }
    found.map_or_else(
        |missing| format!("{:?}", missing.why),
        |_| "found".to_owned(),
    )
}

/// A config is read or refused; every problem has a place in it. (Nothing that would be read from a
/// file or the environment: a fuzzer must not choose which.) As long as a
/// large config is; `config::tests::length` reads longer ones.
pub fn config(input: &[u8]) -> Shape {
    const LONGEST: usize = 64 << 10;
    let text = String::from_utf8_lossy(&input[..input.len().min(LONGEST)]);
    if text.contains('$') {
        return "secrets".to_owned();
    }
    match fencepost::config::parse(&text, "fuzz.yaml") {
        Ok(_) => "read".to_owned(),
        Err(problems) => {
            assert!(!problems.list().is_empty());
            let lines = text.split(['\n', '\r']).count();
            for problem in problems.list() {
                assert!((1..=lines + 1).contains(&problem.line), "{problem:?}");
                assert!(problem.column >= 1 && !problem.message.is_empty());
            }
            format!("{} problems", problems.list().len().min(30))
        }
    }
}
