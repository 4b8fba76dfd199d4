//! Multipart content: one reading or none.

use proptest::prelude::*;

use super::*;

fn read(content: &str) -> Result<Vec<Part<'_>>, MultipartError> {
    parts("X", content.as_bytes())
}

fn plain<'a>(name: &'a str, content: &'a str) -> Part<'a> {
    Part {
        name,
        filename: None,
        content_type: None,
        others: Vec::new(),
        content: content.as_bytes(),
    }
}

const TWO: &str = "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
                   --X\r\ncontent-disposition: form-data; name=b; filename=\"x y.txt\"\r\n\
                   Content-Type: text/plain\r\nX-Other: 1\r\n\r\nline\r\n\r\n--Y\r\n\r\n--X--\r\n";

#[test]
fn parts_come_in_order_with_their_exact_bytes() {
    let file = Part {
        filename: Some("x y.txt"),
        content_type: Some("text/plain"),
        others: vec![("X-Other", "1")],
        // The text of another boundary is content like any other (B23).
        ..plain("b", "line\r\n\r\n--Y\r\n")
    };
    assert_eq!(read(TWO), Ok(vec![plain("a", "1"), file]));
}

#[test]
fn preamble_epilogue_and_padding_say_nothing() {
    let dressed = format!(
        "preamble\r\n{}\r\nepilogue --X",
        TWO.replace("--X\r\n", "--X \t\r\n")
    );
    assert_eq!(read(&dressed), read(TWO));
    assert_eq!(read(&format!("\r\n{TWO}")), read(TWO));
    assert_eq!(read(TWO.trim_end()), read(TWO));
}

#[test]
fn a_part_may_be_empty_and_so_may_the_content() {
    let empty = "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--X--";
    assert_eq!(read(empty), Ok(vec![plain("a", "")]));
    assert_eq!(read("--X--"), Ok(Vec::new()));
    let unnamed = "--X\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--X--";
    assert_eq!(read(unnamed), Ok(vec![plain("", "")]));
}

#[test]
fn what_two_readers_could_take_apart_in_two_ways_is_refused() {
    let header = "Content-Disposition: form-data; name=\"a\"";
    for (content, why) in [
        ("", MultipartError::Unclosed),
        ("no delimiter", MultipartError::Unclosed),
        ("--X", MultipartError::Delimiter { at: 3 }),
        ("--X\n", MultipartError::Delimiter { at: 3 }),
        ("--XY\r\n\r\n", MultipartError::Delimiter { at: 3 }),
        ("--X-\r\n\r\n", MultipartError::Delimiter { at: 3 }),
        ("--X--x", MultipartError::Delimiter { at: 3 }),
        ("--X\r\n", MultipartError::Unclosed),
        (
            &format!("--X\r\n{header}\r\n\r\n1"),
            MultipartError::Unclosed,
        ),
        (
            &format!("--X\r\n{header}\r\n\r\n1\r\n--Xtra\r\n--X--"),
            MultipartError::Delimiter { at: 55 },
        ),
    ] {
        assert_eq!(read(content), Err(why), "{content:?}");
    }
    for header in [
        "",
        "\r\n",
        "Content-Type: text/plain",
        "Content-Disposition: form-data",
        "Content-Disposition: form-data; filename=\"a\"",
        "Content-Disposition: attachment; name=\"a\"",
        "Content-Disposition: form-data; name=\"a\"; name=\"b\"",
        "Content-Disposition: form-data; name=\"a\"; filename=a; filename=a",
        "Content-Disposition: form-data; name=\"a",
        "Content-Disposition: form-data; name=\"a\" x",
        "Content-Disposition: form-data; name",
        "Content-Disposition: form-data; name=\"a\"\r\n folded",
        "Content-Disposition: form-data; name=\"a\"\nX: y",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"a\"",
        "Content-Disposition : form-data; name=\"a\"",
        "Content-Disposition: form-data; name=\"\u{7}\"",
    ] {
        let content = format!("--X\r\n{header}\r\n\r\n1\r\n--X--");
        let refused = Err(MultipartError::Header { part: 0 });
        assert_eq!(read(&content), refused, "{header:?}");
    }
    let latin = b"--X\r\nContent-Disposition: form-data; name=\"\xE9\"\r\n\r\n1\r\n--X--";
    assert_eq!(parts("X", latin), Err(MultipartError::Header { part: 0 }));
}

