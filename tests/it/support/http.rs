//! HTTP/1.1 as bytes: just enough to read a message and to know its end.
//!
//! What always holds: nothing is repaired. A message that is cut short is an error or `None`, never
//! a shorter message.
//!
//! What it does not do: pool, retry, decode, follow. Precise control is the point.

use std::io::{self, Read};

/// Fields in their order, as they were written.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The first one of that name, in any case.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn says(&self, name: &str, word: &str) -> bool {
        self.first(name)
            .is_some_and(|value| value.to_ascii_lowercase().contains(word))
    }
}

/// The first line and the fields, with their exact text.
#[derive(Clone, Debug)]
pub struct Head {
    pub text: String,
    pub first_line: String,
    pub fields: Fields,
}

impl Head {
    fn parse(text: String) -> io::Result<Self> {
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let first_line = lines.next().ok_or_else(|| odd("no first line"))?.to_owned();
        let fields = lines
            .map(|line| {
                let (name, value) = line.split_once(':').ok_or_else(|| odd("no colon"))?;
                Ok((name.to_owned(), value.trim().to_owned()))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            text,
            first_line,
            fields: Fields(fields),
        })
    }

    /// The n-th word of the first line.
    pub fn word(&self, at: usize) -> &str {
        self.first_line.split(' ').nth(at).unwrap_or_default()
    }

    /// Does the sender want the connection closed afterwards?
    pub fn closes(&self) -> bool {
        self.fields.says("connection", "close")
    }
}

/// A connection being read message by message.
pub struct Reader<S: Read, T: FnMut(&[u8])> {
    pub stream: S,
    /// Sees every byte as it arrives.
    pub tap: T,
    /// Never reads more than so many bytes in all.
    pub limit: Option<usize>,
    pub unread: Vec<u8>,
    pub read: usize,
}

impl<S: Read, T: FnMut(&[u8])> Reader<S, T> {
    pub fn new(stream: S, tap: T) -> Self {
        Self {
            stream,
            tap,
            limit: None,
            unread: Vec::new(),
            read: 0,
        }
    }

    /// Waits for one more piece; `false` at the end of the stream.
    pub fn more(&mut self) -> io::Result<bool> {
        let mut piece = [0; 16_384];
        let room = match self.limit {
            Some(limit) if self.read >= limit => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(limit) => piece.len().min(limit - self.read),
            None => piece.len(),
        };
        let count = self.stream.read(&mut piece[..room])?;
        (self.tap)(&piece[..count]);
        self.unread.extend_from_slice(&piece[..count]);
        self.read += count;
        Ok(count > 0)
    }

    /// A complete head; `None` if the stream ends before its first byte.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let text: Vec<u8> = self.unread.drain(..end + 4).collect();
                return Head::parse(String::from_utf8_lossy(&text).into_owned()).map(Some);
            }
            if !self.more()? {
                return if self.unread.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// The complete body that the head announces. `to_end`: without a length it lasts until close.
    pub fn body(&mut self, head: &Head, to_end: bool) -> io::Result<Vec<u8>> {
        if head.fields.says("transfer-encoding", "chunked") {
            return self.chunks();
        }
        match head.fields.first("content-length") {
            Some(length) => self.exactly(length.parse().map_err(|_| odd("bad length"))?),
            None if to_end => {
                while self.more()? {}
                Ok(std::mem::take(&mut self.unread))
            }
            None => Ok(Vec::new()),
        }
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            if !self.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n") {
                let line = self.exactly(end + 2)?;
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            if !self.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.line()?;
            let size = size.split(';').next().unwrap_or_default();
            match usize::from_str_radix(size, 16).map_err(|_| odd("bad chunk size"))? {
                0 => {
                    while !self.line()?.is_empty() {}
                    return Ok(body);
                }
                size => {
                    body.extend(self.exactly(size)?);
                    self.line()?;
                }
            }
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
