//! Does a GraphQL document take the variable that is to be given to it?
//!
//! What always holds: a server ignores a variable that its document does not declare, and then does the
//! mutation without the key. So the document must be one operation that declares the variable and uses
//! it; comments and strings do not count. A request without its document (a persisted query) cannot be
//! judged, and neither can a batch.
//!
//! What it does not do: validate a document, or ask where the variable is used: the server does.

use std::borrow::Cow;

use serde::Deserialize;

use super::Why;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    query: Cow<'a, str>,
}

/// Declared and used by the one operation?
pub(super) fn uses(content: &[u8], variable: &str) -> Result<(), Why> {
    let request: Request<'_> = serde_json::from_slice(content).map_err(|_| Why::Content)?;
    let document = Document::read(&request.query, variable).ok_or(Why::NotDeclared)?;
    let fits = document.operations == 1 && document.declared == 1 && document.used > 0;
    fits.then_some(()).ok_or(Why::NotDeclared)
}

#[derive(Default)]
struct Document {
    operations: usize,
    declared: usize,
    used: usize,
}

impl Document {
    /// `None`: quotes or braces do not close.
    fn read(text: &str, variable: &str) -> Option<Self> {
        let mut document = Self::default();
        let mut rest = text;
        let (mut depth, mut parentheses) = (0_usize, 0_usize);
        // Of the definition at hand: did its keyword come already?
        let mut begun = false;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                '#' => rest.find(['\n', '\r']).map_or("", |end| after(rest, end)),
                '"' => behind_string(rest)?,
                '(' => {
                    parentheses = parentheses.saturating_add(1);
                    after(rest, 1)
                }
                ')' => {
                    parentheses = parentheses.checked_sub(1)?;
                    after(rest, 1)
                }
                '{' => {
                    // Between parentheses it is the value of an argument.
                    let is_selection = depth == 0 && parentheses == 0;
                    if is_selection && !std::mem::take(&mut begun) {
                        document.operations = document.operations.saturating_add(1); // shorthand
                    }
                    depth = depth.saturating_add(1);
                    after(rest, 1)
                }
                '}' => {
                    depth = depth.checked_sub(1)?;
                    after(rest, 1)
                }
                '$' => {
                    let (name, behind) = name(after(rest, 1));
                    if name == variable {
                        let declares = depth == 0 && behind.trim_start().starts_with(':');
                        let count = if declares {
                            &mut document.declared
                        } else {
                            &mut document.used
                        };
                        *count = count.saturating_add(1);
                    }
                    behind
                }
                _ if first.is_ascii_alphabetic() || first == '_' => {
                    let (word, behind) = name(rest);
                    if depth == 0 && !begun {
                        begun = true;
                        let is_operation = matches!(word, "query" | "mutation" | "subscription");
                        document.operations = document
                            .operations
                            .saturating_add(usize::from(is_operation));
                    }
                    behind
                }
                _ => after(rest, first.len_utf8()),
            };
        }
        (depth == 0 && parentheses == 0).then_some(document)
    }
}

fn after(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn name(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `"…"` and `"""…"""`.
fn behind_string(text: &str) -> Option<&str> {
    if let Some(mut block) = text.strip_prefix("\"\"\"") {
        loop {
            let (before, behind) = block.split_once("\"\"\"")?;
            if !before.ends_with('\\') {
                return Some(behind);
            }
            block = behind;
        }
    }
    let mut characters = text.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some(after(text, index.saturating_add(1))),
            '\\' => {
                characters.next();
            }
            '\n' | '\r' => return None,
            _ => {}
        }
    }
    None
}
