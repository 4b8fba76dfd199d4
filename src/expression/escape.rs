//! Percent-escapes, read strictly and written so that nothing is lost.
//!
//! What always holds: [`decode`] accepts a text only if every `%` begins an escape and the bytes are
//! UTF-8; what [`encode_into`] writes decodes to what it was given.
//!
//! What it does not do: know what a path or a form is.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The decoded text; `None` for a broken escape or bytes that are not UTF-8.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let whole = text.split('%').skip(1).all(|after| {
        let mut digits = after.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.next().is_some() && digits.next().is_some()
    });
    if !whole {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}

/// Appends the text, with every character escaped that `escaped` names; `%` always is.
pub(super) fn encode_into(out: &mut String, text: &str, escaped: impl Fn(char) -> bool) {
    for character in text.chars() {
        if character == '%' || escaped(character) {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                out.push_str(percent_encoding::percent_encode_byte(byte));
            }
        } else {
            out.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_are_not_read() {
        for bad in ["%", "a%2", "%zz", "%2x", "%%41", "%ff", "%C3"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode("a%20b%C3%A9").as_deref(), Some("a bé"));
        assert_eq!(decode("plain").as_deref(), Some("plain"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut out = String::new();
        encode_into(&mut out, "50%: é/x", |c| c == ':' || c == 'é');
        assert_eq!(out, "50%25%3A %C3%A9/x");
        assert_eq!(decode(&out).as_deref(), Some("50%: é/x"));
    }
}
