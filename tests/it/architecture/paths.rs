//! Rust read as words: enough to find every path that leads out of a module.
//!
//! What always holds: text in comments and literals is not code; a path is resolved from the module
//! that it stands in, inline modules included; a group is as many paths as it has members.
//!
//! What it does not do: expand macros, or follow names that were imported under another one. The
//! import itself is the breach.

/// Identifiers, `::`, and single characters of punctuation.
pub fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        at = after_token(&text, at);
        let first = text[start];
        if is_word(first) || (!first.is_whitespace() && at - start <= 2 && first != '/') {
            let token: String = text[start..at].iter().collect();
            // The prefix of a raw or byte literal is no name.
            if !token.contains('"') {
                found.push(token);
            }
        }
    }
    found
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// Where the token that begins at `at` ends; comments and literals count as one.
fn after_token(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1).copied().unwrap_or(' ');
    match text[at] {
        '/' if next == '/' => find(text, at, "\n"),
        '/' if next == '*' => after_comment(text, at + 2),
        '"' => after_string(text, at + 1),
        'r' if matches!(next, '"' | '#') => after_raw(text, at),
        // A character, not a lifetime, if a quote closes it.
        '\'' if next == '\\' => find(text, at + 3, "'") + 1,
        '\'' if text.get(at + 2) == Some(&'\'') => at + 3,
        ':' if next == ':' => at + 2,
        it if is_word(it) => {
            let length = text[at..].iter().take_while(|it| is_word(**it)).count();
            // br"..", b"..": the literal is read by itself, except a raw one.
            match text.get(at + length) {
                Some('"' | '#') if text[at..at + length] == ['b', 'r'] => after_raw(text, at + 1),
                _ => at + length,
            }
        }
        _ => at + 1,
    }
}

fn find(text: &[char], from: usize, what: &str) -> usize {
    let what: Vec<char> = what.chars().collect();
    let rest = text.get(from..).unwrap_or_default();
    let found = rest.windows(what.len()).position(|it| it == what);
    found.map_or(text.len(), |length| from + length)
}

fn after_comment(text: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 1);
    while at < text.len() && depth > 0 {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn after_string(text: &[char], from: usize) -> usize {
    let mut at = from;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `r"..."`, `r#"..."#`; `r#name` is the name.
fn after_raw(text: &[char], at: usize) -> usize {
    let hashes = text[at + 1..].iter().take_while(|it| **it == '#').count();
    if text.get(at + 1 + hashes) != Some(&'"') {
        return at + 1 + hashes;
    }
    let closing = format!("\"{}", "#".repeat(hashes));
    find(text, at + 2 + hashes, &closing) + closing.len()
}

/// The same tokens without inline modules that only tests are made of.
pub fn code_without_tests(tokens: &[String]) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].len() > mark.len() + 1
            && tokens[at..at + mark.len()] == mark
            && tokens[at + mark.len() + 1] == "{"
        {
            at = after_group(tokens, at + mark.len() + 1);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// After the brace that closes the one at `at`.
fn after_group(tokens: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, token) in tokens[at..].iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + offset + 1;
        }
    }
    tokens.len()
}

/// The start of a path, and the inline modules around it.
#[derive(Debug)]
pub struct UsedPath {
    segments: Vec<String>,
    around: Vec<String>,
}

impl UsedPath {
    /// The room that it leads to from that module, if it leads to one by way of the crate's root.
    /// `*`, a glob of the root, is no room and so never allowed.
    pub fn room(&self, module: &[&str], is_binary: bool) -> Option<String> {
        let first = self.segments.first()?;
        if first == "crate" || (is_binary && first == "fencepost") {
            return self.segments.get(1).cloned();
        }
        let ups = self.segments.iter().take_while(|it| *it == "super").count();
        if ups == 0 {
            return None;
        }
        let here = module.len() + self.around.len();
        match here.checked_sub(ups) {
            Some(0) => self.segments.get(ups).cloned(),
            Some(_) => module.first().map(|&it| it.to_owned()),
            None => None,
        }
    }

    /// Its first name, if it does not begin in this crate.
    pub fn foreign(self) -> Option<String> {
        let first = self.segments.into_iter().next()?;
        (!matches!(first.as_str(), "crate" | "super" | "self")).then_some(first)
    }
}

/// Every path of at least two segments, as far as its first name after `crate` or `super`s.
pub fn used_paths(tokens: &[String]) -> Vec<UsedPath> {
    let mut found = Vec::new();
    // Open braces, with the name where it is an inline module's.
    let mut open: Vec<Option<String>> = Vec::new();
    for at in 0..tokens.len() {
        match tokens[at].as_str() {
            "{" => {
                let named = at >= 2 && tokens[at - 2] == "mod";
                open.push(named.then(|| tokens[at - 1].clone()));
            }
            "}" => drop(open.pop()),
            word if starts_path(tokens, at, word) => {
                for segments in paths_from(tokens, at) {
                    found.push(UsedPath {
                        segments,
                        around: open.iter().flatten().cloned().collect(),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

fn starts_path(tokens: &[String], at: usize, word: &str) -> bool {
    word.starts_with(is_word)
        && tokens.get(at + 1).is_some_and(|it| it == "::")
        && (at == 0 || tokens[at - 1] != "::")
        // `pub(in crate::store)` says who may look in, not what is looked at.
        && (at == 0 || tokens[at - 1] != "in")
}

/// The path at `at`; where it goes through `crate` or `super` into a group, one for every member.
fn paths_from(tokens: &[String], at: usize) -> Vec<Vec<String>> {
    let mut segments = vec![tokens[at].clone()];
    let mut next = at + 2;
    while tokens.get(next).is_some_and(|it| it == "super")
        && tokens.get(next + 1).is_some_and(|it| it == "::")
    {
        segments.push("super".to_owned());
        next += 2;
    }
    let members = match tokens.get(next).map(String::as_str) {
        Some("{") => first_names(tokens, next),
        Some(name) => vec![name.to_owned()],
        None => Vec::new(),
    };
    members
        .into_iter()
        .map(|member| segments.iter().cloned().chain([member]).collect())
        .collect()
}

/// The first name of each member of the group whose brace is at `at`.
fn first_names(tokens: &[String], at: usize) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut expects) = (0_usize, false);
    for token in &tokens[at..after_group(tokens, at)] {
        match token.as_str() {
            "{" => (depth, expects) = (depth + 1, depth == 0),
            "}" => depth -= 1,
            "," => expects = depth == 1,
            name => {
                if expects {
                    names.push(name.to_owned());
                }
                expects = false;
            }
        }
    }
    names
}
