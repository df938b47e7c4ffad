//! An application that speaks HTTP, and remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use interop::HttpRequest;

use crate::PATIENCE;

pub(crate) type Form = HashMap<String, String>;

/// An application: documents by path, and what it was asked.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<(String, Form)>>>,
}

impl App {
    pub(crate) fn new(documents: &'static [(&'static str, &'static str)]) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = App { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&app.asked);
        // Ends with the process: it owns nothing but its socket.
        std::thread::Builder::new()
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    serve(stream, documents, &asked);
                }
            })
            .unwrap();
        app
    }

    /// Whole answers by path; `None` is never answered.
    pub(crate) fn raw(pages: Vec<(&'static str, Option<Vec<u8>>)>) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = App { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&app.asked);
        let run = move || {
            let mut held = Vec::new();
            for mut stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let Some(request) = HttpRequest::read(&mut BufReader::new(&stream)) else { continue };
                let form = url::form_urlencoded::parse(&request.body).into_owned().collect();
                let page = pages.iter().find(|(at, _)| *at == request.target).map(|(_, page)| page);
                asked.lock().unwrap().push((request.target, form));
                match page {
                    // The server may have lost interest.
                    Some(Some(page)) => drop(stream.write_all(page)),
                    Some(None) => held.push(stream),
                    None => drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")),
                }
            }
        };
        std::thread::Builder::new().spawn(run).unwrap();
        app
    }

    /// The configuration that binds 1234 to the document at `path`.
    pub(crate) fn voice(&self, path: &str, more: &str) -> String {
        format!(
            "{}open = true\n\
             numbers = [{{ number = \"1234\", url = \"http://{}{path}\" }}]\n{more}",
            section(),
            self.address
        )
    }

    pub(crate) fn asked_for(&self, path: &str) -> Option<Form> {
        let asked = self.asked.lock().unwrap();
        asked.iter().find(|(asked, _)| asked == path).map(|(_, form)| form.clone())
    }
}

/// The section of one node, with an address for its sound that no other node of the tests has: a caller that
/// still sends to another node would be heard.
pub(crate) fn section() -> String {
    static NODES: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NODES.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    format!("[voice]\nmedia = \"127.77.{high}.{low}\"\nmedia_ports = \"20000-29999\"\nallow_private = true\n")
}

fn serve(mut stream: TcpStream, documents: &[(&str, &str)], asked: &Mutex<Vec<(String, Form)>>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    if let Some(request) = HttpRequest::read(&mut BufReader::new(&stream)) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let fields = [query.as_bytes(), &request.body]
            .map(|part| url::form_urlencoded::parse(part).into_owned().collect::<Vec<_>>());
        let form = fields.into_iter().flatten().collect();
        let document = documents.iter().find(|(at, _)| *at == path).map(|(_, document)| *document);
        asked.lock().unwrap().push((path.to_owned(), form));
        let (status, body) = document.map_or(("404 Not Found", ""), |document| ("200 OK", document));
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        // The server may have lost interest.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    }
}
