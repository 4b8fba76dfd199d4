//! Words of commands that people are told to type.
//!
//! What always holds: what is told can be pasted into a POSIX shell, and is one word there, whatever is in a name.
//!
//! What it does not do: run anything.

/// A word of a command, quoted for a shell where it needs to be.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=@,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