#[test]
fn names_are_what_stands_between_the_quotes() {
    for (written, name) in [
        (r#"name="a b""#, "a b"),
        (r"NAME=a", "a"),
        (r#"name="a\"b""#, r#"a\"b"#),
        (r#"name="C:\\""#, r"C:\\"),
        (r#"name="a;b=c""#, "a;b=c"),
        (r#"name="ü""#, "ü"),
    ] {
        let content = format!("--X\r\nContent-Disposition: form-data; {written}\r\n\r\n1\r\n--X--");
        assert_eq!(read(&content), Ok(vec![plain(name, "1")]), "{written}");
    }
    let star =
        "--X\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''x\r\n\r\n1\r\n--X--";
    let others = vec![("filename*", "UTF-8''x")];
    assert_eq!(
        read(star),
        Ok(vec![Part {
            others,
            ..plain("a", "1")
        }])
    );
}

#[test]
fn parts_and_headers_are_bounded() {
    let part = "--X\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n";
    let many = |count: usize| format!("{}--X--", part.repeat(count));
    assert_eq!(
        read(&many(MOST_PARTS)).map(|parts| parts.len()),
        Ok(MOST_PARTS)
    );
    assert_eq!(
        read(&many(MOST_PARTS + 1)),
        Err(MultipartError::TooManyParts)
    );
    let headed = |more: String| {
        let content =
            format!("--X\r\nContent-Disposition: form-data; name=a\r\n{more}\r\n1\r\n--X--");
        read(&content).is_ok()
    };
    assert!(headed("X: y\r\n".repeat(MOST_FIELDS - 1)));
    assert!(!headed("X: y\r\n".repeat(MOST_FIELDS)));
    assert!(!headed(format!("X: {}\r\n", "y".repeat(LONGEST_HEADER))));
}

#[test]
fn a_boundary_is_read_from_form_data_only_and_only_once() {
    for (content_type, found) in [
        ("multipart/form-data; boundary=X", Some("X")),
        (
            "Multipart/Form-Data ;charset=utf-8; Boundary=\"a b\"",
            Some("a b"),
        ),
        ("multipart/form-data; boundary=X;", Some("X")),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ("multipart/form-data; boundary=\"X ", None),
        ("multipart/form-data; boundary=\"X \"", None),
        ("multipart/form-data; boundary=X; boundary=X", None),
        ("multipart/form-data; boundary=a\"b", None),
        ("multipart/mixed; boundary=X", None),
    ] {
        assert_eq!(boundary(content_type), found, "{content_type}");
    }
    let at_most = "b".repeat(LONGEST_BOUNDARY);
    assert_eq!(
        boundary(&format!("multipart/form-data; boundary={at_most}")),
        Some(&*at_most)
    );
    assert_eq!(
        boundary(&format!("multipart/form-data; boundary={at_most}b")),
        None
    );
}

proptest! {
    /// Whatever was put into parts comes out of them, whichever boundary does not occur in it.
    #[test]
    fn written_parts_read_back(
        written in prop::collection::vec(("[a-z \\[\\]]{0,6}", prop::collection::vec(
            prop_oneof![prop::sample::select(b"\r\n-XY: ".to_vec()), any::<u8>()], 0..24)), 0..5),
        boundary in "[A-Za-z0-9'_.-]{12,20}",
    ) {
        let mut content = Vec::new();
        for (name, bytes) in &written {
            let header = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            content.extend_from_slice(header.as_bytes());
            content.extend_from_slice(bytes);
            content.extend_from_slice(b"\r\n");
        }
        content.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let read = parts(&boundary, &content).unwrap();
        let read: Vec<_> = read.iter().map(|part| (part.name, part.content)).collect();
        let written: Vec<_> = written.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn no_bytes_make_it_panic(
        content in prop::collection::vec(
            prop_oneof![
                Just(b"\r\n--X".to_vec()),
                Just(b"--X\r\n".to_vec()),
                Just(b"Content-Disposition: form-data; name=\"a\"\r\n\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..4),
            ],
            0..12,
        ),
        content_type in ".{0,40}",
    ) {
        let _ = parts("X", &content.concat());
        let _ = boundary(&content_type);
        let _ = boundary(&format!("multipart/form-data;{content_type}"));
    }
}
