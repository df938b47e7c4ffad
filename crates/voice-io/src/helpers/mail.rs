//! Mail of documents, handed to the configured relay: SMTP (RFC 5321), with TLS as configured.
//!
//! The `<Email>` of a document is handed over once: the relay queues it, and a failure is told to the application.

use config::{MailRelay, MailSecurity};
use ivr::document::Email;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use stdx::error::innermost_cause;
use tokio::time::timeout;

use super::limits;

/// The way to the relay.
pub(super) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    /// Host and port, for messages.
    relay: String,
    /// The envelope sender, whatever sender a document names.
    sender: Option<Address>,
}

impl Mailer {
    /// Prepares the way to the relay; nothing is connected yet.
    pub(super) fn new(relay: &MailRelay) -> anyhow::Result<Mailer> {
        let tls = match relay.security {
            MailSecurity::None => Tls::None,
            // Required: a relay that does not offer TLS gets neither login nor mail.
            MailSecurity::StartTls => Tls::Required(TlsParameters::new(relay.host.to_string())?),
            MailSecurity::Tls => Tls::Wrapper(TlsParameters::new(relay.host.to_string())?),
        };
        // "Dangerous" without TLS, which is set below.
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&*relay.host)
            .port(relay.port)
            .tls(tls)
            .timeout(Some(limits::MAIL_STEP));
        if let Some((user, password)) = &relay.login {
            transport = transport.credentials(Credentials::new(user.to_string(), password.to_string()));
        }
        let sender = relay.sender.as_ref().map(|sender| sender.parse()).transpose()?;
        Ok(Mailer { transport: transport.build(), relay: format!("{}:{}", relay.host, relay.port), sender })
    }

    /// Handed over, or what the relay said.
    pub(super) async fn send(&self, mail: &Email) -> Result<(), String> {
        let message = self.message(mail)?;
        let relay = &self.relay;
        match timeout(limits::MAIL_TIME, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("mail relay {relay}: {}", innermost(&error))),
            Err(_) => {
                Err(format!("mail relay {relay} did not take the mail in {} s", limits::MAIL_TIME.as_secs()))
            }
        }
    }

    /// The mail, checked against the limits. With a sender of the configuration the envelope is made here, since the library would take it from the
    /// headers.
    fn message(&self, mail: &Email) -> Result<Message, String> {
        let Email { to, from, cc, bcc, subject, body } = mail;
        if body.len() > limits::MAIL_BYTES || subject.len() > limits::MAIL_SUBJECT {
            return Err(format!("a mail has at most {} bytes", limits::MAIL_BYTES));
        }
        if to.len() + cc.len() + bcc.len() > limits::MAIL_RECIPIENTS {
            return Err(format!("a mail has at most {} recipients", limits::MAIL_RECIPIENTS));
        }
        let mut message = Message::builder().from(mailbox(from)?);
        for address in to {
            message = message.to(mailbox(address)?);
        }
        for address in cc {
            message = message.cc(mailbox(address)?);
        }
        for address in bcc {
            message = message.bcc(mailbox(address)?);
        }
        if let Some(sender) = &self.sender {
            let all = to.iter().chain(cc).chain(bcc).map(|address| mailbox(address).map(|one| one.email));
            let envelope =
                lettre::address::Envelope::new(Some(sender.clone()), all.collect::<Result<_, _>>()?);
            message = message.envelope(envelope.map_err(|error| error.to_string())?);
        }
        let message = message.subject(subject.clone()).header(ContentType::TEXT_PLAIN).body(body.clone());
        message.map_err(|error| error.to_string())
    }
}

/// An address with or without a name.
fn mailbox(address: &str) -> Result<Mailbox, String> {
    address.parse().map_err(|error| format!("`{address}` is no mail address: {error}"))
}

/// The innermost cause, and the code of a relay's reply.
fn innermost(error: &lettre::transport::smtp::Error) -> String {
    let cause = innermost_cause(error);
    // A reply of the relay's has its code in the outer text only.
    error.status().map_or_else(|| cause.to_string(), |status| format!("{status} {cause}"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Answers one mail: what it says first, and to each recipient.
    fn relay(greeting: &'static str, recipient: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes()).is_ok();
            let mut is_there = say(greeting);
            for line in lines.map_while(Result::ok) {
                let answer = if line.starts_with("RCPT") { recipient } else { "250 ok" };
                is_there = is_there && say(answer);
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        address
    }

    fn relay_at(address: SocketAddr) -> MailRelay {
        MailRelay {
            host: address.ip().to_string().into(),
            port: address.port(),
            security: MailSecurity::None,
            login: None,
            sender: None,
        }
    }

    fn mail_to(to: &str, body: &str) -> Email {
        Email {
            to: to.split(',').map(str::to_owned).collect(),
            from: "ivr@belfry.test".to_owned(),
            cc: Vec::new(),
            bcc: Vec::new(),
            subject: "s".to_owned(),
            body: body.to_owned(),
        }
    }

    fn send(relay: SocketAddr, to: &str, body: &str) -> String {
        let (relay, mail) = (relay_at(relay), mail_to(to, body));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Mailer::new(&relay).unwrap().send(&mail).await }).unwrap_err()
    }

    #[test]
    fn every_fault_of_a_relay_has_its_words() {
        let refuses = relay("220 hello", "550 5.1.1 no such user");
        let told = send(refuses, "nobody@b.test", "x");
        assert!(
            told.starts_with(&format!("mail relay {refuses}: 550 ")) && told.contains("no such user"),
            "{told}"
        );
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(send(closed, "a@b.test", "x").to_lowercase().contains("refused"));
        let full = send(relay("421 too busy", ""), "a@b.test", "x");
        assert!(full.contains("421") && full.contains("too busy"), "{full}");
    }

    #[test]
    fn a_subject_with_line_breaks_is_one_header() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let relay = relay_at(closed);
        for subject in
            ["a\r\nBcc: c@d.test", "a\nBcc: c@d.test\n\nbody", "\r\n\r\nx", "a\rBcc: c@d.test", "ü\r\nBcc: x"]
        {
            let mail = Email { subject: subject.to_owned(), ..mail_to("a@b.test", "x") };
            let text = Mailer::new(&relay).unwrap().message(&mail).unwrap().formatted();
            let text = String::from_utf8(text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.trim_end(), "x", "{text}");
            assert!(!head.contains("\nBcc") && !head.contains("\rBcc"), "{text}");
        }
    }

    #[test]
    fn invalid_mail_is_not_sent() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for to in ["nonsense", "a@b.test>\r\nRCPT TO:<c@d.test", "a@b.test\r\nBcc: c@d.test"] {
            assert!(send(closed, to, "x").contains("is no mail address"), "{to}");
        }
        let many = vec!["a@b.test"; limits::MAIL_RECIPIENTS + 1].join(",");
        assert_eq!(send(closed, &many, "x"), "a mail has at most 100 recipients");
        assert_eq!(
            send(closed, "a@b.test", &"x".repeat(limits::MAIL_BYTES + 1)),
            "a mail has at most 262144 bytes"
        );
    }
}
