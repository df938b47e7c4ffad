//! Requests of HTTP/1.1 as the services see them that tests play for the programs: whole, with a body of a known length.

use std::io::BufRead;

/// A request that a program has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Header fields in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// As many bytes as Content-Length says.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The next request of a connection; `None` if it ends before its end.
    pub fn read(reader: &mut impl BufRead) -> Option<HttpRequest> {
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            Some(line.trim_end().to_owned())
        };
        let start = line()?;
        let mut words = start.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let mut headers = Vec::new();
        loop {
            let field = line()?;
            let Some((name, value)) = field.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = HttpRequest { method, target, headers, body: Vec::new() };
        request.body = vec![0; request.header("content-length").parse().unwrap_or_default()];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// The value of a header field by its name in lower case; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The body as text.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|error| panic!("{}: {error}", self.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_connection_are_read_whole_and_one_that_is_cut_is_none() {
        let sent = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nX-Y:  z \r\n\r\n\
                    PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort";
        let mut reader = sent.as_bytes();
        let first = HttpRequest::read(&mut reader).unwrap();
        assert_eq!((first.method.as_str(), first.target.as_str(), first.text()), ("POST", "/a?b=c", "abc"));
        assert_eq!((first.header("host"), first.header("x-y")), ("x", ""));
        assert_eq!(HttpRequest::read(&mut reader).unwrap().header("x-y"), "z");
        assert_eq!(HttpRequest::read(&mut reader), None);
        assert_eq!(HttpRequest::read(&mut reader), None);
    }
}
