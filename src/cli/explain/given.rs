//! A request as somebody has it at hand: the words of a `curl` command, or a captured file.
//!
//! What always holds: what cannot be understood is a usage error that names the word; nothing is sent
//! and no host is looked up; files are read only where the request says so (`@FILE`).
//!
//! What it does not do: know a config, or repeat what curl adds beyond method, content type and host.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::cli::failure::Failure;

/// A request, and where it was to go.
#[derive(Debug)]
pub(super) struct Given {
    /// Head and content; the target in origin form.
    pub(super) request: Request<Bytes>,
    /// Host and port that it named.
    pub(super) authority: Option<Authority>,
    /// File of the certificate that it was to be sent with.
    pub(super) certificate: Option<PathBuf>,
}

/// Words of curl that say nothing about the request.
const SAY_NOTHING: [&str; 14] = [
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-sS",
    "-v",
    "--verbose",
    "-i",
    "--include",
    "-k",
    "--insecure",
    "-f",
    "--fail",
    "--compressed",
];

impl Given {
    /// Reads the words of one request.
    pub(super) fn read(words: &[String]) -> Result<Self, Failure> {
        match words {
            [] => Err(usage(
                "a request is missing: say it like for curl, or give @FILE",
            )),
            [file] if file.starts_with('@') => {
                let path = file.trim_start_matches('@');
                captured(&content_of(path)?).map_err(|why| usage(format!("{path}: {why}")))
            }
            words => Words::read(words)?.given(),
        }
    }
}

#[derive(Default)]
struct Words<'w> {
    method: Option<&'w str>,
    url: Option<&'w str>,
    headers: HeaderMap,
    data: Option<Vec<u8>>,
    certificate: Option<&'w str>,
}

impl<'w> Words<'w> {
    fn read(words: &'w [String]) -> Result<Self, Failure> {
        let mut read = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            // `-XPUT` is `-X PUT`.
            let (option, attached) = match word.get(..2) {
                Some(short @ ("-X" | "-H" | "-d" | "-E")) if word.len() > 2 => {
                    (short, word.get(2..))
                }
                Some(_) | None => (word, None),
            };
            let mut value = || {
                let next = attached.or_else(|| words.next());
                next.ok_or_else(|| usage(format!("`{option}` needs a value")))
            };
            match option {
                "-X" | "--request" => read.method = Some(value()?),
                "-H" | "--header" => read.header(value()?)?,
                "-d" | "--data" | "--data-ascii" => read.content(value()?, Ends::Dropped)?,
                "--data-binary" => read.content(value()?, Ends::Kept)?,
                "--data-raw" => read.append(value()?.as_bytes()),
                "-E" | "--cert" => read.certificate = Some(value()?),
                // What only TLS needs.
                "--key" | "--cacert" => drop(value()?),
                "--url" => read.target(value()?)?,
                "--json" => {
                    return Err(usage(
                        "before the request `--json` asks for JSON; curl's own is not understood: \
                         write -H 'Content-Type: application/json' -d '…'",
                    ));
                }
                say_nothing if SAY_NOTHING.contains(&say_nothing) => {}
                option if option.starts_with('-') => {
                    return Err(usage(format!(
                        "`{option}` is not understood; -X, -H, -d, --data-raw, --data-binary, --cert and a URL are"
                    )));
                }
                url => read.target(url)?,
            }
        }
        Ok(read)
    }

    fn target(&mut self, url: &'w str) -> Result<(), Failure> {
        match self.url.replace(url) {
            None => Ok(()),
            Some(first) => Err(usage(format!(
                "`{first}` and `{url}` are two requests: put --and between them"
            ))),
        }
    }

    fn header(&mut self, line: &str) -> Result<(), Failure> {
        let (name, value) = field(line).map_err(usage)?;
        self.headers.append(name, value);
        Ok(())
    }

    fn content(&mut self, text: &str, ends: Ends) -> Result<(), Failure> {
        let Some(path) = text.strip_prefix('@') else {
            self.append(text.as_bytes());
            return Ok(());
        };
        let mut content = content_of(path)?;
        if ends == Ends::Dropped {
            content.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        }
        self.append(&content);
        Ok(())
    }

    /// Several are joined as fields of a form are.
    fn append(&mut self, more: &[u8]) {
        match &mut self.data {
            None => self.data = Some(more.to_vec()),
            Some(data) => {
                data.push(b'&');
                data.extend_from_slice(more);
            }
        }
    }

    fn given(mut self) -> Result<Given, Failure> {
        let url = self.url.ok_or_else(|| usage("the request has no URL"))?;
        let usual = if self.data.is_some() { "POST" } else { "GET" };
        if self.data.is_some() && !self.headers.contains_key(CONTENT_TYPE) {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            self.headers.insert(CONTENT_TYPE, form);
        }
        let method = self.method.unwrap_or(usual);
        let data = self.data.unwrap_or_default();
        let given = made(method, url, self.headers, data).map_err(usage)?;
        Ok(Given {
            certificate: self.certificate.map(PathBuf::from),
            ..given
        })
    }
}

/// What curl does with line ends in a file of content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Dropped,
    Kept,
}

/// A request of HTTP/1.1, as it stood on the wire. Lines may end in a line feed alone.
fn captured(bytes: &[u8]) -> Result<Given, String> {
    let (head, content) = split_head(bytes).ok_or("no empty line ends its head")?;
    let head = std::str::from_utf8(head).map_err(|_| "its head is not text")?;
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!(
            "`{first}` is not the first line of an HTTP/1.1 request"
        ));
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = field(line)?;
        headers.append(name, value);
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err("its content is in chunks: write it out, without Transfer-Encoding".to_owned());
    }
    let content = match headers.get(CONTENT_LENGTH) {
        None => content,
        Some(length) => {
            let length: Option<usize> = length.to_str().ok().and_then(|text| text.parse().ok());
            let length = length.ok_or("its Content-Length is not a number")?;
            content.get(..length).ok_or_else(|| {
                format!("{} of {length} bytes of content are there", content.len())
            })?
        }
    };
    made(method, target, headers, content.to_vec())
}

fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = |mark: &[u8]| {
        let at = bytes
            .windows(mark.len())
            .position(|window| window == mark)?;
        Some((at, at.saturating_add(mark.len())))
    };
    let ends = [end(b"\r\n\r\n"), end(b"\n\n")];
    let (head, content) = ends.into_iter().flatten().min()?;
    Some((bytes.get(..head)?, bytes.get(content..)?))
}

fn field(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || {
        let name = line.split(':').next().unwrap_or_default();
        format!("`{name}` is not a header field (`Name: value`)")
    };
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::try_from(name).map_err(|_| wrong())?;
    let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
    Ok((name, value))
}

fn made(method: &str, url: &str, headers: HeaderMap, content: Vec<u8>) -> Result<Given, String> {
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is not a method"))?;
    let url = url.split('#').next().unwrap_or_default();
    let wrong = || format!("`{url}` is not a URL or a path");
    let parts = url.parse::<Uri>().map_err(|_| wrong())?.into_parts();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let named = host.and_then(|host| host.parse().ok());
    let target = match &parts.path_and_query {
        Some(target) => target.as_str(),
        None => "/",
    };
    if !target.starts_with('/') {
        return Err(wrong());
    }
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(Bytes::from(content))
        .map_err(|_| wrong())?;
    *request.headers_mut() = headers;
    Ok(Given {
        request,
        authority: parts.authority.or(named),
        certificate: None,
    })
}

fn content_of(path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(Path::new(path)).map_err(|error| usage(format!("{path}: {error}")))
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(|word| word.replace('_', " ")).collect()
    }

    fn read(text: &str) -> Given {
        Given::read(&words(text)).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn the_words_of_curl_are_read_as_curl_reads_them() {
        let given = read("-sS -X PUT -H A:_b -H A:_c http://h:1/p?q=1#f -d x=1 -d y=2");
        let request = &given.request;
        assert_eq!(
            (request.method().as_str(), request.uri().to_string()),
            ("PUT", "/p?q=1".to_owned())
        );
        assert_eq!(&request.body()[..], b"x=1&y=2");
        assert_eq!(request.headers().get_all("a").iter().count(), 2);
        assert_eq!(
            request.headers()[CONTENT_TYPE],
            "application/x-www-form-urlencoded"
        );
        assert_eq!(given.authority.unwrap(), "h:1");
        assert_eq!(read("-d x /p").request.method(), "POST");
        assert_eq!(read("/p").request.method(), "GET");
        assert_eq!(read("-XDELETE -HA:b /p").request.method(), "DELETE");
    }

    #[test]
    fn content_comes_from_files_with_or_without_its_line_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\r\nb\n").unwrap();
        let path = file.path().display().to_string().replace('_', "\u{1}");
        let read = |option: &str| {
            let words = words(&format!("{option} @{path} /p"));
            let words: Vec<String> = words.iter().map(|it| it.replace('\u{1}', "_")).collect();
            Given::read(&words).unwrap().request.into_body()
        };
        assert_eq!(&read("-d")[..], b"ab");
        assert_eq!(&read("--data-binary")[..], b"a\r\nb\n");
    }

    #[test]
    fn a_captured_request_is_read_as_it_stood_on_the_wire() {
        let text = "PUT /p HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\n\r\nab\n";
        for text in [text.to_owned(), text.replace('\r', "")] {
            let given = captured(text.as_bytes()).unwrap();
            assert_eq!(&given.request.body()[..], b"ab");
            assert_eq!(given.authority.unwrap(), "h:1");
        }
        for (bad, why) in [
            ("PUT /p HTTP/1.1\r\nA: b\r\n", "no empty line"),
            ("PUT /p\n\n", "not the first line"),
            ("PUT /p HTTP/1.1\nno field\n\n", "not a header field"),
            ("PUT /p HTTP/1.1\nContent-Length: 3\n\nab", "2 of 3 bytes"),
            (
                "PUT /p HTTP/1.1\nTransfer-Encoding: chunked\n\n0\n\n",
                "in chunks",
            ),
        ] {
            let said = captured(bad.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (bad, why) in [
            ("-X", "`-X` needs a value"),
            ("/a /b", "--and between"),
            ("-u me:secret /p", "`-u` is not understood"),
            ("--json {} /p", "curl's own"),
            ("-H nothing /p", "`nothing` is not a header field"),
            ("-d x", "no URL"),
            ("a_b", "not a URL"),
            ("@/nowhere/x", "/nowhere/x"),
        ] {
            let said = Given::read(&words(bad)).unwrap_err().to_string();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
